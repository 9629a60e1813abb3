"""Ports and links of a fabric, and ECMP paths of flows.

Every transmitting port has a row in `PORT`: first the hosts' interfaces, then the switches' ports. A path is
one port per *stage* (host interface, edge up, aggregation up, core down, aggregation down, edge to host);
stages that a path does not use are -1. Packets move through them in this order: queueing is feed-forward. In
an own topology (`graph`), the stages after the host's interface are the switches in order, and the last is
the port to the host; any port between switches may be in any stage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from ..base.errors import HopscopeError
from ..base.hash_rows import mix64
from ..base.names import Names
from .records import STAGES

Ints = npt.NDArray[np.int64]

NO_PORT = -1
"""In a path: this stage is not used."""
PORT = np.dtype(
    [
        ("rate", "<i8"),  # bit/s
        ("node_id", "<u4"),  # 0: a host's interface
        ("switch", "<i4"),  # row in `switches`; -1: a host's interface
        ("number", "<u2"),  # on the wire, from 1
        ("peer_number", "<u2"),  # port number at the other end: the next switch's ingress port; 0 at a host
        ("peer_switch", "<i4"),  # -1: a host
        ("peer_host", "<i4"),  # -1: a switch
        ("reverse", "<i4"),  # row of the port that sends in the other direction
        ("delay_ns", "<i8"),  # of the link; -1: that of the link model
        ("stage", "<i4"),
        # a switch has a buffer for ports towards the spine (0) and one for ports towards the hosts (1); in an
        # own topology, to switches and to hosts
        ("buffer_id", "u1"),
    ]
)
"""One transmitting port and its link."""


def seed_bits(seed: int) -> np.uint64:
    """64 bits for a seed in hashes; consecutive seeds are unrelated."""
    bits = np.array([(seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & 0xFFFF_FFFF_FFFF_FFFF], np.uint64)
    return np.uint64(mix64(mix64(bits))[0])


def flow_hash(
    src: npt.ArrayLike, dst: npt.ArrayLike, proto: npt.ArrayLike, sport: npt.ArrayLike, dport: npt.ArrayLike
) -> npt.NDArray[np.uint64]:
    """Hash of IPv4 5-tuples, uint64 [flows]; every switch's ECMP salts it."""
    u = [np.asarray(a).astype(np.uint64) for a in (src, dst, proto, sport, dport)]
    first = mix64((u[0] << np.uint64(32)) | u[1])
    return mix64(first ^ ((u[2] << np.uint64(32)) | (u[3] << np.uint64(16)) | u[4]))


class FabricError(HopscopeError, ValueError):
    """An impossible fabric, fault or traffic; the message has the value, and what is available."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch: its id in telemetry (from 1) and its name."""

    node_id: int
    name: str


