"""Server-sent events: the live feed of one client, with filters; lost events are reported in the stream."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np

from ...base.names import Names
from ...present.events import LongPaths, event_object, long_paths
from ...present.feed import Cursor, cursor_text
from ...present.select import EventFilter
from ..context import Context

POLL_SECONDS = 0.25
KEEPALIVE_SECONDS = 15.0
BATCH = 500
"""How many events of a shard are sent to a client at a time; the next are read once it has taken these."""

RECENT = 8192
"""How many events' JSON is kept for further listeners."""
_recent: dict[bytes, str] = {}


async def stream(
    context: Context,
    client: str,
    chosen: EventFilter,
    cursor: Cursor | None,
    still_authorized: Callable[[], Awaitable[bool]],
) -> AsyncIterator[bytes]:
    """Frames of text/event-stream: `event` and `lost`, each with the cursor as its id.

    The stream ends when the server closes, or when `still_authorized` becomes false because the
    client's session has ended.
    """
    context.streaming[client] += 1
    try:
        async for frames in _frames(context, chosen, cursor):
            if not await still_authorized():
                return
            yield frames
    finally:
        context.streaming[client] -= 1


async def _frames(context: Context, chosen: EventFilter, cursor: Cursor | None) -> AsyncIterator[bytes]:
    await context.feed_frames(context.feed.poll)
    at = context.feed.now() if cursor is None else cursor
    yield f"retry: 2000\nid: {cursor_text(at)}\nevent: hello\ndata: {{}}\n\n".encode()
    spoken = time.monotonic()
    while not context.closing.is_set():
        text, more = await context.feed_frames(_next, context, chosen, at)
        if text:
            spoken = time.monotonic()
            yield text
        elif time.monotonic() - spoken > KEEPALIVE_SECONDS:
            spoken = time.monotonic()
            yield b": still here\n\n"
        if not more:
            await asyncio.sleep(POLL_SECONDS)


def _next(context: Context, chosen: EventFilter, cursor: Cursor) -> tuple[bytes, bool]:
    """The next frames for one client, and whether more events probably wait."""
    context.feed.poll()
    events, lost = context.feed.read(cursor, BATCH)
    frames = []
    if lost:
        frames.append(f'id: {cursor_text(cursor)}\nevent: lost\ndata: {{"lost": {lost}}}\n\n')
    kept, paths = events[chosen.mask(events)], long_paths(events)
    last = len(kept) - 1
    for at, row in enumerate(kept):
        # only the last event has an id: a cursor in between would not cover all shards
        name = f"id: {cursor_text(cursor)}\n" if at == last else ""
        frames.append(f"{name}event: event\ndata: {_json(row, context.names, paths)}\n\n")
    return "".join(frames).encode(), len(events) >= BATCH


def _json(row: np.void, names: Names, paths: LongPaths) -> str:
    """JSON of an event, made once for all listeners; called only in the thread of live feeds."""
    key = row.tobytes()
    if (text := _recent.get(key)) is None:
        if len(_recent) >= RECENT:
            _recent.clear()
        text = _recent[key] = json.dumps(event_object(row, names, paths))
    return text
