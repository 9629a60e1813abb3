"""Certificates of tests, and a server that takes TLS in front of one that does not."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme


class Files:
    """Certificates in a folder: of an authority, of another one, of a server at 127.0.0.1, of a client."""

    def __init__(self, folder: Path) -> None:
        authority, self.folder = trustme.CA(), folder
        self.ca, self.other_ca = folder / "ca.pem", folder / "other.pem"
        authority.cert_pem.write_to_path(self.ca)
        trustme.CA().cert_pem.write_to_path(self.other_ca)
        self.cert, self.key = self._issue(authority, "127.0.0.1", "server")
        self.own = dict(
            zip(("cert_file", "key_file"), self._issue(authority, "hopscope", "own"), strict=True)
        )

    def _issue(self, authority: trustme.CA, name: str, file: str) -> tuple[Path, Path]:
        cert, key = self.folder / f"{file}.pem", self.folder / f"{file}.key"
        made = authority.issue_cert(name)
        made.cert_chain_pems[0].write_to_path(cert)
        made.private_key_pem.write_to_path(key)
        return cert, key

    def context(self, *, asks: bool = True) -> ssl.SSLContext:
        """That of a server, which asks for a certificate or not."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        if asks:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@contextmanager
def relay(
    context: ssl.SSLContext, to: tuple[str, int], change: Callable[[bytes, int], bytes] | None = None
) -> Iterator[int]:
    """The port of a server that takes TLS, and passes bytes on to a plain one; `change` is called with each
    answer and this port.
    """

    class Pass(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            near = context.wrap_socket(self.request, server_side=True)
            with near, socket.create_connection(to) as far:
                threading.Thread(target=copy, args=(far, near, change), daemon=True).start()
                copy(near, far)

    def copy(source: socket.socket, sink: socket.socket, change: Any = None) -> None:
        try:
            while read := source.recv(65_536):
                sink.sendall(change(read, server.server_address[1]) if change else read)
            sink.shutdown(socket.SHUT_WR)
        except OSError:  # one end has gone
            pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Quiet."""

    with Server(("127.0.0.1", 0), Pass) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
