"""Every other reason to stop, and budgets seen through the loop."""

from typing import Any

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.budget import Scope
from agents.errors import (
    CallTimeout,
    InvalidLimits,
    ModelError,
    Overloaded,
    OwnerClosed,
    QueueFull,
    QueueTimeout,
    Refused,
    Throttled,
    TooLarge,
    Truncated,
    Unavailable,
    UnknownModel,
)
from agents.events import ModelFailed, ModelRequested
from agents.journal import MemoryJournal
from agents.lifecycle import State
from agents.loop import run_agent
from agents.messages import Message, ModelReply, ToolCall, Usage
from agents.money import Price, PriceList
from agents.result import RunResult
from agents.scripted import Answer, ScriptedModel, ask, in_turn, say
from agents.size import input_bound
from agents.spec import AgentSpec
from agents.tools import tool
from tests.agents.whole import assert_nothing_reserved, assert_transcript_whole, assert_whole

PRICES = PriceList({"scripted": Price(input=1_000_000, output=2_000_000)})  # 1 and 2 micro-dollars per token
AGENT = AgentSpec(name="agent", model="scripted")


async def run(*answers: Answer, **options: Any) -> tuple[RunResult, MemoryJournal, Scope]:
    journal, budget = MemoryJournal(), options.pop("budget", None) or Scope("job")
    names = {"prices", "expiry", "task"}
    outside = {name: options.pop(name) for name in names & set(options)}
    agent = AgentSpec(**{"name": "agent", "model": "scripted", **options})
    task = outside.pop("task", "the task")
    result = await run_agent(
        agent, task, model=ScriptedModel(in_turn(*answers)), journal=journal, budget=budget, **outside
    )
    assert_whole(journal.events)
    assert_transcript_whole(result)
    assert_nothing_reserved(budget)
    return result, journal, budget


@pytest.mark.parametrize(
    ("error", "reason", "next_step"),
    [
        (Throttled("429"), "overloaded", "retry"),
        (Overloaded("529"), "overloaded", "retry"),
        (QueueFull("full", retry_after=1), "overloaded", "retry"),
        (Unavailable("broken"), "planner_error", "retry"),
        (QueueTimeout("late"), "planner_error", "retry"),
        (OwnerClosed("closed"), "planner_error", "retry"),
        (Refused("key", status=401), "planner_error", "human"),
        (TooLarge("large"), "planner_error", "human"),
        (UnknownModel("which?"), "planner_error", "human"),
        (Refused("long", code="context_length_exceeded"), "context_limit", "human"),
        (Refused("long", code="exceed_context_size_error"), "context_limit", "human"),
        (Refused("no", code="content_filter"), "refusal", "human"),
    ],
)
async def test_a_model_error_ends_the_run_with_its_own_reason(error: ModelError, reason: str, next_step: str) -> None:
    """The reason follows from the error's type and structured code, and so does what helps."""
    result, journal, _ = await run(error)
    assert (result.reason, result.next, result.rounds) == (reason, next_step, 0)
    failed = [event for event in journal.events if isinstance(event, ModelFailed)]
    assert [event.kind for event in failed] == [error.kind]


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (Throttled("429"), False),
        (Refused("400"), False),
        (Unavailable("refused", worked=False), False),
        (Unavailable("broke off"), True),
        (Truncated("cut", partial="so far"), True),
        (CallTimeout("slow"), True),
        (OwnerClosed("closed"), True),
    ],
)
async def test_a_lost_call_keeps_its_reservation_as_unknown_cost(error: ModelError, unknown: bool) -> None:
    """Where the provider may have worked, what was reserved stays held, apart from what is used; it is no round."""
    result, journal, budget = await run(error, max_tokens=100, prices=PRICES)
    requested = next(event for event in journal.events if isinstance(event, ModelRequested))
    failed = next(event for event in journal.events if isinstance(event, ModelFailed))
    assert budget.used.rounds == budget.used.tokens == 0
    assert budget.unknown.tokens == failed.unknown_tokens == (requested.reserved_tokens if unknown else 0)
    assert budget.unknown.micro_dollars == (requested.reserved_micro_dollars if unknown else 0)
    assert result.unknown_tokens == budget.unknown.tokens
    assert result.micro_dollars == (None if unknown else 0)
    assert result.partial == error.partial


