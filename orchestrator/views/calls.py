"""One model call as a client asks for it and sees it: what `/api/calls` takes and answers."""

from msgspec import Struct

from agents.messages import ModelReply, ModelRequest
from orchestrator.views.runs import PriorityName


class CallRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model call to send through the queue. An empty model is the default one; `deadline` is in seconds from now.

    With `stream` the answer comes as server-sent events.
    """

    request: ModelRequest
    tenant: str = "default"
    job: str = ""
    run: str = ""
    priority: PriorityName | None = None
    deadline: float | None = None
    stream: bool = False


class CallReply(Struct, frozen=True, kw_only=True):
    """The answer; `call` is the key by which the ledger and `headrace explain` know the call."""

    reply: ModelReply
    call: str = ""
