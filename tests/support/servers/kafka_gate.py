"""TLS and SASL in front of a Kafka broker that has neither.

A gate answers ApiVersions, SaslHandshake and SaslAuthenticate (KIP-43, KIP-152), by scramp
for SCRAM (RFC 5802), and lets nothing else pass before. In the broker's answers, it puts a gate's address in
place of the broker's, so that clients make every connection through a gate.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from contextlib import suppress
from typing import Any

from scramp import ScramException, ScramMechanism

PRODUCE, API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 0, 18, 17, 36
UNSUPPORTED_VERSION, UNSUPPORTED_MECHANISM, AUTHENTICATION_FAILED = 35, 33, 58


def broker_at(port: int) -> bytes:
    """How metadata name a broker at this port of 127.0.0.1."""
    return struct.pack(">9si", b"127.0.0.1", port)


class KafkaGate:
    """A gate to the broker at `address`, for one user; metadata names the gate `to`, or this one."""

    def __init__(
        self,
        address: str,
        context: ssl.SSLContext,
        mechanism: str,
        user: str,
        password: str,
        to: KafkaGate | None = None,
    ) -> None:
        host, _, port = address.rpartition(":")
        self._broker, self._context = (host, int(port)), context
        self._mechanism, self._user, self._password = mechanism, user, password
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        next_port = int((to or self).address.rpartition(":")[2])
        self._before, self._after = broker_at(int(port)), broker_at(next_port)
        self._open: set[ssl.SSLSocket] = set()
        self.authenticated = 0
        """Connections that gave the right password."""
        self.produced = 0
        """Requests to produce that passed."""
        threading.Thread(target=self._accept, daemon=True).start()

    def drop(self) -> None:
        """End all connections."""
        for near in list(self._open):
            with suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Accept no more, and end all."""
        self._listener.close()
        self.drop()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError, EOFError), self._context.wrap_socket(plain, server_side=True) as near:
            self._open.add(near)
            try:
                with socket.create_connection(self._broker) as far:
                    if self._admit(near, far):
                        self.authenticated += 1
                        threading.Thread(target=self._answers, args=(far, near), daemon=True).start()
                        self._requests(near, far)
            finally:
                self._open.discard(near)

    def _admit(self, near: ssl.SSLSocket, far: socket.socket) -> bool:
        """Until the client is authenticated, or is not."""
        server: Any = None
        while True:
            request = _frame(near)
            api, version, number = struct.unpack_from(">hhi", request)
            body = request[10 + max(0, struct.unpack_from(">h", request, 8)[0]) :]
            if api == API_VERSIONS and version > 0:  # it asks again by version 0
                _send(near, number, struct.pack(">hi3h", UNSUPPORTED_VERSION, 1, API_VERSIONS, 0, 0))
            elif api == API_VERSIONS:
                far.sendall(struct.pack(">i", len(request)) + request)
                answer = _frame(far)
                _, error, count = struct.unpack_from(">ihi", answer)
                more = struct.pack(">6h", SASL_HANDSHAKE, 0, 1, SASL_AUTHENTICATE, 0, 0)
                _send(near, number, struct.pack(">hi", error, count + 2) + answer[10:] + more)
            elif api == SASL_HANDSHAKE:
                known = _text(self._mechanism)
                right = body == known
                _send(near, number, struct.pack(">hi", 0 if right else UNSUPPORTED_MECHANISM, 1) + known)
                server = None if self._mechanism == "PLAIN" else self._scram()
            elif api == SASL_AUTHENTICATE:
                answer, error = self._step(server, body[4:])
                text = struct.pack(">h", -1) if not error else _text("wrong user or password")
                _send(near, number, struct.pack(">h", error) + text + struct.pack(">i", len(answer)) + answer)
                if error:
                    return False
                if server is None or server.stage.name == "get_server_final":
                    return True
            else:
                return False

    def _scram(self) -> Any:
        mechanism = ScramMechanism(self._mechanism)
        known = {self._user: mechanism.make_auth_info(self._password)}
        return mechanism.make_server(known.__getitem__)

    def _step(self, server: Any, sent: bytes) -> tuple[bytes, int]:
        """Answer to what a client sent, and an error."""
        if server is None:
            right = sent.decode() == f"\0{self._user}\0{self._password}"
            return b"", 0 if right else AUTHENTICATION_FAILED
        try:
            if server.stage is None:
                server.set_client_first(sent.decode())
                return server.get_server_first().encode(), 0
            server.set_client_final(sent.decode())
            return server.get_server_final().encode(), 0
        except (ScramException, KeyError):
            return b"", AUTHENTICATION_FAILED

    def _requests(self, near: ssl.SSLSocket, far: socket.socket) -> None:
        while True:
            request = _frame(near)
            self.produced += struct.unpack_from(">h", request)[0] == PRODUCE
            far.sendall(struct.pack(">i", len(request)) + request)

    def _answers(self, far: socket.socket, near: ssl.SSLSocket) -> None:
        with suppress(OSError, EOFError):
            while True:
                answer = _frame(far).replace(self._before, self._after)
                near.sendall(struct.pack(">i", len(answer)) + answer)
        with suppress(OSError):
            near.shutdown(socket.SHUT_RDWR)


def _frame(source: socket.socket) -> bytes:
    """A request or an answer, without its length. Raises EOFError."""
    (size,) = struct.unpack(">i", _exactly(source, 4))
    return _exactly(source, size)


def _exactly(source: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = source.recv(size - len(found))
        if not more:
            raise EOFError
        found += more
    return found


def _send(near: ssl.SSLSocket, number: int, body: bytes) -> None:
    near.sendall(struct.pack(">ii", 4 + len(body), number) + body)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
