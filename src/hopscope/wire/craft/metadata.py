"""Hops of an object, and a report's metadata, as `Hop`, by items of `layout`; null becomes all ones."""

from __future__ import annotations

from collections.abc import Iterable

from ..layout import KIND_ITEMS, Item
from ..records import HOP_MAX, Have, Hop
from .keys import Keys

_QUEUES = ("queue_id", "congestion_queue_id")
_KEYS: dict[int, set[str]] = {}
for _items in KIND_ITEMS:
    for _item in _items:
        _KEYS.setdefault(_item.have, set()).update(
            "queue_id" if name in _QUEUES else name for name, _, _ in _item.fields.shifts if name in HOP_MAX
        )


def bitmap_of(items: tuple[Item, ...], names: Iterable[str]) -> int:
    """The 16-bit instruction bitmap that covers all of these keys, if `items` have them."""
    given = set(names)
    if "queue_id" in given and "queue_congestion" not in given:
        given.add("queue_occupancy")
    bitmap = 0
    for bit, item in enumerate(items):
        if item.have and any(name in given for name, _, _ in item.fields.shifts if name not in _QUEUES):
            bitmap |= 0x8000 >> bit
    return bitmap


def hop_of(keys: Keys, items: tuple[Item, ...], bitmap: int) -> Hop:
    """The values that `bitmap` names. Missing or null values become all ones; if only one value of a pair is
    given, the other is 0.
    """
    hop = Hop()
    for bit, item in enumerate(items):
        if item.have and bitmap >> (15 - bit) & 1:
            for name in _KEYS[item.have]:
                keys.has(name)
            _take(keys, item, hop)
    return hop


def _take(keys: Keys, item: Item, hop: Hop) -> None:
    values = {
        name: keys.value("queue_id" if name in _QUEUES else name, mask)
        for name, _, mask in item.fields.shifts
        if name in HOP_MAX
    }
    masks = {name: mask for name, _, mask in item.fields.shifts if name in values}
    main = [value for name, value in values.items() if name not in _QUEUES]
    hop.present |= item.have
    if all(value is None for value in main) and not _only_queue(keys, item):
        hop.null |= item.have
        values = {**masks}
    elif item.have == Have.QUEUE_CONGESTION and all(values[name] == masks[name] for name in values):
        values["congestion_queue_id"] = 0  # the queue id is in another word, so this word is not all ones
    for name, value in values.items():
        setattr(hop, name, value or 0)


def _only_queue(keys: Keys, item: Item) -> bool:
    """Whether a queue id is given without its occupancy."""
    others = {"queue_occupancy", "queue_congestion"}
    return (
        item.have == Have.QUEUE_OCCUPANCY
        and keys.raw("queue_id") is not None
        and others.isdisjoint(keys.names())
    )
