"""What an Anthropic endpoint is told to be: its address, its key, and what goes with every request."""

from msgspec import Struct

from orchestrator.backends.anthropic.encode import MessageRules
from orchestrator.backends.secret import Secret
from orchestrator.backends.sse import MAX_LINE_BYTES

ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_KEY = "ANTHROPIC_API_KEY"
API_VERSION = "2023-06-01"


class AnthropicConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One endpoint.

    `base_url` is the URL before `/v1/messages`; a `/v1` at its end may stand there. The key comes from `api_key`, else
    from the environment variable `api_key_env`, else from the file `api_key_file`; with none of them no key is sent.
    `version` and `beta` are the headers `anthropic-version` and `anthropic-beta`. `models` maps the names that callers
    use to the server's (`*` stands for any other). `headers` are sent with every request. `default_max_tokens` bounds
    an answer in tokens where its request does not, since the API must be told. `max_line_bytes` bounds one event of an
    answer, or an answer in one piece. `ca_file` names certificates to trust instead of the system's.

    The API's limit of input tokens does not count what is read from its cache (`cached_free` of a limit), and its limit
    of output tokens counts them as they are produced. It counts counts of tokens apart, against no limit of these.
    """

    name: str
    base_url: str = ANTHROPIC_URL
    api_key: Secret | None = None
    api_key_env: str | None = None
    api_key_file: str | None = None
    version: str = API_VERSION
    beta: tuple[str, ...] = ()
    models: dict[str, str] = {}
    headers: dict[str, str] = {}
    default_max_tokens: int = 4096
    max_line_bytes: int = MAX_LINE_BYTES
    keepalive_seconds: float = 30.0
    grace_seconds: float = 0.25
    ca_file: str | None = None

    def rules(self) -> MessageRules:
        return MessageRules(models=self.models, default_max_tokens=self.default_max_tokens)

    def __repr__(self) -> str:
        return f"<AnthropicConfig {self.name} {self.base_url}>"
