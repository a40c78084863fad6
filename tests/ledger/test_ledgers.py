"""What every ledger does, whatever store it is in."""

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.store.base import Store
from orchestrator.store.ledger_port import CallRow, Ledger, SentRow, SpentRow, WentRow
from orchestrator.store.memory_ledger import MemoryLedger
from orchestrator.store.sqlite_ledger import SqliteLedger
from tests.ledger.ledgers import NOON, DirectDatabase, ended_row, sent_row

DAY = 86_400.0


async def rows_of(ledger: Ledger) -> list[CallRow]:
    await ledger.flush()
    return await ledger.calls()


async def test_a_row_comes_back_as_it_was_written(ledger: Ledger) -> None:
    """Every column survives, also those that are unknown."""
    whole = ended_row(
        "r/1/1",
        job="j",
        run="r",
        priority=0,
        first_token=NOON + 0.25,
        retried=2,
        waited=1.5,
        held_by="requests/min",
        waits='{"requests/min":1.5}',
        cache_write=3,
        unknown_tokens=4,
        unknown_micro_dollars=5,
    )
    bare = CallRow(key="c", tenant="web", arrived=NOON + 1)
    ledger.write([whole, bare])
    assert await rows_of(ledger) == [whole, bare]


async def test_what_is_written_later_of_a_call_replaces_what_was_open(ledger: Ledger) -> None:
    """A call that is sent again and then ends has one row, its last, whether or not they were written together."""
    ledger.write([sent_row("c")])
    assert [row.ended for row in await rows_of(ledger)] == [None]
    ledger.write([sent_row("c", 3.0, retried=1)])
    assert [row.retried for row in await rows_of(ledger)] == [1]
    ledger.write([ended_row("c", 3.0)])
    ledger.write([ended_row("d"), sent_row("d")])
    assert {row.key: row.outcome for row in await rows_of(ledger)} == {"c": "ok", "d": "ok"}


async def test_a_call_that_ended_stays_ended(ledger: Ledger) -> None:
    """Neither an open row nor another end changes it, nor what it came to."""
    end = ended_row("c")
    ledger.write([end])
    await ledger.flush()
    before = await ledger.spent()
    ledger.write([sent_row("c"), ended_row("c", outcome="lost", unknown_tokens=99, ended=NOON + 9)])
    assert await rows_of(ledger) == [end]
    assert await ledger.spent() == before


async def test_sums_go_by_tenant_and_by_the_day_of_arrival(ledger: Ledger) -> None:
    """A call that ends after midnight belongs to the day on which it arrived; what is open is unknown and no call."""
    late = ended_row("b", DAY / 2 - 1, ended=NOON + DAY / 2 + 60)
    ledger.write([ended_row("a"), late, ended_row("c", DAY / 2), ended_row("d", tenant="web"), sent_row("e", DAY)])
    await ledger.flush()
    first = SpentRow(tenant="acme", day="2026-02-02", calls=2, tokens=90, micro_dollars=14)
    second = SpentRow(
        tenant="acme",
        day="2026-02-03",
        calls=1,
        tokens=45,
        micro_dollars=7,
        unknown_tokens=100,
        unknown_micro_dollars=50,
    )
    web = SpentRow(tenant="web", day="2026-02-02", calls=1, tokens=45, micro_dollars=7)
    assert await ledger.spent() == [first, second, web]
    assert await ledger.spent("2026-02-03") == [second]


async def test_what_is_open_when_a_daemon_starts_is_lost_and_stays_spent(ledger: Ledger) -> None:
    """Open calls end as lost at once, and what was reserved for them goes on being unknown."""
    ledger.write([sent_row("a"), ended_row("b"), sent_row("c")])
    await ledger.flush()
    before = (await ledger.spent())[0]
    assert await ledger.end_open(NOON + 60) == 2
    assert await ledger.end_open(NOON + 90) == 0
    assert {row.key: (row.outcome, row.ended) for row in await rows_of(ledger)} == {
        "a": ("lost", NOON + 60),
        "b": ("ok", NOON + 1),
        "c": ("lost", NOON + 60),
    }
    (after,) = await ledger.spent()
    assert (after.calls, after.unknown_tokens, after.unknown_micro_dollars) == (3, 200, 100)
    assert (after.tokens, after.micro_dollars) == (before.tokens, before.micro_dollars)