async def test_usage_that_came_with_an_error_is_counted() -> None:
    """A broken stream that had reported its usage leaves nothing unknown."""
    error = Unavailable("broke off at the end", usage=Usage(input=30, output=5))
    result, _, budget = await run(error, max_tokens=100, prices=PRICES)
    assert (budget.used.tokens, budget.unknown.tokens) == (35, 0)
    assert (result.usage, result.micro_dollars, result.rounds) == (Usage(input=30, output=5), 40, 0)


async def test_a_reply_without_usage_leaves_its_cost_unknown() -> None:
    """Unreported is unknown and never 0: tokens stay held, and the run's cost is not known any more."""
    result, _, budget = await run(ModelReply(say("hi"), "stop"), max_tokens=100, prices=PRICES)
    assert result.ok
    assert (result.usage, result.micro_dollars) == (Usage(), None)
    assert budget.used.tokens == 0
    assert result.unknown_tokens == budget.unknown.tokens > 100


async def test_an_answer_cut_at_its_own_limit_is_output_limit() -> None:
    """The agent's own max_tokens cut it: output_limit, with the part that came."""
    result, _, _ = await run(say("x" * 100), max_tokens=5)
    assert (result.reason, result.partial, result.answer) == ("output_limit", "x" * 20, "")


async def test_an_answer_cut_by_the_budget_names_the_budget() -> None:
    """max_tokens was shrunk to what the budget had left: the budget's reason, not output_limit."""
    bound = input_bound(AGENT.request(AGENT.transcript("the task"), 1000))
    result, journal, _ = await run(say("x" * 1000), max_tokens=1000, limits=Limits(tokens=bound + 20))
    requested = next(event for event in journal.events if isinstance(event, ModelRequested))
    assert (requested.max_tokens, requested.shrunk_by is not None) == (20, True)
    assert (result.reason, result.scope, result.limit) == ("token_budget_exceeded", "run", "tokens")
    assert len(result.partial) == 80


async def test_a_budget_below_the_floor_stops_before_the_call() -> None:
    """Fewer output tokens left than are worth asking for: no request goes out."""
    bound = input_bound(AGENT.request(AGENT.transcript("the task"), 1000))
    result, journal, _ = await run(say("x"), max_tokens=1000, limits=Limits(tokens=bound + 15))
    assert (result.reason, result.rounds) == ("token_budget_exceeded", 0)
    assert not any(isinstance(event, ModelRequested) for event in journal.events)


async def test_money_is_reserved_spent_and_named() -> None:
    """Cost is whole micro-dollars from reported usage; the job that has too little left names the reason."""
    job = Scope("job", Limits(micro_dollars=5_000))
    spent, _, _ = await run(say("word " * 8), max_tokens=1000, prices=PRICES, budget=job)
    usage = spent.usage
    assert usage.input is not None
    assert usage.output == 10
    assert spent.micro_dollars == usage.input + 2 * usage.output == job.used.micro_dollars
    for _ in range(200):
        result, _, _ = await run(say("word " * 8), max_tokens=1000, prices=PRICES, budget=job)
        if not result.ok:
            break
    else:
        pytest.fail("the job never ran out of money")
    assert (result.reason, result.scope, result.limit) == ("cost_budget_exceeded", "job", "micro_dollars")
    assert job.used.micro_dollars <= 5_000


