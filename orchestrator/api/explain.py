"""Why a call or a run waited: asked about one by its id, or for the slowest there were."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.routing import Route

from orchestrator.api.identity import client_of
from orchestrator.api.operations import Operation
from orchestrator.api.scoping import own_run
from orchestrator.api.services import Services
from orchestrator.views.explain import CallExplanation, RunExplanation, SlowCalls


class SlowQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which calls."""

    tenant: str = ""
    job: str = ""
    seconds: Annotated[float, Meta(gt=0, le=31 * 86_400.0, description="how far back, in seconds")] = 3_600.0
    size: Annotated[int, Meta(ge=1, le=100, description="calls at most")] = 20


def routes(services: Services) -> list[Route]:
    """Explanations."""

    async def explain_run(request: Request) -> RunExplanation:
        client = client_of(request.scope)
        view = await own_run(services.runs, client, request.path_params["run"])
        return await services.explain.run(view.run, client.sees)

    async def explain_call(request: Request) -> CallExplanation:
        client = client_of(request.scope)
        return await services.explain.call(request.path_params["call"], client.sees)

    async def slowest_calls(request: Request, query: SlowQuery) -> SlowCalls:
        client = client_of(request.scope)
        tenant = query.tenant if client.admin else client.tenant_for(query.tenant or client.tenant)
        return await services.explain.slowest(
            query.seconds, tenant=tenant, job=query.job, size=query.size, sees=client.sees
        )

    return [
        Operation(
            "GET",
            "/api/runs/{run}/explanation",
            explain_run,
            "Why a run took as long as it did",
            answer=RunExplanation,
            errors=(404,),
        ).route(),
        Operation(
            "GET",
            "/api/calls/slowest",
            slowest_calls,
            "Which calls waited longest, and for what",
            query=SlowQuery,
            answer=SlowCalls,
            errors=(403,),
        ).route(),
        Operation(
            "GET",
            "/api/calls/{call:path}/explanation",
            explain_call,
            "Why a call took as long as it did",
            answer=CallExplanation,
            errors=(404,),
        ).route(),
    ]
