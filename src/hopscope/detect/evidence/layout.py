"""Where datagrams are in a ring, and what the number of one says."""

from __future__ import annotations

LINE = 64
"""Datagrams begin at multiples of this, bytes."""
HEAD = 48
"""Bytes before a datagram: its FRAME; `offset` is its position in all bytes that were written, and the last
two bytes are the number of its dialect.
"""
MOST_BYTES = 65_536
"""Longest datagram that is held."""
WORKER_SHIFT = 24
PLACES = (1 << WORKER_SHIFT) - 1
"""Bits of a number with the line where a datagram begins; the worker is in those above."""
NOT_HELD = 0xFFFF_FFFF
"""Number of a datagram that is in no ring."""
