"""Answers that the guard itself sends."""

from __future__ import annotations

import json

from starlette.types import Message, Send

Fields = list[tuple[bytes, bytes]]


async def reject(send: Send, status: int, line: str, extra: Fields | None = None) -> None:
    """Send an error as one line of JSON."""
    more = [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await answer(send, status, json.dumps({"error": line}), "application/json", [*more, *(extra or [])])


async def answer(send: Send, status: int, text: str, media: str, extra: Fields | None = None) -> None:
    """Send a complete answer."""
    body = text.encode()
    length = (b"content-length", str(len(body)).encode())
    headers = [(b"content-type", media.encode()), length, *(extra or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def without_body(send: Send) -> Send:
    """Send only the headers: the answer to HEAD is the answer to GET without its body."""
    started = False

    async def sender(message: Message) -> None:
        nonlocal started
        if message["type"] == "http.response.start" and not started:
            started = True
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return sender


def status_alone(send: Send) -> Send:
    """Send only whether the collector is ready, and no other part of the answer."""

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            status = message["status"]
            await answer(send, status, json.dumps({"ready": status == 200}), "application/json")

    return sender
