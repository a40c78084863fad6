// One run: where it stands, why it waits, and its log as it grows, with what its model says meanwhile.

import { daemonNow, showApprovalsOf } from "./approvals.js";
import { attribute, badge, bar, byId, el, patch, setBar, shown, text } from "./dom.js";
import { follow, get, poll, Refused } from "./net.js";
import { limitWords, part } from "./runs.js";
import { describe } from "./timeline.js";
import { clock, dollars, few, holds, level, moment, plain, runState, span } from "./words.js";

const MOST_LINES = 400;
const LONG_TEXT = 20_000;
const LONG_SPEECH = 20_000;

let open = null;

export function openRun(run) {
  if (open?.run === run) return;
  closeRun();
  open = { run, closed: false, began: 0, count: 0, cut: 0, over: false, saying: "", call: "", last: "" };
  const mine = open;
  text(byId("run-title"), `Run ${run}`);
  byId("timeline").replaceChildren();
  byId("run-state").replaceChildren();
  byId("run-why").replaceChildren();
  patch(byId("run-approvals"), [], String);
  shown(byId("timeline-cut"), false);
  text(byId("timeline-state"), "");
  say(mine, "");
  const path = `/api/runs/${encodeURIComponent(run)}`;
  mine.stop = follow(`${path}/events?output=true`, {
    onEvent: (name, data) => {
      if (mine.closed) return true;
      if (name === "output") heard(mine, data);
      else grown(mine, data);
      return mine.over;
    },
    onState: (state, error) => !mine.closed && text(byId("timeline-state"), streamWords(mine, state, error)),
  });
  const turn = async () => {
    if (mine.closed || mine.gone) return;
    try {
      await showState(mine, path);
      await Promise.all([showWhy(mine, path), showApprovalsOf(run, () => mine.again())]);
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404) || mine.closed) throw error;
      mine.gone = true;
      text(byId("timeline-state"), error.message);
    }
  };
  mine.again = poll(turn, 2_000);
}

export function closeRun() {
  if (!open) return;
  open.closed = true;
  open.stop();
  open.again.end();
  open = null;
}

function streamWords(mine, state, error) {
  if (mine.over) return "It has ended; this is its whole log.";
  if (state === "connected") return "Lines come as they are written.";
  if (state === "refused") return error.message;
  return state === "paused" ? "Paused while nobody looks." : "Not connected; goes on where it stopped.";
}

function grown(mine, event) {
  if (event.run !== mine.run) return;
  if (!mine.began) mine.began = event.at;
  const { kind, what, body: whole, run } = describe(event);
  // an answer that was the last reply stands there already
  const body = event.type === "run_ended" && whole === mine.last ? "" : whole;
  mine.last = whole;
  const signs = { good: "✓", bad: "✗", warn: "!", live: "▸", idle: "·" };
  const head = el("p", {}, el("span", { class: `badge ${kind}`, "aria-hidden": "true" }, signs[kind] ?? "·"), " ", el("time", { title: moment(event.at) }, `${clock(event.at)} (+${span(event.at - mine.began)})`), " ", what);
  if (run) head.append(" ", el("a", { href: `#run=${encodeURIComponent(run)}` }, run));
  const item = el("li", { class: event.type }, head);
  if (body) {
    const short = body.length > LONG_TEXT ? `${body.slice(0, LONG_TEXT)}\n… ${few(body.length - LONG_TEXT)} more characters; headrace show has all` : body;
    item.append(el("details", event.type === "run_created" ? {} : { open: true }, el("summary", {}, event.type === "run_created" ? "What it was given" : "What it says"), el("pre", { tabindex: "0", role: "group", "aria-label": what }, short)));
  }
  const list = byId("timeline");
  list.append(item);
  mine.count += 1;
  if (list.children.length > MOST_LINES) {
    list.firstChild.remove();
    mine.cut += 1;
    text(byId("timeline-cut"), `${mine.cut} earlier lines are left out here; headrace events ${mine.run} has them all.`);
    shown(byId("timeline-cut"), true);
    attribute(list, "start", mine.cut + 1);
  }
  if (event.type === "model_replied" || event.type === "model_failed") {
    if (mine.call === `${event.run}/${event.step}/${event.attempt}`) say(mine, "");
  }
  if (event.type === "run_ended") {
    mine.over = true;
    say(mine, "");
    text(byId("timeline-state"), streamWords(mine, "connected"));
  }
}

