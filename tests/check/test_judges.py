"""Every question has answers that mean yes, answers that mean no, and answers that mean neither."""

import pytest

from agents.errors import Refused, Throttled, Unavailable
from agents.messages import Message, ModelRequest
from orchestrator.check import probes
from orchestrator.check.answer import Answer
from tests.check.asked import answer

NOT_TAKEN = Refused("it said 400", status=400, code="invalid_request")
FAILED = Unavailable("it said 500", status=500)
BUSY = Throttled("it said 429")
USED_UP = Throttled("it said 429", exhausted=frozenset({"requests"}))
LONG = ModelRequest("m-1", (Message("user", "x" * 5_000),), max_tokens=16, seed=7)
UNSEEDED = ModelRequest("m-1", (Message("user", "x"),), max_tokens=48)

CASES: list[tuple[str, str, dict[str, list[Answer]]]] = [
    ("answers", "ok", {"greeting": [answer("mill")]}),
    ("answers", "no", {"greeting": [answer(error=FAILED)]}),
    ("system message", "ok", {"greeting": [answer("Mill.")]}),
    ("system message", "no", {"greeting": [answer("Hello to you")]}),
    ("system message", "unclear", {"greeting": [answer("", finish="length")]}),
    ("streaming", "ok", {"story": [answer("a story")]}),
    ("streaming", "no", {"story": [answer("a story", pieces=1, reads=1, first=2.0)]}),
    ("streaming", "no", {"story": [answer("a story", pieces=40, reads=2, first=1.99)]}),
    ("streaming", "unclear", {"story": [answer("a story", pieces=40, reads=1, first=0.01, ended=0.01)]}),
    ("streaming", "ok", {"story": [answer("a story", pieces=40, reads=2, first=0.19, ended=0.2)]}),
    ("streaming", "ok", {"story": [answer(error=BUSY), answer("a story")]}),
    ("streaming", "unclear", {"story": [answer(error=FAILED)]}),
    ("usage", "ok", {"story": [answer("a story")]}),
    ("usage", "no", {"story": [answer("a story", output=None)]}),
    ("usage", "no", {"story": [answer("a story", given=None)]}),
    ("max_tokens", "ok", {"story": [answer("a story", finish="length", output=48)]}),
    ("max_tokens", "no", {"story": [answer("a story", finish="stop", output=300)]}),
    ("max_tokens", "no", {"story": [answer("a story", overlong=True)]}),
    ("max_tokens", "unclear", {"story": [answer("a story", finish="stop", output=30)]}),
    ("two at once", "ok", {"story": [answer("a"), answer("b", first=0.6, ended=2.1)]}),
    ("two at once", "no", {"story": [answer("a"), answer("b", first=2.4, ended=4.0)]}),
    ("two at once", "no", {"story": [answer("a"), answer(error=BUSY)]}),
    ("two at once", "unclear", {"story": [answer("a"), answer(error=USED_UP)]}),
    ("two at once", "unclear", {"story": [answer("a", ended=0.01), answer("b", ended=0.01)]}),
    ("two at once", "unclear", {"story": [answer("a")]}),
    ("same again", "ok", {"story": [answer("a"), answer("a")]}),
    ("same again", "no", {"story": [answer("a"), answer("b")]}),
    ("same again", "no", {"story": [answer("a", request=UNSEEDED), answer("a", request=UNSEEDED)]}),
    (
        "same again",
        "ok",
        {"story": [answer("a"), answer(error=BUSY)], "long": [answer("6")], "long_again": [answer("6")]},
    ),
    ("same again", "unclear", {"story": [answer("a"), answer(error=BUSY)]}),
    ("tool call", "ok", {"tool": [answer(calls=[("water_level", '{"gate": "north"}')], finish="tool_calls")]}),
    ("tool call", "no", {"tool": [answer(calls=[("water_level", '{"door": 1}')], finish="tool_calls")]}),
    ("tool call", "no", {"tool": [answer(calls=[("other", '{"gate": "north"}')], finish="tool_calls")]}),
    ("tool call", "no", {"tool": [answer(calls=[("water_level", '{"gate"')], finish="tool_calls")]}),
    ("tool call", "no", {"tool": [answer("It is high.")]}),
    ("tool call", "no", {"tool": [answer(error=NOT_TAKEN)]}),
    ("tool call", "unclear", {"tool": [answer("Let me think", finish="length")]}),
    ("tool result", "ok", {"tool_result": [answer("118 centimetres")]}),
    ("tool result", "no", {"tool_result": [answer(error=NOT_TAKEN)]}),
    ("tool result", "unclear", {"tool_result": [answer("It is high.")]}),
    ("tool result", "unclear", {"tool_result": [answer(calls=[("water_level", "{}")], finish="tool_calls")]}),
    ("JSON schema", "ok", {"schema": [answer('{"safe": false, "state": "closed"}')]}),
    ("JSON schema", "no", {"schema": [answer('{"safe": false, "state": "ajar"}')]}),
    ("JSON schema", "no", {"schema": [answer('{"safe": false, "state": "open", "more": 1}')]}),
    ("JSON schema", "no", {"schema": [answer("The gate is open.")]}),
    ("JSON schema", "no", {"schema": [answer(error=NOT_TAKEN)]}),
    ("JSON schema", "unclear", {"schema": [answer('{"safe": ', finish="length")]}),
    ("long input", "ok", {"long": [answer("6", given=1_250, request=LONG)]}),
    ("long input", "no", {"long": [answer("6", given=512, request=LONG)]}),
    ("long input", "no", {"long": [answer(error=NOT_TAKEN)]}),
    ("long input", "unclear", {"long": [answer("6", given=None, request=LONG)]}),
    ("cached input", "ok", {"long": [answer("6")], "long_again": [answer("6", given=1_250, cached=1_024)]}),
    ("cached input", "no", {"long": [answer("6")], "long_again": [answer("6", cached=0)]}),
    ("cached input", "no", {"long": [answer("6")], "long_again": [answer("6")]}),
    ("errors", "ok", {"unknown_model": [answer(error=Refused("no", status=404, code="model_not_found"))]}),
    ("errors", "no", {"unknown_model": [answer(error=Refused("no", status=404))]}),
    ("errors", "no", {"unknown_model": [answer("Hello")]}),
    ("errors", "unclear", {"unknown_model": [answer(error=FAILED)]}),
]


@pytest.mark.parametrize(("name", "state", "answers"), CASES, ids=[f"{n}-{s}-{i}" for i, (n, s, _) in enumerate(CASES)])
def test_an_answer_means(name: str, state: str, answers: dict[str, list[Answer]]) -> None:
    """Each answer is judged as what it is, in a sentence without an end mark."""
    (probe,) = [one for one in (probes.REACHABLE, *probes.PROBES) if one.name == name]
    judgement = probe.judge(answers)
    assert judgement.state == state, judgement.says
    assert judgement.says
    assert not judgement.says.endswith(".")


def test_every_question_can_be_answered_either_way() -> None:
    """The cases above have a yes and a no for each probe."""
    for probe in (probes.REACHABLE, *probes.PROBES):
        assert {"ok", "no"} <= {state for name, state, _ in CASES if name == probe.name}, probe.name


def test_a_quote_is_short_and_printable() -> None:
    """What a model said is quoted in one line, cut, without control characters."""
    judgement = probes.judges.follows_system({"greeting": [answer("\x1b[31mred\n" + "x" * 500)]})
    assert "\x1b" not in judgement.says
    assert "\n" not in judgement.says
    assert len(judgement.says) < 200
