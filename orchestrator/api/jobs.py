"""Jobs over HTTP: made, fed, listed, looked at, followed, cancelled, tried again, removed.

Inputs are appended at a byte offset, and what was answered is on the daemon's disk. A client that has lost an answer
asks for the job and goes on at its `upload_offset`; so it does after a 409 of kind `wrong_offset`. Results are read
from a byte offset, so a client that has `n` bytes goes on at `n`.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.api.identity import client_of
from orchestrator.api.operations import Operation, json_answer
from orchestrator.api.scoping import job_for, own_job, own_jobs
from orchestrator.api.services import Services
from orchestrator.api.streams import LINES, EventStream, LineStream, ServerEvent
from orchestrator.jobs.record import JobLine
from orchestrator.views.jobs import JobList, JobRequest, JobView


class UploadQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the inputs belong."""

    offset: Annotated[int, Meta(ge=0, description="the job's `upload_offset`, in bytes")]


class ResultsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which results."""

    offset: Annotated[int, Meta(ge=0, description="bytes of the results to leave out")] = 0
    follow: Annotated[bool, Meta(description="true: new ones as they come, until the job has ended")] = False


class RetryQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run once more."""

    only_failed: Annotated[bool, Meta(description="true: not what was cancelled or never began")] = False


def routes(services: Services) -> list[Route]:
    """The routes under `/api/jobs`."""
    jobs = services.jobs

    def own(request: Request) -> str:
        return own_job(jobs, client_of(request.scope), request.path_params["job"]).job

    async def create_job(request: Request, body: JobRequest) -> Response:
        view = await jobs.create(job_for(services, client_of(request.scope), body))
        return json_answer(view, 201, {"location": f"/api/jobs/{quote(view.job, safe='')}"})

    async def list_jobs(request: Request) -> JobList:
        return own_jobs(jobs, client_of(request.scope))

    async def show_job(request: Request) -> JobView:
        return own_job(jobs, client_of(request.scope), request.path_params["job"])

    async def follow_job(request: Request) -> EventStream:
        return EventStream(_events(jobs.watch(own(request))))

    async def upload_inputs(request: Request, body: AsyncGenerator[bytes, None], query: UploadQuery) -> JobView:
        return await jobs.upload(own(request), query.offset, body)

    async def complete_inputs(request: Request) -> JobView:
        return await jobs.complete(own(request))

    async def read_results(request: Request, query: ResultsQuery) -> LineStream:
        return LineStream(jobs.results(own(request), query.offset, follow=query.follow))

    async def cancel_job(request: Request) -> JobView:
        return await jobs.cancel(own(request))

    async def retry_job(request: Request, query: RetryQuery) -> JobView:
        return await jobs.retry(own(request), only_failed=query.only_failed)

    async def remove_job(request: Request) -> Response:
        await jobs.remove(own(request))
        return Response(status_code=204)

    one = "/api/jobs/{job}"
    operations = (
        Operation(
            "POST",
            "/api/jobs",
            create_job,
            "Make a job, whose inputs are uploaded next",
            body=JobRequest,
            answer=JobView,
            status=201,
            errors=(403, 404, 409, 503, 507),
        ),
        Operation("GET", "/api/jobs", list_jobs, "List jobs, the newest first", answer=JobList),
        Operation("GET", one, show_job, "Show a job", answer=JobView, errors=(404,)),
        Operation(
            "GET", f"{one}/events", follow_job, "Follow a job's progress", events={"job": JobView}, errors=(404,)
        ),
        Operation(
            "PATCH",
            f"{one}/inputs",
            upload_inputs,
            "Append inputs, JSON Lines of InputLine",
            upload=LINES,
            query=UploadQuery,
            answer=JobView,
            errors=(404, 409, 503, 507),
        ),
        Operation(
            "POST",
            f"{one}/inputs/complete",
            complete_inputs,
            "Say that there are no more inputs",
            answer=JobView,
            errors=(404, 409, 503, 507),
        ),
        Operation(
            "GET",
            f"{one}/results",
            read_results,
            "Read or follow a job's results; of several lines with the same ordinal the last counts",
            query=ResultsQuery,
            answer=JobLine,
            lines=True,
            errors=(404,),
        ),
        Operation("POST", f"{one}/cancel", cancel_job, "Cancel a job", answer=JobView, errors=(404,)),
        Operation(
            "POST",
            f"{one}/retry",
            retry_job,
            "Run once more what failed, was cancelled or never began",
            query=RetryQuery,
            answer=JobView,
            errors=(404, 409, 503, 507),
        ),
        Operation(
            "DELETE",
            one,
            remove_job,
            "Delete a job that has ended, with its inputs and results",
            status=204,
            errors=(404, 409, 507),
        ),
    )
    return [operation.route() for operation in operations]


async def _events(views: AsyncGenerator[JobView, None]) -> AsyncGenerator[ServerEvent, None]:
    async with aclosing(views):
        async for view in views:
            yield ServerEvent(msgspec.json.encode(view), "job")
