// Runs, a page at a time. A cursor is good for ever, so going back is to the cursor that led here.

import { byId, cellBadge, cellBar, link, row, shown, table, text } from "./dom.js";
import { daemonNow } from "./approvals.js";
import { get } from "./net.js";
import { amountOf, count, dollars, few, holds, level, limitNames, runState, span } from "./words.js";

const SIZE = 50;
const RUNS = [["run", "th"], ["state", ""], ["waits", ""], ["agent", ""], ["tenant", ""], ["job", ""], ["time", "n"], ["tokens", "n"], ["cost", "n"], ["limits", ""]];

let cursors = [""];
let filter = { state: "", tenant: "", job: "" };
let next = "";
let asked = 0;
let turned = false;

export function prepareRuns(again) {
  const turn = (to) => {
    cursors = to;
    turned = true;
    again();
  };
  byId("runs-older").addEventListener("click", () => next && turn([...cursors, next]));
  byId("runs-newer").addEventListener("click", () => cursors.length > 1 && turn(cursors.slice(0, -1)));
  byId("runs-newest").addEventListener("click", () => turn([""]));
  const apply = (event) => {
    event.preventDefault();
    filter = { state: byId("runs-state").value, tenant: byId("runs-tenant").value.trim(), job: byId("runs-job").value.trim() };
    turn([""]);
  };
  byId("runs-filter").addEventListener("submit", apply);
  byId("runs-state").addEventListener("change", apply);
}

export async function showRuns() {
  const mine = ++asked;
  const query = new URLSearchParams({ size: SIZE });
  for (const state of filter.state.split(",").filter(Boolean)) query.append("state", state);
  for (const name of ["tenant", "job"]) if (filter[name]) query.set(name, filter[name]);
  const cursor = cursors.at(-1);
  if (cursor) query.set("cursor", cursor);
  const page = await get(`/api/runs?${query}`);
  if (mine !== asked) return;
  next = page.next;
  table("runs", page.runs, (one) => one.run, () => row(RUNS), update);
  const first = (cursors.length - 1) * SIZE + 1;
  text(byId("runs-place"), page.runs.length ? `${count(first)} to ${count(first + page.runs.length - 1)} of ${count(page.total)}` : "");
  if (turned) text(byId("runs-said"), byId("runs-place").textContent || "No run matches.");
  turned = false;
  byId("runs-older").setAttribute("aria-disabled", String(!next));
  for (const id of ["runs-newer", "runs-newest"]) byId(id).setAttribute("aria-disabled", String(cursors.length < 2));
  shown(byId("runs-none"), page.runs.length === 0);
}

function update(line, one) {
  const cell = line.cells_;
  link(cell.run, `#run=${encodeURIComponent(one.run)}`, one.run);
  const [kind, sign, words] = runState(one.state);
  cellBadge(cell.state, kind, sign, one.reason && one.reason !== one.state && one.reason !== "final_answer" ? `${words}: ${one.reason}` : words);
  text(cell.waits, one.waits_for ? holds(one.waits_for) : one.ended === null && one.message ? one.message : "-");
  text(cell.agent, one.agent || one.model);
  text(cell.tenant, one.tenant);
  text(cell.job, one.job || "-");
  text(cell.time, span((one.ended ?? daemonNow()) - one.created));
  text(cell.tokens, few((one.usage.input ?? 0) + (one.usage.cached ?? 0) + (one.usage.cache_write ?? 0) + (one.usage.output ?? 0)));
  text(cell.cost, dollars(one.micro_dollars));
  const fullest = [...(one.limits ?? [])].sort((a, b) => part(b) - part(a))[0];
  if (fullest) cellBar(cell.limits, [["used", part(fullest)]], limitWords(fullest), { level: level(part(fullest)) });
  else text(cell.limits, "-");
}

export const part = (limit) => (limit.allowed > 0 ? limit.used / limit.allowed : 1);

export function limitWords(limit) {
  return `${limitNames[limit.limit] ?? limit.limit}: ${amountOf(limit.limit, limit.used)} of ${amountOf(limit.limit, limit.allowed)}`;
}
