"""RoCEv2 frames in batches, sent and received by one socket: the kernels with their memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..address import MAPPED, number_of
from ..records import FRAME, FrameBatch, Link, Records
from .layout import ROCE_PORT
from .records import ROCE, RoceSetup

OVERHEAD = 128
"""Maximum bytes of a frame in addition to its payload."""


class RoceFrames:
    """Reads and writes the packets of one socket, bound to `own` (an address, not a wildcard) and `port`.

    Payloads from a socket lack the IP header, which the ICRC covers. It is reconstructed in the form that
    Linux sends for a datagram that must not be fragmented (DF set, identification 0: an unconnected socket
    with IP_MTU_DISCOVER=DO, without UDP_SEGMENT). With `any_ip_id`, any identification and DF of IPv4 are
    accepted; they are derived from the ICRC itself, which then detects damage with 15 bits instead of 32.
    With `any_icrc`, every ICRC is accepted, since the published translator does not write it.

    Raises ValueError if the address is not a single address.
    """

    def __init__(
        self, own: str, *, port: int = ROCE_PORT, link: Link = Link.UDP_PAYLOAD, any_ip_id: bool = False,
        any_icrc: bool = False,
    ) -> None:  # fmt: skip
        number = number_of(own)
        if number in (0, MAPPED):
            raise ValueError(f"{own} is not a single address, and the ICRC covers the destination's")
        self.setup = np.zeros(8, np.uint64)
        """uint64 [8] (RoceSetup)."""
        self.setup[RoceSetup.OWN_HI] = number >> 64
        self.setup[RoceSetup.OWN_LO] = number & (1 << 64) - 1
        self.setup[RoceSetup.OWN_PORT] = port
        self.setup[RoceSetup.LINK] = link
        self.setup[RoceSetup.ANY_IP_ID] = any_ip_id
        self.setup[RoceSetup.ANY_ICRC] = any_icrc
        self._rows: Records = np.zeros(0, ROCE)

    def parse(self, batch: FrameBatch) -> Records:
        """ROCE [frames], valid until the next call; check a row's `reason` first.

        `payload_at` is an index into the batch's arena.
        """
        from ...base.kernels.jit import readonly
        from .parse_kernel import parse

        if len(self._rows) < len(batch):
            self._rows = np.zeros(max(len(batch), 256), ROCE)
        rows = self._rows[: len(batch)]
        parse(readonly(batch.frames), readonly(batch.arena), readonly(self.setup), rows)
        return rows

    def build(self, rows: Records, payload: npt.NDArray[np.uint8]) -> FrameBatch:
        """The rows as frames, in memory of their own. `source_*` of a row and of its frame is the receiver.

        Raises ValueError for an invalid row: an unknown opcode, a missing payload, or a payload although its
        opcode has none.
        """
        from ...base.kernels.jit import readonly
        from .encode_kernel import build

        arena = np.empty(int(rows["payload_bytes"].sum(dtype=np.int64)) + OVERHEAD * len(rows), np.uint8)
        frames = np.zeros(len(rows), FRAME)
        done = build(readonly(rows), readonly(payload), readonly(self.setup), arena, frames)
        if done < len(rows):
            row = rows[done]
            raise ValueError(
                f"row {done} is not a RoCEv2 packet: opcode {row['opcode']:#04x} with {row['payload_bytes']}"
                f" bytes at {row['payload_at']} of {len(payload)}"
            )
        return FrameBatch(arena, frames)
