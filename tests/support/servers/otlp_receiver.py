"""Receivers of OTLP: one in the test's own process, and rotel, which passes on to it."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from support.servers.server_process import ServerProcess, free_port

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""


class OtlpReceiver:
    """Keeps what is posted; `url` is its address.

    The next answers are taken from `answers`; then all is accepted. Empty requests are not kept.
    """

    def __init__(self) -> None:
        self.logs: list[ExportLogsServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[Answer] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> OtlpReceiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Decode a request and keep it, unless an answer rejects it; returns the answer."""
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if not body:
            return 200, {}, b""
        self.headers.append(headers)
        answer: Answer = self.answers.pop(0) if self.answers else (200, {}, b"")
        if answer[0] == 200 and path == "/v1/logs":
            self.logs.append(ExportLogsServiceRequest.FromString(body))
        elif answer[0] == 200:
            assert path == "/v1/metrics"
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))
        return answer


def _handler(receiver: OtlpReceiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, answer = receiver.take(self.path, headers, body)
            self.send_response(status)
            for name, value in {"content-length": str(len(answer)), **more}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler


class Rotel(ServerProcess):
    """rotel, a collector of OpenTelemetry, which passes logs and metrics on to `to`."""

    def __init__(self, folder: Path, to: str) -> None:
        import rotel

        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        program = Path(rotel.__file__).parent / "rotel-agent"
        words = [str(program), "start", "--otlp-http-endpoint", f"127.0.0.1:{self.port}"]
        words += ["--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}", "--exporter", "otlp"]
        words += ["--otlp-exporter-endpoint", to, "--otlp-exporter-protocol", "http"]
        super().__init__(words, folder, self._answers)

    def _answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), 5):
            return True


@contextmanager
def rotel(folder: Path, to: str) -> Iterator[Rotel]:
    """rotel, while the block runs."""
    server = Rotel(folder, to)
    server.start()
    try:
        yield server
    finally:
        server.kill()
