"""Numbers with units, on the command line and in files."""

from __future__ import annotations

import math
import re

from .errors import HopscopeError

_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_RATES = ("bps", "bit/s", "b/s", "")


def seconds(name: str, text: str) -> float:
    """Seconds, from `2ms`, `50us`, `0.1s` or a number of seconds. HopscopeError names the flag `name`."""
    number, unit = _split(text)
    if number is None or unit not in _TIMES:
        raise HopscopeError(f"{name} {text}: expected a time, such as 2ms, 50us or 0.1s")
    return number * _TIMES[unit]


def bit_rate(name: str, text: str) -> float:
    """Bit/s, from `5Mbps`, `5Mbit/s`, `1G` or a number. HopscopeError names the flag `name`."""
    number, unit = _split(text)
    for ending in _RATES:
        scale = _SCALES.get(unit.lower().removesuffix(ending)) if unit.lower().endswith(ending) else None
        if number is not None and scale is not None:
            return number * scale
    raise HopscopeError(f"{name} {text}: expected bits per second, such as 5Mbps, 10Gbps or 5e6")


def per_second(name: str, text: str) -> float:
    """Times per second, from `10/s`, `10Hz`, `50M/s` or a number. HopscopeError names the flag `name`."""
    number, unit = _split(text)
    scale = _SCALES.get(unit.lower().removesuffix("hz").removesuffix("/s"))
    if number is None or scale is None:
        raise HopscopeError(f"{name} {text}: expected times per second, such as 10/s or 50M/s")
    return number * scale


def days(name: str, text: str) -> float:
    """Days, from `90d`, `12h`, `8w`, `2y` or a number. HopscopeError names the flag `name`."""
    number, unit = _split(text)
    scale = {"": 1.0, "d": 1.0, "h": 1 / 24, "w": 7.0, "y": 365.0}.get(unit)
    if number is None or scale is None:
        raise HopscopeError(f"{name} {text}: expected a time, such as 90d, 12h or 8w")
    return number * scale


def _split(text: str) -> tuple[float | None, str]:
    match = re.fullmatch(r"\s*(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)\s*(\D*)", text, re.IGNORECASE)
    if match is None or not math.isfinite(float(match[1])):
        return None, ""
    return float(match[1]), match[2].strip()
