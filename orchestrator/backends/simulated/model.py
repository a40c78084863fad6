"""The simulated model: what it answers, how long that is, how fast it comes.

Everything about an answer is drawn from one random source, seeded by the provider's seed and the request's content, in
a fixed order: the same request gets the same answer, however calls interleave, and a larger `max_tokens` gives the
same answer, only further. Texts are English-looking filler that quotes the question; with tools it calls them, then
answers with what they returned; with a `response_format` it writes a valid instance. A script's words take their place.

A request may fix its own size, which trace replays need: `extra={"x_sim": {"input_tokens": n, "output_tokens": m}}`,
and how many tools its answer calls: `{"tool_calls": k}`.
"""

import hashlib
import json
from collections.abc import Mapping
from random import Random
from typing import Any

from agents.messages import FinishReason, Message, ModelRequest, ToolSpec
from orchestrator.backends.simulated.config import SimConfig
from orchestrator.backends.simulated.plan import Plan
from orchestrator.backends.simulated.schema import instance
from orchestrator.backends.simulated.script import Heads, Script, call_id, spoken
from orchestrator.backends.simulated.tokens import Tokenizer, canonical
from orchestrator.backends.simulated.wishes import NONE, Wishes

_TEXT = (
    "the water runs down from high ground and turns a wheel that grinds corn while people wait for their share "
    "each sack takes its place in line and none goes home empty when the stream is low the miller opens gates "
    "with care and writes every measure in his book so that all may see who had what and when they came"
)
_WORDS = _TEXT.split()
_QUOTED = 12
_SENTENCE = 11
_MOST_CALLS = 128
_STRIDE = 0x9E3779B97F4A7C15
"""What tells the seeds of several answers to one request apart."""
_THOUGHT = 24
"""Tokens of a usual thought."""


class SimModel:
    """Plans answers. It keeps no state: a plan depends on the configuration, the script and the request alone."""

    def __init__(self, config: SimConfig, script: Script | None = None) -> None:
        self._config = config
        self._script = script
        self._tokenizer = Tokenizer(config.exact_tokens)

    def plan(self, request: ModelRequest, wishes: Wishes = NONE) -> Plan:
        """The answer to a request, with its timing. Raises `ValueError` for one that asks for the impossible."""
        plan = self._plan(request, wishes, 0)
        plan.others = [self._plan(request, wishes, choice) for choice in range(1, wishes.choices)]
        return plan

    def _plan(self, request: ModelRequest, wishes: Wishes, choice: int) -> Plan:
        config = self._config
        digest = (_digest(config.seed, request) + choice * _STRIDE) % 2**64
        rng = Random(digest)
        latency, length = config.latency, config.length
        delay = latency.first_token * rng.lognormvariate(0.0, latency.spread)
        rate = latency.output_rate * rng.lognormvariate(0.0, latency.spread)
        wanted = max(1, round(length.tokens * rng.lognormvariate(0.0, length.spread)))
        fixed = _fixed_size(request)
        wanted = fixed.get("output_tokens", wanted)
        max_output = request.max_tokens or length.default_max
        tools = self._tools_to_call(request, wishes, rng)
        heads: Heads = []
        if self._script is not None:
            tokens, heads = spoken(self._script(request.messages), self._tokenizer, digest)
        elif tools:
            tokens, heads = self._tool_tokens(tools, digest, rng)
        elif request.response_format and request.response_format.get("type") in ("json_schema", "json_object"):
            tokens = self._tokenizer.pieces(_structured(request.response_format, rng))
        else:
            tokens = self._text_tokens(request, wanted, max_output, rng)
        stopped_by = None
        if not heads:
            tokens, stopped_by = self._until_stop(tokens, request.stop)
        thought = self._thought(wishes.thinking, digest)
        tokens = thought + tokens
        heads = [(first + len(thought), call_id, name) for first, call_id, name in heads]
        finish: FinishReason = "tool_calls" if heads else "stop"
        if len(tokens) > max_output:
            tokens, finish, stopped_by = tokens[:max_output], "length", None
            heads = [head for head in heads if head[0] < max_output]
        plan = Plan(self.count_input(request, wishes), max_output, tokens, finish, delay, rate, heads)
        plan.thinking = min(len(thought), len(tokens))
        plan.stopped_by, plan.choice = stopped_by, choice
        return plan

    def count_input(self, request: ModelRequest, wishes: Wishes = NONE) -> int:
        """The request's input tokens, as this provider counts them, or as the request itself fixes them."""
        fixed = _fixed_size(request).get("input_tokens")
        return fixed or self._tokenizer.count_input(request) + wishes.image_tokens

    def count_text(self, text: str) -> int:
        """The tokens of a text by itself, as for embeddings."""
        return self._tokenizer.count(text)

    def pieces(self, text: str) -> list[str]:
        """The tokens of a text, in order."""
        return self._tokenizer.pieces(text)

    def _thought(self, bound: int, digest: int) -> list[str]:
        """What the model thinks before it answers; from a source of its own, so that the answer stays the same."""
        if not bound:
            return []
        rng = Random(f"{digest}/thought")
        wanted = min(bound, max(1, round(_THOUGHT * rng.lognormvariate(0.0, self._config.length.spread))))
        words = rng.choices(_WORDS, k=2 * wanted + 2)
        return self._tokenizer.pieces("Let me see: " + " ".join(words))[:wanted]

    def _tools_to_call(self, request: ModelRequest, wishes: Wishes, rng: Random) -> list[ToolSpec]:
        """The tools this answer calls: none, as many as it may, or the one that the request insists on."""
        chance = rng.random()
        choice = request.tool_choice
        if not request.tools or choice == "none":
            return []
        exactly = _exact_calls(request)
        if exactly is not None:
            return [rng.choice(request.tools) for _ in range(exactly)]
        if isinstance(choice, str) or choice is None:
            if choice != "required" and (
                _rounds(request) >= self._config.tool_rounds or chance >= self._config.tool_calls
            ):
                return []
            return [rng.choice(request.tools) for _ in range(self._config.parallel_tools if wishes.parallel else 1)]
        function = choice.get("function")
        named = [t for t in request.tools if isinstance(function, Mapping) and t.name == function.get("name")]
        if not named:
            raise ValueError("tool_choice: names no tool of this request")
        return named[:1]

    def _tool_tokens(self, tools: list[ToolSpec], digest: int, rng: Random) -> tuple[list[str], Heads]:
        tokens: list[str] = []
        heads: Heads = []
        for index, tool in enumerate(tools):
            heads.append((len(tokens), call_id(digest, index), tool.name))
            arguments = instance(tool.parameters, rng)
            if not isinstance(arguments, dict):
                arguments = {}
            tokens += self._tokenizer.pieces(json.dumps(arguments, ensure_ascii=False))
        return tokens, heads

    def _text_tokens(self, request: ModelRequest, wanted: int, bound: int, rng: Random) -> list[str]:
        """Text of the wanted number of tokens; it is longer only where it has a tool's result to give.

        Of a text beyond `bound` one token more is made, which is enough to see that it is cut.
        """
        pieces = self._tokenizer.pieces
        results = _results(request)
        if results:
            opening = "The tool says: " + "; ".join(results) + "."
        else:
            opening = 'On "' + "".join(pieces(_question(request))[:_QUOTED]).strip() + '":'
        tokens = pieces(opening)
        if len(tokens) >= wanted:
            if results:
                return tokens
            opening = ""
        wanted = min(wanted, bound + 1)
        # a word is at least a token, or half of one where four characters are one; the last may lack its full stop
        words = rng.choices(_WORDS, k=wanted * (2 if self._tokenizer.exact else 1) + 2)
        for i in range(0, len(words), _SENTENCE):
            words[i] = words[i].capitalize()
            if i:
                words[i - 1] += "."
        return pieces(f"{opening} {' '.join(words)}".lstrip())[:wanted]

    def _until_stop(self, tokens: list[str], stop: tuple[str, ...]) -> tuple[list[str], str | None]:
        """The tokens before the first stop sequence, and which one that is."""
        if not stop:
            return tokens, None
        text = "".join(tokens)
        cuts = [(at, s) for at, s in ((text.find(s), s) for s in stop if s) if at >= 0]
        if not cuts:
            return tokens, None
        at, found = min(cuts)
        return self._tokenizer.pieces(text[:at]) or [""], found


