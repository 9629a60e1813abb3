"""One responder with one connection, and packets to it, for tests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from hopscope.memory.region import Region
from hopscope.rdma.memory_table import MemoryTable
from hopscope.rdma.notices import create_notices
from hopscope.rdma.queue_pair import QueuePairs
from hopscope.rdma.records import Access, Service
from hopscope.rdma.responder import Responder
from hopscope.wire.reasons import RoceReason
from hopscope.wire.records import Records
from hopscope.wire.roce.records import ROCE, Opcode

PEER = (0, 0xFFFF_7F000002)
PEER_NUMBER = 0x4711
BYTES = 4096
MTU = 256


class Rig:
    """A responder with one memory of 4 KiB, one queue pair and a ring of notices."""

    def __init__(
        self, service: Service = Service.RC, psn: int = 0, access: int = 3, receives: int = 0
    ) -> None:
        self.memory = np.zeros(BYTES, np.uint8)
        self.table = MemoryTable()
        self.region = self.table.add(self.memory, access or Access.WRITE)
        self.key, self.base = int(self.region["key"][0]), int(self.region["base"][0])
        self.pairs = QueuePairs()
        self.notices: Region = create_notices(None)
        self.number = self.pairs.create(service=service, receives=receives)
        self.pairs.connect(self.number, PEER, PEER_NUMBER, psn, mtu=MTU)
        self.responder = Responder(self.table, self.pairs, self.notices)

    def packets(self, *packets: Mapping[str, object]) -> tuple[Records, npt.NDArray[np.uint8]]:
        """ROCE records and their arena: `payload` bytes, `at` an offset, other fields as named."""
        records: Records = np.zeros(len(packets), ROCE)
        arena = bytearray()
        for record, packet in zip(records, packets, strict=True):
            fields = {"payload": b"", "at": 0, **packet}
            payload, at = fields.pop("payload"), fields.pop("at")
            assert isinstance(payload, bytes)
            assert isinstance(at, int)
            record["source_hi"], record["source_lo"] = PEER
            record["queue_pair"], record["partition"] = self.number, 0xFFFF
            record["key"], record["address"] = self.key, self.base + at
            record["payload_at"], record["payload_bytes"] = len(arena), len(payload)
            record["length"] = len(payload)
            for name, value in fields.items():
                record[name] = value
            arena += payload
        return records, np.frombuffer(bytes(arena) + bytes(8), np.uint8)

    def take(self, *packets: Mapping[str, object]) -> Records:
        """Execute packets; a copy of the answers."""
        self.records, arena = self.packets(*packets)
        return self.responder.execute(self.records, arena, 5).copy()

    def reasons(self) -> list[RoceReason]:
        """Of the last batch."""
        return [RoceReason(int(reason)) for reason in self.records["reason"]]


def write(psn: int, payload: bytes, at: object = 0, **fields: object) -> dict[str, object]:
    """A WRITE_ONLY of these fields."""
    return {"opcode": Opcode.RC_WRITE_ONLY, "psn": psn, "payload": payload, "at": at, **fields}


def add(psn: int, value: int, at: int = 0, **fields: object) -> dict[str, object]:
    """A FETCH_ADD."""
    return {"opcode": Opcode.RC_FETCH_ADD, "psn": psn, "value": value, "at": at, **fields}
