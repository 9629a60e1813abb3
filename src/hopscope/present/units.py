"""Figures, times and flows as people read them, on the page and in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from ..base.names import Names
from ..detect.records import NO_PORT
from ..wire.address import address
from .text import protocol_name


def si(value: float) -> str:
    """A count in at most five characters and its prefix: 980, 12.3k, 4.56M."""
    for limit, divisor, suffix in ((1e3, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G")):
        if abs(value) < limit * 0.9995:
            scaled = value / divisor
            digits = 0 if suffix == "" and scaled == int(scaled) else max(0, 3 - len(str(int(abs(scaled)))))
            return f"{scaled:.{digits}f}{suffix}"
    return f"{value / 1e12:.3g}T"


def duration(ns: float) -> str:
    """A time with its unit: 640 ns, 12.3 µs, 4.56 ms."""
    for limit, divisor, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if ns < limit * 0.9995:
            scaled = ns / divisor
            return f"{scaled:.{0 if divisor == 1 else max(0, 3 - len(str(int(scaled))))}f} {unit}"
    return f"{ns / 1e9:.2f} s"


def amount(value: object, unit: str | None) -> str:
    """A value with its unit (`ns`, `ppm`, `bytes`); without one it is as the source sends it."""
    if unit == "ns":
        return duration(int(str(value)))
    if unit == "ppm":
        return f"{int(str(value)) / 10_000:.4g} %"
    return f"{value} {unit}" if unit else str(value)


def ago(ns: float) -> str:
    """How long ago, in whole units: 640 ms, 75 s, 12 min, 5 h, 3 d."""
    for limit, divisor, unit in ((1e9, 1e6, "ms"), (120e9, 1e9, "s"), (7200e9, 60e9, "min")):
        if ns < limit:
            return f"{max(0, ns) / divisor:.0f} {unit}"
    hours = ns / 3600e9
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} d"


def measured(value: object, unit: object) -> str:
    """A value of an event with its unit; without one it is as the source sends it."""
    try:
        number = int(str(value))
    except ValueError:
        return escape(str(value))
    if unit == "ns":
        return duration(number)
    return f"{number / 10_000:.4g} %" if unit == "ppm" else si(number)


def flow_text(flow: Mapping[str, Any]) -> str:
    """A flow object as one line: `10.0.0.1:4000 → 10.0.1.2:53 udp`; ports and protocol may be absent."""
    src, dst = (_end(flow[side], flow.get(port)) for side, port in (("src", "sport"), ("dst", "dport")))
    proto = flow.get("proto")
    return f"{src} → {dst} {proto if proto is None else protocol_name(proto)}"


def endpoints(row: np.void, *, ports: bool = True) -> str:
    """5-tuple of a FLOW record, or addresses only without `ports`, for a table's cell."""
    src, dst = (address(int(row[f"{side}_hi"]), int(row[f"{side}_lo"])) for side in ("src", "dst"))
    if ports:
        src, dst = _end(src, int(row["sport"])), _end(dst, int(row["dport"]))
    proto = protocol_name(int(row["proto"]))
    return f'<span class="flow">{escape(src)} → {escape(dst)} <em>{proto}</em></span>'


def _end(host: str, port: int | None) -> str:
    if port is None:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def place(names: Names, node: int, port: int) -> str:
    """A switch and its port, by name, as HTML."""
    label = f'<span class="node">{escape(names.node_label(node))}</span>'
    return label if port == NO_PORT else f"{label} · {port_text(names, node, port)}"


def port_text(names: Names, node: int, port: int) -> str:
    """A port's name, or its number, as HTML."""
    return escape(names.port(node, port) or f"port {port}")
