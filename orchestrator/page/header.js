// Whether what is shown is so at this moment, and what needs a look.

import { attention } from "./attention.js";
import { attribute, badge, byId, el, patch, shown, text } from "./dom.js";
import { count, span } from "./words.js";

const STALE = 5; // seconds

const signs = { bad: ["✗", "Problem"], warn: ["!", "Look"], idle: ["·", "Note"] };
const connections = {
  connected: ["good", "✓", "live"],
  lost: ["bad", "✗", "not connected; trying again"],
  ending: ["warn", "!", "the daemon is ending; waiting for the next one"],
  paused: ["idle", "‖", "paused while nobody looks"],
  refused: ["bad", "✗", "refused"],
};

let seenAt = 0;
let state = "";
let version = "";

export function connection(now, error) {
  if (state === now) return;
  if (state === "ending" && now === "lost") return;
  state = now;
  const [kind, sign, words] = connections[now];
  badge(byId("connection"), `state ${kind}`, sign, error ? `${words}: ${error.message}` : words);
  age();
}

export function age() {
  const old = seenAt ? (performance.now() - seenAt) / 1000 : 0;
  const stale = Boolean(seenAt) && (old > STALE || state !== "connected");
  text(byId("age"), stale ? `what is shown is ${span(Math.max(1, old))} old` : "");
  document.body.classList.toggle("stale", stale);
}

export function showHeader(queue) {
  seenAt = performance.now();
  age();
  version ||= queue.version;
  const other = version === queue.version ? "" : " (this page is another version's: load it again)";
  text(byId("daemon"), `version ${queue.version}${other}, up for ${span(queue.uptime)}${queue.draining ? ", draining" : ""}`);
  const all = attention(queue);
  const bad = all.filter((one) => one.level !== "idle").length;
  document.title = bad ? `(${bad}) Headrace` : "Headrace";
  figures(queue);
  const list = bad ? all : [{ level: "good", key: "nothing", what: "Nothing needs a look.", why: "", action: "", href: "" }, ...all];
  patch(byId("attention-list"), list, (one) => one.key, make, update);
}

function figures(queue) {
  const sum = (name) => queue.backends.reduce((all, one) => all + one[name], 0);
  const open = Object.entries(queue.runs).filter(([name]) => !["completed", "stopped", "failed", "cancelled", "expired"].includes(name));
  const runs = open.reduce((all, [, number]) => all + number, 0);
  const parts = [
    [count(sum("queued") + sum("inbox")), "waiting"],
    [count(sum("in_flight")), "in flight"],
    [count(sum("retrying")), "to be tried again"],
    [count(runs), "open runs"],
    [count(queue.jobs), "live jobs"],
    [count(queue.approvals ?? 0), "to be answered"],
  ];
  patch(byId("figures"), parts, ([, name]) => name, ([, name]) => el("span", {}, el("b"), ` ${name}`), (node, [number]) => text(node.firstChild, number));
}

function make() {
  return el("li", {}, el("span"), el("div", {}, el("p", { class: "what" }), el("p", { class: "why" })));
}

function update(node, one) {
  attribute(node, "class", one.level);
  const [sign, word] = signs[one.level] ?? ["✓", "Good"];
  badge(node.firstChild, one.level, sign, word);
  const [what, why] = node.lastChild.children;
  if (one.href) {
    if (!what.firstElementChild) what.replaceChildren(el("a"));
    attribute(what.firstElementChild, "href", one.href);
    text(what.firstElementChild, one.what);
  } else {
    text(what, one.what);
  }
  text(why, [one.why, one.action].filter(Boolean).join(" "));
  shown(why, Boolean(why.textContent));
}

