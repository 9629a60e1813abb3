"""Queries whose answers are decoded by the monitor that reported them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..collectors.collector import Epoch
from ..collectors.group import CollectorGroup
from ..stores.answers import QueryOptions
from ..stores.keys import parse_key
from .monitor import Monitor
from .registry import MONITORS, make_monitors


def monitor_of(store: str, name: str | None = None) -> Monitor | None:
    """The monitor of this name; without `name`, the monitor named like the store, if any. Raises
    MonitorError.
    """
    if name is None and store not in MONITORS:
        return None
    (monitor,) = make_monitors([name or store]).values()
    return monitor


def query_decoded(
    group: CollectorGroup,
    store: str,
    texts: Sequence[str],
    options: QueryOptions,
    epoch: Epoch = None,
    monitor: Monitor | None = None,
) -> list[dict[str, Any]]:
    """Answers of `CollectorGroup.query`, with `decoded` if they are found and come from the monitor.

    Raises StoreError and CollectorError.
    """
    if monitor is None or group.primitive(store) != monitor.primitive:
        return group.query(store, texts, options, epoch)
    stored = [monitor.stored_keys(parse_key(text, is_folded=True)) for text in texts]
    flat = group.query(store, [f"0x{key.hex()}" for keys in stored for key in keys], options, epoch)
    found, at = [], 0
    for text, keys in zip(texts, stored, strict=True):
        answers = flat[at : at + len(keys)]
        found.append({"key": text} | monitor.answer(answers, options) | {"key": text})
        at += len(keys)
    return found


def decode_entries(entries: Sequence[str], monitor: Monitor | None) -> list[dict[str, Any]]:
    """Entries of a list, with `data` in hexadecimal, and `decoded` if they come from the monitor."""
    found: list[dict[str, Any]] = []
    for entry in entries:
        decoded = monitor and monitor.decode(bytes.fromhex(entry))
        found.append({"data": entry, **({"decoded": decoded} if decoded else {})})
    return found
