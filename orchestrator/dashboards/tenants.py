"""Who has how much of the backends, who waits how long, and whether that is fair."""

from orchestrator.dashboards.model import Dashboard, Panel, Query, Row, Step

_WAITS = Row(
    "Waits",
    (
        Panel(
            title="Longest wait by tenant",
            about="How long each tenant's longest waiting call has waited. One that climbs alone has asked for more "
            "than its share; all that climb together: the backend is too small.",
            queries=(Query("max by (tenant) (headrace_oldest_queued_seconds{@bt})", "{{tenant}}"),),
            unit="s",
            steps=(Step("red", 600),),
        ),
        Panel(
            title="Waiting calls by tenant",
            about="The queue. A tenant with most of it floods; `headrace top` shows its jobs and runs.",
            queries=(Query("sum by (tenant) (headrace_queued_calls{@bt})", "{{tenant}}"),),
            stacked=True,
        ),
        Panel(
            title="Wait in queue by tenant, 95 of 100 are shorter",
            about="Only of calls that went out. Compare tenants of the same priority.",
            queries=(
                Query(
                    "histogram_quantile(0.95, sum by (tenant, le) "
                    "(rate(headrace_queue_wait_seconds_bucket{@bt}[$__rate_interval])))",
                    "{{tenant}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Wait in queue by priority, 95 of 100 are shorter",
            about="interactive should stay within seconds whatever batch does. If it does not, interactive work alone "
            "is more than the backend can do.",
            queries=(
                Query(
                    "histogram_quantile(0.95, sum by (priority, le) "
                    "(rate(headrace_queue_wait_seconds_bucket{@bt}[$__rate_interval])))",
                    "{{priority}}",
                ),
            ),
            unit="s",
        ),
    ),
)

_SHARES = Row(
    "Shares",
    (
        Panel(
            title="Service by tenant",
            about="Weighted tokens a second. While several tenants wait, these are in proportion to their weights.",
            queries=(
                Query("sum by (tenant) (rate(headrace_tenant_service_total{@bt}[$__rate_interval]))", "{{tenant}}"),
            ),
            stacked=True,
        ),
        Panel(
            title="Service per weight",
            about="While tenants wait at the same priority these lines run together. A lower one has no work, or a "
            "limit of its own.",
            queries=(
                Query(
                    "sum by (backend, tenant) (rate(headrace_tenant_service_total{@bt}[$__rate_interval])) "
                    "/ max by (backend, tenant) (headrace_tenant_weight{@bt})",
                    "{{backend}}: {{tenant}}",
                ),
            ),
        ),
        Panel(
            title="Fairness: difference and its bound",
            about="The largest difference of service per weight among tenants that waited together, and what it may be "
            "at most. Above the bound there is a fault in Headrace: please report it.",
            queries=(
                Query("headrace_fairness_spread_service{@b}", "{{backend}}: difference"),
                Query("headrace_fairness_bound_service{@b}", "{{backend}}: bound"),
            ),
        ),
        Panel(
            title="Tenants' own limits",
            about="Used part of the limits that the configuration sets for a tenant. At 100 % it waits for itself.",
            queries=(Query("headrace_tenant_limit_used_ratio{@bt}", "{{tenant}} on {{backend}}: {{limit}}"),),
            unit="percentunit",
            steps=(Step("orange", 0.95),),
        ),
    ),
)

_USE = Row(
    "What tenants use",
    (
        Panel(
            title="Calls by tenant",
            about="Finished calls a second.",
            queries=(Query("sum by (tenant) (rate(headrace_calls_total{@bt}[$__rate_interval]))", "{{tenant}}"),),
            unit="ops",
            width=8,
        ),
        Panel(
            title="Tokens by tenant and type",
            about="Tokens a second as the providers reported them. Much input and little cached: the prompts' "
            "beginnings change, and cost more than they need.",
            queries=(
                Query(
                    "sum by (tenant, type) (rate(headrace_tokens_total{@bt}[$__rate_interval]))", "{{tenant}}: {{type}}"
                ),
            ),
            width=8,
        ),
        Panel(
            title="Cost by tenant",
            about="Dollars in the time shown, by the configured prices. Models without a price are missing here.",
            queries=(Query("sum by (tenant) (increase(headrace_cost_dollars_total{@bt}[$__range]))", "{{tenant}}"),),
            kind="bargauge",
            unit="currencyUSD",
            decimals=2,
            width=8,
        ),
        Panel(
            title="Failed calls by tenant",
            about="Calls a second that ended with an error, by its kind. deadline and queue errors: they waited too "
            "long.",
            queries=(
                Query(
                    'sum by (tenant, outcome) (rate(headrace_calls_total{@bt,outcome!="ok"}[$__rate_interval]))',
                    "{{tenant}}: {{outcome}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            title="Retries by tenant",
            about="Attempts a second that failed and are tried again.",
            queries=(Query("sum by (tenant) (rate(headrace_retries_total{@bt}[$__rate_interval]))", "{{tenant}}"),),
            unit="ops",
        ),
    ),
)

TENANTS = Dashboard(
    key="tenants",
    title="Headrace: tenants and fairness",
    about="Who has how much, who waits how long, and whether that is fair.",
    rows=(_WAITS, _SHARES, _USE),
    variables=("backend", "tenant"),
    since="now-3h",
)
