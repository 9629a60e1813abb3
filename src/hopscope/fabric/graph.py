"""A topology of any form, with ECMP over all shortest paths.

Every switch hashes a flow with its own salt, and takes one of its ports that lead nearer to the flow's last
switch. If links fail, only the flows that used them move, to shortest paths over the remaining links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base.hash_rows import mix64
from ..base.plural import plural
from ..wire.records import MAX_HOPS
from .ports import NO_PORT, FabricError, Ints, Switch, Topology

MAX_SWITCHES = 1024
MAX_HOSTS = 16_384
SHOWN = 5
"""Maximum switches that an error names."""


@dataclass(frozen=True, slots=True)
class Cable:
    """A link between two switches (rows), with the port number and the switch at each end."""

    ends: tuple[int, int]
    numbers: tuple[int, int]
    rate: int
    """bit/s"""
    delay_ns: int = -1
    """-1: that of the link model."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host, and the port of the switch (row) that it is attached to."""

    name: str
    address: int
    """IPv4 address as a number."""
    switch: int
    number: int
    rate: int
    """bit/s"""


@dataclass(frozen=True, slots=True)
class _Routes:
    """Ports on shortest paths towards the switches with hosts, the targets."""

    distance: npt.NDArray[np.int32]
    """Links from each switch to each target, [targets, switches]; -1: no path."""
    first: Ints
    """Place in `options` of the first port of each target and switch, [targets · switches]."""
    count: Ints
    options: Ints
    """Port rows."""


