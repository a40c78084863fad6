from agents.messages import WireRequest
from orchestrator.dialects.base import Untranslatable


def translate(wire: WireRequest) -> WireRequest:
    raise Untranslatable("model", "translation to its backend's dialect is not there")
