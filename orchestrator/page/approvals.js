// What people are asked: shown with its arguments, and decided with its digest, so that exactly that is decided on.

import { attribute, byId, el, patch, shown, text } from "./dom.js";
import { freshId, get, post } from "./net.js";
import { count, laidOut, moment, plain, span } from "./words.js";

const MOST = 50;
const NAME = "headrace.name";

let offset = 0; // seconds that the daemon's clock is ahead of this one

export function daemonClock(now) {
  offset = now - Date.now() / 1000;
}

export const daemonNow = () => Date.now() / 1000 + offset;

export function prepareApprovals() {
  const name = byId("signed-name");
  name.value = sessionStorage.getItem(NAME) ?? "";
  name.addEventListener("input", () => sessionStorage.setItem(NAME, name.value));
}

export async function showApprovals(again) {
  const { approvals, total } = await get(`/api/approvals?size=${MOST}`);
  patch(byId("approvals-list"), approvals, (one) => one.id, (one) => card(one, "asked", again), update);
  shown(byId("approvals-none"), total === 0);
  shown(byId("signed"), total > 0);
  text(byId("approvals-count"), total ? `(${count(total)})` : "");
  text(byId("approvals-more"), total > approvals.length ? `${count(total - approvals.length)} more come when these are answered.` : "");
}

export async function showApprovalsOf(run, again) {
  const { approvals } = await get(`/api/approvals?run=${encodeURIComponent(run)}`);
  patch(byId("run-approvals"), approvals, (one) => one.id, (one) => card(one, "asked-here", again), update);
}

function update(node, one) {
  const until = one.expires === null ? "" : one.expires > daemonNow() ? `, counts as denied in ${span(one.expires - daemonNow())}` : ", its time is over";
  text(node.when_, `asked ${span(daemonNow() - one.asked)} ago${until}`);
}

function card(one, place, again) {
  const id = `${place}-${one.id.replace(/[^A-Za-z0-9_-]/g, "-")}`;
  const question = one.kind === "input";
  const title = question ? `${one.agent} asks: ${plain(one.question)}` : `${one.agent} wants to use ${one.tool}`;
  const said = el("p", { role: "alert" });
  const when = el("span");
  const node = el(
    "article",
    { class: "asked", "aria-labelledby": id },
    el("h3", { id, tabindex: "-1" }, title),
    el("p", { class: "quiet" }, "Run ", el("a", { href: `#run=${encodeURIComponent(one.run)}` }, one.run), ` of ${one.tenant}${one.job ? `, job ${one.job}` : ""}, `, when),
  );
  node.when_ = when;
  if (!question) {
    if (one.why && one.why !== "always") node.append(el("p", {}, `Asked because of the rule ${plain(one.why)}.`));
    node.append(el("pre", { tabindex: "0", role: "group", "aria-label": `Arguments of ${one.tool}` }, laidOut(one.arguments)));
  }
  node.append(question ? answering(one, id, deed) : deciding(one, id, deed), said);

  // One id for one deed, so that a repeated request decides nothing twice.
  async function deed(path, body, words) {
    const buttons = node.querySelectorAll("button");
    buttons.forEach((button) => attribute(button, "disabled", true));
    text(said, "");
    try {
      await post(`/api/approvals/${one.id.split("/").map(encodeURIComponent).join("/")}/${path}`, { ...body, by: byId("signed-name").value.trim() });
      text(byId("approvals-said"), `${words} (${one.run}, ${moment(daemonNow())})`);
      leave(node);
    } catch (error) {
      text(said, error.status ? error.message : "The daemon was not reached; nothing is known of the decision. Try again.");
      buttons.forEach((button) => attribute(button, "disabled", null));
    }
    again();
  }
  return node;
}

// Takes an answered request away, and goes to the next one with the keyboard's place.
function leave(node) {
  const next = node.nextElementSibling ?? node.previousElementSibling;
  const had = node.contains(document.activeElement) || document.activeElement === document.body;
  shown(node, false);
  if (had) (next?.querySelector("h3") ?? byId(node.closest("#run") ? "run-title" : "approvals-title")).focus({ preventScroll: true });
}

function deciding(one, id, deed) {
  const key = freshId();
  const note = el("input", { maxlength: "4000", id: `${id}-note`, autocomplete: "off" });
  const approve = el("button", { type: "button", class: "yes" }, "Approve");
  const deny = el("button", { type: "button", class: "no" }, "Deny");
  for (const button of [approve, deny]) attribute(button, "aria-describedby", id);
  const decide = (decision) => deed("decide", { decision, note: note.value, digest: one.digest, key: `${decision}-${key}` }, `${decision === "approved" ? "Approved" : "Denied"}: ${one.tool}`);
  approve.addEventListener("click", () => decide("approved"));
  deny.addEventListener("click", () => decide("denied"));
  return el("div", { class: "answer" }, approve, deny, el("label", { class: "grow" }, "Note (the model reads it when denied) ", note));
}

function answering(one, id, deed) {
  const key = freshId();
  const node = el("div", { class: "answer" });
  const sent = new Map();
  const answer = (content) => {
    if (!sent.has(content)) sent.set(content, freshId());
    return deed("answer", { content, key: sent.get(content) }, "Answered");
  };
  if (one.options.length) {
    for (const option of one.options) {
      const button = el("button", { type: "button", class: "yes" }, plain(option));
      button.addEventListener("click", () => answer(option));
      node.append(button);
    }
  } else {
    const words = el("textarea", { rows: "2", required: true });
    const send = el("button", { type: "button", class: "yes" }, "Answer");
    send.addEventListener("click", () => (words.value.trim() ? answer(words.value) : words.focus()));
    node.append(el("label", { class: "grow" }, "Your answer ", words), send);
  }
  const refuse = el("button", { type: "button", class: "no" }, "Leave unanswered");
  refuse.addEventListener("click", () => deed("decide", { decision: "denied", key: `denied-${key}` }, "Left unanswered"));
  node.append(refuse);
  for (const button of node.querySelectorAll("button")) attribute(button, "aria-describedby", id);
  return node;
}
