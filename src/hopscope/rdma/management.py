"""Messages of connection management as packets: UD SEND_ONLY from queue pair 1 to queue pair 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..wire.reasons import RoceReason
from ..wire.records import Records
from ..wire.roce.cm import (
    CM_QUEUE_KEY,
    CM_QUEUE_PAIR,
    MAD_SIZE,
    Message,
    RoceError,
    pull_message,
    push_message,
)
from ..wire.roce.records import ROCE, Opcode
from .handshake import Connections

_LOW_64 = (1 << 64) - 1


def receive(connections: Connections, rows: Records, arena: npt.NDArray[np.uint8], now_ns: int) -> None:
    """Pass the messages in ROCE rows to `connections`; counts rows without a valid message as damaged.

    `rows`: ROCE [n] of queue pair 1, as parsed; `arena`: their payload. Rows that the parser rejected are
    skipped.
    """
    for row in rows[rows["reason"] == RoceReason.NONE]:
        plain = row["opcode"] == Opcode.UD_SEND_ONLY and row["queue_pair"] == CM_QUEUE_PAIR
        if not plain or row["queue_key"] != CM_QUEUE_KEY:
            connections.counters.damaged += 1
            continue
        at = int(row["payload_at"])
        try:
            message = pull_message(arena[at : at + int(row["payload_bytes"])].tobytes())
        except RoceError:
            connections.counters.damaged += 1
            continue
        connections.receive(int(row["source_hi"]) << 64 | int(row["source_lo"]), message, now_ns)


def packets(messages: list[tuple[int, Message]], psn: int = 0) -> tuple[Records, npt.NDArray[np.uint8]]:
    """(ROCE [n], payload) of messages to addresses, for `RoceFrames.build`; `psn`: that of the first."""
    rows: Records = np.zeros(len(messages), ROCE)
    payload = b"".join(push_message(message) for _, message in messages)
    each = np.arange(len(messages))
    rows["source_hi"] = [peer >> 64 for peer, _ in messages]
    rows["source_lo"] = [peer & _LOW_64 for peer, _ in messages]
    rows["opcode"], rows["partition"] = Opcode.UD_SEND_ONLY, 0xFFFF
    rows["queue_pair"] = rows["source_queue_pair"] = CM_QUEUE_PAIR
    rows["queue_key"] = CM_QUEUE_KEY
    rows["psn"] = (psn + each) & 0xFFFFFF
    rows["payload_at"], rows["payload_bytes"] = each * MAD_SIZE, MAD_SIZE
    return rows, np.frombuffer(payload, np.uint8)
