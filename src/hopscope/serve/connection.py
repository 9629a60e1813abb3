"""One connection of an HTTP client, with limits that hold before it can present a token.

It extends uvicorn's h11 protocol, since only that one limits the size of a request's head (uvicorn 0.54:
httptools accepted 130 MB of one header). It adds limits for which uvicorn has no setting: time for the head
and the body of a request, time for a client to take its answer, and the number of connections.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_BYTES = 64 * 1024
"""Longest head of a request."""
REQUEST_SECONDS = 10.0
"""Time from the connection, or from the previous answer, to a complete request."""
ANSWER_SECONDS = 30.0
"""Time for a client to take data from a full buffer."""
CONNECTIONS = 512
PER_ADDRESS = 128
"""Maximum number of connections from one address."""
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: 33\r\n\r\n" + b'{"error": "too many connections"}'
)


class Connection(H11Protocol):
    """A connection without a request in progress may be closed in favour of a new one."""

    _request_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, if need be that of the longest waiting connection; if all are busy, answer 503."""
        super().connection_made(transport)
        self.since = self.loop.time()
        if not self._make_place():
            transport.write(_BUSY)
            transport.close()
            return
        self._expect_request()

    def _make_place(self) -> bool:
        """Whether there is a place, in total and for this address; closes a waiting connection if need be."""
        host = self.client and self.client[0]
        all_others = [cast("Any", other) for other in self.connections if other is not self]
        of_address = [other for other in all_others if (other.client and other.client[0]) == host]
        for others, most in ((of_address, PER_ADDRESS), (all_others, CONNECTIONS)):
            if len(others) < most:
                continue
            waiting = [other for other in others if _is_waiting(other)]
            if not waiting:
                return False
            min(waiting, key=lambda other: getattr(other, "since", 0.0)).transport.abort()
        return True

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        closing = self.transport.is_closing()
        return not closing and (self.cycle is None or self.cycle.response_complete)

    def _expect_request(self) -> None:
        self._cancel_timers()
        self._request_timer = self.loop.call_later(REQUEST_SECONDS, self._end_slow_request)

    def _end_slow_request(self) -> None:
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            self.transport.abort()

    def _cancel_timers(self) -> None:
        for timer in (self._request_timer, self._answer_timer):
            if timer is not None:
                timer.cancel()
        self._request_timer = self._answer_timer = None

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        if not self.transport.is_closing():
            super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request; keep-alive ends sooner if no byte of it arrives."""
        self.since = self.loop.time()
        self._expect_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client does not take its answer: start its timer."""
        super().pause_writing()
        if self._answer_timer is None:
            self._answer_timer = self.loop.call_later(ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has taken some of its answer: stop its timer."""
        super().resume_writing()
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Hand the connection to the WebSocket protocol, which has its own timers."""
        self._cancel_timers()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give up the place."""
        self._cancel_timers()
        super().connection_lost(exc)


def _is_waiting(other: Any) -> bool:
    """Whether nothing is lost if a connection is closed. This includes a closed WebSocket whose client has
    not answered (uvicorn gives it 10 s).
    """
    return other.is_waiting if isinstance(other, Connection) else bool(getattr(other, "close_sent", False))
