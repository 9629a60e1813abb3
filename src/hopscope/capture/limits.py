"""Allowed sources, and their rate limit."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..base.hash_keys import hash_keys
from ..wire import address
from ..wire.records import Records
from .errors import CaptureError
from .layout import BUCKET, BUCKET_KEYS, BUCKET_WAYS, Setup

SOURCES = 4096
"""Sources in the table; a new source replaces the one in its set that has been quiet longest."""
_LOW = (1 << 64) - 1


def network(text: str) -> tuple[int, int]:
    """First and last address of `192.0.2.0/24`, `2001:db8::/32` or one address. Raises CaptureError."""
    try:
        return address.network(text)
    except ValueError as error:
        raise CaptureError(str(error)) from error


def source_ranges(networks: Iterable[str]) -> npt.NDArray[np.uint64]:
    """First and last address of networks, sorted and merged: uint64 [ranges * 4], (hi, lo) of each end.

    IPv4 addresses are as in FRAME, ::ffff:a.b.c.d.
    """
    merged: list[tuple[int, int]] = []
    for first, last in sorted(map(network, networks)):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    words = [word for pair in merged for end in pair for word in (end >> 64, end & _LOW)]
    return np.array(words, np.uint64)


class RateLimit:
    """A token bucket per source, in a table of fixed size; 0 reports per second: no limit.

    A source is an IPv4 address, or an IPv6 network of `ipv6_prefix` bits.
    """

    def __init__(
        self, per_second: int, burst: int = 0, sources: int = SOURCES, ipv6_prefix: int = 64
    ) -> None:
        burst = burst or max(1, per_second // 10)
        self.interval_ns = max(1, 1_000_000_000 // per_second) if per_second else 0
        self.burst_ns = (burst - 1) * self.interval_ns
        rows = max(BUCKET_WAYS, 1 << (sources - 1).bit_length()) if per_second else BUCKET_WAYS
        self.buckets: Records = np.zeros(rows, BUCKET)
        """BUCKET [sources]; row group g is at g * BUCKET_WAYS."""
        self.mask = rows // BUCKET_WAYS - 1
        self._network = ((1 << ipv6_prefix) - 1) << (128 - ipv6_prefix)

    def write_setup(self, setup: npt.NDArray[np.uint64]) -> None:
        """Write the parameters of `limits_kernel.take` into a block of `Setup`."""
        setup[Setup.INTERVAL_NS] = self.interval_ns
        setup[Setup.BURST_NS] = self.burst_ns
        setup[Setup.BUCKET_MASK] = self.mask
        setup[Setup.NETWORK_HI] = self._network >> 64
        setup[Setup.NETWORK_LO] = self._network & _LOW
        setup[Setup.KEYS : Setup.KEYS + BUCKET_KEYS] = hash_keys(os.urandom(16), BUCKET_KEYS)
