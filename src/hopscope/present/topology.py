"""Links between switches, from all sources that a collector has: its file, LLDP
neighbours, paths of flows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..control.neighbours import SwitchPorts
from ..control.status import read_status
from ..control.topology import Link, Step, merged
from ..detect.links import Links, read_links
from ..detect.records import NO_PORT, FlowState
from ..labels.tracked_state import HOPS
from ..memory.data_folder import read_owner
from ..wire.records import Records
from .collector_state import CollectorState

_UNKNOWN = -1
Columns = npt.NDArray[np.int64]
"""Steps of paths, int64 [steps, 4]: node, egress port, next node and its ingress port."""


def topology(state: CollectorState) -> tuple[Link, ...]:
    """All links of the collector of a data folder. Raises LinksError if its file of links is invalid."""
    return merged(links_of_file(state), switches_with_ports(state), _steps(state))


def links_of_file(state: CollectorState) -> Links:
    """The links of the collector's file. Raises LinksError."""
    links = read_owner(state.folder).get("links")
    return read_links(Path(links) if isinstance(links, str) else None)


def switches_with_ports(state: CollectorState) -> dict[int, SwitchPorts]:
    """Ports of the switches that the controller reaches, with their neighbours, by node id."""
    return {
        switch["node"]: SwitchPorts.model_validate(switch["ports"])
        for switch in read_status(state.regions)
        if switch["ports"] is not None
    }


def _steps(state: CollectorState) -> Iterator[Step]:
    """The steps of all live paths with the number of flows that take them; a step may come several times."""
    parts = [_of_tracked(state.tracked.copy()[1])]
    for block in state.paths():
        whole = (block.flows["state"] & FlowState.HAS_PATH > 0)[block.owner]
        follows = (np.diff(block.owner) == 0) & (np.diff(block.number) == 1)
        at = np.flatnonzero(whole[:-1] & follows & (block.hops["egress_port"][:-1] != NO_PORT))
        before, after = block.hops[at], block.hops[at + 1]
        parts.append(_columns(before["node_id"], before["egress_port"], after["node_id"]))
    for part in parts:
        steps, counts = np.unique(part, axis=0, return_counts=True)
        for (node, port, following, ingress), count in zip(steps.tolist(), counts.tolist(), strict=True):
            yield (node, port), following, None if ingress == _UNKNOWN else ingress, count


def _of_tracked(flows: Records) -> Columns:
    """Steps of tracked flows (INT-label)."""
    paths = flows["path"]
    there = np.arange(HOPS - 1) < flows["hops"][:, np.newaxis].astype(np.int64) - 1
    before, after = paths[:, :-1][there], paths[:, 1:][there]
    return _columns(before["node_id"], before["egress_port"], after["node_id"], after["ingress_port"])


def _columns(*columns: npt.NDArray[np.integer]) -> Columns:
    found = np.full((len(columns[0]), 4), _UNKNOWN, np.int64)
    for number, column in enumerate(columns):
        found[:, number] = column
    return found
