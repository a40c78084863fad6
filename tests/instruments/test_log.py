"""Structured logs of what happens to calls."""

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from orchestrator.instruments.log import BURST, LogHook, configure_logging
from tests.instruments.seen import call, transition


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What is written while the test runs, as JSON lines of every level."""
    stream = io.StringIO()
    configure_logging(json=True, level="debug", stream=stream)
    yield stream
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_failures_are_warnings_and_answers_are_details(logged: io.StringIO) -> None:
    """At the usual level an answered call writes nothing, a retry and a failure write a warning each."""
    hook = LogHook(structlog.get_logger())
    call(hook)
    assert lines(logged) == []
    hook(transition("retrying", outcome="throttled", seconds=20.0))
    call(hook, outcome="refused")
    call(hook, outcome="caller_gone")
    assert [(line["event"], line["level"], line["outcome"]) for line in lines(logged)] == [
        ("call retrying", "warning", "throttled"),
        ("call finished", "warning", "refused"),
        ("call finished", "info", "caller_gone"),
    ]


def test_debug_shows_every_transition_with_its_flow(logged: io.StringIO) -> None:
    """At debug each step of a call is one line that names its flow and leaves out what is empty."""
    call(LogHook(structlog.get_logger(), "debug"))
    written = lines(logged)
    assert [line["event"] for line in written] == [
        f"call {kind}" for kind in ("queued", "started", "first_token", "finished")
    ]
    assert all((line["tenant"], line["job"], line["run"]) == ("blue", "job-1", "run-77") for line in written)
    assert (written[-1]["input"], written[-1]["output"]) == (140, 7)
    assert "outcome" not in written[0]


def test_equal_warnings_are_held_back_and_counted(logged: io.StringIO) -> None:
    """Of a thousand equal failures a few are written, and the next line after a while says how many were not."""
    hook = LogHook(structlog.get_logger())
    for n in range(1000):
        hook(transition("retrying", at=n / 1000, outcome="unavailable"))
    hook(transition("retrying", at=1.0, outcome="throttled"))
    assert len(lines(logged)) == BURST + 1
    hook(transition("retrying", at=60.0, outcome="unavailable"))
    assert lines(logged)[-1]["suppressed"] == 1000 - BURST


def test_values_of_secret_keys_are_hidden(logged: io.StringIO) -> None:
    """A value whose key names a secret is blotted out, whoever logs it."""
    structlog.get_logger().info("connecting", api_key="sk-live-1", Authorization="Bearer sk-live-2", url="x")
    assert "sk-live" not in logged.getvalue()
    assert lines(logged)[0]["url"] == "x"


def test_text_for_people_has_no_colours_off_a_terminal() -> None:
    """The other form is one plain line per event where the stream is no terminal, and keeps to its level."""
    stream = io.StringIO()
    configure_logging(json=False, level="warning", stream=stream)
    try:
        LogHook(structlog.get_logger())(transition("retrying", outcome="throttled"))
        structlog.get_logger().info("not shown")
    finally:
        structlog.reset_defaults()
    assert "call retrying" in stream.getvalue()
    assert "tenant=blue" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    assert "not shown" not in stream.getvalue()
