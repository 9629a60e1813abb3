"""Loopback addresses of this process alone: RoCEv2 has one port, so test runs may not share an address."""

from __future__ import annotations

import os


def own_host(number: int) -> str:
    """Loopback address `number`, 1 to 254, of this process."""
    return f"127.{128 + (os.getpid() >> 8 & 0x7F)}.{os.getpid() & 0xFF}.{number}"
