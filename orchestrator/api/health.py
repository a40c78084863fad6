"""Is it alive, can it serve, what does it count."""

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from orchestrator.api.identity import client_of
from orchestrator.api.operations import Operation
from orchestrator.api.services import Services

TEXT = "text/plain"


def routes(services: Services) -> list[Route]:
    """What supervisors and scrapers ask."""

    async def alive(request: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def ready(request: Request) -> Response:
        reason = services.ready()
        if reason is None:
            return PlainTextResponse("ready\n")
        return PlainTextResponse(f"{reason}\n", 503)

    async def metrics(request: Request) -> Response:
        if not services.open_metrics:
            client_of(request.scope).require_admin("reading metrics, which name every tenant,")
        return Response(services.metrics(), headers={"content-type": CONTENT_TYPE_LATEST})

    return [
        Operation("GET", "/healthz", alive, "Whether the process lives", media_type=TEXT).route(),
        Operation(
            "GET", "/readyz", ready, "Whether it can serve; if not, why", media_type=TEXT, problems={503: TEXT}
        ).route(),
        Operation("GET", "/metrics", metrics, "Metrics for Prometheus", media_type=TEXT).route(),
    ]
