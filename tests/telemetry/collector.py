"""An OTLP receiver over HTTP, which reads what comes with OpenTelemetry's own messages."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Seen(Struct, frozen=True):
    """A span as it came over the wire."""

    name: str
    trace: str
    span: str
    parent: str
    start: int
    end: int
    attributes: dict[str, object]
    failed: bool
    service: str


class Collector:
    """What came so far; `headers` are those of the last request."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Seen] = []
        self.bodies: list[bytes] = []
        self.headers: dict[str, str] = {}

    def named(self, beginning: str) -> list[Seen]:
        return [span for span in self.spans if span.name.startswith(beginning)]

    def one(self, beginning: str) -> Seen:
        (found,) = self.named(beginning)
        return found

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            service = next(
                (one.value.string_value for one in resource.resource.attributes if one.key == "service.name"), ""
            )
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Seen(
                            name=span.name,
                            trace=span.trace_id.hex(),
                            span=span.span_id.hex(),
                            parent=span.parent_span_id.hex(),
                            start=span.start_time_unix_nano,
                            end=span.end_time_unix_nano,
                            attributes={one.key: _value(one.value) for one in span.attributes},
                            failed=span.status.code == 2,
                            service=service,
                        )
                    )


def _value(value: object) -> object:
    kind = value.WhichOneof("value")  # type: ignore[attr-defined]
    return getattr(value, kind) if kind != "array_value" else [_value(one) for one in value.array_value.values]  # type: ignore[attr-defined]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A receiver on a port of its own."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collector.headers = {name.lower(): value for name, value in self.headers.items()}
            collector.take(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        collector.url = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
