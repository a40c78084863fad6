// What an operator has to know first: what is wrong, why, and what can be done about it. Pure: a queue in, words out.

import { amountOf, breaker, count, few, holds, percent, plural, span } from "./words.js";

const LONG_TOOL = 60; // seconds
const LONG_WAIT = 60;
const RECENT_CUT = 300;
const FLOOD = 0.8; // of the queue
const MANY = 20; // calls
const MOST = 4; // of one kind
const STANDS = 30; // seconds until something goes again

const found = (level, key, what, why, action, href = "") => ({ level, key, what, why, action, href });

export function attention(queue) {
  const all = [];
  if (queue.draining) {
    all.push(found("warn", "draining", "The daemon is ending.", "It takes nothing new; what is live may end.", "Clients come back by themselves to the next one."));
  }
  all.push(...ofPeople(queue));
  for (const backend of queue.backends) all.push(...ofBackend(backend));
  all.push(...ofPool(queue.pool), ...firstOf(ofTools(queue.tools ?? []), "tools", "#work"), ...firstOf(ofBudgets(queue.budgets ?? []), "budgets", "#tenants"));
  const order = { bad: 0, warn: 1, idle: 2 };
  return all.sort((a, b) => order[a.level] - order[b.level]);
}

// The first few, and how many more there are.
function firstOf(all, what, href) {
  if (all.length <= MOST) return all;
  const more = found("warn", `more ${what}`, `The same holds for ${count(all.length - MOST)} more ${what}.`, "", "", href);
  return [...all.slice(0, MOST), more];
}

function ofBackend(backend) {
  const all = [];
  const waiting = plural(backend.queued + backend.retrying, "call waits", "calls wait");
  const broken = backend.endpoints.filter((one) => one.breaker !== "closed");
  const none = broken.length > 0 && broken.length === backend.endpoints.length;
  for (const one of broken) {
    const next = one.opens_in ? `It is tried again in ${span(one.opens_in)}.` : "It is being tried now.";
    all.push(found(none ? "bad" : "warn", `broken ${backend.name} ${one.name}`, `${backend.name}: endpoint ${one.name} is ${breaker(one.breaker)[2]}.`, `${one.failing_with ? `It fails with ${one.failing_with}. ` : ""}${next}${none ? ` ${waiting}.` : ""}`, "Look at the provider's status page; calls go on by themselves when it answers.", "#backends"));
  }
  for (const one of backend.endpoints) {
    for (const limit of one.limits) {
      const key = `${backend.name} ${one.name} ${limit.name}`;
      if (limit.opens_in) {
        all.push(found("warn", `closed ${key}`, `${backend.name}: the provider has closed ${limit.name} of ${one.name}.`, `It opens in ${span(limit.opens_in)}. ${waiting}.`, "Nothing to do, unless it comes again and again: then the limit is configured too high.", "#backends"));
      } else if (limit.others >= 0.2) {
        all.push(found("warn", `others ${key}`, `${backend.name}: the provider gives less of ${limit.name} than is configured.`, `${percent(limit.others)} of ${few(limit.amount)} are believed to be used by others with the same key, or taken away.`, "Find who else uses the key, or lower the limit in the configuration (kill -HUP takes it in).", "#backends"));
      }
    }
    const cut = one.last_cuts?.[0];
    if (cut && cut.ago < RECENT_CUT) {
      all.push(found("idle", `cut ${backend.name} ${one.name}`, `${backend.name}: ${one.name} takes fewer calls at one time.`, `${span(cut.ago)} ago its concurrency was cut from ${cut.before} to ${cut.after}, since it answered slower or refused.`, "It grows again by itself.", "#backends"));
    }
  }
  const soonest = backend.tenants.flatMap((row) => (row.waits ?? []).map((wait) => wait.next_in)).filter(Number.isFinite);
  if (Number.isFinite(backend.held_until)) soonest.push(backend.held_until);
  if (!none && backend.queued > 0 && backend.in_flight === 0 && backend.held_by && Math.min(...soonest) > STANDS) {
    const until = Number.isFinite(backend.held_until) ? ` It is looked at again in ${span(backend.held_until)}.` : "";
    all.push(found("bad", `stands ${backend.name}`, `${backend.name}: nothing goes out.`, `${waiting}; the next is held by ${holds(backend.held_by)}.${until}`, "See what the limit below is used by.", "#waits"));
  }
  all.push(...ofTenants(backend), ...ofWaits(backend));
  return all;
}