async def test_what_was_sent_goes_by_endpoint_tenant_and_slot(ledger: Ledger) -> None:
    """Attempts and input count where they were sent, output where the call ended; what never went out does not."""
    ledger.write(
        [
            ended_row("old", -200),
            ended_row("a", 1),
            ended_row("b", 2, retried=1, tenant="web"),
            ended_row("c", 3, ended=NOON + 25),
            ended_row("never", 3, sent=0.0),
            sent_row("open", 4),
        ]
    )
    await ledger.flush()
    place = {"backend": "main", "endpoint": "one"}
    assert await ledger.sent(NOON, 10.0) == [
        SentRow(
            **place,
            tenant="acme",
            at=NOON,
            calls=3,
            open=1,
            input=40 + 40 + 60,
            cached=20,
            output=5 + 40,
            held_input=180,
            held_output=120,
        ),
        SentRow(**place, tenant="acme", at=NOON + 20, output=5),
        SentRow(**place, tenant="web", at=NOON, calls=2, input=40, cached=10, output=5, held_input=120, held_output=80),
    ]


async def test_what_nobody_reported_counts_as_it_was_held(ledger: Ledger) -> None:
    """A call that ended without a word of its usage takes what limits held for it; one that did no work takes none."""
    nothing = {"cached": None, "micro_dollars": None, "outcome": "timeout"}
    ledger.write(
        [
            ended_row("unsaid", input=None, output=None, **nothing),
            ended_row("refused", tenant="web", input=0, output=0, **nothing),
        ]
    )
    await ledger.flush()
    unsaid, refused = await ledger.sent(NOON, 60.0)
    assert (unsaid.input, unsaid.output, unsaid.calls) == (60, 40, 1)
    assert (refused.input, refused.output, refused.calls, refused.held_input) == (0, 0, 1, 60)


async def test_calls_are_found_by_what_they_belong_to(ledger: Ledger) -> None:
    """Filters go together, the oldest come first, and a page has a size."""
    ledger.write([ended_row(f"r{n % 2}/{n}/1", n, run=f"r{n % 2}", tenant=f"t{n % 3}") for n in range(12)])
    await ledger.flush()

    async def keys(**filters: object) -> list[str]:
        return [row.key for row in await ledger.calls(**filters)]  # type: ignore[arg-type]

    assert await keys(run="r1") == [f"r1/{n}/1" for n in (1, 3, 5, 7, 9, 11)]
    assert await keys(run="r1", tenant="t0") == ["r1/3/1", "r1/9/1"]
    assert await keys(key="r0/4/1") == ["r0/4/1"]
    assert await keys(since=NOON + 10) == ["r0/10/1", "r1/11/1"]
    assert await keys(size=2) == ["r0/0/1", "r1/1/1"]
    assert await keys(tenant="nobody") == []


async def test_names_that_no_database_takes_are_kept_without_what_is_wrong(ledger: Ledger) -> None:
    """Half a character, a zero byte or an absurd number in one row does not take the others with it."""
    ledger.write([ended_row("a", model="m\ud800\0", input=10**30), ended_row("b", 1)])
    assert [row.key for row in await rows_of(ledger)] == ["a", "b"]
    assert ledger.lost == 0


