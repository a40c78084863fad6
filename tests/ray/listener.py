"""A daemon that only listens: it refuses every worker for now, lets go of those that end, and remembers who asked."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from orchestrator.pools.placement import actor_of

PATIENCE = 60.0


class Listener:
    """`url` is where it listens."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self._heard: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def note(self, worker: str) -> None:
        """This worker has asked."""
        with self._lock:
            self._heard[worker] = time.monotonic()

    def heard(self, since: float = 0.0) -> set[str]:
        """Who has asked since then."""
        with self._lock:
            return {worker for worker, at in self._heard.items() if at >= since}

    def workers(self, *actors: str) -> dict[str, str]:
        """Waits until a worker of each actor, and of no other, has asked from now on; each worker by its actor."""
        began = time.monotonic()
        while True:
            heard = self.heard(began)
            by_actor = {actor_of(worker): worker for worker in heard}
            if by_actor.keys() == set(actors):
                assert len(heard) == len(by_actor), f"an actor has two workers: {heard}"
                return by_actor
            assert time.monotonic() < began + PATIENCE, f"{actors} are wanted, and these ask: {heard}"
            time.sleep(0.05)


@contextmanager
def listening() -> Iterator[Listener]:
    """A listener inside the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
            if "worker" in body:
                listener.note(body["worker"])
            if body.get("ends"):
                code, answer = 200, b"{}"
            else:
                code, answer = 503, b'{"error": {"kind": "unavailable", "message": "not now"}}'
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        listener = Listener(server)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield listener
        finally:
            server.shutdown()
            thread.join()
