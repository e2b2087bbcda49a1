"""A process's small HTTP server: `/metrics` in Prometheus' text format, `/healthz` as JSON, 503 without progress."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from ps_cluster.watch.health import Health

_IDLE_SECONDS = 10.0


class FiguresServer:
    """Serves from threads of its own until `close` or the end of the process.

    Raises:
      OSError: the port cannot be listened on.
    """

    def __init__(self, place: tuple[str, int], registry: CollectorRegistry, health: Callable[[], Health]):
        handler = type("Handler", (_Handler,), {"registry": registry, "health": staticmethod(health)})
        self._server = ThreadingHTTPServer(place, handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="figures", daemon=True).start()

    def close(self) -> None:
        """Stops serving and frees the port."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    registry: CollectorRegistry
    health: Callable[[], Health]
    timeout = _IDLE_SECONDS  # of a client that says nothing

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, content_type, encode(self.registry))
        elif path == "/healthz":
            health = self.health()
            told = {
                "healthy": not health.problem,
                **({"problem": health.problem} if health.problem else {}),
                **health.told,
            }
            self._answer(503 if health.problem else 200, "application/json", json.dumps(told).encode() + b"\n")
        else:
            self._answer(404, "text/plain; charset=utf-8", b"expected /metrics or /healthz\n")

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not worth a line."""
