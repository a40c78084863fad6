// Waits, backends with their limits, and tenants.

import { attribute, byId, cellBadge, cellBar, el, patch, row, scrolls, shown, table, text } from "./dom.js";
import { breaker, count, few, holds, level, percent, span, waited } from "./words.js";

const PRIORITIES = ["interactive", "standard", "batch"];
const WAITS = [["priority", "th"], ["tenant", ""], ["backend", ""], ["queued", "n"], ["held", ""], ["oldest", "n"], ["next", "n"], ["last", "n"]];
const ENDPOINTS = [["name", "th"], ["state", ""], ["flight", ""], ["cuts", ""]];
const LIMITS = [["endpoint", "th"], ["name", ""], ["used", ""], ["amount", "n"], ["closed", ""]];
const TENANTS = [["tenant", "th"], ["backend", ""], ["share", ""], ["weight", "n"], ["flight", "n"], ["queued", "n"], ["calls", "n"], ["failed", "n"], ["tokens", "n"], ["wait", "n"], ["own", ""]];

export function showQueue(queue) {
  showWaits(queue.backends);
  patch(byId("backends-list"), queue.backends, (one) => one.name, makeBackend, updateBackend);
  showTenants(queue.backends);
}

function showWaits(backends) {
  const waits = backends.flatMap((backend) => backend.tenants.flatMap((tenant) => waitsOf(backend, tenant)));
  waits.sort((a, b) => PRIORITIES.indexOf(a.priority) - PRIORITIES.indexOf(b.priority) || b.oldest - a.oldest || b.queued - a.queued);
  table("waits", waits.slice(0, 200), (one) => `${one.backend} ${one.tenant} ${one.priority}`, () => row(WAITS), (line, one) => {
    const cell = line.cells_;
    text(cell.priority, one.priority);
    text(cell.tenant, one.tenant);
    text(cell.backend, one.backend);
    text(cell.queued, count(one.queued));
    text(cell.held, holds(one.held_by));
    text(cell.oldest, waited(one.oldest));
    text(cell.next, one.next_in === 0 ? "now" : span(one.next_in));
    text(cell.last, span(one.last_in));
  });
}

function waitsOf(backend, tenant) {
  const own = { backend: backend.name, tenant: tenant.tenant };
  if (tenant.waits?.length) return tenant.waits.map((wait) => ({ ...own, ...wait }));
  return Object.entries(tenant.queued)
    .filter(([, queued]) => queued > 0)
    .map(([priority, queued]) => ({ ...own, priority, queued, held_by: tenant.held_by, oldest: tenant.oldest_wait, next_in: null, last_in: null }));
}

function makeBackend(backend) {
  const head = (cells) => el("thead", {}, el("tr", {}, ...cells.map(([words, kind]) => el("th", { scope: "col", class: kind || undefined }, words))));
  const node = el("article", {}, el("h3"), el("p", { class: "next" }), el("p", { class: "figures" }));
  const wide = (label, caption, cells) => {
    const inner = el("table", {}, el("caption", {}, caption), head(cells), el("tbody"));
    const outer = el("div", { class: "scroll", role: "region", "aria-label": label }, inner);
    node.append(outer);
    scrolls(outer);
    return [outer, inner.tBodies[0]];
  };
  node.limits_ = wide(`Table of limits of ${backend.name}`, "Limits: used by us, and hatched by others with the same key", [["Endpoint", ""], ["Limit", ""], ["How full", ""], ["Amount", "n"], ["Provider", ""]]);
  node.endpoints_ = wide(`Table of endpoints of ${backend.name}`, "Endpoints", [["Endpoint", ""], ["State", ""], ["Calls in flight", ""], ["Last cuts of concurrency", ""]]);
  return node;
}

