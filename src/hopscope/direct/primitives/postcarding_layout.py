"""Memory of Postcarding (DTA 4, A.6): the values of all hops of a flow or packet in one chunk.

A store is `chunks` of `hops` words (B) of `checksum_bits` (b) bits, each rounded up to bytes, little-endian.
A chunk takes a power of two of bytes where `padded`, as hardware requires. Word i, from 0, is ``checksum(x,
i) XOR g(v)``, cut to b bits: v is the value of hop i of key x, or a reserved one. Copy j is the chunk that
hash function j selects. A word verifies its key and its value at once: another key's chunk reads as a path
with probability ``((V + 1) / 2^b)^B`` at most.

- `Hashing.MIX`: checksum(x, i) is function 64 + i of the key. The lower 32 bits of g are MurmurHash3's 32-bit
finaliser, the upper ones those of `mix64(v + 1)`. So from b = 32 on, no two values share a g; with fewer
bits, values that share one are reported as ambiguous.
- `Hashing.CRC`: checksum(x, i) is the CRC-32 with polynomial 8 + i of `hashing.POLYNOMIALS` (the first five
  are those of the published code), g that of Ethernet over the value's four bytes, most significant first. At
  most 8 hops, 8 copies, 32 bits, and keys of 63 bytes.
- `Hashing.PUBLISHED` is rejected: the published code never finished its Postcarding.

Two values are reserved. The blank, 0xFFFFFFFF, stands for hops after the path. 0xFFFFFFFE stands for hops on
the path without a value: no postcard of the hop had arrived when the chunk was written, although another
hop's postcard had a longer path length; or the hop reports 0xFFFFFFFF, which in INT means that the node lacks
the value. So the first hops of a longer path are never taken for a whole path, unless no postcard had the
path length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..hashing import Hashing
from ..stores import params as at
from ..stores.store import Layout


@dataclass(frozen=True, kw_only=True)
class PostcardingLayout(Layout):
    """`chunks` of `hops` words."""

    opcode: ClassVar[int] = 4
    schema: ClassVar[int] = 1
    name: ClassVar[str] = "postcarding"
    counted: ClassVar[str] = "chunks"
    value_bytes: ClassVar[int] = 4
    own: ClassVar = {
        at.SLOTS: "chunks",
        at.HOPS: "hops",
        at.CHECKSUM_BITS: "checksum_bits",
        at.COPIES: "copies",
        at.DATA_BYTES: "value_bytes",
        at.VARIANT: "padded",
    }

    chunks: int
    hops: int = 5
    """B: hops per chunk."""
    checksum_bits: int = 32
    """b: bits of a word, which is checksum and value at once."""
    copies: int = 1
    """Copies of every chunk; a postcard has no field for them."""
    padded: bool = True
    """Whether a chunk takes a power of two of bytes (5 words of 4 bytes: 32)."""

    def __post_init__(self) -> None:
        crc = self.hashing is Hashing.CRC
        if self.hashing is Hashing.PUBLISHED:
            raise ValueError("hashing is published, expected mix or crc: its Postcarding was never finished")
        self._within(
            chunks=(1, 1 << 32),
            hops=(1, 8 if crc else 16),
            checksum_bits=(8, 32 if crc else 64),
            copies=(1, 8),
            collectors=(1, 1 << 16),
        )

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk that are written."""
        return self.hops * -(-self.checksum_bits // 8)

    @property
    def stride(self) -> int:
        """Bytes from one chunk to the next."""
        return 1 << (self.chunk_bytes - 1).bit_length() if self.padded else self.chunk_bytes
