"""Formats numbers, times and flows for people in a terminal; `lib/format.js` does the same in the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..wire.address import with_port
from .text import protocol_name


def duration(ns: float) -> str:
    """A duration with its unit: 640 ns, 12.3 µs, 4.56 ms."""
    for limit, divisor, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if ns < limit * 0.9995:
            return f"{ns:.0f} {unit}" if divisor == 1 else f"{_three(ns / divisor)} {unit}"
    return f"{ns / 1e9:.2f} s"


def size(count: float) -> str:
    """Bytes with a binary prefix: 512 B, 3.40 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{_three(count)} {unit}"
        count /= 1024
    return f"{_three(count)} TiB"


def _three(value: float) -> str:
    """A number with three digits: 9.99, 10.0, 100."""
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def amount(value: object, unit: str | None) -> str:
    """A value with its unit (`ns`, `ppm`, `bytes`); without a unit, as the source sends it."""
    if unit == "ns":
        return duration(int(str(value)))
    if unit == "ppm":
        return f"{int(str(value)) / 10_000:.4g} %"
    if unit == "bytes":
        return size(int(str(value)))
    return f"{value} {unit}" if unit else str(value)


def ago(ns: float) -> str:
    """How long ago, in whole units: 640 ms, 75 s, 12 min, 5 h, 3 d."""
    for limit, divisor, unit in ((1e9, 1e6, "ms"), (120e9, 1e9, "s"), (7200e9, 60e9, "min")):
        if ns < limit:
            return f"{max(0, ns) / divisor:.0f} {unit}"
    hours = ns / 3600e9
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} d"


def flow_text(flow: Mapping[str, Any]) -> str:
    """A flow object as one line: `10.0.0.1:4000 → 10.0.1.2:53 udp`; ports and protocol may be absent."""
    src, dst = (_end(flow[side], flow.get(port)) for side, port in (("src", "sport"), ("dst", "dport")))
    proto = flow.get("proto")
    return f"{src} → {dst} {proto if proto is None else protocol_name(proto)}"


def _end(host: str, port: int | None) -> str:
    if port is None:
        return host
    return with_port(host, port)