async def test_money_on_a_model_without_a_price_is_refused_before_a_run_exists() -> None:
    """A limit that could not be kept is refused, wherever on the path it stands; nothing is journalled."""
    journal = MemoryJournal()
    rich = Scope("tenant", Limits(micro_dollars=10)).child("job")
    with pytest.raises(InvalidLimits, match=r"micro_dollars.*no price"):
        await run_agent(AGENT, "x", model=ScriptedModel(in_turn(say("x"))), journal=journal, budget=rich)
    assert len(journal) == 0


async def test_32_runs_on_one_budget_overshoot_by_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """Runs that share a job's budget wait for each other's settlements, and the first stops when it is nearly spent."""
    limit = 200_000
    job = Scope("job", Limits(tokens=limit))
    first_stop: list[float] = []
    model = ScriptedModel(in_turn(ask("again", text="y" * 400)), latency=1)

    @tool(read_only=True)
    async def again() -> str:
        """Goes on."""
        return "z" * 100

    agent = AgentSpec(name="agent", model="scripted", tools=(again,), max_tokens=2_000)

    async def one() -> None:
        result = await run_agent(agent, "go", model=model, journal=MemoryJournal(), budget=job)
        assert (result.reason, result.scope) == ("token_budget_exceeded", "job")
        first_stop.append(job.used.tokens / limit)
        assert job.used.tokens + job.reserved.tokens <= limit

    async with trio.open_nursery() as nursery:
        for _ in range(32):
            nursery.start_soon(one)
    assert job.used.tokens <= limit
    assert min(first_stop) > 0.9
    assert_nothing_reserved(job)


async def test_a_withheld_answer_is_a_refusal() -> None:
    """The provider's content filter ended the answer."""
    result, _, _ = await run(ModelReply(say("I"), "content_filter", Usage(input=1, output=1)))
    assert (result.reason, result.state) == ("refusal", State.FAILED)


@pytest.mark.parametrize(("text", "reason"), [('{"a": 1}', "final_answer"), ("sure! {}", "malformed_output")])
async def test_json_that_was_asked_for_is_checked(text: str, reason: str) -> None:
    """An answer that is not the JSON that was asked for is malformed output, never success."""
    result, _, _ = await run(say(text), response_format={"type": "json_object"})
    assert result.reason == reason


async def test_tool_calls_of_a_cut_answer_are_not_run() -> None:
    """The answer was cut in its tool calls: they are closed as not started and the transcript stays whole."""
    call = ToolCall("c", "again", '{"a": ')
    result, _, _ = await run(ModelReply(Message("assistant", tool_calls=(call,)), "length", Usage(input=1, output=1)))
    assert (result.reason, result.tool_calls) == ("output_limit", 0)
    assert result.messages[-1].role == "tool"


async def test_a_bug_in_the_loops_surroundings_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception nobody foresaw closes the run, with its words, and is not blamed on the model."""

    def explode(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("agents.steps.judge", explode)
    result, _, _ = await run(ask("again"))
    assert (result.reason, result.state) == ("internal_error", State.FAILED)
    assert "ZeroDivisionError" in result.message


async def test_a_conversation_is_continued_with_messages() -> None:
    """A task of messages is taken as it is; demonstration turns and the system text go before it."""
    shown = (Message("user", "2+2?"), say("4"))
    history = (Message("user", "3+3?"), say("6"), Message("user", "and 4+4?"))
    result, _, _ = await run(say("8"), system="You add.", demonstration=shown, task=history)
    assert [message.content for message in result.messages] == ["You add.", "2+2?", "4", "3+3?", "6", "and 4+4?", "8"]


async def test_an_expired_run_never_begins(autojump_clock: trio.testing.MockClock) -> None:
    """Its expiry passed before it was taken up."""
    await trio.sleep(10)
    result, journal, _ = await run(say("x"), expiry=trio.current_time() - 1)
    assert (result.reason, result.state, result.rounds) == ("expired", State.EXPIRED, 0)
    assert len(journal) == 2