class Graph(Topology):
    """Switches, links and hosts as given; a port towards a switch has buffer 0, one towards a host buffer 1.

    Raises FabricError for fewer than two hosts, unconnected switches, and paths with more than MAX_HOPS
    switches.
    """

    feed_forward = False

    def __init__(
        self, name: str, switches: Sequence[Switch], cables: Sequence[Cable], hosts: Sequence[Host]
    ) -> None:
        super().__init__()
        self.name, self.choices = name, ()
        self.switches = list(switches)
        self.stages = 1 + min(len(self.switches), MAX_HOPS)
        if len(self.switches) > MAX_SWITCHES:
            raise FabricError(
                f"{name}: found {len(self.switches):,} switches, expected at most {MAX_SWITCHES:,}"
            )
        if not 2 <= len(hosts) <= MAX_HOSTS:
            raise FabricError(f"{name}: found {plural(len(hosts), 'host')}, expected 2 to {MAX_HOSTS:,}")
        self._attach(hosts)
        for cable in cables:
            self._join(cable)
        self._seal()
        self._parallel = {
            ends for ends, count in Counter(tuple(sorted(c.ends)) for c in cables).items() if count > 1
        }
        self._targets = np.unique(self.host_switch)
        self._target_of = np.full(len(self.switches), -1, np.int64)
        self._target_of[self._targets] = np.arange(len(self._targets))
        self._degraded = b""
        """The failed links, as bytes, that `_detours` are for."""
        self._routes = self._detours = self._find_routes(np.zeros(len(self.ports), bool))
        self._check()

    def _attach(self, hosts: Sequence[Host]) -> None:
        count, last = len(hosts), self.stages - 1
        self.host_names = [host.name for host in hosts]
        self.host_address = np.array([host.address for host in hosts], np.int64)
        self.host_switch = np.array([host.switch for host in hosts], np.int64)
        for row, host in enumerate(hosts):  # columns in the order of PORT
            self._rows.append((host.rate, 0, -1, 1, host.number, host.switch, -1, count + row, -1, 0, 1))
        for row, host in enumerate(hosts):
            node = self.switches[host.switch].node_id
            self._add(
                (host.switch, host.number),
                (host.rate, node, host.switch, host.number, 0, -1, row, row, -1, last, 1),
            )

    def _join(self, cable: Cable) -> None:
        at = len(self._rows)
        for side in (0, 1):
            here, there = cable.ends[side], cable.ends[1 - side]
            number, peer = cable.numbers[side], cable.numbers[1 - side]
            row = (
                cable.rate, self.switches[here].node_id, here, number, peer, there, -1, at + 1 - side,
                cable.delay_ns, 1, 0,
            )  # fmt: skip
            self._towards[here, there] = at + side
            self._add((here, number), row)

    def _check(self) -> None:
        away = self.links_to(0)
        if (away < 0).any():
            parts = [
                ", ".join(self.switches[i].name for i in rows[:SHOWN]) + " …" * (len(rows) > SHOWN)
                for rows in (np.flatnonzero(away >= 0), np.flatnonzero(away < 0))
            ]
            raise FabricError(f"{self.name}: no link connects {parts[0]} with {parts[1]}: add one to `links`")
        between = self._routes.distance[:, self._targets]
        longest = 1 + int(between.max())
        if longest > MAX_HOPS:
            ends = np.unravel_index(int(between.argmax()), between.shape)
            here, there = (self.switches[int(self._targets[end])].name for end in ends)
            raise FabricError(
                f"{self.name}: the shortest path from {there} to {here} has {longest} switches, and INT "
                f"carries at most {MAX_HOPS} hops"
            )

    # --------------------------------------------------------------------------------------------- reading

    def port_name(self, row: int) -> str:
        """Name of a port by its peer, such as `to b`; of parallel links also by its port, `to b port 3`."""
        port = self.ports[row]
        ends = tuple(sorted((int(port["switch"]), int(port["peer_switch"]))))
        return super().port_name(row) + f" port {port['peer_number']}" * (ends in self._parallel)

    def hosts_through(self, row: int) -> tuple[list[int], list[int]]:
        """Hosts with a shortest path through a switch's port, and those that such a path leads to."""
        port = self.ports[row]
        if port["peer_switch"] < 0:
            host = int(port["peer_host"])
            return [other for other in range(self.hosts) if other != host], [host]
        away = self._routes.distance
        near, far = away[:, port["switch"]], away[:, port["peer_switch"]]
        through = near[:, None] + 1 + far[None, :] == away[:, self._targets].T  # [source, target]
        ends = self._target_of[self.host_switch]
        return np.flatnonzero(through.any(axis=1)[ends]).tolist(), np.flatnonzero(
            through.any(axis=0)[ends]
        ).tolist()

    # --------------------------------------------------------------------------------------------- routing

    def _find_routes(self, down: npt.NDArray[np.bool_]) -> _Routes:
        rows = np.flatnonzero((self.ports["switch"] >= 0) & (self.ports["peer_switch"] >= 0) & ~down)
        at, peer = self.ports["switch"][rows].astype(np.int64), self.ports["peer_switch"][rows]
        targets, switches = len(self._targets), len(self.switches)
        distance = np.full((targets, switches), -1, np.int32)
        distance[np.arange(targets), self._targets] = 0
        for links in range(switches):
            target, port = np.nonzero((distance[:, peer] == links) & (distance[:, at] < 0))
            if not len(target):
                break
            distance[target, at[port]] = links + 1
        nearer = (distance[:, peer] >= 0) & (distance[:, at] == distance[:, peer] + 1)
        target, port = np.nonzero(nearer)
        place = target * switches + at[port]
        count = np.bincount(place, minlength=targets * switches)
        return _Routes(
            distance, np.cumsum(count) - count, count, rows[port[np.argsort(place, kind="stable")]]
        )

    def try_paths(
        self,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        hashes: npt.NDArray[np.uint64],
        down: npt.ArrayLike | None = None,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """`paths`, and the flows without a working path, bool [flows]: those whose paths use failed links."""
        source, target = np.asarray(src, np.int64), np.asarray(dst, np.int64)
        path, lost = self._walk(self._routes, source, target, hashes)
        if down is None or not np.any(down):
            return path, lost
        failed = np.asarray(down, bool)
        inner = path[:, 1:-1]
        moved = np.flatnonzero((failed[inner] & (inner != NO_PORT)).any(axis=1))
        if len(moved):
            if self._degraded != failed.tobytes():
                self._degraded, self._detours = failed.tobytes(), self._find_routes(failed)
            found, without = self._walk(self._detours, source[moved], target[moved], hashes[moved])
            path[moved[~without]] = found[~without]
            lost[moved] = without
        return path, lost

    def _walk(
        self, routes: _Routes, source: Ints, target: Ints, hashes: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Paths, hop by hop, and the flows that do not arrive."""
        path = np.full((len(source), self.stages), NO_PORT, np.int32)
        path[:, 0], path[:, -1] = source, self.host_port[target]
        at, end = self.host_switch[source].copy(), self.host_switch[target]
        first_place = self._target_of[end] * len(self.switches)
        for stage in range(1, self.stages):
            flows = np.flatnonzero((at != end) & (routes.count[first_place + at] > 0))
            if not len(flows) or stage == self.stages - 1:
                break
            place = first_place[flows] + at[flows]
            salt = at[flows].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
            choice = mix64(hashes[flows] ^ salt) % routes.count[place].astype(np.uint64)
            port = routes.options[routes.first[place] + choice.astype(np.int64)]
            path[flows, stage] = port
            at[flows] = self.ports["peer_switch"][port]
        return path, at != end