def _digest(seed: int, request: ModelRequest) -> int:
    """Identifies what the answer depends on; fields that a wire may normalise away are left out."""
    content = [
        seed,
        request.seed,
        request.model,
        [
            (m.role, m.content, [(c.id, c.name, c.arguments) for c in m.tool_calls], m.tool_call_id)
            for m in request.messages
        ],
        [(tool.name, tool.parameters) for tool in request.tools],
        request.response_format,
    ]
    return int.from_bytes(hashlib.blake2b(canonical(content), digest_size=8).digest())


def _fixed_size(request: ModelRequest) -> dict[str, int]:
    fixed = request.extra.get("x_sim") if request.extra else None
    if not isinstance(fixed, dict):
        return {}
    return {k: max(1, v) for k, v in fixed.items() if k in ("input_tokens", "output_tokens") and isinstance(v, int)}


def _exact_calls(request: ModelRequest) -> int | None:
    """How many tools the request wants called, where it says so."""
    fixed = request.extra.get("x_sim") if request.extra else None
    calls = fixed.get("tool_calls") if isinstance(fixed, dict) else None
    return min(calls, _MOST_CALLS) if isinstance(calls, int) and calls >= 0 else None


def _since_question(request: ModelRequest) -> list[Message]:
    """What happened since the user last spoke."""
    tail: list[Message] = []
    for message in reversed(request.messages):
        if message.role == "user":
            break
        tail.append(message)
    return tail[::-1]


def _rounds(request: ModelRequest) -> int:
    return sum(1 for m in _since_question(request) if m.tool_calls)


def _results(request: ModelRequest) -> list[str]:
    return [m.content for m in _since_question(request) if m.role == "tool"]


def _question(request: ModelRequest) -> str:
    return next((m.content for m in reversed(request.messages) if m.role == "user"), "")


def _structured(response_format: Any, rng: Random) -> str:
    wrapper = response_format.get("json_schema", {})
    schema = wrapper.get("schema", wrapper) if isinstance(wrapper, dict) else {}
    value = instance(schema, rng) if schema else {"answer": rng.choice(_WORDS)}
    return json.dumps(value, ensure_ascii=False)
