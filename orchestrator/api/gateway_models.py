"""The models that programs may name, in the shape of either provider.

`*` is no name: where the configuration has it, every name is taken, and only those it spells out are listed, with the
default model. A request with an `anthropic-version` header comes from Anthropic's SDK and is answered in its shape.
"""

from collections.abc import Sequence
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from agents.errors import UnknownModel
from orchestrator.api.gateway import JSON
from orchestrator.api.services import Services
from orchestrator.catalogue import ANY_MODEL
from orchestrator.dialects.models import model_document, models_document

Shape = Literal["openai", "anthropic"]


def list_models(services: Services, request: Request) -> Response:
    """All models."""
    return Response(models_document(_shape(request), _names(services), services.wall()), media_type=JSON)


def one_model(services: Services, request: Request, name: str) -> Response:
    """The model of this name. Raises `UnknownModel`."""
    if not name or name == ANY_MODEL:
        raise UnknownModel(f"no model is called {name!r}", status=404)
    services.model(name)
    return Response(model_document(_shape(request), name, services.wall()), media_type=JSON)


def _shape(request: Request) -> Shape:
    return "anthropic" if "anthropic-version" in request.headers else "openai"


def _names(services: Services) -> Sequence[str]:
    known = services.capabilities()
    names = [name for name in known.models if name != ANY_MODEL]
    if known.default_model and known.default_model not in names:
        names.append(known.default_model)
    return names
