"""One backend in depth: its limits, its calls in flight, what it answers and how fast."""

from orchestrator.dashboards.model import Dashboard, Panel, Query, Row, Step

_LIMITS = Row(
    "Limits",
    (
        Panel(
            title="Limits in use",
            about="Used or held part of each limit. Flat at 100 % while calls wait: this limit is the bottleneck. Buy "
            "more of it, add a key, or move work elsewhere.",
            queries=(Query("headrace_limit_used_ratio{@b}", "{{backend}}/{{endpoint}} {{limit}}"),),
            unit="percentunit",
            steps=(Step("orange", 0.95),),
        ),
        Panel(
            title="Taken by others, or by the provider",
            about="The part of each limit that Headrace believes is gone: others use the same key, or the provider "
            "allows less than is configured. Find out who has the key, or set the limit to what the provider gives.",
            queries=(Query("headrace_limit_others_ratio{@b}", "{{backend}}/{{endpoint}} {{limit}}"),),
            unit="percentunit",
            steps=(Step("orange", 0.2),),
        ),
        Panel(
            title="Configured limits",
            about="What Headrace keeps to, from the configuration. Compare with the provider's own page.",
            queries=(Query("sum by (backend, endpoint, limit) (headrace_limit_amount{@b})", "amount"),),
            kind="table",
            width=8,
        ),
        Panel(
            title="Tenants' own limits",
            about="Used part of a limit that the configuration sets for one tenant. At 100 % this tenant waits, and "
            "nobody else for it.",
            queries=(Query("headrace_tenant_limit_used_ratio{@b}", "{{backend}}: {{tenant}} {{limit}}"),),
            unit="percentunit",
            steps=(Step("orange", 0.95),),
            width=16,
        ),
    ),
)

_QUEUE = Row(
    "What waits",
    (
        Panel(
            title="What calls wait for",
            about="How many calls waited at a time, by what held them.",
            queries=(
                Query(
                    "sum by (backend, held_by) (rate(headrace_queue_held_seconds_total{@b}[$__rate_interval]))",
                    "{{backend}}: {{held_by}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            title="Calls in and around the queue",
            about="retrying: failed once, and wait for their next attempt. inbox: not yet looked at; if that stays "
            "high, the owner does not keep up (see daemon health).",
            queries=(
                Query("sum by (backend) (headrace_queued_calls{@b})", "{{backend}}: queued"),
                Query("sum by (backend) (headrace_retrying_calls{@b})", "{{backend}}: retrying"),
                Query("sum by (backend) (headrace_inbox_calls{@b})", "{{backend}}: inbox"),
            ),
        ),
    ),
)

_FLIGHT = Row(
    "Calls in flight",
    (
        Panel(
            title="In flight, and how many may be",
            about="Together: slots are the bottleneck. In flight well below: something else is, see what calls wait "
            "for.",
            queries=(
                Query("headrace_in_flight_calls{@b}", "{{backend}}/{{endpoint}} in flight"),
                Query("headrace_concurrency_limit{@b}", "{{backend}}/{{endpoint}} allowed"),
            ),
        ),
        Panel(
            title="Cuts of concurrency",
            about="How often a minute the allowed number was cut after a 429. Now and then is how the limit is found; "
            "all the time, set `concurrency` in the configuration.",
            queries=(
                Query(
                    "60 * sum by (backend, endpoint) (rate(headrace_concurrency_cuts_total{@b}[$__rate_interval]))",
                    "{{backend}}/{{endpoint}}",
                ),
            ),
            decimals=1,
        ),
    ),
)

_ANSWERS = Row(
    "What providers answer",
    (
        Panel(
            title="Errors by kind",
            about="Failed attempts a second. throttled and overloaded: too much for it. unavailable: it is down. "
            "timeouts and truncated: it is ill, or the network is. refused: look at the log for what it said.",
            queries=(
                Query(
                    "sum by (backend, endpoint, kind) (rate(headrace_upstream_errors_total{@b}[$__rate_interval]))",
                    "{{backend}}/{{endpoint}} {{kind}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            title="Attempts that are tried again",
            about="Retries a second, by what failed. They use up requests without an answer.",
            queries=(
                Query(
                    "sum by (backend, kind) (rate(headrace_retries_total{@b}[$__rate_interval]))",
                    "{{backend}}: {{kind}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            title="Time to first token",
            about="From dispatch, so that waits in the queue do not count: the provider's own speed. Rising: the "
            "provider is loaded, or prompts have grown.",
            queries=(
                Query(
                    "histogram_quantile(0.5, sum by (backend, endpoint, le) "
                    "(rate(headrace_time_to_first_token_seconds_bucket{@b}[$__rate_interval])))",
                    "{{backend}}/{{endpoint}} median",
                ),
                Query(
                    "histogram_quantile(0.95, sum by (backend, endpoint, le) "
                    "(rate(headrace_time_to_first_token_seconds_bucket{@b}[$__rate_interval])))",
                    "{{backend}}/{{endpoint}} 95 %",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Whole calls, from arrival to end",
            about="What callers see, their wait in the queue included; 95 of 100 are faster.",
            queries=(
                Query(
                    "histogram_quantile(0.95, sum by (backend, priority, le) "
                    "(rate(headrace_call_duration_seconds_bucket{@b}[$__rate_interval])))",
                    "{{backend}}: {{priority}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Answers without token counts",
            about="Answers a second for which the provider did not report usage: budgets and costs only know their "
            "upper bounds. For an OpenAI-compatible server set include_usage.",
            queries=(
                Query(
                    "sum by (backend, endpoint) (rate(headrace_usage_unreported_total{@b}[$__rate_interval]))",
                    "{{backend}}/{{endpoint}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            title="Breaker",
            about="1 while an endpoint gets nothing but probes.",
            queries=(Query("headrace_endpoint_closed_off{@b}", "{{backend}}/{{endpoint}}"),),
            most=1,
            decimals=0,
        ),
    ),
)

BACKENDS = Dashboard(
    key="backends",
    title="Headrace: backends and limits",
    about="What each backend allows, what it answers, and what holds its queue.",
    rows=(_LIMITS, _QUEUE, _FLIGHT, _ANSWERS),
    variables=("backend",),
)
