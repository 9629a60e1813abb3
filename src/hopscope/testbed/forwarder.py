"""The data plane of a fabric's switches between their rings: routing, labelling, restoring, exporting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ..fabric.labelling.simulation.network import chance_function, chance_table
from ..labels.registers import Registers
from ..settings.label import LabellingSettings
from ..wire.records import FrameBatch, Records
from .records import HOST_ADDRESS, NEXT_HOPS, SwitchAt

Octets = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int32]
Lengths = npt.NDArray[np.uint32]
DATAGRAMS = 512
"""Room for label datagrams between two calls of `exports`: enough for 4,096 packets with 5 labels each."""
_LOW = (1 << 64) - 1


class RoutingTables:
    """Next-hop ports by host, and hosts by address."""

    def __init__(
        self, addresses: Iterable[tuple[int, int]], next_ports: Mapping[tuple[int, int], Sequence[int]]
    ) -> None:
        """`addresses`: (128 bits, IPv4 as ::ffff:a.b.c.d, number of the host from 0). `next_ports`: egress
        ports (rows of the registers) by (node id, host); ECMP chooses one of them by flow.
        """
        table = sorted((address >> 64, address & _LOW, host) for address, host in addresses)
        self.addresses: Records = np.array(table, HOST_ADDRESS)
        self.hosts = 1 + max((host for *_, host in table), default=0)
        nodes = sorted({node for node, _ in next_ports})
        self.first = {node: row * self.hosts for row, node in enumerate(nodes)}
        """Row in `next_hops` of each node's next hops to host 0."""
        self.next_hops: Records = np.zeros(max(len(nodes), 1) * self.hosts, NEXT_HOPS)
        choices: list[int] = []
        for (node, host), ports in sorted(next_ports.items()):
            self.next_hops[self.first[node] + host] = (len(choices), len(ports))
            choices += ports
        self.choices: npt.NDArray[np.uint32] = np.array(choices or [0], np.uint32)


class Forwarder:
    """The data plane of all switches; its arrays are the shared registers."""

    def __init__(
        self,
        registers: Registers,
        routes: RoutingTables,
        to_host: Sequence[bool],
        labelling: LabellingSettings,
        *,
        seed: int = 1,
    ) -> None:
        """`to_host`: for every port (row of the registers), whether it leads to a host."""
        from ..base.kernels.jit import readonly
        from . import route_kernel, switch_kernel

        self._route, self._forward = route_kernel.route_frames, switch_kernel.forward_frames
        self._readonly = readonly
        self._registers = registers
        self._to_host = list(map(bool, to_host))
        self._chances = readonly(chance_table(labelling))
        self.set_routes(routes)
        self._ports = readonly(registers.node), readonly(registers.number)
        self._exports: Octets = np.zeros(DATAGRAMS * int(switch_kernel.DATAGRAM_BYTES), np.uint8)
        self._filled: Lengths = np.zeros(DATAGRAMS, np.uint32)
        self._at = np.zeros(len(SwitchAt), np.uint64)
        self._at[SwitchAt.PROTOCOL] = labelling.protocol
        self._at[SwitchAt.MAX_HOP] = labelling.max_hop
        self._at[SwitchAt.CHANCE] = chance_function(labelling)
        self._at[SwitchAt.REST] = round(labelling.interval * labelling.rest * 1e9)
        self._at[SwitchAt.FRAGMENT] = labelling.too_long == "fragment"
        self._at[SwitchAt.SEED] = seed

    def set_routes(self, routes: RoutingTables) -> None:
        """Forward by these tables from now on."""
        self._first = [routes.first.get(node, 0) for node in self._registers.node.tolist()]
        readonly = self._readonly
        self._tables = readonly(routes.addresses), readonly(routes.next_hops), readonly(routes.choices)

    def route(self, batch: FrameBatch, ingress: int) -> Rows:
        """Egress port of every frame received at a port, int32 [frames]; -1: dropped."""
        at = self._at
        at[SwitchAt.INGRESS] = ingress
        at[SwitchAt.FROM_HOST] = self._to_host[ingress]
        at[SwitchAt.FIRST_NEXT_HOPS] = self._first[ingress]
        rows = np.zeros(len(batch), np.int32)
        self._route(
            self._readonly(batch.arena), self._readonly(batch.frames), *self._tables, at,
            self._registers.counters, rows,
        )  # fmt: skip
        return rows

    def forward(
        self,
        batch: FrameBatch,
        rows: Rows,
        egress: int,
        arena: Octets,
        slots: npt.NDArray[np.uint64],
        *,
        room: int,
        mtu: int,
        now_ns: int,
        queued: int = 0,
    ) -> Lengths:
        """Write the frames of the last routed batch for a port into its slots (indices in `arena`, each of
        `room` bytes). Returns the length of every filled slot, uint32.

        `mtu`: IP bytes of the longest packet; `queued`: bytes already waiting at the port. A fragmented
        packet takes two slots.
        """
        at, registers = self._at, self._registers
        at[SwitchAt.EGRESS] = egress
        at[SwitchAt.TO_HOST] = self._to_host[egress]
        at[SwitchAt.NOW] = now_ns
        at[SwitchAt.QUEUED] = queued
        at[SwitchAt.MTU] = mtu
        at[SwitchAt.ROOM] = room
        lengths = np.zeros(len(slots), np.uint32)
        tracked = registers.tracked[: int(registers.tracked_end[0])]
        used = self._forward(
            self._readonly(batch.arena), self._readonly(batch.frames), self._readonly(rows), at,
            registers.interval, registers.last, registers.shift, registers.flag, registers.loss, *self._ports,
            registers.counters, tracked, self._chances, arena, self._readonly(slots), lengths,
            self._exports, self._filled,
        )  # fmt: skip
        return lengths[: int(used)]

    def exports(self) -> list[bytes]:
        """Label datagrams for the controller since the last call."""
        size = len(self._exports) // DATAGRAMS
        filled = self._filled[: int(self._at[SwitchAt.DATAGRAM]) + 1].tolist()
        self._filled[:] = 0
        self._at[SwitchAt.DATAGRAM] = 0
        starts = range(0, len(self._exports), size)
        return [
            self._exports[at : at + length].tobytes()
            for at, length in zip(starts, filled, strict=False)
            if length
        ]
