"""A run, a job and a request of people, as a daemon shows them."""

from agents.lifecycle import State
from agents.messages import Usage
from agents.observation import observed
from orchestrator.views.approvals import ApprovalView
from orchestrator.views.jobs import JobView
from orchestrator.views.runs import LimitUse, RunView

NOON = 1_770_033_600.0

RUN = RunView(
    run="run-77",
    agent="writer",
    model="small",
    tenant="research",
    job="nightly",
    priority="batch",
    state=State.WAITING_MODEL,
    observed=observed(State.WAITING_MODEL),
    reason=None,
    created=NOON - 65,
    started=NOON - 60,
    ended=None,
    rounds=3,
    tool_calls=1,
    usage=Usage(input=900, output=100),
    micro_dollars=1_000,
    message="",
    limits=(LimitUse(limit="tokens", used=900, allowed=1_000), LimitUse(limit="rounds", used=3, allowed=30)),
    waits_for="requests/min",
)

JOB = JobView(
    job="job-1",
    name="nightly",
    tenant="research",
    priority="batch",
    agent="writer",
    model="small",
    weight=1.0,
    workers=64,
    phase="running",
    created=NOON - 600,
    ended=None,
    received=400,
    complete=True,
    upload_offset=1_000,
    done=100,
    failed=4,
    live=64,
    cancelled=0,
    usage=Usage(),
    micro_dollars=None,
    message="",
    failures={"overloaded": 4},
    errors=(),
    result_bytes=0,
)

ASKED = ApprovalView(
    id="run-77/2/0",
    kind="approval",
    run="run-77",
    session="run-77",
    tenant="research",
    job="",
    agent="writer",
    tool="deploy",
    asked=NOON - 120,
)
