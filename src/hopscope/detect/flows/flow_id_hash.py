"""Flow ids computed without a compiler, for the few flows for which Python code writes events."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...base.hash_keys import hash_keys
from ...wire.records import Records
from ..records import KEYS

WORD = 2**64 - 1
HALF = 2**32 - 1


class FlowIdHash:
    """Ids as the kernels compute them (`event_kernel.hash_flow`), with the same secret."""

    def __init__(self, secret: bytes) -> None:
        self._keys: list[int] = hash_keys(secret, KEYS).tolist()

    def of(
        self, src: tuple[int, int], dst: tuple[int, int], sport: int, dport: int, proto: int, ip_version: int
    ) -> int:
        """Id of a 5-tuple; an address is two halves of 64 bits, the high half first."""
        l4 = sport | dport << 16 | proto << 32 | ip_version << 40
        total = 0
        for at, word in enumerate((src[1], src[0], dst[1], dst[0], l4)):
            total += (word & HALF) * self._keys[2 * at] + (word >> 32) * self._keys[2 * at + 1]
        total &= WORD
        total ^= total >> 32
        total = total * 0xFF51AFD7ED558CCD & WORD
        return (total ^ total >> 29) or 1

    def of_records(self, flows: Records) -> npt.NDArray[np.uint64]:
        """Ids of records with the fields of a 5-tuple, such as FLOW and EVENT; uint64 [flows]."""
        l4 = flows["sport"].astype(np.uint64)
        for name, shift in (("dport", 16), ("proto", 32), ("ip_version", 40)):
            l4 |= flows[name].astype(np.uint64) << np.uint64(shift)
        total = np.zeros(len(flows), np.uint64)
        words = [flows[name] for name in ("src_lo", "src_hi", "dst_lo", "dst_hi")]
        for at, word in enumerate([*words, l4]):
            total += (word & np.uint64(HALF)) * np.uint64(self._keys[2 * at])
            total += (word >> np.uint64(32)) * np.uint64(self._keys[2 * at + 1])
        total ^= total >> np.uint64(32)
        total *= np.uint64(0xFF51AFD7ED558CCD)
        total ^= total >> np.uint64(29)
        return np.maximum(total, np.uint64(1))
