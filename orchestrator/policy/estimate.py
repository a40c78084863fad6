"""How large a call will be, learned from what the provider reported of calls before it; one estimator per backend.

**Input.** Tokens are taken as `ratio * bytes + MESSAGE_TOKENS * messages`. The ratio is that of two decayed sums,
tokens over bytes, so that large calls, whose errors matter, weigh more than small ones. `cv` is the root of the decayed
sum of squared errors over that of squared estimates, each error taken before the call taught anything: it is what the
margin of `limits`, 4 * cv * sqrt(sum of e^2), asks for, and it contains the bias as well as the spread. Both start from
a prior worth two calls: 0.25 tokens a byte (English text under byte-pair encodings has about four characters a token)
and a cv of 0.3. The cv never falls below 0.01: calls that were all alike say little of the next one that is not.

**Output.** `(n * own average + 2 * the backend's average) / (n + 2)`, n the key's calls up to 10: an empirical Bayes
shrinkage towards the backend's mean, after B. Efron and C. Morris, "Stein's Paradox in Statistics" (1977). A key with
little history is predicted like everybody; one with more, by itself. Averages move by 1/n, later by 0.1.

**Cache.** The next call of a run repeats its previous input and adds to it, so a backend with a prefix cache reads
about that much from it. The share that comes true is learned, and stays 0 until the backend reports a cached token.

Known limits: unknown usage teaches nothing, and outputs cut off by `max_tokens` are averaged as they are. A call of
another language or of images is estimated like the rest until enough of them were seen. Money and accounting never use
these numbers.
"""

import math
from collections.abc import Hashable

from msgspec import Struct

from agents.messages import Usage
from orchestrator.policy.checks import require

PRIOR_RATIO = 0.25
PRIOR_CV = 0.3
MIN_CV = 0.01
PRIOR_OUTPUT = 256.0
PRIOR_CALLS = 2
MESSAGE_TOKENS = 4.0
"""What a chat template adds around one message, in tokens."""

DECAY = 0.98
SMOOTHING = 0.1
STEADY = round(1 / SMOOTHING)
OWN_CALLS = 10
KEYS = 4096


class ServiceWeights(Struct, frozen=True):
    """The service that a token is worth, by type. Raises `InvalidLimits` for a negative or infinite weight."""

    w_in: float = 1.0
    w_cached: float = 0.1
    w_out: float = 2.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            require(f"weights.{name}", getattr(self, name), at_most=1e9)

    def cost(self, input: float, cached: float, output: float) -> float:
        """Service of a call: `input` are the tokens not read from a cache, `cached` those that were."""
        return self.w_in * input + self.w_cached * cached + self.w_out * output


class Average:
    """A running mean that becomes an exponential one: each value moves it by 1/n, and never by less than SMOOTHING."""

    __slots__ = ("n", "value")

    def __init__(self) -> None:
        self.n = 0
        self.value = 0.0

    def add(self, value: float) -> None:
        self.n = n = self.n + 1
        self.value += (value - self.value) * (1 / n if n < STEADY else SMOOTHING)


class Estimator:
    """Sizes of one backend's calls, in tokens. Remembers the `keys` flows it heard of last (outputs are per key)."""

    def __init__(self, *, keys: int = KEYS) -> None:
        self._keys = keys
        self._input_calls = 0
        self._tokens = 0.0
        self._bytes = 0.0
        self._squared_errors = 0.0
        self._squared_estimates = 0.0
        self._ratio = PRIOR_RATIO
        self._cv = PRIOR_CV
        self._outputs: dict[Hashable, Average] = {}
        self._all_outputs = Average()
        self._hits = Average()

    @property
    def ratio(self) -> float:
        """Tokens per byte of input, template aside."""
        return self._ratio

    @property
    def cv(self) -> float:
        """Standard deviation of an input estimate over the estimate."""
        return self._cv

    def input(self, bytes: int, messages: int) -> tuple[float, float]:
        """The input of a call of so many bytes in so many messages, and the standard deviation of that estimate."""
        tokens = self._ratio * bytes + MESSAGE_TOKENS * messages
        return tokens, self._cv * tokens

    def output(self, key: Hashable, max_tokens: float) -> float:
        """The output of the next call of `key`, at most `max_tokens`."""
        everybody = self._all_outputs.value if self._all_outputs.n else PRIOR_OUTPUT
        own = self._outputs.get(key)
        if own is None:
            return min(everybody, max_tokens)
        n = min(own.n, OWN_CALLS)
        return min((n * own.value + PRIOR_CALLS * everybody) / (n + PRIOR_CALLS), max_tokens)

    def charged_output(self, key: Hashable, max_tokens: float) -> float:
        """The same as it is charged in the fair order at dispatch: nothing, while nothing is known.

        What an answer takes beyond its charge is charged as it streams. A charge that is too high lifts the virtual
        time, which never goes back, and whoever comes next would wait until the others have used up what they got back.
        """
        return self.output(key, max_tokens) if self._all_outputs.n else 0.0

    def cached(self, previous_input: float | None, input: float) -> float:
        """How much of `input` will be read from a cache, after a call of the same run with `previous_input`."""
        return 0.0 if previous_input is None else self._hits.value * min(previous_input, input)

    def observe(
        self, *, key: Hashable, bytes: int, messages: int, usage: Usage, previous_input: float | None = None
    ) -> None:
        """Learns from a call that ended. `previous_input` is that of the run's call before, None if there was none."""
        whole = usage.all_input
        if whole is not None:
            self._learn_input(whole, bytes, messages)
            if usage.cached is not None:
                self._learn_hit(usage.cached, min(previous_input or 0.0, whole))
        if usage.output is not None:
            self._all_outputs.add(usage.output)
            self._own_outputs(key).add(usage.output)

    def _own_outputs(self, key: Hashable) -> Average:
        """The key's average, the youngest of all from now on; the oldest is forgotten where there are too many."""
        outputs = self._outputs
        own = outputs.get(key)
        if own is None:
            own = Average()
            if len(outputs) >= self._keys:
                del outputs[next(iter(outputs))]
        elif 2 * len(outputs) < self._keys:
            # none is near to being forgotten, so the order does not matter yet
            return own
        else:
            # a dict keeps the order of insertion
            del outputs[key]
        outputs[key] = own
        return own

    def _learn_input(self, whole: int, bytes: int, messages: int) -> None:
        template = MESSAGE_TOKENS * messages
        estimate = self._ratio * bytes + template
        if estimate <= 0:
            return
        self._input_calls += 1
        n = self._input_calls
        self._squared_errors = DECAY * self._squared_errors + (whole - estimate) ** 2
        self._squared_estimates = DECAY * self._squared_estimates + estimate**2
        seen = self._squared_errors / self._squared_estimates
        self._cv = max(MIN_CV, math.sqrt((n * seen + PRIOR_CALLS * PRIOR_CV**2) / (n + PRIOR_CALLS)))
        if bytes > 0:
            self._tokens = DECAY * self._tokens + max(0.0, whole - template)
            self._bytes = DECAY * self._bytes + bytes
            self._ratio = (n * self._tokens / self._bytes + PRIOR_CALLS * PRIOR_RATIO) / (n + PRIOR_CALLS)

    def _learn_hit(self, cached: int, repeated: float) -> None:
        if repeated <= 0 or (cached == 0 and not self._hits.n):
            return
        self._hits.add(min(cached / repeated, 1.0))

    def __repr__(self) -> str:
        learned = f"ratio={self._ratio:.3f} cv={self._cv:.3f} hit={self._hits.value:.2f}"
        return f"<Estimator {learned} keys={len(self._outputs)}>"
