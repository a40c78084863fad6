"""A queue as it may look on a bad night: two backends, a broken endpoint, tenants that wait for different things."""

from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.views.queue import BackendView, EndpointView, LimitView, QueueView, TenantView


def tenant(
    name: str,
    *,
    weight: float = 1.0,
    queued: tuple[int, int, int] = (0, 0, 0),
    in_flight: int = 0,
    share: float = 0.0,
    held_by: str = "",
    oldest: float = 0.0,
    limits: Sequence[LimitView] = (),
    failed: float = 0.0,
) -> TenantView:
    """One tenant whose rates follow from its share."""
    return TenantView(
        tenant=name,
        weight=weight,
        queued=dict(zip(("interactive", "standard", "batch"), queued, strict=True)),
        in_flight=in_flight,
        calls_per_minute=480 * share,
        tokens_per_minute=182_000 * share,
        share=share,
        mean_wait=oldest / 3,
        oldest_wait=oldest,
        held_by=held_by,
        limits=tuple(limits),
        failed_per_minute=failed,
    )


def endpoint(name: str, in_flight: int = 31, *limits: LimitView, **more: object) -> EndpointView:
    """An endpoint that is well unless more is said."""
    fields = {"concurrency_limit": 32, "cuts": 0, "breaker": "closed", "opens_in": None, **more}
    return EndpointView(name=name, in_flight=in_flight, limits=limits, **fields)  # type: ignore[arg-type]


RPM = LimitView(name="requests/min", amount=500, per=60, used=0.68)
TPM = LimitView(name="total_tokens/min", amount=200_000, per=60, used=0.91, others=0.06)
SHUT = LimitView(name="total_tokens/min", amount=200_000, per=60, used=0.4, opens_in=12.4)
KV = LimitView(name="tokens in flight", amount=22_118, per=0, used=0.83)
OWN = LimitView(name="requests/min", amount=60, per=60, used=1.0)

TENANTS = (
    tenant("research", weight=3, queued=(0, 412, 0), in_flight=34, share=0.55, held_by="total_tokens/min", oldest=94),
    tenant("support-desk", weight=2, queued=(0, 92, 0), in_flight=18, share=0.33, held_by="fair_order", oldest=41),
    tenant("nightly", queued=(0, 0, 12_345), in_flight=1, share=0.02, held_by="fair_order", oldest=3_905),
    tenant("trial", queued=(0, 7, 0), share=0.03, held_by="tenant requests/min", oldest=22, limits=[OWN], failed=4),
    tenant("quiet", share=0.07),
)

BUSY = QueueView(
    now=1_000.0,
    uptime=11_520.0,
    version="0.1.0",
    draining=False,
    backends=(
        BackendView(
            name="openai",
            inbox=12,
            queued=12_856,
            in_flight=53,
            retrying=3,
            endpoints=(
                endpoint("key-a", 32, RPM, TPM, cuts=2),
                endpoint("key-b", 21, replace(RPM, used=0.31), SHUT, opens_in=4.0),
                endpoint("key-c", 0, replace(RPM, used=0), breaker="open", opens_in=12.0),
            ),
            tenants=TENANTS,
        ),
        BackendView(
            name="local",
            inbox=0,
            queued=9,
            in_flight=8,
            retrying=0,
            endpoints=(endpoint("local", 8, KV, concurrency_limit=8),),
            tenants=(
                tenant(
                    "research", weight=3, queued=(0, 9, 0), in_flight=6, share=0.8, held_by="tokens in flight", oldest=9
                ),
                tenant("quiet", in_flight=2, share=0.2),
            ),
        ),
    ),
    runs={"waiting_model": 871, "running": 14, "waiting_tool": 40, "completed": 20_311, "failed": 12},
    jobs=3,
)


def many(count: int) -> QueueView:
    """One backend with so many tenants, the first of which has the most calls."""
    tenants = tuple(
        tenant(f"tenant-{n:04}", queued=(0, count - n, 0), share=1 / count, held_by="fair_order", oldest=60 - n / count)
        for n in range(count)
    )
    first = BUSY.backends[0]
    return replace(BUSY, backends=(replace(first, tenants=tenants),))