@given(
    st.lists(
        st.lists(
            st.builds(
                lambda key, at, end, known: (ended_row if end else sent_row)(
                    f"call-{key}", at * 7200.0, **({"input": None, "output": None} if end and not known else {})
                ),
                st.integers(0, 5),
                st.integers(0, 20),
                st.booleans(),
                st.booleans(),
            ),
            max_size=6,
        ),
        max_size=6,
    )
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_sums_are_those_of_the_calls_whatever_was_written_when(batches: list[list[CallRow]]) -> None:
    """Two ledgers that get the same rows, cut into batches anyhow, agree on everything, and sums on the rows."""
    both = [MemoryLedger(), SqliteLedger(DirectDatabase())]
    for ledger in both:
        for batch in batches:
            ledger.write(batch)
            await ledger.flush()
    memory, sqlite = both
    rows = await memory.calls()
    assert await sqlite.calls() == rows
    assert all((a.arrived, a.key) < (b.arrived, b.key) for a, b in pairwise(rows))
    assert await sqlite.sent(NOON, 60.0) == await memory.sent(NOON, 60.0)

    def known(spent: list[SpentRow]) -> list[SpentRow]:
        return [row for row in spent if any((row.calls, row.tokens, row.unknown_tokens))]

    spent = known(await memory.spent())
    assert known(await sqlite.spent()) == spent
    assert sum(row.calls for row in spent) == sum(row.ended is not None for row in rows)
    assert sum(row.unknown_tokens for row in spent) == sum(row.unknown_tokens for row in rows)


async def test_pruned_calls_stay_spent(store: Store) -> None:
    """Pruning takes the rows of calls that ended before, and leaves the sums, those after, and what is open."""
    store.ledger.write([ended_row("old"), ended_row("new", 100), sent_row("open")])
    await store.ledger.flush()
    before = await store.ledger.spent()
    assert (await store.prune(NOON + 50)).calls == 1
    assert {row.key for row in await rows_of(store.ledger)} == {"new", "open"}
    assert await store.ledger.spent() == before


async def test_ten_thousand_calls_at_once_are_kept(store: Store) -> None:
    """Nothing is dropped when everybody begins at once."""
    ledger = store.ledger
    for n in range(10_000):
        ledger.write([sent_row(f"c{n}", n / 1000)])
        if n % 2:
            ledger.write([ended_row(f"c{n}", n / 1000)])
    await ledger.flush()
    (spent,) = await ledger.spent()
    assert (spent.calls, spent.unknown_tokens, ledger.lost) == (5_000, 500_000, 0)
    assert sum(row.calls for row in await ledger.sent(NOON, 1.0)) == 10_000


async def test_what_went_meanwhile_is_added_up(ledger: Ledger) -> None:
    """Calls of one backend in a span, from its beginning to before its end, by tenant, priority, job and whose run."""
    ledger.write(
        [
            ended_row("a/1/1", tenant="web", run="a", job="j"),
            ended_row("b/1/1", 1.0, tenant="web", run="b", job="j"),
            sent_row("c", 2.0, tenant="batch", priority=2),
            sent_row("late", 10.0, tenant="batch"),
            sent_row("early", -1.0, tenant="batch"),
            sent_row("there", 1.0, tenant="batch", backend="other"),
            CallRow(key="unsent", tenant="batch", backend="main", arrived=NOON),
        ]
    )
    await ledger.flush()
    went = await ledger.went("main", NOON, NOON + 10, run="a")
    assert [(row.tenant, row.priority, row.job, row.own, row.calls) for row in went] == [
        ("batch", 2, "", False, 1),
        ("web", 1, "j", False, 1),
        ("web", 1, "j", True, 1),
    ]
    assert all(isinstance(row, WentRow) and row.tokens > 0 for row in went)
    assert [row.own for row in await ledger.went("main", NOON, NOON + 10)] == [False, False]


async def test_the_slowest_are_found(ledger: Ledger) -> None:
    """Of one tenant's calls since a time those that waited longest come first, as many as are asked for."""
    for number in range(5):
        ledger.write([ended_row(f"c{number}", number, tenant="web" if number % 2 else "batch", waited=10.0 - number)])
    await ledger.flush()
    assert [row.key for row in await ledger.slowest(NOON)] == ["c0", "c1", "c2", "c3", "c4"]
    assert [row.key for row in await ledger.slowest(NOON, tenant="web", size=1)] == ["c1"]
    assert [row.key for row in await ledger.slowest(NOON + 2, job="none")] == []
