"""How large a request's body may be."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Send

from . import answers

BODY_BYTES = 256 * 1024
"""Largest body of a request to the API or the login form."""


def too_long(headers: Headers) -> bool:
    """Whether Content-Length is above BODY_BYTES, or not a number."""
    length = headers.get("content-length", "0")
    return not length.isdigit() or len(length) > 12 or int(length) > BODY_BYTES


def has_two_lengths(headers: Headers) -> bool:
    """Whether a proxy in front may have seen a different end of the body, and so a different next request
    (RFC 9112, 6.1).
    """
    return "content-length" in headers and "transfer-encoding" in headers


async def reject(send: Send) -> None:
    """Answer that a body is too long."""
    await answers.reject(send, 413, f"the request's body is longer than {BODY_BYTES:,} bytes")


def limited(receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Limit a body whose length is not known in advance. Once it is too long, the answer says so, and the
    reader of the body is told that the client has disconnected.
    """
    taken = 0

    async def receiver() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request" and taken <= BODY_BYTES:
            taken += len(message.get("body", b""))
            if taken > BODY_BYTES:
                await reject(send)
        return message if taken <= BODY_BYTES else {"type": "http.disconnect"}

    async def sender(message: Message) -> None:
        if taken <= BODY_BYTES:
            await send(message)

    return receiver, sender
