"""The order of a check: who is asked what, and what the report says in the end.

Every endpoint gets the greeting; the first that answers it gets the rest. A request that fails is a finding, and the
next is sent; only a refused key, a connection that does not stand, or a greeting that nobody answers ends the check.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import trio
from msgspec import Struct

from agents.errors import Refused, Unavailable
from agents.messages import Usage
from agents.money import Price
from orchestrator.backends.base import Backend
from orchestrator.backends.openai.backend import OpenAIBackend
from orchestrator.check import advice, judges, probes
from orchestrator.check.answer import Answer
from orchestrator.check.probes import Ask, Probe
from orchestrator.check.report import CheckReport, Finding, LimitSeen, Verdict
from orchestrator.check.sender import Sender, Step

MOST_REQUESTS = 10
KEPT_FOR_THE_REST = 3


class Subject(Struct, frozen=True, kw_only=True):
    """What is checked: a backend's endpoints, one model of it, and what the model's tokens cost where that is known.

    `spent` requests were sent before the check (a list of models) and count among the ten. `has_own_names` says that
    the endpoints give every unknown model a name of their own, so that asking for one would say nothing.
    """

    backend: str
    model: str
    endpoints: tuple[Backend, ...]
    price: Price | None = None
    spent: int = 0
    has_own_names: bool = False


class _Unusable(Exception):
    """The backend cannot be used; the message says why."""


class Check:
    """One check. `report` can be asked at any time, also after the run was cancelled. `timeout` is per request."""

    def __init__(
        self, subject: Subject, *, timeout: float = 60.0, on_step: Callable[[Step], None] = lambda _: None
    ) -> None:
        self._subject = subject
        self._sender = Sender(
            subject.endpoints, sent=subject.spent, most=MOST_REQUESTS, timeout=timeout, on_step=on_step
        )
        self._started = trio.current_time()
        self._greetings: dict[str, Answer] = {}
        self._answers: dict[str, Sequence[Answer]] = {}
        self._endpoint = ""
        self._done = False
        self._unusable = ""

    async def run(self) -> CheckReport:
        """Sends the requests and returns the report."""
        try:
            await self._greet_all()
            while one := self._next():
                request = one.build(self._subject.model, self._answers)
                found = await self._sender.send(self._endpoint, one, request)
                self._answers[one.name] = found
                _stop_if_shut(found)
            await self._try_other_field()
            self._done = True
        except _Unusable as unusable:
            self._done, self._unusable = True, str(unusable)
        finally:
            await self._sender.aclose()
        return self.report()

    async def _greet_all(self) -> None:
        greeting = probes.GREETING
        for name in list(self._sender.backends):
            if self._endpoint and self._sender.left <= KEPT_FOR_THE_REST:
                return
            if self._sender.left < 1:
                break
            request = greeting.build(self._subject.model, {})
            (answer,) = await self._sender.send(name, greeting, request)
            self._greetings[name] = answer
            if answer.error is None and not self._endpoint:
                self._endpoint = name
                self._answers[greeting.name] = (answer,)
        if not self._endpoint:
            errors = [answer.error for answer in self._greetings.values() if answer.error is not None]
            hints = [hint for name, one in self._greetings.items() if (hint := self._hint(name, one))]
            raise _Unusable("; ".join(_once([*(error.message for error in errors), *hints])))

    def _hint(self, endpoint: str, answer: Answer) -> str:
        """What a 404 most often means; its text is the server's, and says nothing of what was configured here."""
        backend = self._sender.backends[endpoint]
        if answer.error is None or answer.error.status != 404 or not isinstance(backend, OpenAIBackend):
            return ""
        base = backend.config.base_url.rstrip("/")
        return "" if base.endswith("/v1") else f"the address {base} may lack /v1 at its end"

    def _next(self) -> Ask | None:
        """The next request, once those are left out that there are too few left for; None if there is none."""
        dropped = set(self._answers) | ({"unknown_model"} if self._subject.has_own_names else set())
        for name in ("", *probes.LEAST_NEEDED):
            dropped.add(name)
            rest = [one for one in probes.ASKS if one.name not in dropped]
            if rest and sum(one.at_once for one in rest) <= self._sender.left:
                return rest[0]
        return None

    async def _try_other_field(self) -> None:
        """Where `max_tokens` bounded nothing, its other name may."""
        stories = self._answers.get("story", ())
        change = probes.BOUND_OTHERWISE
        if not stories or self._sender.left < 1 or not self._sender.can(self._endpoint, change):
            return
        if judges.honours_max_tokens(self._answers).state == "no":
            await self._sender.otherwise(
                self._endpoint,
                "the story",
                change,
                stories[0].request,
                works=lambda found: judges.honours_max_tokens({"story": found}).state == "ok",
            )

    def report(self) -> CheckReport:
        """What is known by now."""
        sender, price = self._sender, self._subject.price
        usage = Usage()
        for answer in sender.all:
            usage += answer.usage or Usage()
        findings = (*self._reached(), *self._found())
        verdict, message = self._verdict(findings)
        settings = advice.settings(sender.backends.get(self._endpoint), self._answers)
        return CheckReport(
            backend=self._subject.backend,
            model=self._subject.model,
            verdict=verdict,
            message=message,
            findings=findings,
            limits=_limits(sender.all),
            settings=(*sender.settings, *settings),
            requests=sender.sent,
            unreported=sum(1 for a in sender.all if a.first is not None and (a.usage is None or a.usage.total is None)),
            usage=usage,
            cost_micro=price.cost(usage) if price is not None else None,
            seconds=trio.current_time() - self._started,
        )

    def _reached(self) -> list[Finding]:
        found = []
        for name in self._sender.backends:
            answer = self._greetings.get(name)
            if answer is not None:
                found.append(_finding(probes.REACHABLE, name, {"greeting": (answer,)}))
            elif self._done and self._endpoint:
                found.append(_not_asked(probes.REACHABLE, name, f"not asked, see --endpoint {name}"))
        return found

    def _found(self) -> list[Finding]:
        if not self._endpoint:
            return []
        found = []
        for probe in probes.PROBES:
            if probe.asks[0] in self._answers:
                found.append(_finding(probe, self._endpoint, self._answers))
            elif self._done and not self._unusable:
                why = "the ten requests were used up"
                if probe.asks == ("unknown_model",) and self._subject.has_own_names:
                    why = "the configuration gives every unknown model a name of its own"
                found.append(_not_asked(probe, self._endpoint, f"not asked: {why}"))
        return found

    def _verdict(self, findings: Sequence[Finding]) -> tuple[Verdict, str]:
        if not self._done:
            return "unfinished", "the check was interrupted"
        if self._unusable:
            return "unusable", self._unusable
        missing = _once(finding.name for finding in findings if finding.matters and finding.state == "no")
        if missing:
            return "incomplete", f"something important is missing: {', '.join(missing)}"
        return "usable", ""


