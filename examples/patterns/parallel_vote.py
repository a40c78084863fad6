"""Parallel vote: several agents judge the same thing at once, each from its own side, and the majority decides.

Nobody is waited for whose vote cannot change the verdict any more: the others are cancelled, and what they had
reserved of the shared budget comes back. An answer that is no vote, or a run that failed, counts for neither
side.
A simulated backend says what the script does; with `--local` the small model of this machine answers as it likes.
"""

import sys
from collections import Counter
from typing import Literal

import msgspec
import trio
from _model import NoAnswer, answer, model_for, only

from agents.amounts import NOTHING, Limits
from agents.budget import Scope
from agents.messages import Message
from agents.port import ModelPort
from agents.scripted import say
from agents.spec import AgentSpec

SIDES = ("an attacker", "a new colleague", "the operator at night", "a lawyer", "the author of the tests")
CHANGE = "query = f\"SELECT * FROM users WHERE name = '{name}'\""


class Vote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    good: Literal["yes", "no"]


def voter(side: str) -> AgentSpec:
    return AgentSpec(
        name="voter",
        model="any",
        system=f'Is the change good, as {side} would see it? Answer with nothing but JSON: {{"good": "yes" or "no"}}',
        max_tokens=30,
        response_format=only(Vote),
    )


async def verdict_on(model: ModelPort, change: str, budget: Scope) -> tuple[str, Counter[str]]:
    """The verdict, "open" where neither side got more than half of all votes, and the votes that were counted."""
    votes: Counter[str] = Counter()
    enough = len(SIDES) // 2 + 1

    async def vote(side: str) -> None:
        try:
            said = msgspec.json.decode(await answer(model, voter(side), change, budget=budget), type=Vote)
        except (NoAnswer, msgspec.DecodeError):
            return
        votes[said.good] += 1
        if votes[said.good] >= enough:
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for side in SIDES:
            nursery.start_soon(vote, side)
    return next((word for word, count in votes.items() if count >= enough), "open"), votes


def script(messages: tuple[Message, ...]) -> Message:
    """What the model says next, as a pure function of the transcript."""
    if "a new colleague" in messages[0].content:
        return say('{"good": "yes"}')
    return say("It depends." if "a lawyer" in messages[0].content else '{"good": "no"}')


async def main(local: bool) -> None:
    budget = Scope("vote", Limits(tokens=20_000))
    async with model_for(script, local=local) as model:
        verdict, votes = await verdict_on(model, CHANGE, budget)
    counted = ", ".join(f"{count} {word}" for word, count in votes.items())
    print(f"{CHANGE}\n  good? {verdict} ({counted or 'no vote'}; {budget.used.tokens} tokens)")
    assert budget.reserved == NOTHING
    if not local:
        assert verdict == "no"
        assert votes["no"] == 3


if __name__ == "__main__":
    trio.run(main, "--local" in sys.argv)
