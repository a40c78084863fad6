"""OpenAI's embeddings from the provider's side.

Source: OpenAI's API reference, "Embeddings". A vector is drawn from its input alone and has length 1: the same input
gives the same vector, of fewer dimensions the beginning of it scaled to length 1 again, as the real models do.
"""

import base64
import math
import struct
from random import Random
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchestrator.backends.simulated.dialect import echo, read
from orchestrator.backends.simulated.errors import wrong
from orchestrator.backends.simulated.provider import SimProvider

DIMENSIONS = 1536
MOST_DIMENSIONS = 3072
MOST_INPUTS = 2048
MOST_TOKENS = 8192
"""Of one input."""

_Input = str | list[int]


class EmbeddingRequest(Struct):
    """The body of `POST /v1/embeddings`, as far as it matters here."""

    model: str
    input: str | list[str | int | list[int]]
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] = "float"
    x_sim: Any = None

    def inputs(self) -> list[_Input]:
        """What is to be embedded: texts, or tokens by their numbers. Raises `SimError` 400."""
        given = self.input
        if isinstance(given, str):
            return [given]
        numbers = [item for item in given if isinstance(item, int)]
        if numbers and len(numbers) == len(given):
            return [numbers]
        if numbers:
            raise wrong("input", "is either a text, texts, tokens, or lists of tokens")
        return [item for item in given if not isinstance(item, int)]


_DECODER = msgspec.json.Decoder(EmbeddingRequest)


class Embedding(Struct, frozen=True):
    """A request, understood: its inputs, and what they count together."""

    request: EmbeddingRequest
    inputs: list[_Input]
    tokens: int

    def document(self) -> bytes:
        """The answer."""
        wanted = self.request.dimensions or DIMENSIONS
        rows = [
            {"object": "embedding", "index": index, "embedding": self._coded(vector(given, wanted))}
            for index, given in enumerate(self.inputs)
        ]
        usage = {"prompt_tokens": self.tokens, "total_tokens": self.tokens}
        found = {"object": "list", "data": rows, "model": self.request.model, "usage": usage}
        return msgspec.json.encode({**found, **echo(self.request.x_sim)})

    def _coded(self, values: list[float]) -> list[float] | str:
        if self.request.encoding_format == "float":
            return values
        return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def ask_embedding(provider: SimProvider, body: bytes) -> Embedding:
    """The request that a body is. Raises `SimError` 400."""
    request = read(_DECODER, body)
    inputs = request.inputs()
    if not inputs or len(inputs) > MOST_INPUTS:
        raise wrong("input", f"between 1 and {MOST_INPUTS} inputs are possible, not {len(inputs)}")
    if request.dimensions is not None and not 1 <= request.dimensions <= MOST_DIMENSIONS:
        raise wrong("dimensions", f"{request.dimensions} is not between 1 and {MOST_DIMENSIONS}")
    tokens = 0
    for place, given in enumerate(inputs):
        count = provider.count_text(given) if isinstance(given, str) else len(given)
        if not 1 <= count <= MOST_TOKENS:
            raise wrong(f"input[{place}]", f"has {count} tokens, not between 1 and {MOST_TOKENS}")
        tokens += count
    fixed = request.x_sim.get("input_tokens") if isinstance(request.x_sim, dict) else None
    return Embedding(request, inputs, fixed if isinstance(fixed, int) and fixed > 0 else tokens)


def vector(given: _Input, dimensions: int) -> list[float]:
    """The vector of one input: single precision, length 1."""
    text = given if isinstance(given, str) else ",".join(map(str, given))
    rng = Random(b"embedding/" + text.encode("utf-8", "surrogatepass"))
    values = [rng.gauss(0.0, 1.0) for _ in range(dimensions)]
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    scaled = struct.pack(f"<{dimensions}f", *[value / length for value in values])
    return list(struct.unpack(f"<{dimensions}f", scaled))
