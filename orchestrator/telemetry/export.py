"""Spans on their way to a collector: OpenTelemetry's own batches and exporter, in a thread of theirs.

The only module that imports OpenTelemetry. What the standard variables say (`OTEL_EXPORTER_OTLP_*`, `OTEL_BSP_*`,
`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`) holds where the configuration says nothing. A collector that is not
there costs spans, which are dropped when the queue is full, and a line in the log now and then.
"""

import logging
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from orchestrator.telemetry.config import TelemetryConfig
from orchestrator.telemetry.span import Span
from orchestrator.version import version

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT, "server": SpanKind.SERVER}


class Exporter:
    """Takes spans, and sends them in batches."""

    def __init__(self, config: TelemetryConfig) -> None:
        for name in ("opentelemetry.sdk", "opentelemetry.exporter"):
            # its own words come once for each failed batch, with the whole of a traceback
            logging.getLogger(name).addFilter(_brief)
        named = {"service.name": config.service_name} if config.service_name else {}
        self._resource = Resource.create({"service.version": version(), **named})
        self._scope = InstrumentationScope("headrace", version())
        given: dict[str, Any] = {"endpoint": config.endpoint} if config.endpoint else {}
        if config.headers:
            given["headers"] = {name: value.reveal() for name, value in config.headers.items()}
        self._batches = BatchSpanProcessor(OTLPSpanExporter(**given))

    def emit(self, span: Span) -> None:
        """Takes a span; never waits."""
        self._batches.on_end(self._readable(span))

    def close(self, seconds: float) -> None:
        """Sends what is left, for so many seconds at most. Blocks: for a thread."""
        self._batches.force_flush(int(seconds * 1000))
        self._batches.shutdown()  # type: ignore[no-untyped-call]

    def _readable(self, span: Span) -> ReadableSpan:
        state = TraceState.from_header([span.context.state]) if span.context.state else TraceState()
        flags = TraceFlags(TraceFlags.SAMPLED if span.context.sampled else TraceFlags.DEFAULT)
        trace = int(span.context.trace, 16)
        context = SpanContext(trace, int(span.context.span, 16), False, flags, state)
        parent = SpanContext(trace, int(span.parent, 16), span.remote, flags, state) if span.parent else None
        attributes = {name: value for name, value in span.attributes.items() if value is not None and value != ""}
        if span.error:
            attributes["error.type"] = span.error
        return ReadableSpan(
            name=span.name,
            context=context,
            parent=parent,
            resource=self._resource,
            attributes=attributes,
            events=[Event(name, timestamp=_nanos(at)) for name, at in span.events],
            kind=_KINDS[span.kind],
            instrumentation_scope=self._scope,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=_nanos(span.start),
            end_time=_nanos(max(span.end, span.start)),
        )


def _nanos(at: float) -> int:
    return int(at * 1e9)


def _brief(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return record.levelno >= logging.WARNING