function heard(mine, piece) {
  const same = mine.call === piece.call && !piece.reset;
  const before = same ? mine.saying : "";
  mine.call = piece.call;
  // who joins in the middle of an answer has missed its beginning
  const gap = piece.cut || (!same && !piece.reset) ? "… " : "";
  say(mine, (before + gap + plain((piece.reasoning ?? "") + (piece.text ?? ""))).slice(-LONG_SPEECH));
}

function say(mine, words) {
  mine.saying = words;
  const place = byId("saying-text");
  const below = place.scrollHeight - place.scrollTop - place.clientHeight < 30;
  text(place, words);
  shown(byId("saying"), words !== "");
  if (below) place.scrollTop = place.scrollHeight;
}

async function showState(mine, path) {
  const one = await get(path);
  if (mine.closed) return;
  mine.view = one;
  const node = byId("run-state");
  if (!node.firstChild) node.append(el("p", {}, el("span")), el("dl"), el("ul", { class: "bars" }), el("p", { class: "quiet" }));
  const [line, facts, limits, words] = node.children;
  const [kind, sign, state] = runState(one.state);
  badge(line.firstChild, kind, sign, one.reason && one.reason !== "final_answer" ? `${state}: ${one.reason}` : state);
  const about = [
    ["Agent", one.agent || "none"],
    ["Model", one.model],
    ["Tenant", one.tenant],
    ["Job", one.job || "-"],
    ["Priority", one.priority],
    ["Created", moment(one.created)],
    [one.ended === null ? "Open for" : "Took", span((one.ended ?? daemonNow()) - one.created)],
    ["Rounds", one.rounds],
    ["Tool calls", one.tool_calls],
    ["Tokens", few((one.usage.input ?? 0) + (one.usage.cached ?? 0) + (one.usage.cache_write ?? 0) + (one.usage.output ?? 0))],
    ["Cost", dollars(one.micro_dollars)],
    ["Waits for", one.waits_for ? holds(one.waits_for) : "-"],
  ];
  patch(facts, about, ([name]) => name, () => el("div", {}, el("dt"), el("dd")), (pair, [name, value]) => {
    text(pair.firstChild, name);
    text(pair.lastChild, value);
  });
  patch(limits, one.limits ?? [], (limit) => limit.limit, () => el("li", {}, bar([], "")), (item, limit) => setBar(item.firstChild, [["used", part(limit)]], limitWords(limit), { level: level(part(limit)) }));
  const effects = one.unknown_effects?.length ? ` Calls that were cut off and may have had their effect: ${one.unknown_effects.join(", ")}.` : "";
  text(words, plain(one.message ?? "") + effects);
}

// What can be said without an explanation.
function guess(one, saying) {
  if (!one || one.ended !== null) return "It has ended.";
  if (one.state === "waiting_approval" || one.state === "waiting_input") return "It waits for people; nothing else goes on in it until they answer.";
  if (saying) return "Its model is answering.";
  if (one.waits_for) return `It waits for ${holds(one.waits_for)}.`;
  return one.state === "waiting_model" ? "Its call is in the queue, or with the model." : "Nothing is known of any wait.";
}

async function showWhy(mine, path) {
  const node = byId("run-why");
  let words = [];
  try {
    if (!mine.unexplained) words = (await get(`${path}/explanation`)).words;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 404) mine.unexplained = true;
  }
  if (mine.closed) return;
  const lines = words.length ? words : [guess(mine.view, mine.saying)];
  patch(node, lines.map((line, index) => [index, line]), ([index]) => index, () => el("p"), (item, [, line]) => text(item, plain(line)));
}
