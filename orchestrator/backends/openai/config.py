"""What an OpenAI-compatible endpoint is told to be: its address, its key, and how it differs from the others."""

from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from agents.messages import Dialect
from orchestrator.backends.openai.encode import EncodingRules
from orchestrator.backends.secret import Secret
from orchestrator.backends.sse import MAX_LINE_BYTES

NativeDialect = Literal["chat", "responses", "embeddings"]

MAX_DOCUMENT_BYTES = 128 * 1024 * 1024
"""An answer in one piece: 2,048 embeddings of 3,072 numbers each are about 80 MB of JSON."""

_OPENAI_HOST = "api.openai.com"


class OpenAIConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One endpoint.

    `base_url` is the URL before `/chat/completions`, usually ending in `/v1`. The key comes from `api_key`, else from
    the environment variable `api_key_env`, else from the file `api_key_file`; with none of them no key is sent.
    `models` maps the names that callers use to the server's (`*` stands for any other). `headers` are sent with every
    request. `null_content`, `include_usage`, `max_tokens`, `max_tokens_field` and `reasoning_field` fit the request to
    the server, see `EncodingRules`. `max_line_bytes` bounds one chunk of an answer, `max_document_bytes` an answer in
    one piece (embeddings). `ca_file` names certificates to trust instead of the system's. `dialects` are those that
    the server speaks; None means chat and embeddings, and for OpenAI's own address responses as well.
    """

    name: str
    base_url: str
    api_key: Secret | None = None
    api_key_env: str | None = None
    api_key_file: str | None = None
    models: dict[str, str] = {}
    headers: dict[str, str] = {}
    null_content: Literal["empty", "keep"] = "empty"
    include_usage: bool = True
    max_tokens: int | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    reasoning_field: str | None = None
    reports_cached: bool = False
    max_line_bytes: int = MAX_LINE_BYTES
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    keepalive_seconds: float = 30.0
    grace_seconds: float = 0.25
    ca_file: str | None = None
    dialects: tuple[NativeDialect, ...] | None = None

    def rules(self) -> EncodingRules:
        return EncodingRules(
            models=self.models,
            null_content=self.null_content,
            include_usage=self.include_usage,
            max_tokens=self.max_tokens,
            max_tokens_field=self.max_tokens_field,
            reasoning_field=self.reasoning_field,
        )

    def spoken(self) -> frozenset[Dialect]:
        """What the server speaks, as said or as is usual at its address."""
        if self.dialects is not None:
            return frozenset(self.dialects)
        usual: frozenset[Dialect] = frozenset({"chat", "embeddings"})
        return usual | {"responses"} if urlsplit(self.base_url).hostname == _OPENAI_HOST else usual

    def __repr__(self) -> str:
        return f"<OpenAIConfig {self.name} {self.base_url}>"
