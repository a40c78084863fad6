// Puts the parts together: one stream of the queue for what is at this moment, requests now and then for the rest.

import { daemonClock, prepareApprovals, showApprovals } from "./approvals.js";
import { showBudgets } from "./budgets.js";
import { byId, scrolls, shown } from "./dom.js";
import { age, connection, showHeader } from "./header.js";
import { showJobs } from "./jobs.js";
import { follow, poll } from "./net.js";
import { showQueue } from "./queue.js";
import { closeRun, openRun } from "./run.js";
import { prepareRuns, showRuns } from "./runs.js";

const runOf = (hash) => (hash.startsWith("#run=") ? decodeURIComponent(hash.slice(5)) : "");
const overview = () => !runOf(location.hash);

document.querySelectorAll(".scroll").forEach(scrolls);
prepareApprovals();
prepareRuns(() => runs());
const runs = poll(async () => overview() && showRuns(), 2_000);
const approvals = poll(() => showApprovals(() => approvals()), 2_000);
const jobs = poll(async () => overview() && showJobs(), 3_000);

let asked = null;

follow("/api/queue/events?every=1", {
  onEvent: (name, queue) => {
    daemonClock(queue.now);
    showHeader(queue);
    if (overview()) {
      showQueue(queue);
      showBudgets(queue);
    }
    if (queue.approvals !== asked) {
      asked = queue.approvals;
      approvals();
    }
  },
  onState: (state, error) => {
    connection(state, error);
    if (state === "connected") {
      runs();
      approvals();
      jobs();
    }
  },
});
setInterval(age, 1_000);

function route() {
  let run = "";
  try {
    run = runOf(location.hash);
  } catch {
    // an address that nobody made here
  }
  shown(byId("run"), Boolean(run));
  shown(byId("everything"), !run);
  if (run) {
    openRun(run);
    byId("run-title").focus();
    scrollTo(0, 0);
    return;
  }
  closeRun();
  runs();
  jobs();
  const part = location.hash.length > 1 ? byId(location.hash.slice(1)) : null;
  part?.scrollIntoView();
  part?.querySelector("h2")?.focus({ preventScroll: true });
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
addEventListener("hashchange", route);
if (location.hash.length > 1) route();
