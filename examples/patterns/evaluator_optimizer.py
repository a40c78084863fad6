"""Evaluator and optimizer: one agent writes, another judges, and the first writes again until nothing is left to say.

What a program can check is checked by the program, and before a model is asked. A verdict that cannot be read is no
approval. Both share one budget, and the rounds are bounded: the last text is kept, and said to be unapproved.
A simulated backend says what the script does; with `--local` the small model of this machine answers as it likes.
"""

import sys

import msgspec
import trio
from _model import NoAnswer, answer, model_for, only

from agents.amounts import NOTHING, Limits
from agents.budget import Scope
from agents.messages import Message
from agents.port import ModelPort
from agents.scripted import say
from agents.spec import AgentSpec

ROUNDS = 4
MOST_LETTERS = 50


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the text is good, and if not, what has to change."""

    good: bool
    change: str = ""


WRITER = AgentSpec(
    name="writer", model="any", system="Write a slogan. Answer with nothing but the slogan.", max_tokens=60
)
JUDGE = AgentSpec(
    name="judge",
    model="any",
    system='Judge the slogan. Answer with nothing but JSON: {"good": true or false, "change": "what to change"}',
    max_tokens=120,
    temperature=0,
    response_format=only(Verdict),
)


async def judge(model: ModelPort, text: str, budget: Scope) -> Verdict:
    """The verdict on a text; one that cannot be read asks for another text."""
    if len(text) > MOST_LETTERS:
        return Verdict(False, f"at most {MOST_LETTERS} letters, not {len(text)}")
    try:
        return msgspec.json.decode(await answer(model, JUDGE, text, budget=budget), type=Verdict)
    except (NoAnswer, msgspec.DecodeError):
        return Verdict(False, "say it more clearly")


async def improve(model: ModelPort, subject: str, budget: Scope) -> tuple[str, list[Verdict]]:
    """The last text, and the verdict on each that there was. Raises `NoAnswer`."""
    turns = [Message("user", subject)]
    verdicts: list[Verdict] = []
    while True:
        text = await answer(model, WRITER, tuple(turns), budget=budget)
        verdicts.append(await judge(model, text, budget))
        print(f"  {text} -> {'good' if verdicts[-1].good else verdicts[-1].change}")
        if verdicts[-1].good or len(verdicts) == ROUNDS:
            return text, verdicts
        turns += [Message("assistant", text), Message("user", f"Write it again: {verdicts[-1].change}.")]


DRAFTS = (
    "Headrace leads the calls of all your many agents to one scarce model backend",
    "Headrace: queues done right",
    "Headrace: a steady stream",
    "Headrace: many streams, one wheel",
)


def script(messages: tuple[Message, ...]) -> Message:
    """What the model says next, as a pure function of the transcript."""
    last = messages[-1].content
    if messages[0].content == WRITER.system:
        return say(DRAFTS[sum(message.role == "assistant" for message in messages)])
    if last == DRAFTS[1]:
        return say("Nice, but dry.")
    good = "wheel" in last
    return say(msgspec.json.encode(Verdict(good, "" if good else "name the wheel")).decode())


async def main(local: bool) -> None:
    budget = Scope("slogan", Limits(tokens=50_000))
    async with model_for(script, local=local) as model:
        try:
            text, verdicts = await improve(model, "A slogan for Headrace, in which water is named.", budget)
        except NoAnswer as error:
            text, verdicts = f"no text: {error}", []
    approved = bool(verdicts) and verdicts[-1].good
    print(f"=> {text} ({'approved' if approved else 'not approved'}, {budget.used.tokens} tokens)")
    assert budget.reserved == NOTHING
    if not local:
        assert approved
        assert text == DRAFTS[3]
        assert [verdict.change for verdict in verdicts] == [
            "at most 50 letters, not 76",
            "say it more clearly",
            "name the wheel",
            "",
        ]


if __name__ == "__main__":
    trio.run(main, "--local" in sys.argv)
