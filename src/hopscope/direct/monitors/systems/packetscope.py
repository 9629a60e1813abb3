"""PacketScope: how packets traverse a switch, by switch and flow, and which packets it drops."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....wire.records import Records
from ...primitives.key_write import KeyWriteLayout, query
from ...stores.store import Store
from ..events import Events, read
from ..groups import Groups, Numbering
from ..monitor import (
    Bytes,
    Monitor,
    MonitorAnswers,
    Numbers,
    Reports,
    appended,
    flow_hash,
    packed,
    reports,
    unpacked,
)

KEY_BYTES = 17
FIELDS = ("ingress_port", "egress_port", "hop_latency", "queue_depth")
_WIDTHS = (2, 2, 4, 4)
"""Bytes of the fields of a traversal."""
TRAVERSAL = np.dtype([(name, np.uint32) for name in FIELDS])
LOSS = np.dtype(
    [("switch", "<u4"), ("ingress_port", "<u2"), ("egress_port", "<u2"), ("reason", "u1"), ("hop", "u1"),
     ("flow", "<u4")]
)  # fmt: skip
"""A pipeline loss; `flow` is the `flow_digest` of the packet's flow."""
_LOSS_WIDTHS = (4, 2, 2, 1, 1, 4)


class Traversal(Monitor):
    """Ports, latency and queue of a flow's latest packet in a switch."""

    name = "packetscope-traversal"
    primitive = "key-write"
    description = "ports, latency and queue of a flow's latest packet in a switch"
    sizes = "17 B key (switch and flow), 12 B data"
    source = "PacketScope; DTA Table 2, row 3"
    key_bytes = KEY_BYTES
    fields = tuple(zip(FIELDS, _WIDTHS, strict=True))

    def __init__(self, copies: int = 2) -> None:
        self.copies = copies

    def layout(self, expected: int) -> KeyWriteLayout:
        """Load 1/16."""
        return KeyWriteLayout(slots=16 * expected, data_bytes=sum(_WIDTHS), copies=self.copies)

    def observe(self, observations: Records) -> Reports:
        """One report per flow and switch that forwarded one of its packets in the batch."""
        passed = observations[observations["drop_reason"] == 0]
        keys = packed((passed["switch"], 4), passed["flow"])
        rows = Groups(Numbering(KEY_BYTES).of(keys)).last
        data = packed(*((passed[name][rows], width) for name, width in zip(FIELDS, _WIDTHS, strict=True)))
        return reports(KeyWriteLayout.opcode, keys[rows], data, redundancy=self.copies)

    def query(self, store: Store, switches: npt.ArrayLike, flows: Bytes) -> MonitorAnswers:
        """TRAVERSAL of flows (uint8 [n, 13]) in switches (integers [n])."""
        answers = query(store, packed((switches, 4), flows), copies=self.copies)
        traversals = np.zeros(len(answers), TRAVERSAL)
        for name, column in zip(FIELDS, unpacked(answers.data, *_WIDTHS), strict=True):
            traversals[name] = np.where(answers.found, column, 0)
        return MonitorAnswers(answers.status, traversals)


class PipelineLosses(Events):
    """Every dropped packet, in one list."""

    name = "packetscope-losses"
    description = "location and reason of a packet lost in a switch"
    sizes = "14 B"
    source = "PacketScope; DTA Table 2, Append"
    fields = tuple(zip(LOSS.names or (), _LOSS_WIDTHS, strict=True))
    data_bytes = 14

    def observe(self, observations: Records) -> Reports:
        """One report per dropped packet."""
        lost = observations[observations["drop_reason"] > 0]
        columns = (
            lost["switch"], lost["ingress_port"], lost["egress_port"], lost["drop_reason"], lost["hop"],
            flow_digest(lost["flow"]),
        )  # fmt: skip
        data = packed(*zip(columns, _LOSS_WIDTHS, strict=True))
        return appended(0, data)

    def query(self, store: Store) -> Records:
        """LOSS records in the list, in order of time."""
        return read(store, 0, LOSS, _LOSS_WIDTHS)


def flow_digest(flows: Bytes) -> Numbers:
    """32 bits of each flow (uint8 [flows, 13]), uint64 [flows]."""
    return flow_hash(flows) >> np.uint64(32)