class Topology:
    """Switches, hosts, ports and links; subclasses build them and compute the paths between edge switches."""

    name: str
    choices: tuple[int, ...]
    """Number of uplinks that a switch chooses from, by level."""
    stages: int = STAGES
    """Ports of the longest path, with the host's interface: the columns of `paths`."""
    feed_forward: bool = True
    """Whether each port has one stage, and packets move through the stages in order."""

    def __init__(self) -> None:
        self.switches: list[Switch] = []
        self.host_names: list[str] = []
        self.host_address: Ints = np.zeros(0, np.int64)
        self.host_switch: Ints = np.zeros(0, np.int64)
        self._index: dict[int, int] = {}
        """Row of a switch by node id."""
        self._number: dict[tuple[int, int], int] = {}
        self._towards: dict[tuple[int, int], int] = {}
        self._rows: list[tuple[int, ...]] = []

    # -------------------------------------------------------------------------------------------- building

    def _hosts(self, edges: Ints, each: int, addresses: list[int], names: list[str], rate: int) -> None:
        """Attach `each` hosts to every edge switch, on its ports from 1; their interfaces take the first port
        rows.
        """
        self.host_switch = np.repeat(edges, each)
        self.host_address = np.array(addresses, np.int64)
        self.host_names = names
        hosts = len(names)
        for host, edge in enumerate(self.host_switch):  # columns in the order of PORT
            number = host % each + 1
            self._rows.append((rate, 0, -1, 1, number, int(edge), -1, hosts + host, -1, 0, 1))
        for host, edge in enumerate(self.host_switch):
            number = host % each + 1
            node = self.switches[int(edge)].node_id
            self._add(
                (int(edge), number), (rate, node, int(edge), number, 0, -1, host, host, -1, STAGES - 1, 1)
            )

    def _add(self, key: tuple[int, int], row: tuple[int, ...]) -> None:
        self._number[key] = len(self._rows)
        self._rows.append(row)

    def _link(
        self, low: int, low_number: int, high: int, high_number: int, rate: int, up: int, down: int
    ) -> None:
        """Link a switch to one nearer to the spine, in both directions; `up` and `down` are the ports'
        stages.
        """
        at = len(self._rows)
        self._towards[low, high] = at
        self._towards[high, low] = at + 1
        low_id, high_id = self.switches[low].node_id, self.switches[high].node_id
        self._add(
            (low, low_number), (rate, low_id, low, low_number, high_number, high, -1, at + 1, -1, up, 0)
        )
        self._add(
            (high, high_number), (rate, high_id, high, high_number, low_number, low, -1, at, -1, down, 1)
        )

    def _seal(self) -> None:
        self.ports = np.array(self._rows, PORT)
        self._index = {switch.node_id: index for index, switch in enumerate(self.switches)}
        self.host_port = np.arange(self.hosts, 2 * self.hosts, dtype=np.int64)
        """Row of the port that sends to each host."""

    # --------------------------------------------------------------------------------------------- reading

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return len(self.host_names)

    def port_row(self, node: int | str, number: int) -> int:
        """Row of a switch's port, by the switch's node id or name. Raises FabricError."""
        for index, switch in enumerate(self.switches):
            if node in (switch.name, switch.node_id, str(switch.node_id)):
                row = self._number.get((index, number))
                if row is not None:
                    return row
                own = sorted(key[1] for key in self._number if key[0] == index)
                run = own == list(range(1, len(own) + 1))
                known = f"1 to {len(own)}" if run else ", ".join(map(str, own))
                raise FabricError(f"{switch.name} has no port {number}: its ports are {known}")
        examples = ", ".join(s.name for s in self.switches[:3])
        raise FabricError(
            f"{self.name} has no switch {node!r}: its switches are {examples} … {self.switches[-1].name}"
        )

    def port_name(self, row: int) -> str:
        """Name of a port by its peer, such as `to core-3` or `to host-0-1-0`."""
        port = self.ports[row]
        if port["peer_switch"] >= 0:
            return f"to {self.switches[int(port['peer_switch'])].name}"
        return f"to {self.host_names[int(port['peer_host'])]}"

    def switch_name(self, node_id: int) -> str:
        """Name of a switch by its node id, such as `agg-1-0`."""
        return self.switches[self._index[node_id]].name

    def link_between(self, node_id: int, next_id: int) -> int:
        """Row of the port of switch `node_id` that sends to switch `next_id`; -1: not neighbours."""
        ends = self._index.get(node_id, -1), self._index.get(next_id, -1)
        return self._towards.get(ends, NO_PORT)

    def names_toml(self) -> str:
        """Names of switches and ports as a names file: `[nodes]`, then `[ports."<node id>"]`."""
        ids = [switch.node_id for switch in self.switches]
        ports = {(ids[index], number): self.port_name(row) for (index, number), row in self._number.items()}
        return Names({switch.node_id: switch.name for switch in self.switches}, ports).as_toml()

    def links_to(self, switch: int, down: Collection[int] = ()) -> Ints:
        """Distance in links from each switch (row) to this one, without the ports (rows) in `down`, int64
        [switches]; -1: no path.
        """
        usable = (self.ports["switch"] >= 0) & (self.ports["peer_switch"] >= 0)
        usable[list(down)] = False
        inner = self.ports[usable]
        distance = np.full(len(self.switches), -1, np.int64)
        distance[switch] = 0
        for links in range(len(distance)):
            at = inner["switch"][distance[inner["peer_switch"]] == links]
            at = at[distance[at] < 0]
            if not len(at):
                break
            distance[at] = links + 1
        return distance

    def hosts_below(self, switch: int) -> list[int]:
        """Hosts below a switch (row): those reached by its ports away from the spine."""
        found: list[int] = []
        for port in self.ports[(self.ports["switch"] == switch) & (self.ports["buffer_id"] == 1)]:
            below, host = int(port["peer_switch"]), int(port["peer_host"])
            found += [host] if below < 0 else self.hosts_below(below)
        return sorted(set(found))

    def hosts_through(self, row: int) -> tuple[list[int], list[int]]:
        """Hosts that may send through a switch's port, and those that they may send to."""
        port, everyone = self.ports[row], list(range(self.hosts))
        if port["buffer_id"] == 0:
            return self.hosts_below(int(port["switch"])), everyone
        if port["peer_switch"] >= 0:
            return everyone, self.hosts_below(int(port["peer_switch"]))
        return everyone, [int(port["peer_host"])]

    # --------------------------------------------------------------------------------------------- routing

    def _inner_path(self, src: Ints, dst: Ints, choice: list[Ints]) -> Ints:
        """Ports of stages 1 to 4 [flows, 4] between edge switches, for a choice at every level."""
        raise NotImplementedError

    def paths(
        self,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        hashes: npt.NDArray[np.uint64],
        down: npt.ArrayLike | None = None,
    ) -> npt.NDArray[np.int32]:
        """ECMP paths of flows between hosts, int32 [flows, STAGES]: port rows, NO_PORT if unused.

        `hashes` is `flow_hash`; `down` is bool [ports], true if a port's link has failed. Flows whose path
        has failed take another one by hash; all others stay. Raises FabricError if no path is left.
        """
        paths, lost = self.try_paths(src, dst, hashes, down)
        if lost.any():
            raise FabricError(f"{self.name}: too many links have failed; some hosts have no path left")
        return paths

    def try_paths(
        self,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        hashes: npt.NDArray[np.uint64],
        down: npt.ArrayLike | None = None,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """`paths`, and the flows without a working path, bool [flows]: those whose paths use failed links."""
        source, target = np.asarray(src, np.int64), np.asarray(dst, np.int64)
        path = np.full((len(source), STAGES), NO_PORT, np.int32)
        path[:, 0] = source
        path[:, -1] = self.host_port[target]
        failed = np.zeros(len(self.ports), bool) if down is None else np.asarray(down, bool)
        pending = np.arange(len(source))
        for attempt in product(*(range(n) for n in self.choices)):
            choice = [
                self._choose(hashes[pending], level, attempt[level]) for level in range(len(self.choices))
            ]
            inner = self._inner_path(
                self.host_switch[source[pending]], self.host_switch[target[pending]], choice
            )
            path[pending, 1:-1] = inner
            pending = pending[(failed[inner] & (inner != NO_PORT)).any(axis=1)]
            if not len(pending):
                break
        lost = np.zeros(len(source), bool)
        lost[pending] = True
        return path, lost

    def check_paths(self, down: npt.NDArray[np.bool_]) -> int:
        """Switches on the longest path. Raises FabricError if failed links, bool [ports], leave no path
        between some hosts.
        """
        one_each = np.unique(self.host_switch, return_index=True)[1]
        src, dst = (grid.ravel() for grid in np.meshgrid(one_each, one_each))
        paths = self.paths(src, dst, np.zeros(len(src), np.uint64), down)
        return int((paths[:, 1:] != NO_PORT).sum(axis=1).max())

    def _choose(self, hashes: npt.NDArray[np.uint64], level: int, attempt: int) -> Ints:
        """Each flow's choice at one level: by hash; in further attempts, by another hash among the remaining
        ones.
        """
        count = np.uint64(self.choices[level])
        first = mix64(hashes ^ np.uint64(0x9E3779B97F4A7C15 * (level + 1) & 0xFFFFFFFFFFFFFFFF))
        if not attempt:
            return (first % count).astype(np.int64)
        other = mix64(first + np.uint64(1)) + np.uint64(attempt - 1)
        return ((first % count + np.uint64(1) + other % (count - np.uint64(1))) % count).astype(np.int64)

    def links(self) -> Iterator[int]:
        """Rows of ports between switches, one per link; those that lead to the spine."""
        for row, port in enumerate(self.ports):
            if port["peer_switch"] >= 0 and port["switch"] >= 0 and row < port["reverse"]:
                yield row
