"""PacketScope: how packets traverse a switch, by switch and flow, and which packets it drops."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....wire.records import Records
from ...stores.store import Store
from ..bases import Events, Values
from ..groups import Groups, Numbering
from ..monitor import (
    Bytes,
    MonitorAnswers,
    Numbers,
    Reports,
    appended,
    flow_hash,
    packed,
    packed_as,
    unpacked_as,
    written,
)

KEY_BYTES = 17
FIELDS = ("ingress_port", "egress_port", "hop_latency", "queue_depth")
TRAVERSAL = np.dtype(list(zip(FIELDS, ("<u2", "<u2", "<u4", "<u4"), strict=True)))
LOSS = np.dtype(
    [("switch", "<u4"), ("ingress_port", "<u2"), ("egress_port", "<u2"), ("reason", "u1"), ("hop", "u1"),
     ("flow", "<u4")]
)  # fmt: skip
"""A pipeline loss; `flow` is the `flow_digest` of the packet's flow."""


class Traversal(Values):
    """Ports, latency and queue of a flow's latest packet in a switch."""

    name = "packetscope-traversal"
    description = "ports, latency and queue of a flow's latest packet in a switch"
    sizes = "17 B key (switch and flow), 12 B data"
    source = "PacketScope; DTA Table 2, row 3"
    key_bytes = KEY_BYTES
    record = TRAVERSAL

    def observe(self, observations: Records) -> Reports:
        """One report per flow and switch that forwarded one of its packets in the batch."""
        passed = observations[observations["drop_reason"] == 0]
        keys = packed((passed["switch"], 4), passed["flow"])
        rows = Groups(Numbering(KEY_BYTES).of(keys)).last
        return written(keys[rows], packed_as(TRAVERSAL, (passed[name][rows] for name in FIELDS)))

    def query(self, store: Store, switches: npt.ArrayLike, flows: Bytes) -> MonitorAnswers:
        """TRAVERSAL of flows (uint8 [n, 13]) in switches (integers [n])."""
        answers = self.values(store, packed((switches, 4), flows))
        traversals = unpacked_as(TRAVERSAL, answers.data)
        traversals[~answers.found] = 0
        return MonitorAnswers(answers.status, traversals)


class PipelineLosses(Events):
    """Every dropped packet, in one list."""

    name = "packetscope-losses"
    description = "location and reason of a packet lost in a switch"
    sizes = "14 B"
    source = "PacketScope; DTA Table 2, Append"
    record = LOSS

    def observe(self, observations: Records) -> Reports:
        """One report per dropped packet."""
        lost = observations[observations["drop_reason"] > 0]
        columns = (
            lost["switch"], lost["ingress_port"], lost["egress_port"], lost["drop_reason"], lost["hop"],
            flow_digest(lost["flow"]),
        )  # fmt: skip
        return appended(0, packed_as(LOSS, columns))

    def query(self, store: Store) -> Records:
        """LOSS records in the list, in order of time."""
        return self.read(store, 0)


def flow_digest(flows: Bytes) -> Numbers:
    """32 bits of each flow (uint8 [flows, 13]), uint64 [flows]."""
    return flow_hash(flows) >> np.uint64(32)
