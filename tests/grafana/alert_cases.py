"""For each alert a story in which it fires, and one near it in which it does not: what Prometheus scraped, every 15 s.

Series are in promtool's notation (`start+step x times`), see
https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

HEAD = 'job="headrace",instance="a"'
SIM = f'{HEAD},backend="sim"'


class Case(Struct, frozen=True):
    """One story. `at` is when it is looked at."""

    series: Mapping[str, str]
    at: str = "10m"


class Cases(Struct, frozen=True):
    """Both sides of one alert."""

    fires: Sequence[Case]
    rests: Sequence[Case]


def one(name: str, values: str, labels: str = SIM, at: str = "10m") -> Case:
    """A story of one series."""
    return Case({f"{name}{{{labels}}}": values}, at)


def waits(tenant: str, *, count: str, total: str) -> dict[str, str]:
    """How often and how long a tenant's calls waited."""
    labels = f'{SIM},tenant="{tenant}",priority="standard"'
    return {
        f"headrace_queue_wait_seconds_count{{{labels}}}": count,
        f"headrace_queue_wait_seconds_sum{{{labels}}}": total,
    }


def queued(**tenants: str) -> dict[str, str]:
    """Each tenant's waiting calls."""
    return {
        f'headrace_queued_calls{{{SIM},tenant="{tenant}",priority="standard"}}': values
        for tenant, values in tenants.items()
    }


def breakers(first: str, second: str) -> Case:
    """The two endpoints of a backend."""
    return Case(
        {
            f'headrace_endpoint_closed_off{{{SIM},endpoint="one"}}': first,
            f'headrace_endpoint_closed_off{{{SIM},endpoint="two"}}': second,
        }
    )


def endings(state: str, reason: str, some: str, well: str) -> Case:
    """How many runs ended for this reason, and how many with an answer."""
    return Case(
        {
            f'headrace_runs_finished_total{{{HEAD},state="{state}",reason="{reason}"}}': some,
            f'headrace_runs_finished_total{{{HEAD},state="completed",reason="final_answer"}}': well,
        },
        "20m",
    )


def late(family: str, fast: str, slow: str) -> Case:
    """A histogram in which `slow` of the values are above half a second, and below one."""
    return Case(
        {
            f'{family}_bucket{{{HEAD},le="0.1"}}': fast,
            f'{family}_bucket{{{HEAD},le="0.5"}}': fast,
            f'{family}_bucket{{{HEAD},le="1.0"}}': slow,
            f'{family}_bucket{{{HEAD},le="+Inf"}}': slow,
        }
    )


def interactive(quick: str, all_: str) -> Case:
    """Waits of interactive calls: so many within ten seconds, all within a minute."""
    labels = f'{SIM},tenant="web",priority="interactive"'
    return Case(
        {
            f'headrace_queue_wait_seconds_bucket{{{labels},le="10.0"}}': quick,
            f'headrace_queue_wait_seconds_bucket{{{labels},le="60.0"}}': all_,
            f'headrace_queue_wait_seconds_bucket{{{labels},le="+Inf"}}': all_,
        }
    )


def answers(refused: str, ok: str, others: str) -> Case:
    """An endpoint's 429s and good answers, and what others take of its limit."""
    return Case(
        {
            f'headrace_upstream_errors_total{{{SIM},endpoint="one",kind="throttled"}}': refused,
            f'headrace_calls_total{{{SIM},tenant="web",outcome="ok"}}': ok,
            f'headrace_limit_others_ratio{{{SIM},endpoint="one",limit="requests/min"}}': others,
        }
    )


def going(waiting: str, in_flight: str, dispatched: str) -> Case:
    """A queue, what is in flight, and what went out so far."""
    return Case(
        {
            **queued(web=waiting),
            f'headrace_in_flight_calls{{{SIM},endpoint="one"}}': in_flight,
            **waits("web", count=dispatched, total="0x100"),
        }
    )


def flood(batch: str, web_waits: str) -> Case:
    """A tenant's queue beside another one's, whose calls wait so long in sum; 20 calls a minute go out."""
    return Case(
        {
            **queued(batch=batch, web="2x200"),
            **waits("web", count="0+5x200", total=web_waits),
            **waits("batch", count="0+5x200", total="0+100x200"),
        },
        "30m",
    )


