"""When and where the demo's faults happen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ...base.errors import HopscopeError
from ...fabric.faults import Fault, FaultKind, make_fault
from ...fabric.topology import STAGES, LeafSpine, Topology

SHORTEST = 12.0
"""Shortest demo, s: the faults need room between them."""
ROUND = 60.0
"""Seconds after which a demo without an end repeats its faults."""
ROUNDS = 120
_STARTS = {
    FaultKind.MICROBURST: 0.2,
    FaultKind.PATH_CHANGE: 0.367,
    FaultKind.LOSSY_PORT: 0.533,
    FaultKind.SLOW_HOP: 0.7,
}
"""Start of each fault as a share of the demo's duration: 6, 11, 16 and 21 s of 30 s."""
_LASTING = 0.1


def schedule(topology: Topology, seconds: float | None, seed: int) -> list[Fault]:
    """The four faults, each at a different port that the seed chooses; repeated if the demo has no end.

    Raises HopscopeError for a fabric of two leaves: flows that avoid a spine avoid both of its links, so no
    event tells which one failed.
    """
    if isinstance(topology, LeafSpine) and topology.leaves < 3:
        raise HopscopeError(
            f"--topology: found {topology.name}, expected three leaves or more: with two, a path change "
            "does not show which link of a spine has failed"
        )
    random = np.random.default_rng((seed, 2))
    rows: dict[FaultKind, int] = {}
    for kind in _STARTS:
        free = [row for row in _ports(topology, kind).tolist() if not _touches(topology, row, rows.values())]
        rows[kind] = int(random.choice(free))
    rounds = [0.0] if seconds is not None else [ROUND * i for i in range(ROUNDS)]
    return [
        fault
        for offset in rounds
        for fault in _round(topology, rows, offset, 30.0 if seconds is None else seconds)
    ]


def _round(topology: Topology, rows: dict[FaultKind, int], offset: float, seconds: float) -> Iterator[Fault]:
    for kind, share in _STARTS.items():
        port = topology.ports[rows[kind]]
        yield make_fault(
            topology, kind, round(offset + share * seconds, 3), int(port["node_id"]), int(port["number"]),
            round(_LASTING * seconds, 3),
        )  # fmt: skip


def _touches(topology: Topology, row: int, others: Iterable[int]) -> bool:
    """Whether a port is on the link of another fault's port; each fault needs a link of its own."""
    return any(row in (other, int(topology.ports["reverse"][other])) for other in others)


def _ports(topology: Topology, kind: FaultKind) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Port rows where a kind of fault can be shown well."""
    ports = topology.ports
    switched = ports["switch"] >= 0
    highest = ports["stage"][switched & (ports["buffer_id"] == 0)].max()
    usable = {
        FaultKind.MICROBURST: ports["stage"] == STAGES - 1,
        FaultKind.PATH_CHANGE: switched & (ports["buffer_id"] == 0) & (ports["stage"] == highest),
        FaultKind.LOSSY_PORT: switched & (ports["buffer_id"] == 0) & (ports["stage"] == 1),
        FaultKind.SLOW_HOP: ports["stage"] == 3,
    }[kind]
    return np.nonzero(usable)[0]


def as_option(fault: Fault) -> str:
    """A fault in the form of `hopscope simulate --fault`."""
    return f"{fault.kind}@{fault.start},node={fault.node_id},port={fault.number},duration={fault.duration}"
