"""Reads texts in users' requests: prefixes, protocols and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from ..wire import address, protocols

_LOW = (1 << 64) - 1


class UnreadableError(ValueError):
    """A user's text is not valid; the message is one line."""


_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
EARLIEST_NS = 10**15
"""A smaller number (before 1970-01-12) is not meant as a time in ns, but as seconds, ms or a year."""
LATEST_NS = 92 * 10**17
"""Later times (after 2261-07) are taken for this one: DuckDB's and NumPy's times in ns end in 2262."""
_EXPECTED = "expected a time such as 2026-01-31T12:00:00Z, ns since 1970 (19 digits), or 5m"
_AGO = re.compile(r"-?(\d{1,9})(ns|us|ms|s|m|h|d)")


@lru_cache(maxsize=1024)
def network(text: str) -> tuple[int, int, int, int]:
    """(address high, low, mask high, low) of an address or prefix. Raises UnreadableError."""
    try:
        first, last = address.network(text.strip())
    except ValueError:
        raise UnreadableError(
            f"expected an address or a prefix such as 192.0.2.0/24, found {text[:60]!r}"
        ) from None
    mask = ~(first ^ last)
    return first >> 64, first & _LOW, mask >> 64 & _LOW, mask & _LOW


def protocol(text: str) -> int:
    """IP protocol number of a number or a name. Raises UnreadableError."""
    text = text.strip()
    number = protocols.NUMBERS.get(text.lower())
    if number is None and text.isascii() and text.isdecimal() and len(text) <= 3 and int(text) <= 255:
        number = int(text)
    if number is None:
        raise UnreadableError(
            f"proto: expected 0 to 255 or {', '.join(protocols.NUMBERS)}, found {text[:30]!r}"
        )
    return number


def protocol_name(number: int) -> str:
    """Name of an IP protocol, or its number."""
    return protocols.NAMES.get(number, str(number))


def parse_span(text: str) -> int:
    """ns of a duration such as `500us`, `20ms` or `5s`. Raises UnreadableError."""
    if match := _AGO.fullmatch(text.strip()):
        return int(match[1]) * _UNITS[match[2]]
    raise UnreadableError(f"expected a time such as 500us, 20ms or 5s, found {text[:30]!r}")


def parse_when(text: str, now_ns: int) -> int:
    """ns since the epoch, at most LATEST_NS, of an RFC 3339 time, a number of ns, or a time ago (`5m`).
    Raises UnreadableError.
    """
    text = text.strip()
    if match := _AGO.fullmatch(text):
        return max(0, now_ns - int(match[1]) * _UNITS[match[2]])
    if re.fullmatch(r"\d{1,19}", text):
        number = int(text)
        if 0 < number < EARLIEST_NS:
            raise UnreadableError(_EXPECTED)
        return min(number, LATEST_NS)
    fraction = 0
    if match := re.search(r"\.(\d{1,9})\d*", text):
        fraction = int(match[1].ljust(9, "0"))
        text = text[: match.start()] + text[match.end() :]
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))  # a + in a query string arrives as a space
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return min(max(0, int(moment.timestamp()) * 10**9 + fraction), LATEST_NS)
    except (ValueError, OverflowError):
        raise UnreadableError(_EXPECTED) from None


def ns_of(text: str) -> int:
    """ns since the epoch of a time as `present.events.when` or a row of history states it."""
    if text.isdecimal():
        return int(text)
    import numpy as np  # imported late: without it, `--help` of commands takes a quarter less time

    return int(np.datetime64(text.removesuffix("Z"), "ns").astype(np.int64))
