"""Jobs over HTTP."""

from starlette.routing import Route

from orchestrator.api.services import Services


def routes(services: Services) -> list[Route]:
    """Nothing yet."""
    return []
