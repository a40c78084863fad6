"""What a request asks of the simulated model beyond the words of `agents.messages`: each dialect has some of it."""

from msgspec import Struct

from agents.messages import Delta


class Wishes(Struct, frozen=True):
    """Everything has the value of a request that does not ask.

    `choices`: answers to one request. `thinking`: the most tokens that the model thinks aloud before its answer, 0 for
    none. `parallel`: whether one answer may call several tools. `image_tokens`: what the images of the request count
    as input. `cache_upto`: how many leading messages are to be kept in the prefix cache; None leaves that to the
    provider, which then keeps all and reports no writes.
    """

    choices: int = 1
    thinking: int = 0
    parallel: bool = True
    image_tokens: int = 0
    cache_upto: int | None = None


NONE = Wishes()


class ChoiceDelta(Delta, frozen=True):
    """A delta of one of several answers; plain deltas are of the first, whose number is 0."""

    choice: int = 0


def choice_of(delta: Delta) -> int:
    """Which of a request's answers a delta belongs to."""
    return delta.choice if isinstance(delta, ChoiceDelta) else 0
