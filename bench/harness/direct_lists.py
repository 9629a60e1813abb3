"""Cases of direct_primitives: postcards and lists."""

from __future__ import annotations

import numpy as np

from hopscope.direct.primitives.append import AppendLayout
from hopscope.direct.primitives.postcarding import PostcardingLayout
from hopscope.wire.records import Records

from .direct import Cases, Collecting, Draw, Feed, translating

POSTCARD = np.dtype([("opcode", "u1"), ("flags", "u1"), ("key", ">u4"), ("hop", "u1"), ("data", ">u4")])
APPEND = np.dtype([("opcode", "u1"), ("flags", "u1"), ("list", ">u4"), ("data", ">u4")])
HOPS = 5


def postcards(in_flight: int) -> Draw:
    """Flows of 5 hops, so many at a time: the postcards of these come in random order."""

    def draw(rows: Records, random: np.random.Generator) -> None:
        count = len(rows)
        group = np.arange(count) // (in_flight * HOPS)
        order = np.argsort(group + random.random(count))
        rows["opcode"] = 4
        rows["key"] = random.integers(1 << 32, size=count // HOPS + 1, dtype=np.uint32)[order // HOPS]
        rows["hop"] = order % HOPS + 1
        rows["data"] = random.integers(1 << 18, size=count, dtype=np.uint32)

    return draw


def appends(lists: int) -> Draw:
    """Entries of 4 bytes for random lists."""

    def draw(rows: Records, random: np.random.Generator) -> None:
        rows["opcode"] = 2
        rows["list"] = random.integers(lists, size=len(rows), dtype=np.uint32)
        rows["data"] = random.integers(1 << 32, size=len(rows), dtype=np.uint32)

    return draw


def postcarding(nbytes: int, in_flight: int) -> Collecting:
    """One copy, five hops."""
    layout = PostcardingLayout.sized(nbytes)
    feed = Feed(POSTCARD, postcards(in_flight))
    return translating(feed, layout, lambda store: float(store.state[1]) * layout.chunk_bytes)


def appending(nbytes: int, lists: int, batch: int = 16) -> Collecting:
    """Entries of 4 bytes."""
    layout = AppendLayout.sized(nbytes, lists=lists, batch=batch)
    return translating(
        Feed(APPEND, appends(lists)), layout, lambda store: float(store.state[1]) * layout.slot_bytes
    )


def cases(nbytes: int, size: str) -> Cases:
    """All cases of one size of memory."""
    return [
        ({"what": "Postcarding", "memory": size, "in flight": 1000}, lambda: postcarding(nbytes, 1000)),
        ({"what": "Append", "memory": size, "lists": 1, "batch": 16}, lambda: appending(nbytes, 1)),
        ({"what": "Append", "memory": size, "lists": 1000, "batch": 16}, lambda: appending(nbytes, 1000)),
        ({"what": "Append", "memory": size, "lists": 1, "batch": 1}, lambda: appending(nbytes, 1, 1)),
    ]
