"""A web server that keeps what is posted to it, and answers as told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver(ThreadingHTTPServer):
    """Answers with `statuses`, one for each request, then with 204, or with 503 while it is `away`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)  # type: ignore[arg-type]
        self.statuses: list[int] = []
        self.away = False
        self.posts: list[Any] = []
        """Bodies of accepted requests."""
        self.requests: list[tuple[str, dict[str, str]]] = []
        """Path and header of every request, with names in lower case."""
        self.url = f"http://127.0.0.1:{self.server_port}/hooks/sesame"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
        status = 503 if self.server.away else self.server.statuses.pop(0) if self.server.statuses else 204
        if status < 300:
            self.server.posts.append(body)
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("location", f"{self.server.url}/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:
        pass


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that runs."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
