"""What runs do: their states and ends, tools, budgets, people, jobs."""

from orchestrator.dashboards.model import Dashboard, Panel, Query, Row, Step

_RUNS = Row(
    "Runs",
    (
        Panel(
            title="Open runs by state",
            about="waiting_model: for the queue or an answer. waiting_tool: for a tool. waiting_approval, "
            "waiting_input: for people. created: for their turn, or a worker.",
            queries=(Query("sum by (state) (headrace_runs{@})", "{{state}}"),),
            stacked=True,
        ),
        Panel(
            title="How runs ended",
            about="Runs in the time shown, by reason. Budgets of their own: max_rounds, max_tool_calls, timeout, "
            "token_budget_exceeded, cost_budget_exceeded; `headrace grant` gives a run more while it works.",
            queries=(
                Query(
                    "sum by (state, reason) (increase(headrace_runs_finished_total{@}[$__range]))",
                    "{{state}}: {{reason}}",
                ),
            ),
            kind="bargauge",
            decimals=0,
        ),
    ),
)

_TOOLS = Row(
    "Tools",
    (
        Panel(
            title="Running tool calls",
            about="Now, by tool. Flat at one number: its concurrency limit, or calls that hang.",
            queries=(Query("sum by (tool) (headrace_running_tool_calls{@})", "{{tool}}"),),
            width=8,
            decimals=0,
        ),
        Panel(
            title="Longest running tool call",
            about="Far above the usual duration: it hangs. Its timeout ends it; `headrace cancel RUN` does so now.",
            queries=(Query("max by (tool) (headrace_oldest_tool_call_seconds{@})", "{{tool}}"),),
            unit="s",
            steps=(Step("red", 300),),
            width=8,
        ),
        Panel(
            title="Duration of tool calls, 95 of 100 are shorter",
            about="From start to outcome.",
            queries=(
                Query(
                    "histogram_quantile(0.95, sum by (tool, le) "
                    "(rate(headrace_tool_call_duration_seconds_bucket{@}[$__rate_interval])))",
                    "{{tool}}",
                ),
            ),
            unit="s",
            width=8,
        ),
        Panel(
            title="Tool calls by outcome",
            about="A second. Errors are answered to the model, which may try again and again: see its run's events.",
            queries=(
                Query(
                    "sum by (tool, outcome) (rate(headrace_tool_calls_total{@}[$__rate_interval]))",
                    "{{tool}}: {{outcome}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            title="Tool servers",
            about="1: connected. 0: its tools cannot be called; the daemon tries again by itself, the log says what it "
            "meets.",
            queries=(Query("min by (server) (headrace_tool_server_up{@})", "{{server}}"),),
            most=1,
            decimals=0,
        ),
    ),
)

_BUDGETS = Row(
    "Budgets",
    (
        Panel(
            title="Budgets of tenants",
            about="Used and reserved part. Where the line meets 100 % before its period ends, the tenant stops: raise "
            "it in the configuration (SIGHUP), or talk to the tenant.",
            queries=(
                Query(
                    "max by (tenant, period, amount) (headrace_budget_used_ratio{@t})",
                    "{{tenant}}: {{amount}} ({{period}})",
                ),
            ),
            unit="percentunit",
            steps=(Step("orange", 0.9), Step("red", 1)),
        ),
        Panel(
            title="Refused for a budget",
            about="Calls and runs in the time shown that their tenant's budget refused or stopped.",
            queries=(Query("sum by (tenant) (increase(headrace_budget_refused_total{@t}[$__range]))", "{{tenant}}"),),
            kind="bargauge",
            decimals=0,
            steps=(Step("red", 1),),
        ),
    ),
)

_PEOPLE = Row(
    "People and jobs",
    (
        Panel(
            title="Requests to people",
            about="Tool calls to approve and questions to answer: `headrace approvals`, or the live page.",
            queries=(Query("sum(headrace_approvals_open{@})", "open"),),
            decimals=0,
            width=8,
        ),
        Panel(
            title="Oldest request to people",
            about="Its run waits, and may expire.",
            queries=(Query("max(headrace_oldest_approval_seconds{@})", "oldest"),),
            unit="s",
            steps=(Step("red", 900),),
            width=8,
        ),
        Panel(
            title="Live jobs",
            about="Jobs that have not ended.",
            queries=(Query("sum(headrace_live_jobs{@})", "jobs"),),
            decimals=0,
            width=8,
        ),
        Panel(
            title="Items of live jobs",
            about="waiting: have not begun. live: a run works on them. failed: `headrace job retry` takes them up "
            "again.",
            queries=(Query("sum by (state) (headrace_live_job_items{@})", "{{state}}"),),
            stacked=True,
        ),
        Panel(
            title="Workers",
            about="Only with a pool: worker processes, and runs that want one and have none. Runs that wait for long: "
            "start more with `headrace worker`.",
            queries=(
                Query("sum(headrace_pool_workers{@})", "workers"),
                Query("sum(headrace_pool_waiting_runs{@})", "runs without a worker"),
            ),
            decimals=0,
        ),
    ),
)

WORK = Dashboard(
    key="work",
    title="Headrace: runs, tools and budgets",
    about="What runs do and how they end, tools, budgets, people, jobs.",
    rows=(_RUNS, _TOOLS, _BUDGETS, _PEOPLE),
    variables=("tenant",),
    since="now-3h",
)
