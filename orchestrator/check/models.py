"""Which models a server says it has: one plain request, for who checks a server before writing a configuration."""

import httpx2
import msgspec
from msgspec import Struct

from agents.errors import HeadraceError, Refused, Unavailable
from orchestrator.backends.anthropic.backend import AnthropicBackend
from orchestrator.backends.openai.backend import OpenAIBackend
from orchestrator.backends.openai.errors import error_from_response
from orchestrator.backends.unreachable import error_from_transport


class _Model(Struct):
    id: str


class _Models(Struct):
    data: list[_Model]


class NoModelList(HeadraceError):
    """The server has no list of models that can be read; somebody has to name one."""


async def list_models(backend: OpenAIBackend | AnthropicBackend, timeout: float) -> list[str]:
    """The names, in the server's order. `timeout` is in seconds.

    Raises a `ModelError` where the server cannot be used, `NoModelList` where it has no such list.
    """
    host = backend.place.host
    base = backend.config.base_url.rstrip("/")
    if isinstance(backend, AnthropicBackend):
        base = f"{base.removesuffix('/v1')}/v1"
    headers = {name: value for name, value in backend.headers.items() if name != "content-type"}
    headers["accept"] = "application/json"
    try:
        async with httpx2.AsyncClient(
            verify=backend.ssl_context or True, trust_env=False, timeout=timeout, follow_redirects=False
        ) as client:
            response = await client.get(f"{base}/models", headers=headers)
    except httpx2.TimeoutException:
        raise Unavailable(f"{host} did not answer within {timeout:g} s (--timeout)") from None
    except httpx2.TransportError as error:
        raise error_from_transport(error, host, written=True) from error
    if response.status_code != 200:
        refusal = error_from_response(response.status_code, response.content, backend.place)
        if isinstance(refusal, Refused) and not refusal.endpoint_fault:
            raise NoModelList(f"{host} has no list of models (it answered {response.status_code})")
        raise refusal
    try:
        return [model.id for model in msgspec.json.decode(response.content, type=_Models).data]
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise NoModelList(f"{host} has no list of models that can be read") from None
