"""How large a request's body may be."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Message, Receive

BODY_BYTES = 256 * 1024
"""Largest body of a request to the API or the login form."""


def too_long(headers: Headers) -> bool:
    """Whether a request says that its body is longer, or nonsense."""
    length = headers.get("content-length", "0")
    return not length.isdigit() or len(length) > 12 or int(length) > BODY_BYTES


def has_two_lengths(headers: Headers) -> bool:
    """Whether a proxy in front may have seen another end of the body, and so another next request (RFC 9112,
    6.1).
    """
    return "content-length" in headers and "transfer-encoding" in headers


def limited(receive: Receive) -> Receive:
    """A `receive` that ends an overlong body without a length as if the client had disconnected."""
    taken = 0

    async def receiver() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > BODY_BYTES:
                return {"type": "http.disconnect"}
        return message

    return receiver
