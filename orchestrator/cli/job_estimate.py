"""How many calls and tokens a job takes, how much money and how long: what can be said before it begins. Pure.

It is a bound where it can be one and a guess where not, and `assumptions` say which. Prompts are taken at the bytes per
token that the daemon begins with (`policy.estimate`), answers at the longest they may be, and the time at what the
limits let through: no call's own time is in it, since nobody knows that before the first answer.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agents.errors import UnknownModel
from agents.money import MILLION
from orchestrator.catalogue import ANY_MODEL
from orchestrator.cli.render import many
from orchestrator.config.problems import no_such
from orchestrator.policy.estimate import MESSAGE_TOKENS, PRIOR_RATIO
from orchestrator.views.jobs import DebateRequest, JobRequest
from orchestrator.views.queue import BackendView, CapabilitiesView, ModelFacts, QueueView
from orchestrator.views.runs import AgentChoice

SUBTASK_BYTES: Final = 200
"""What is taken for the length of a subtask that a planner has not written yet."""

PACED_SECONDS: Final = 300.0
"""Limits over a longer span let everything through until they are used up (`policy.window`)."""


class Volume(Struct, frozen=True):
    """The inputs: how many there are, the bytes of their prompts, and how many cannot be read."""

    items: int
    prompt_bytes: int
    unreadable: int = 0


class Part(Struct, frozen=True):
    """Calls to one model, and what they take; `output` is a bound."""

    model: str
    facts: ModelFacts
    calls: int
    input: int
    output: int


class Estimate(Struct, frozen=True, kw_only=True):
    """What a job comes to. `output_tokens` and `micro_dollars` are bounds from above, None for a price not known.

    `seconds` is how long the limits alone make it last, if `limited_by` is the tightest of them; None where none is
    known. `stops` says which part of its budget does not suffice.
    """

    calls: int
    input_tokens: int
    output_tokens: int
    micro_dollars: int | None
    seconds: float | None
    limited_by: str
    stops: tuple[str, ...]
    assumptions: tuple[str, ...]


def estimate(request: JobRequest, volume: Volume, known: CapabilitiesView, queue: QueueView) -> Estimate:
    """What the job comes to. Raises `UnknownModel` for a model or an agent that the daemon does not have."""
    parts = parts_of(request, volume, known)
    tightest = max(_waits(parts, queue), default=None)
    calls, input, output = (sum(getattr(part, field) for part in parts) for field in ("calls", "input", "output"))
    cost = _cost(parts)
    return Estimate(
        calls=calls,
        input_tokens=input,
        output_tokens=output,
        micro_dollars=cost,
        seconds=None if tightest is None else tightest[0],
        limited_by="" if tightest is None else tightest[1],
        stops=tuple(_stops(request, calls, input + output, cost, tightest)),
        assumptions=tuple(_assumptions(request, volume, known, parts, queue)),
    )


def parts_of(request: JobRequest, volume: Volume, known: CapabilitiesView) -> Sequence[Part]:
    """The planner's call, those of the items, and the synthesis'; or those of a debate's rounds."""
    if request.debate is not None:
        return _debate(request, request.debate, known)
    parts, items, bytes_ = list[Part](), volume.items, volume.prompt_bytes
    if request.planner is not None:
        if request.planner.to == "inputs":
            items = request.planner.most
            bytes_ = items * (len(request.prompt.encode()) + SUBTASK_BYTES)
        else:
            bytes_ += items * request.planner.most * SUBTASK_BYTES
        parts.append(_part(request.planner.who or request.who, 1, len(request.planner.task.encode()), known))
    work = _part(request.who, items, bytes_, known)
    parts.append(work)
    if request.synthesis is not None:
        last = _part(request.synthesis.who or request.who, 1, len(request.synthesis.prompt.encode()), known)
        parts.append(Part(last.model, last.facts, 1, last.input + work.output, last.output))
    return parts


