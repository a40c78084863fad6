"""The daemon itself: its loop, its log, its connections, its process."""

from orchestrator.dashboards.model import Dashboard, Panel, Query, Row, Step

_STATE = Row(
    "State",
    (
        Panel(
            title="Reached by Prometheus",
            about="1 where the last scrape was answered. 0: the daemon is down, or stands by for another one.",
            queries=(Query('up{@,job="headrace"}', "{{instance}}"),),
            kind="stat",
            width=6,
            height=5,
        ),
        Panel(
            title="Version",
            about="What runs where.",
            queries=(Query("headrace_build_info{@}", "{{version}} on {{instance}}"),),
            kind="stat",
            names=True,
            width=6,
            height=5,
        ),
        Panel(
            title="Draining",
            about="1 while it ends and takes nothing new; at most drain_seconds.",
            queries=(Query("max(headrace_draining{@})", "draining"),),
            kind="stat",
            steps=(Step("orange", 1),),
            width=6,
            height=5,
        ),
        Panel(
            title="Lost rows of the ledger",
            about="What calls came to, and could not be written down: budgets may count too little after a restart. "
            "Look at the disk, and at the log.",
            queries=(Query("sum(headrace_ledger_lost_rows_total{@})", "lost"),),
            kind="stat",
            steps=(Step("red", 1),),
            width=6,
            height=5,
        ),
    ),
)

_LOOP = Row(
    "Loop and log",
    (
        Panel(
            title="How late the loop wakes tasks",
            about="99 of 100 are faster. Everything waits at least for this. High: the machine is too busy, or a "
            "tool's Python function blocks the loop.",
            queries=(
                Query(
                    "histogram_quantile(0.99, sum by (instance, le) "
                    "(rate(headrace_loop_lag_seconds_bucket{@}[$__rate_interval])))",
                    "{{instance}}",
                ),
            ),
            unit="s",
            steps=(Step("red", 0.25),),
            width=8,
        ),
        Panel(
            title="One turn of an owner",
            about="99 of 100 are faster: what the queue's own decisions take.",
            queries=(
                Query(
                    "histogram_quantile(0.99, sum by (instance, le) "
                    "(rate(headrace_owner_loop_seconds_bucket{@}[$__rate_interval])))",
                    "{{instance}}",
                ),
            ),
            unit="s",
            width=8,
        ),
        Panel(
            title="Making a run's events durable",
            about="99 of 100 are faster. High: the disk or the database is slow, and every step of every run waits for "
            "it.",
            queries=(
                Query(
                    "histogram_quantile(0.99, sum by (instance, le) "
                    "(rate(headrace_log_append_seconds_bucket{@}[$__rate_interval])))",
                    "{{instance}}",
                ),
            ),
            unit="s",
            steps=(Step("red", 0.5),),
            width=8,
        ),
    ),
)

_HTTP = Row(
    "HTTP",
    (
        Panel(
            title="Requests by surface and status",
            about="A second. 429: a tenant's queue is full. 503: no endpoint can serve. 401, 403: a key is wrong. 500: "
            "the log has why.",
            queries=(
                Query(
                    "sum by (surface, status) (rate(headrace_requests_total{@}[$__rate_interval]))",
                    "{{surface}} {{status}}",
                ),
            ),
            unit="reqps",
        ),
        Panel(
            title="Open connections",
            about="Programs, clients and pages that are connected.",
            queries=(Query("headrace_open_connections{@}", "{{instance}}"),),
            decimals=0,
        ),
    ),
)

_PROCESS = Row(
    "Process",
    (
        Panel(
            title="Processor",
            about="Cores in use. The daemon's loop has one: near 1 it is the bottleneck.",
            queries=(Query('rate(process_cpu_seconds_total{@,job="headrace"}[$__rate_interval])', "{{instance}}"),),
            steps=(Step("red", 0.9),),
            width=8,
        ),
        Panel(
            title="Memory",
            about="Resident, and the address space beside it. A live run needs about 14 KB.",
            queries=(
                Query('process_resident_memory_bytes{@,job="headrace"}', "{{instance}} resident"),
                Query('process_virtual_memory_bytes{@,job="headrace"}', "{{instance}} virtual"),
            ),
            unit="bytes",
            width=8,
        ),
        Panel(
            title="Open files",
            about="Each connection and each call in flight has one. Near the maximum raise LimitNOFILE (systemd) or "
            "`ulimit -n`.",
            queries=(
                Query('process_open_fds{@,job="headrace"}', "{{instance}} open"),
                Query('process_max_fds{@,job="headrace"}', "{{instance}} at most"),
            ),
            width=8,
        ),
        Panel(
            title="Running since",
            about="How long the process has run. Short: who restarted it?",
            queries=(Query('time() - process_start_time_seconds{@,job="headrace"}', "{{instance}}"),),
            kind="stat",
            unit="s",
            width=8,
            height=5,
        ),
    ),
)

HEALTH = Dashboard(
    key="health",
    title="Headrace: daemon health",
    about="The daemon itself: its loop, its log, its connections, its process.",
    rows=(_STATE, _LOOP, _HTTP, _PROCESS),
    since="now-6h",
)
