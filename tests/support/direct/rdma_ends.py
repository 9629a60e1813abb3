"""Two ends of RoCEv2 with nothing but arrays between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hopscope.rdma.advertisement import RemoteRegion, encode
from hopscope.rdma.endpoint import Endpoint, Session
from hopscope.rdma.records import VERB, Verb, VerbBlock
from hopscope.rdma.requester import LossMode
from hopscope.wire.address import number_of
from hopscope.wire.records import FrameBatch, Records

NIC, TRANSLATOR = "127.0.0.1", "127.0.0.2"
PORT = 1330


class Ends:
    """A NIC with one memory, and a translator; `bad` frames are changed on their way."""

    def __init__(self) -> None:
        self.nic, self.translator = Endpoint(NIC), Endpoint(TRANSLATOR)
        self.memory = np.zeros(1 << 14, np.uint8)
        row = self.nic.table.add(self.memory)[0]
        region = RemoteRegion("store", int(row["base"]), int(row["length"]), int(row["key"]), 3)
        self.nic.serve(PORT, lambda connection: encode([region], connection.path_mtu))
        self.now = 0
        self.lost: Callable[[FrameBatch], bool] = lambda batch: False

    def turn(self, milliseconds: float = 1) -> None:
        """Both ends send, and take what the other has sent."""
        self.now += int(milliseconds * 1e6)
        for source, from_, to in ((TRANSLATOR, self.translator, self.nic), (NIC, self.nic, self.translator)):
            for batch in from_.frames(self.now):
                batch.frames["source_hi"], batch.frames["source_lo"] = 0, number_of(source)
                if not self.lost(batch):
                    to.receive(batch, self.now, self.now)

    def connect(self, mode: LossMode = LossMode.RELIABLE) -> Session:
        """A connection of the translator's, ready for verbs."""
        session = self.translator.connect(NIC, PORT, self.now, mode=mode)
        for _ in range(20):
            self.turn()
        return session


def writes(count: int, value: int = 1) -> VerbBlock:
    """So many writes of one byte, one after the other."""
    verbs: Records = np.zeros(count, VERB)
    verbs["kind"], verbs["length"], verbs["address"] = Verb.WRITE, 1, np.arange(count)
    return VerbBlock(verbs, np.full(1, value, np.uint8), np.array([count, 1], np.uint64))
