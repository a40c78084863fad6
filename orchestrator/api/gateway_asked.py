"""Who asks what: a program's body and headers as one call, ready for the queue.

| header                | says                                                                                     |
|-----------------------|------------------------------------------------------------------------------------------|
| `X-Headrace-Job`      | the job that the call counts towards, within its tenant                                  |
| `X-Headrace-Run`      | the run within the job: a conversation, an agent                                         |
| `X-Headrace-Priority` | `interactive`, `standard` or `batch`; the tenant's default where it is not said          |
| `X-Headrace-Deadline` | the seconds in which the answer is of use: beyond them the call ends with 504            |

The tenant comes from the client's key (`identity`). A deadline of `inf` is none, one that is not above 0 has passed.
"""

import math
import re
import secrets
from collections.abc import Mapping
from typing import Final

import trio
from msgspec import Struct
from starlette.requests import Request

from agents.messages import Dialect, ModelRequest
from agents.port import Flow, Priority
from orchestrator.api.errors import BadRequest
from orchestrator.api.identity import client_of
from orchestrator.api.services import Services
from orchestrator.dialects.parse import ParsedRequest, parse_request
from orchestrator.views.names import check_name

JOB: Final = "X-Headrace-Job"
RUN: Final = "X-Headrace-Run"
PRIORITY: Final = "X-Headrace-Priority"
DEADLINE: Final = "X-Headrace-Deadline"

PASSED: Final = ("anthropic-beta", "anthropic-version", "openai-beta")
"""Headers that say how a dialect is meant, which go with the request."""

LONGEST: Final = 65
"""As much of a name is looked at; the longest allowed has one character less."""

_SECONDS: Final = re.compile(r"[-+]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][-+]?[0-9]{1,4})?|\+?inf")


class Asked(Struct, frozen=True):
    """One call. `model` is the catalogue's name for it, `deadline` on trio's clock, `key` the one in the ledger."""

    parsed: ParsedRequest
    model: str
    flow: Flow
    priority: Priority
    deadline: float
    key: str = ""

    @property
    def dialect(self) -> Dialect:
        return self.parsed.wire.dialect

    def request(self, most_tokens: int | None) -> ModelRequest:
        """The request for the queue. `most_tokens` bounds an answer whose program does not say it."""
        bound = self.parsed.output_bound
        if self.dialect in ("embeddings", "count_tokens"):
            bound = 0
        elif bound is None and most_tokens is not None:
            bound = most_tokens * self.parsed.choices
        return ModelRequest(self.model, (), max_tokens=bound, wire=self.parsed.wire)


def read_asked(services: Services, request: Request, dialect: Dialect, body: bytes) -> Asked:
    """The call in a request. Raises `Refused`, `BadRequest`, `InvalidLimits`, `UnknownModel`."""
    headers = request.headers
    parsed = parse_request(body, dialect, {name: headers[name] for name in PASSED if name in headers})
    client = client_of(request.scope)
    flow = Flow(client.tenant, _name(headers, JOB), _name(headers, RUN))
    priority = max(services.priority(client.tenant, _priority(headers)), client.highest_priority)
    # counts of tokens cost nothing, and stand in no ledger
    key = "" if dialect == "count_tokens" else new_key()
    return Asked(parsed, services.model(parsed.model), flow, priority, _deadline(headers), key)


def new_key() -> str:
    """A key that no other call has, nor will have."""
    return f"call-{secrets.token_hex(12)}"


def _name(headers: Mapping[str, str], header: str) -> str:
    said = headers.get(header, "")
    return check_name(header, said[:LONGEST]) if said else ""


def _priority(headers: Mapping[str, str]) -> Priority | None:
    said = headers.get(PRIORITY)
    if said is None:
        return None
    known = Priority.__members__.get(said.strip().upper())
    if known is None:
        raise BadRequest(f"{PRIORITY}: must be interactive, standard or batch, not {said[:40]!r}", PRIORITY)
    return known


def _deadline(headers: Mapping[str, str]) -> float:
    said = headers.get(DEADLINE)
    if said is None:
        return math.inf
    if not _SECONDS.fullmatch(said.strip().lower()):
        raise BadRequest(f"{DEADLINE}: must be a number of seconds, or inf, not {said[:40]!r}", DEADLINE)
    return trio.current_time() + float(said)
