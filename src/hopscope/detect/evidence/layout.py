"""Layout of datagrams in a ring, and of a datagram's number."""

LINE = 64
"""Datagrams begin at multiples of this, bytes."""
HEAD = 48
"""Bytes before a datagram: its FRAME. `offset` is its position among all bytes written so far; the last two
bytes are the number of its dialect.
"""
MAX_BYTES = 65_536
"""Longest datagram that is held."""
WORKER_SHIFT = 24
PLACES = (1 << WORKER_SHIFT) - 1
"""Bits of a number that give the line where the datagram begins; the bits above give the worker."""
NOT_HELD = 0xFFFF_FFFF
"""Number of a datagram that no ring holds."""