def _finding(probe: Probe, endpoint: str, answers: Mapping[str, Sequence[Answer]]) -> Finding:
    judgement = probe.judge(answers)
    shown = next((answer for answer in answers[probe.asks[0]] if answer.error is None), None)
    usage = shown.usage if shown is not None else None
    return Finding(
        name=probe.name,
        endpoint=endpoint,
        state=judgement.state,
        says=judgement.says,
        matters=probe.matters,
        first_token=shown.first_token if shown is not None else None,
        tokens_per_second=shown.tokens_per_second if shown is not None else None,
        input_tokens=usage.all_input if usage is not None else None,
        output_tokens=usage.output if usage is not None else None,
    )


def _not_asked(probe: Probe, endpoint: str, why: str) -> Finding:
    return Finding(name=probe.name, endpoint=endpoint, state="unclear", says=why, matters=probe.matters)


def _limits(answers: Iterable[Answer]) -> tuple[LimitSeen, ...]:
    """Each limit of each endpoint as headers told of it last."""
    last: dict[tuple[str, str], LimitSeen] = {}
    for answer in answers:
        for reading in answer.readings:
            last[answer.endpoint, reading.kind] = advice.limit_seen(answer.endpoint, reading)
    return tuple(last.values())


def _stop_if_shut(answers: Iterable[Answer]) -> None:
    """Raises `_Unusable` where the next request would fare no better."""
    for answer in answers:
        error = answer.error
        refused = isinstance(error, Refused) and error.endpoint_fault
        if error is not None and (refused or (isinstance(error, Unavailable) and not error.worked)):
            raise _Unusable(error.message)


def _once(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