def tool(oldest: str, seconds: str) -> Case:
    """How long a tool's longest call runs, and all that ended so far took; four a minute end."""
    labels = f'{HEAD},tool="search"'
    return Case(
        {
            f"headrace_oldest_tool_call_seconds{{{labels}}}": oldest,
            f"headrace_tool_call_duration_seconds_count{{{labels}}}": "0+1x100",
            f"headrace_tool_call_duration_seconds_sum{{{labels}}}": seconds,
        }
    )


def unreported(some: str, ok: str) -> Case:
    """Answers without usage, and all."""
    return Case(
        {
            f'headrace_usage_unreported_total{{{SIM},endpoint="one"}}': some,
            f'headrace_calls_total{{{SIM},tenant="web",outcome="ok"}}': ok,
        },
        "20m",
    )


def requests(failed: str, good: str, status: str = "503") -> Case:
    """Answers of the gateway."""
    return Case(
        {
            f'headrace_requests_total{{{HEAD},surface="gateway",status="{status}"}}': failed,
            f'headrace_requests_total{{{HEAD},surface="gateway",status="200"}}': good,
        }
    )


def two(first: str, second: str, labels: str = HEAD, **values: str) -> Case:
    """Two series with the same labels."""
    return Case({f"{first}{{{labels}}}": values["of_first"], f"{second}{{{labels}}}": values["of_second"]})


def standby(other: str) -> Case:
    """A daemon that does not answer, and another one of the same database."""
    labels = 'job="headrace",daemon="main"'
    return Case({f'up{{{labels},instance="a"}}': "0x60", f'up{{{labels},instance="b"}}': other})


BUDGET = f'{HEAD},tenant="lab",period="day",amount="tokens"'
_BOUND = ("headrace_fairness_spread_service", "headrace_fairness_bound_service", SIM)
_FILES = ("process_open_fds", "process_max_fds", HEAD)

