"""Server-sent events: the live feed of one client, with filters; lost events are reported in the stream."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

from ...present.events import event_object
from ...present.feed import Cursor, cursor_text
from ...present.select import EventFilter
from ..context import Context

POLL_SECONDS = 0.25
KEEPALIVE_SECONDS = 15.0
BATCH = 500
"""Events of a shard that are written to a client at a time; it reads the next when it has taken these."""


async def stream(context: Context, chosen: EventFilter, cursor: Cursor | None) -> AsyncIterator[bytes]:
    """Frames of text/event-stream: `event` and `lost`, each with the cursor as its id.

    Raises nothing of its own: the stream ends when the server closes.
    """
    await context.run(context.feed.poll)
    at = context.feed.now() if cursor is None else cursor
    yield f"retry: 2000\nid: {cursor_text(at)}\nevent: hello\ndata: {{}}\n\n".encode()
    spoken = time.monotonic()
    while not context.closing.is_set():
        text, more = await context.run(_next, context, chosen, at)
        if text:
            spoken = time.monotonic()
            yield text
        elif time.monotonic() - spoken > KEEPALIVE_SECONDS:
            spoken = time.monotonic()
            yield b": still here\n\n"
        if not more:
            await asyncio.sleep(POLL_SECONDS)


def _next(context: Context, chosen: EventFilter, cursor: Cursor) -> tuple[bytes, bool]:
    """The next frames for one client, and whether more events are probably waiting."""
    context.feed.poll()
    events, lost = context.feed.read(cursor, BATCH)
    frames = []
    if lost:
        frames.append(f'id: {cursor_text(cursor)}\nevent: lost\ndata: {{"lost": {lost}}}\n\n')
    kept = events[chosen.mask(events)]
    last = len(kept) - 1
    for at, row in enumerate(kept):
        # only the last event has an id: a cursor in between would not cover all shards
        name = f"id: {cursor_text(cursor)}\n" if at == last else ""
        frames.append(f"{name}event: event\ndata: {json.dumps(event_object(row, context.names))}\n\n")
    return "".join(frames).encode(), len(events) >= BATCH
