"""One frozen event per transition of a call; every instrument is a small hook on these.

A call's way: `queued`, then per attempt `started` and `first_token` (if there is one); then `finished` with the answer,
or `attempt_failed` and either `retrying` (and `started` again) or `finished` with an error. A call that is not admitted
goes straight to `finished`, which comes exactly once for every call that reached an owner.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

from msgspec import Struct

from agents.messages import Usage
from agents.port import Flow, Held, Priority

TransitionKind = Literal["queued", "started", "first_token", "attempt_failed", "retrying", "finished"]


class Transition(Struct, frozen=True, gc=False):
    """What happened to a call, when, and what it had cost so far. Times and durations are in seconds.

    `at` is on the owner's clock. `outcome` is `ok` or the error's `kind` (on `attempt_failed`, `retrying` and
    `finished`). `waited` is the time in queue since it was last eligible (on `started`) or in all (on `finished`);
    `seconds` the time since dispatch (`first_token`, `attempt_failed`) or since arrival (`finished`).
    `held_by` names what the call last waited for: a limit, `fair_order`, or nothing. `waits` says for how long it has
    waited for what so far, in the same words and `retry`, most first; it is there on `started` and `finished` of calls
    that waited for more than a moment. `model` is what the backend calls
    it, `key` the call's own (`agents.port.Receipt`). `usage` is as the provider reported it for this attempt (on
    `attempt_failed`, and on `finished` with the answer), None where nothing was reported. `worked` says whether a
    provider may have worked on the call by now; `input` and `output` are the tokens that limits count for it before
    more is known, upper bounds; `held` is what it holds of its budgets.
    """

    kind: TransitionKind
    at: float
    backend: str
    flow: Flow
    priority: Priority
    endpoint: str = ""
    attempt: int = 0
    outcome: str = ""
    waited: float = 0.0
    seconds: float = 0.0
    held_by: str = ""
    usage: Usage | None = None
    model: str = ""
    key: str = ""
    worked: bool = False
    input: int = 0
    output: int = 0
    held: Held | None = None
    waits: tuple[tuple[str, float], ...] = ()


ALL_KINDS: tuple[TransitionKind, ...] = get_args(TransitionKind)

Hook = Callable[[Transition], None]
"""A sink of transitions: fast, synchronous, and it never raises.

A hook with an attribute `wants`, a set of kinds, is called for those only; a transition nobody wants is never made.
"""


def hooks_by_kind(hooks: Iterable[Hook]) -> Mapping[TransitionKind, tuple[Hook, ...]]:
    """For each kind the hooks that want it, in the order given."""
    wanted = [(hook, getattr(hook, "wants", ALL_KINDS)) for hook in hooks]
    return {kind: tuple(hook for hook, kinds in wanted if kind in kinds) for kind in ALL_KINDS}