CASES: Mapping[str, Cases] = {
    "HeadraceDown": Cases(
        [one("up", "1x20 0x60", HEAD), standby("0x60")],
        [one("up", "1x60", HEAD), standby("1x60"), one("up", "0x60", 'job="node",instance="a"')],
    ),
    "HeadraceNotReady": Cases(
        [one("headrace_draining", "0x20 1x60", HEAD)], [one("headrace_draining", "0x36 1x60", HEAD)]
    ),
    "HeadraceProviderDown": Cases([breakers("1x60", "0x20 1x60")], [breakers("1x60", "0x60")]),
    "HeadraceEndpointDown": Cases([breakers("1x60", "0x60")], [breakers("1x60", "1x60"), breakers("0x60", "0x60")]),
    "HeadraceProviderThrottles": Cases(
        [answers("0+1x60", "0+10x60", "0x60"), answers("0x60", "0+10x60", "0.5x60"), answers("0+1x60", "0x60", "0x60")],
        [answers("0+1x60", "0+100x60", "0.1x60"), answers("0x60", "0x60", "0x60")],
    ),
    "HeadraceNothingGoes": Cases(
        [going("5x60", "0x60", "0+1x10 10x60")],
        [going("5x60", "2x60", "10x60"), going("5x60", "0x60", "0+1x60"), going("0x60", "0x60", "10x60")],
    ),
    "HeadraceTenantFloods": Cases(
        # after 20 quiet minutes the others wait for 2 s instead of 0.2 s
        [flood("10x80 2000x100", "0+1x80 90+10x100")],
        [
            flood("10x80 2000x100", "0+1x200"),
            flood("10x80 20x100", "0+1x80 90+10x100"),
            flood("1x200", "0+1x80 90+10x100"),
        ],
    ),
    "HeadraceWaitsLong": Cases(
        [one("headrace_oldest_queued_seconds", "0+20x60", f'{SIM},tenant="web"', "14m")],
        [one("headrace_oldest_queued_seconds", "0+10x60", f'{SIM},tenant="web"', "14m")],
    ),
    "HeadraceInteractiveWaits": Cases([interactive("0+5x60", "0+10x60")], [interactive("0+10x60", "0+10x60")]),
    "HeadraceToolHangs": Cases(
        [tool("0+15x60", "0+2x100")],
        [tool("0+5x60", "0+2x100"), tool("0+15x60", "0+400x100"), tool("2x60", "0+2x100")],
    ),
    "HeadraceToolServerDown": Cases(
        [one("headrace_tool_server_up", "1x20 0x60", f'{HEAD},server="files"')],
        [one("headrace_tool_server_up", "1x20 0x2 1x60", f'{HEAD},server="files"')],
    ),
    "HeadraceBudgetRunsOut": Cases(
        [one("headrace_budget_used_ratio", "0.5+0.02x60", BUDGET)],
        [one("headrace_budget_used_ratio", "0.9x60", BUDGET)],
    ),
    "HeadraceBudgetUsedUp": Cases(
        [one("headrace_budget_refused_total", "0x36 1x60", f'{HEAD},tenant="lab"')],
        [
            one("headrace_budget_refused_total", "0x60", f'{HEAD},tenant="lab"'),
            one("headrace_budget_refused_total", "0x4 3x80", f'{HEAD},tenant="lab"', "20m"),
        ],
    ),
    "HeadraceRunsStopByBudget": Cases(
        [endings("stopped", "max_rounds", "0+1x80", "0+5x80")],
        [
            endings("stopped", "max_rounds", "0+1x80", "0+50x80"),
            endings("stopped", "max_rounds", "0x76 2x4", "0x80"),
            endings("stopped", "interrupted", "0+1x80", "0+1x80"),
        ],
    ),
    "HeadraceApprovalsWait": Cases(
        [one("headrace_oldest_approval_seconds", "0+15x90", HEAD, "20m")],
        [one("headrace_oldest_approval_seconds", "0+15x40 0+15x50", HEAD, "20m")],
    ),
    "HeadraceRunsFail": Cases(
        [endings("failed", "planner_error", "0+1x80", "0+5x80")],
        [
            endings("failed", "planner_error", "0+1x80", "0+50x80"),
            endings("failed", "planner_error", "0x76 2x4", "0x80"),
            endings("cancelled", "cancelled", "0+1x80", "0+1x80"),
        ],
    ),
    "HeadraceFairnessBroken": Cases(
        [two(*_BOUND, of_first="2000x60", of_second="1000x60")],
        [two(*_BOUND, of_first="1000x60", of_second="1000x60"), two(*_BOUND, of_first="0x60", of_second="0x60")],
    ),
    "HeadraceLoopSlow": Cases(
        [late("headrace_loop_lag_seconds", "0+95x60", "0+100x60")],
        [late("headrace_loop_lag_seconds", "0+995x60", "0+1000x60")],
    ),
    "HeadraceLogSlow": Cases(
        [late("headrace_log_append_seconds", "0+95x60", "0+100x60")],
        [late("headrace_log_append_seconds", "0+995x60", "0+1000x60")],
    ),
    "HeadraceLedgerLoses": Cases(
        [one("headrace_ledger_lost_rows_total", "0x36 1x60", HEAD)],
        [one("headrace_ledger_lost_rows_total", "7x60", HEAD)],
    ),
    "HeadraceOpenFiles": Cases(
        [two(*_FILES, of_first="900x60", of_second="1024x60")], [two(*_FILES, of_first="700x60", of_second="1024x60")]
    ),
    "HeadraceWorkersShort": Cases(
        [one("headrace_pool_waiting_runs", "3x60", HEAD)],
        [one("headrace_pool_waiting_runs", "3x10 0x1 3x15 0x60", HEAD)],
    ),
    "HeadraceUsageUnreported": Cases(
        [unreported("0+1x90", "0+10x90")], [unreported("0+1x90", "0+100x90"), unreported("0x90", "0x90")]
    ),
    "HeadraceRequestsFail": Cases(
        [requests("0+1x60", "0+10x60")],
        [requests("0+1x60", "0+100x60"), requests("0+10x60", "0+10x60", "429"), requests("0+10x60", "0+10x60", "504")],
    ),
}
