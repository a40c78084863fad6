"""Errors as answers: their status, what is told and what is not."""

import pytest
import structlog

from agents import errors as taxonomy
from agents.errors import HeadraceError, InvalidLimits, ModelError, QueueFull, Refused, Throttled
from agents.runtime import DuplicateRun, UnknownRun
from orchestrator.api.app import make_app
from orchestrator.api.errors import STATUS, error_body, error_response, status_of
from orchestrator.catalogue import UnknownAgent
from orchestrator.jobs.inputs import InputError
from orchestrator.jobs.template import TemplateError
from tests.api.surface_rig import ask, make_services


class WrongOffset(HeadraceError):
    pass


class UnknownJob(HeadraceError):
    pass


class StillUnknownJob(UnknownJob):
    pass


class NobodyKnowsMe(HeadraceError):
    pass


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidLimits("rounds", "must be at least 1"), 400, "invalid_limits"),
        (TemplateError("no field"), 400, "template_error"),
        (InputError("no input"), 400, "input_error"),
        (UnknownRun("r"), 404, "unknown_run"),
        (UnknownAgent("a"), 404, "unknown_agent"),
        (UnknownJob("j"), 404, "unknown_job"),
        (StillUnknownJob("j"), 404, "still_unknown_job"),
        (DuplicateRun("r"), 409, "duplicate_run"),
        (WrongOffset("3, not 4"), 409, "wrong_offset"),
        (taxonomy.Draining("ending"), 503, "draining"),
        (taxonomy.Overloaded("busy"), 503, "overloaded"),
        (taxonomy.ConnectTimeout("no answer"), 503, "connect_timeout"),
        (taxonomy.CallTimeout("too long"), 504, "call_timeout"),
        (NobodyKnowsMe("secret"), 500, "internal_error"),
    ],
)
def test_each_error_has_its_status_and_its_word(error, status, kind):
    """Status and kind follow from the error's class, or from the nearest base that is known."""
    assert (status_of(error), error_body(error).kind) == (status, kind)


def test_every_error_of_a_model_call_has_a_status_of_its_own_choice():
    """No error of the taxonomy ends as unexpected, but for the caller's own departure."""
    for error in vars(taxonomy).values():
        if isinstance(error, type) and issubclass(error, ModelError) and error not in (ModelError, taxonomy.CallerGone):
            made = error("x", retry_after=1.0) if error is QueueFull else error("x")
            assert status_of(made) != 500, error


def test_the_field_is_told():
    """A bad limit names its field apart from the message."""
    body = error_body(InvalidLimits("budget.rounds", "must be at least 1"))
    assert (body.field, body.message) == ("budget.rounds", "budget.rounds: must be at least 1")


@pytest.mark.parametrize(("wait", "said"), [(0.0, "1"), (1.0, "1"), (1.01, "2"), (119.5, "120"), (9e9, "120")])
def test_retry_after_is_whole_seconds_rounded_up(wait, said):
    """A client is never told to come back too early, nor later than in two minutes."""
    assert error_response(QueueFull("full", retry_after=wait)).headers["retry-after"] == said


@pytest.mark.parametrize("error", [Throttled("slow"), Throttled("slow", retry_after=float("nan")), Refused("no")])
def test_no_wait_is_told_where_none_is_known(error):
    """Without a time there is no Retry-After."""
    assert "retry-after" not in error_response(error).headers


async def test_an_unexpected_error_tells_nothing_and_logs_everything():
    """What nobody expected is a 500 without details; the log has the traceback."""

    async def broken():
        raise RuntimeError("password is hunter2")

    with structlog.testing.capture_logs() as logs:
        answer = await ask(make_app(make_services(queue=broken)), "GET", "/api/queue")
    assert (answer.status, answer.error["kind"]) == (500, "internal_error")
    assert b"hunter2" not in answer.body
    assert [str(entry["exc_info"]) for entry in logs] == ["password is hunter2"]


async def test_paths_and_methods_that_do_not_exist_are_answered_in_the_same_shape():
    """404 and 405 are error answers too, and 405 names every method of the path."""
    app = make_app(make_services())
    lost = await ask(app, "GET", "/api/nothing")
    wrong = await ask(app, "DELETE", "/api/runs")
    assert (lost.status, lost.error["kind"]) == (404, "not_found")
    assert (wrong.status, wrong.error["kind"]) == (405, "method_not_allowed")
    assert wrong.header("allow") == "GET, HEAD, POST"


def test_the_table_holds_errors_only():
    """Every status of the table is one that HTTP knows as an error."""
    assert all(400 <= status < 600 for status in STATUS.values())
