"""What is remembered of each run between its calls, in bounded memory.

A run is an agent at work on one task: its calls come one after another, with tools and thinking between them. Three
facts about the earlier calls help the next one: how long they were in flight (its place in its job), the input of its
last call (most of which the provider still has in a cache), and the endpoint that served it (whose cache that is).
All three are hints. A run that falls out of the table starts anew, at no cost but some precision.
"""

RUNS_KEPT = 65_536


class RunState:
    """The memory of one run. `attained`: seconds in flight; `previous_input`: tokens, None before the first call."""

    __slots__ = ("attained", "endpoint", "previous_input")

    def __init__(self) -> None:
        self.attained = 0.0
        self.previous_input: float | None = None
        self.endpoint: int | None = None

    def __repr__(self) -> str:
        return f"<RunState attained={self.attained:.0f} previous_input={self.previous_input} endpoint={self.endpoint}>"


class RunTable:
    """States of the `kept` runs that were used last. Calls without a run's name have no state."""

    __slots__ = ("_kept", "_states")

    def __init__(self, kept: int = RUNS_KEPT) -> None:
        self._kept = kept
        self._states: dict[tuple[str, str, str], RunState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def find(self, tenant: str, job: str, run: str) -> RunState | None:
        """The run's state if it is known, else None. Does not count as a use."""
        return self._states.get((tenant, job, run)) if run else None

    def use(self, tenant: str, job: str, run: str) -> RunState | None:
        """The run's state, new if it was not known; None if the run has no name."""
        if not run:
            return None
        flow = (tenant, job, run)
        states = self._states
        state = states.get(flow)
        if state is None:
            state = RunState()
            if len(states) >= self._kept:
                del states[next(iter(states))]
        elif 2 * len(states) < self._kept:
            # nobody is near to being forgotten, so the order of use does not matter yet
            return state
        else:
            # a dict keeps the order of insertion: taking out and putting back makes this run the youngest
            del states[flow]
        states[flow] = state
        return state

    def drop(self, tenant: str, job: str, run: str) -> None:
        """Forgets a run that has ended."""
        self._states.pop((tenant, job, run), None)