def _debate(request: JobRequest, debate: DebateRequest, known: CapabilitiesView) -> Sequence[Part]:
    """The proposer has every other round, and critics share the rest; each round may read all that were before it."""
    rounds, size = debate.most_rounds, len(request.prompt.encode())
    shares = [(request.first, rounds - rounds // 2)]
    for number, critic in enumerate(debate.critics):
        shares.append((critic, (rounds // 2 + number) // len(debate.critics)))
    parts = [_part(who, calls, calls * size, known) for who, calls in shares if calls]
    said = sum(part.output for part in parts) * (rounds - 1) // (2 * rounds)
    return [replace(part, input=part.input + part.calls * said) for part in parts]


def _part(who: AgentChoice, calls: int, prompt_bytes: int, known: CapabilitiesView) -> Part:
    model, most, system = who.model or known.default_model, who.max_tokens, len(who.system.encode())
    if who.agent:
        agent = known.agent_facts.get(who.agent)
        if agent is None:
            raise UnknownModel(no_such("agent", who.agent, known.agents), status=404)
        model, most, system = agent.model or known.default_model, agent.max_tokens, agent.system_bytes
    facts = known.model_facts.get(model) or known.model_facts.get(ANY_MODEL)
    if facts is None:
        raise UnknownModel(no_such("model", model, known.models), status=404)
    messages = 2 if system else 1
    tokens = round(PRIOR_RATIO * (prompt_bytes + calls * system) + MESSAGE_TOKENS * messages * calls)
    return Part(model, facts, calls, tokens, calls * (facts.max_output if most is None else most))


def _cost(parts: Sequence[Part]) -> int | None:
    total = 0
    for part in parts:
        if part.facts.input_price is None or part.facts.output_price is None:
            return None
        total += part.input * part.facts.input_price + part.output * part.facts.output_price
    return -(-total // MILLION)


def _waits(parts: Sequence[Part], queue: QueueView) -> Iterator[tuple[float, str]]:
    """For each limit that is known how long it makes the job last, in seconds, and its name."""
    for backend in queue.backends:
        here = [part for part in parts if part.facts.backends[:1] == (backend.name,)]
        needs = {
            "requests": sum(part.calls for part in here),
            "input_tokens": sum(part.input for part in here),
            "output_tokens": sum(part.output for part in here),
            "total_tokens": sum(part.input + part.output for part in here),
        }
        for name, (amount, per) in _limits(backend).items():
            need = needs.get(name.partition("/")[0], 0)
            if need:
                yield (
                    need / amount * per if per <= PACED_SECONDS else (need - 1) // amount * per,
                    f"{backend.name} {name}",
                )


def _limits(backend: BackendView) -> dict[str, tuple[float, float]]:
    """The limits that all endpoints have, added up: an endpoint without one lets through what others do not."""
    sums: dict[str, list[tuple[float, float]]] = {}
    for endpoint in backend.endpoints:
        for limit in endpoint.limits:
            if limit.per > 0:
                sums.setdefault(limit.name, []).append((limit.amount, limit.per))
    return {
        name: (sum(amount for amount, _ in each), each[0][1])
        for name, each in sums.items()
        if len(each) == len(backend.endpoints)
    }


def _stops(
    request: JobRequest, calls: int, tokens: int, cost: int | None, tightest: tuple[float, str] | None
) -> Iterator[str]:
    budget = request.budget
    if budget.rounds is not None and calls > budget.rounds:
        yield f"rounds: {budget.rounds:,} of {calls:,}"
    if budget.tokens is not None and tokens > budget.tokens:
        yield f"tokens: {budget.tokens:,} of up to {tokens:,}"
    if budget.micro_dollars is not None and cost is not None and cost > budget.micro_dollars:
        yield f"dollars: {budget.micro_dollars / MILLION:g} of up to {cost / MILLION:g}"
    if budget.timeout is not None and tightest is not None and tightest[0] > budget.timeout:
        yield f"timeout: {budget.timeout:g} s of {tightest[0]:,.0f} s"


def _assumptions(
    request: JobRequest, volume: Volume, known: CapabilitiesView, parts: Sequence[Part], queue: QueueView
) -> Iterator[str]:
    of = "round" if request.debate is not None else "input" if request.takes_inputs else "subtask"
    yield f"one call for each {of}, and none is tried again"
    tools = sum(known.agent_facts[name].tools for name in _agents(request))
    if tools:
        yield "an agent with tools makes a call more for each round of them, which is not in these numbers"
    yield f"{1 / PRIOR_RATIO:g} bytes of a prompt are a token, and every answer is as long as it may be"
    if request.planner is not None:
        yield f"the planner makes {many(request.planner.most, 'subtask')}, as many as it may, of {SUBTASK_BYTES} bytes"
    if volume.unreadable:
        yield f"{many(volume.unreadable, 'input')} cannot be read, and will have failed without a call"
    if request.debate is not None:
        yield f"the debate has all its {request.debate.most_rounds} rounds, and each reads all that was said before"
    elif request.gather.policy != "settle":
        yield f"the job runs all its items, though {request.gather.policy} may close it before"
    mine = {part.facts.backends[0] for part in parts if part.facts.backends}
    here = [backend for backend in queue.backends if backend.name in mine]
    if any(not backend.endpoints for backend in here):
        yield "the backend's limits are not known: they are shown to the key of an operator only"
    waiting = sum(backend.queued + backend.in_flight for backend in here)
    yield f"nobody else uses the backend; {many(waiting, 'call')} wait or are under way there now"
    yield "the time is what its limits let through; how long the last answers take themselves comes on top"


def _agents(request: JobRequest) -> set[str]:
    """The agents by name that take part."""
    others = [part.who for part in (request.planner, request.synthesis) if part is not None and part.who is not None]
    critics = () if request.debate is None else request.debate.critics
    return {who.agent for who in (request.first, *others, *critics) if who.agent}