// What is no problem, and still the first question: how many wait, for what, and until when.
function ofWaits(backend) {
  const waits = backend.tenants.flatMap((row) => {
    if (row.waits?.length) return row.waits;
    const queued = Object.values(row.queued).reduce((a, b) => a + b, 0);
    return queued ? [{ queued, held_by: row.held_by, oldest: row.oldest_wait, last_in: null }] : [];
  });
  if (!waits.length) return [];
  const by = new Map();
  for (const wait of waits) by.set(wait.held_by, (by.get(wait.held_by) ?? 0) + wait.queued);
  const [most] = [...by].sort((a, b) => b[1] - a[1])[0];
  const total = waits.reduce((sum, wait) => sum + wait.queued, 0);
  const oldest = Math.max(...waits.map((wait) => wait.oldest));
  const last = waits.map((wait) => wait.last_in).filter(Number.isFinite);
  const end = last.length ? ` At the present pace the last goes in ${span(Math.max(...last))}.` : "";
  const who = plural(backend.tenants.filter((row) => Object.values(row.queued).some((one) => one > 0)).length, "tenant");
  return [found("idle", `waits ${backend.name}`, `${backend.name}: ${plural(total, "call waits", "calls wait")}, of ${who}.`, `${by.size > 1 ? "Most of them for" : "Held by"} ${holds(backend.held_by || most)}; the longest for ${span(oldest)}.${end}`, "", "#waits")];
}

function ofTenants(backend) {
  const all = [];
  const rows = backend.tenants.map((row) => [row, Object.values(row.queued).reduce((a, b) => a + b, 0)]);
  const waiting = rows.filter(([, queued]) => queued > 0);
  const total = waiting.reduce((sum, [, queued]) => sum + queued, 0);
  const flood = waiting.find(([, queued]) => queued >= MANY && queued >= FLOOD * total);
  if (flood && waiting.length > 1) {
    const [row, queued] = flood;
    all.push(found("warn", `flood ${backend.name} ${row.tenant}`, `${backend.name}: ${row.tenant} has ${count(queued)} of ${count(total)} waiting calls.`, `It gets ${percent(row.share)} of the service; the others keep their shares and wait behind nobody of it.`, "If it must not, give it a limit of its own or a lower weight.", "#tenants"));
  }
  const long = waiting.map(([row]) => row).filter((row) => row.oldest_wait >= LONG_WAIT).sort((a, b) => b.oldest_wait - a.oldest_wait);
  if (long.length) {
    const [row] = long;
    const next = (row.waits ?? []).map((wait) => wait.next_in).filter(Number.isFinite);
    const when = next.length ? ` Its next goes in about ${span(Math.min(...next))}.` : "";
    const others = long.length > 1 ? ` So have calls of ${plural(long.length - 1, "other tenant")} for over a minute.` : "";
    all.push(found("warn", `long ${backend.name}`, `${backend.name}: a call of ${row.tenant} has waited for ${span(row.oldest_wait)}.`, `Held by ${holds(row.held_by)}.${when}${others}`, "headrace explain CALL says what went before it.", "#waits"));
  }
  return all;
}

function ofPool(pool) {
  if (!pool) return [];
  const all = [];
  if (pool.problem) all.push(found("bad", "pool", "No run gets a worker.", `${pool.problem} ${plural(pool.waiting ?? 0, "run waits", "runs wait")}.`, "Start workers: headrace worker --daemon URL."));
  for (const one of pool.silent ?? []) all.push(found("warn", `silent ${one.worker}`, `Worker ${one.worker} is silent.`, `Nothing was heard of it for ${span(one.quiet)}.`, "Its runs go to others when its lease is over."));
  return all;
}

function ofTools(tools) {
  return tools
    .filter((one) => one.longest >= LONG_TOOL)
    .map((one) => found("warn", `tool ${one.tool}`, `Tool ${one.tool} has been at work for ${span(one.longest)}.`, `${plural(one.running, "call")} of it now; the longest in run ${one.run}.`, "If it hangs: give it a timeout, or cancel the run.", `#run=${encodeURIComponent(one.run)}`));
}

function ofBudgets(budgets) {
  return budgets
    .filter((one) => one.used + one.reserved >= 0.9 * one.allowed)
    .map((one) => {
      const gone = one.used >= one.allowed;
      const held = one.used < 0.9 * one.allowed;
      const reserved = one.reserved > 0 ? ` used and ${amountOf(one.amount, one.reserved)} reserved for what is under way,` : " used";
      const amounts = `${amountOf(one.amount, one.used)}${reserved} of ${amountOf(one.amount, one.allowed)}${one.amount === "dollars" ? "" : ` ${one.amount}`}`;
      const anew = Number.isFinite(one.resets_in) ? ` It begins anew in ${span(one.resets_in)}.` : "";
      return found(gone ? "bad" : "warn", `budget ${one.tenant} ${one.period} ${one.amount}`, `${one.tenant}: the budget ${one.period === "total" ? "in all" : `of this ${one.period}`} ${gone ? "is used up" : held ? "is reserved, nearly all of it" : "runs out"}.`, `${amounts}.${anew}${gone ? " Its calls and runs are refused." : held ? " Runs wait until something of it is given back." : ""}`, "Raise tenants." + one.tenant + ".budget in the configuration, or wait.", "#tenants");
    });
}

function ofPeople(queue) {
  if (!queue.approvals) return [];
  return [found("warn", "approvals", `${plural(queue.approvals, "request waits", "requests wait")} for people.`, `The oldest for ${span(queue.oldest_approval)}.`, "Answer below.", "#approvals")];
}
