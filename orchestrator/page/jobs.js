// Jobs and how far they are.

import { byId, cellBadge, cellBar, row, table, text } from "./dom.js";
import { get } from "./net.js";
import { count, dollars, jobPhase, percent } from "./words.js";

const MOST = 50;
const JOBS = [["job", "th"], ["tenant", ""], ["phase", ""], ["progress", ""], ["failed", "n"], ["live", "n"], ["cost", "n"], ["says", ""]];

export async function showJobs() {
  const { jobs } = await get("/api/jobs");
  table("jobs", jobs.slice(0, MOST), (one) => one.job, () => row(JOBS), update);
  text(byId("jobs-more"), jobs.length > MOST ? `${count(jobs.length - MOST)} older ones are left out; headrace job ls lists them.` : "");
}

function update(line, one) {
  const cell = line.cells_;
  text(cell.job, one.job);
  text(cell.tenant, one.tenant);
  const [kind, sign, words] = jobPhase(one.phase);
  const live = one.phase === "running" || one.phase === "stopping";
  cellBadge(cell.phase, kind, sign, live && one.stage !== "working" ? `${words} (${one.stage})` : words);
  const all = one.received;
  const part = (number) => (all ? number / all : 0);
  const more = one.complete ? "" : ", more to come";
  cellBar(cell.progress, [["done", part(one.done)], ["failed", part(one.failed + one.cancelled)], ["others", part(one.live)]], `${count(one.done + one.failed + one.cancelled)} of ${count(all)} (${percent(part(one.done + one.failed + one.cancelled))}${more})`);
  text(cell.failed, count(one.failed));
  text(cell.live, count(one.live));
  text(cell.cost, dollars(one.micro_dollars));
  text(cell.says, one.message || Object.entries(one.failures).map(([reason, number]) => `${count(number)} ${reason}`).join(", ") || "-");
}
