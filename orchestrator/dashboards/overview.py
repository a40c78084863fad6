"""The first dashboard to look at: who waits for what, why, and where to look next."""

from orchestrator.dashboards.model import Dashboard, Panel, Query, Row, Step

_NOW = Row(
    "Now",
    (
        Panel(
            title="Alerts",
            about="What is wrong, by Headrace's own rules. docs/runbook.md has a section for each: what to look at and "
            "what to do. 'pending' has not lasted long enough to be told to anybody.",
            queries=(Query('ALERTS{alertname=~"Headrace.+",instance=~"$instance"}'),),
            kind="table",
            hidden=("__name__", "instance", "job", "Value"),
            width=12,
            height=7,
        ),
        Panel(
            title="What holds the next call",
            about="Why nothing more goes out at this moment, for each backend. A limit: the provider's limit is full. "
            "'calls in flight': all slots are busy. 'nothing': whatever comes goes out at once. `headrace explain "
            "CALL` says it of one call.",
            queries=(Query("headrace_backend_held{@b} == 1", "{{backend}}: {{held_by}}"),),
            kind="stat",
            names=True,
            width=6,
            height=7,
            leads_to="backends",
        ),
        Panel(
            title="Waiting calls",
            about="All calls in the queues. More than a few minutes' work: see who they belong to, below.",
            queries=(Query("sum(headrace_queued_calls{@bt})", "waiting"),),
            kind="stat",
            steps=(Step("yellow", 100), Step("orange", 1000)),
            width=3,
            height=7,
            leads_to="tenants",
        ),
        Panel(
            title="Longest wait",
            about="How long the call has waited that has waited longest. If it grows while calls go out, more comes in "
            "than the backend can do: take work away, or buy more.",
            queries=(Query("max(headrace_oldest_queued_seconds{@bt})", "longest"),),
            kind="stat",
            unit="s",
            steps=(Step("yellow", 60), Step("red", 600)),
            width=3,
            height=7,
            leads_to="tenants",
        ),
    ),
)

_WAITS = Row(
    "Who waits, and for what",
    (
        Panel(
            title="Waiting calls by tenant and priority",
            about="Who waits. One tenant far above all others floods; fairness keeps the others going, but look at "
            "'Longest wait by tenant'.",
            queries=(Query("sum by (tenant, priority) (headrace_queued_calls{@bt})", "{{tenant}}, {{priority}}"),),
            stacked=True,
            leads_to="tenants",
        ),
        Panel(
            title="What calls wait for",
            about="How many calls waited at a time, by what held them. A limit: only more quota or less work helps. "
            "fair_order: others were before them by weight. retry: the provider failed them. tenant_limit: their "
            "tenant's own limit in the configuration.",
            queries=(
                Query(
                    "sum by (backend, held_by) (rate(headrace_queue_held_seconds_total{@b}[$__rate_interval]))",
                    "{{backend}}: {{held_by}}",
                ),
            ),
            stacked=True,
            leads_to="backends",
        ),
        Panel(
            title="Who waits now",
            about="Each tenant's waiting calls, how long its longest has waited, and the weight that it shares by.",
            queries=(
                Query("sum by (backend, tenant) (headrace_queued_calls{@bt})", "waiting"),
                Query("max by (backend, tenant) (headrace_oldest_queued_seconds{@bt})", "longest wait"),
                Query("max by (backend, tenant) (headrace_tenant_weight{@bt})", "weight"),
            ),
            kind="table",
            units=(("longest wait", "s"),),
            leads_to="tenants",
        ),
        Panel(
            title="Limits: used, or taken",
            about="Used, held, or taken by others with the same key. Full is what Headrace aims for while calls wait: "
            "the limit is the bottleneck. Far below while calls wait: look at what holds the next call.",
            queries=(
                Query(
                    "max by (backend, endpoint, limit) "
                    "(headrace_limit_used_ratio{@b} + headrace_limit_others_ratio{@b})",
                    "{{backend}}/{{endpoint}} {{limit}}",
                ),
            ),
            kind="bargauge",
            unit="percentunit",
            most=1,
            steps=(Step("yellow", 0.8), Step("orange", 0.95)),
            leads_to="backends",
        ),
    ),
)

_PROVIDERS = Row(
    "Providers",
    (
        Panel(
            title="Errors of providers",
            about="Failed attempts a second. throttled: it gives less than the limits say. unavailable or overloaded: "
            "it is down or ill; calls are tried again and wait for that. refused: the request itself is wrong, or the "
            "key.",
            queries=(
                Query(
                    "sum by (backend, kind) (rate(headrace_upstream_errors_total{@b}[$__rate_interval]))",
                    "{{backend}}: {{kind}}",
                ),
            ),
            unit="ops",
            width=8,
            leads_to="backends",
        ),
        Panel(
            title="Endpoints that are closed off",
            about="1: after repeated failures an endpoint gets single probes until one succeeds. Nothing to do here "
            "but to see whether the provider says that it is down; `headrace check BACKEND` tries it.",
            queries=(
                Query("max by (backend, endpoint) (headrace_endpoint_closed_off{@b})", "{{backend}}/{{endpoint}}"),
            ),
            most=1,
            decimals=0,
            width=8,
            leads_to="backends",
        ),
        Panel(
            title="Finished calls by outcome",
            about="Calls a second. Anything but ok has reached somebody as an error.",
            queries=(Query("sum by (outcome) (rate(headrace_calls_total{@bt}[$__rate_interval]))", "{{outcome}}"),),
            unit="ops",
            stacked=True,
            width=8,
        ),
    ),
)

_WORK = Row(
    "Budgets, tools and people",
    (
        Panel(
            title="Budgets",
            about="Used and reserved part. At 100 % the tenant's calls are refused and its runs stop: raise the budget "
            "in the configuration (SIGHUP), or tell the tenant.",
            queries=(
                Query(
                    "max by (tenant, period, amount) (headrace_budget_used_ratio{@t})",
                    "{{tenant}}: {{amount}} ({{period}})",
                ),
            ),
            kind="bargauge",
            unit="percentunit",
            most=1,
            steps=(Step("yellow", 0.8), Step("red", 0.95)),
            width=8,
            leads_to="work",
        ),
        Panel(
            title="Longest running tool calls",
            about="A tool that runs far longer than usual hangs; its run waits. `headrace ps` names the run, "
            "`headrace cancel` ends it, the tool's timeout does so by itself.",
            queries=(Query("max by (tool) (headrace_oldest_tool_call_seconds{@})", "{{tool}}"),),
            kind="bargauge",
            unit="s",
            steps=(Step("yellow", 60), Step("red", 300)),
            width=8,
            leads_to="work",
        ),
        Panel(
            title="Requests to people",
            about="Tool calls to approve and questions to answer. `headrace approvals` lists them, and so does the "
            "live page.",
            queries=(Query("sum(headrace_approvals_open{@})", "open"),),
            kind="stat",
            steps=(Step("yellow", 1),),
            width=4,
            leads_to="work",
        ),
        Panel(
            title="Oldest request",
            about="How long somebody has not been answered. Their runs wait, and cost nothing meanwhile.",
            queries=(Query("max(headrace_oldest_approval_seconds{@})", "oldest"),),
            kind="stat",
            unit="s",
            steps=(Step("yellow", 300), Step("red", 900)),
            width=4,
            leads_to="work",
        ),
    ),
)

OVERVIEW = Dashboard(
    key="overview",
    title="Headrace: overview",
    about="Who waits for what, why, and what to do.",
    rows=(_NOW, _WAITS, _PROVIDERS, _WORK),
    variables=("backend", "tenant"),
)