function updateBackend(node, backend) {
  const [title, next, figures] = node.children;
  text(title, backend.name);
  const until = backend.held_until;
  const when = !backend.held_by ? "" : Number.isFinite(until) ? `, looked at again in ${span(until)} at the latest` : ", until an answer comes";
  text(next, backend.held_by ? `The next call is held by ${holds(backend.held_by)}${when}.` : backend.queued ? "The next call goes as soon as it is looked at." : "Nothing holds the next call.");
  attribute(next, "class", backend.held_by ? "next held" : "next");
  text(figures, `${count(backend.queued)} waiting, ${count(backend.in_flight)} in flight, ${count(backend.retrying)} to be tried again, ${count(backend.inbox)} on their way in`);
  const [limitsAround, limits] = node.limits_;
  const [endpointsAround, endpoints] = node.endpoints_;
  const all = backend.endpoints.flatMap((endpoint) => endpoint.limits.map((limit) => ({ endpoint: endpoint.name, ...limit })));
  patch(limits, all, (one) => `${one.endpoint} ${one.name}`, () => row(LIMITS), updateLimit);
  patch(endpoints, backend.endpoints, (one) => one.name, () => row(ENDPOINTS), updateEndpoint);
  shown(limitsAround, all.length > 0);
  shown(endpointsAround, backend.endpoints.length > 0);
}

function updateLimit(line, one) {
  const cell = line.cells_;
  text(cell.endpoint, one.endpoint);
  text(cell.name, one.name);
  const others = one.others > 0 ? `, ${percent(one.others)} by others` : "";
  cellBar(cell.used, [["used", one.used], ["others", one.others]], `${percent(one.used)}${others}`, { level: level(one.used + one.others) });
  text(cell.amount, few(one.amount));
  if (one.opens_in === null || one.opens_in === undefined) cellBadge(cell.closed, "plain", "✓", "open");
  else cellBadge(cell.closed, "warn", "!", `closed for ${span(one.opens_in)}`);
}

function updateEndpoint(line, one) {
  const cell = line.cells_;
  text(cell.name, one.name);
  const [kind, sign, words] = breaker(one.breaker);
  const fails = one.breaker !== "closed" && one.failing_with ? `: fails with ${one.failing_with}` : "";
  const opens = one.opens_in ? `, tried again in ${span(one.opens_in)}` : "";
  if (kind !== "good") cellBadge(cell.state, kind, sign, words + fails + opens);
  else if (one.opens_in) cellBadge(cell.state, "warn", "!", `takes no call for ${span(one.opens_in)}`);
  else cellBadge(cell.state, "plain", sign, words);
  cellBar(cell.flight, [["used", one.concurrency_limit ? one.in_flight / one.concurrency_limit : 0]], `${count(one.in_flight)} of ${count(one.concurrency_limit)}`);
  const cuts = (one.last_cuts ?? []).map((cut) => `${cut.before} to ${cut.after}, ${span(cut.ago)} ago`);
  text(cell.cuts, cuts.length ? `${cuts.slice(0, 3).join("; ")} (${count(one.cuts)} in all)` : one.cuts ? `${count(one.cuts)} in all` : "none");
}

function showTenants(backends) {
  const rows = backends.flatMap((backend) => {
    const weights = backend.tenants.reduce((sum, one) => sum + one.weight, 0);
    return backend.tenants.map((one) => ({ ...one, backend: backend.name, fair: weights ? one.weight / weights : null }));
  });
  table("tenants", rows, (one) => `${one.backend} ${one.tenant}`, () => row(TENANTS), (line, one) => {
    const cell = line.cells_;
    text(cell.tenant, one.tenant);
    text(cell.backend, one.backend);
    cellBar(cell.share, [["used", one.share]], percent(one.share), { mark: one.fair });
    text(cell.weight, one.weight);
    text(cell.flight, count(one.in_flight));
    text(cell.queued, count(Object.values(one.queued).reduce((a, b) => a + b, 0)));
    text(cell.calls, few(one.calls_per_minute));
    text(cell.failed, few(one.failed_per_minute));
    text(cell.tokens, few(one.tokens_per_minute));
    text(cell.wait, waited(one.mean_wait));
    text(cell.own, one.limits.map((limit) => `${limit.name} ${percent(limit.used)}`).join(", ") || "-");
  });
  const hidden = backends.reduce((sum, one) => sum + one.hidden_tenants, 0);
  text(byId("tenants-hidden"), hidden ? `${count(hidden)} more with fewer calls are left out.` : "");
}
