"""What is said of one call."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import encode

from orchestrator.explain.ahead import MOST, OTHERS
from orchestrator.explain.call import explain_call, waits_of
from orchestrator.explain.words import BRIEF, HELP, OBSTACLES, seconds
from orchestrator.store.ledger_port import CallRow, WentRow
from orchestrator.views.explain import CallExplanation

NOON = 1_770_033_600.0


def row(**changes: object) -> CallRow:
    fields: dict[str, object] = {
        "key": "r/1/1",
        "tenant": "web",
        "job": "j",
        "run": "r",
        "priority": 1,
        "backend": "main",
        "model": "small",
        "arrived": NOON,
        "sent": NOON + 30,
        "ended": NOON + 40,
        "outcome": "ok",
        "waited": 30.0,
    }
    return CallRow(**{**fields, **changes})  # type: ignore[arg-type]


def went(tenant: str = "web", priority: int = 1, job: str = "j", *, own: bool = False, calls: int = 1) -> WentRow:
    return WentRow(tenant=tenant, priority=priority, job=job, own=own, calls=calls, tokens=10 * calls)


def explained(call: CallRow, *others: WentRow, sees: Callable[[str], bool] = lambda tenant: True) -> CallExplanation:
    return explain_call(call, others, weights=lambda tenant: 2.0, amounts={"requests/min": "60"}, sees=sees)


@pytest.mark.parametrize(
    ("other", "rule"),
    [
        (went("batch", 0), "priority"),
        (went("batch", 2), "minimum_share"),
        (went("batch"), "fair_tenants"),
        (went(job="k"), "fair_jobs"),
        (went(), "run_order"),
        (went(own=True), "arrival"),
    ],
)
def test_the_rule_is_the_first_in_which_they_differ(other: WentRow, rule: str) -> None:
    """Priority comes before tenants, those before jobs, those before runs, and arrival is last."""
    (group,) = explained(row(), other).ahead
    assert group.rule == rule


def test_at_its_own_limit_others_do_not_go_by_fairness() -> None:
    """While a tenant's own limit held it for most of the time, others went because of that."""
    call = explained(row(waits='{"tenant requests/min":20.0,"calls in flight":10.0}'), went("batch"))
    assert call.ahead[0].rule == "own_limit"
    assert "tenant's own limit requests/min" in " ".join(call.words)


def test_words_say_limit_people_and_help() -> None:
    """The sentences name the limit with its size, who went by which rule with weights, and what would help."""
    words = "\n".join(explained(row(waits='{"requests/min":30.0}'), went("batch", calls=40), went("ui", 0)).words)
    assert "It waited 30 s: 30 s because the limit requests/min (60) was used up." in words
    assert "40 of batch (standard, job j, weight 2; 400 tokens)" in words
    assert "1 of ui (interactive" in words
    assert "To shorten it: ask the provider for more of that limit" in words


def test_a_call_that_went_at_once_says_so() -> None:
    """Nothing is explained where nothing waited."""
    assert explained(row(waited=0.0)).words[-1] == "It did not wait."


def test_a_row_of_an_earlier_release_is_explained_by_what_it_has() -> None:
    """Where a row does not say what it waited for, its last obstacle stands for all of it."""
    assert [(part.held_by, part.seconds) for part in waits_of(row(held_by="breaker"))] == [("breaker", 30.0)]


def test_nobody_learns_the_names_of_others() -> None:
    """A tenant is told of its own calls by name, and of others only that there were some."""
    call = explained(row(), went("rival", job="secret-plan"), went(job="k"), sees=lambda tenant: tenant == "web")
    assert {one.tenant for one in call.ahead} == {"web", OTHERS}
    assert "rival" not in repr(call)
    assert "secret-plan" not in repr(call)


GROUPS = st.builds(
    WentRow,
    tenant=st.sampled_from(["web", "batch", "ui"]) | st.text(max_size=3),
    priority=st.integers(0, 2),
    job=st.sampled_from(["", "j", "k"]) | st.text(max_size=3),
    own=st.booleans(),
    calls=st.integers(1, 1000),
    tokens=st.integers(0, 10**6),
)


@given(st.lists(GROUPS, max_size=60))
def test_no_call_is_counted_twice_or_left_out(groups: list[WentRow]) -> None:
    """However many groups there are, a few are named, and all their calls and tokens are in the sums."""
    call = explained(row(waits='{"fair_order":30.0}'), *groups)
    assert sum(one.calls for one in call.ahead) == sum(group.calls for group in groups)
    assert sum(one.tokens for one in call.ahead) == sum(group.tokens for group in groups)
    assert len(call.ahead) <= MOST + 7 * 3
    assert call == explained(row(waits='{"fair_order":30.0}'), *groups)


@given(
    st.dictionaries(st.sampled_from([*OBSTACLES, *HELP, "x/min", "tenant x/min"]), st.floats(BRIEF, 1e6), max_size=6)
)
def test_every_obstacle_has_words(waits: dict[str, float]) -> None:
    """Whatever held a call can be said, and all that is said can be read back from a row."""
    call = explained(row(waits=encode(waits).decode(), waited=0.0))
    assert {part.held_by for part in call.waits} == set(waits)
    assert all(words for words in call.words)


@pytest.mark.parametrize(
    ("value", "said"), [(0.05, "0.1 s"), (9.94, "9.9 s"), (61.0, "61 s"), (120.0, "2 min"), (7_260.0, "2 h 1 min")]
)
def test_spans_are_said_as_people_say_them(value: float, said: str) -> None:
    """Short ones to a tenth of a second, long ones in minutes and hours."""
    assert seconds(value) == said
