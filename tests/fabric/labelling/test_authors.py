"""The data of INT-label's authors, and our readings of them: closed forms, fabrics and the simulation."""

from __future__ import annotations

import numpy as np
import pytest

from harness import label_counts
from harness.label_authors import authors
from harness.label_coverage import formula
from harness.label_runs import mean, measure, scheme
from hopscope.fabric.labelling.rivals import hula
from hopscope.fabric.labelling.rivals.euler import euler_trails
from hopscope.fabric.topology import FatTree

SERIES = {"hula": "HULA", "pingmesh": "pingmesh", "int-path": "INT-path", "int-label": "INT-label"}


@pytest.mark.parametrize("k", [10, 20, 30])
def test_figures_20_and_21_are_counted_as_the_authors_did(k: int) -> None:
    """Generators, Pingmesh's and HULA's bandwidth are the authors' to the last digit; the other two are half
    a byte a host below theirs, which is open.
    """
    assert label_counts.generators(k) == {name: authors(20, series)[k] for name, series in SERIES.items()}
    found = label_counts.megabits(k)
    theirs = {name: authors(21, series)[k] for name, series in SERIES.items()}
    assert found["pingmesh"] == pytest.approx(theirs["pingmesh"], rel=1e-12)
    assert found["hula"] == pytest.approx(theirs["hula"], rel=2e-6)  # six digits
    half = 8e-6 * label_counts.ROUNDS * label_counts.hosts(k) / 2
    for name in ("int-path", "int-label"):
        assert found[name] + half == pytest.approx(theirs[name], rel=1e-3)


@pytest.mark.parametrize("k", [4, 6])
def test_counts_are_those_of_fat_trees(k: int) -> None:
    """Walked on a fabric: vertices of odd degree if hosts are vertices, ports of switches, and the items that
    arrive with HULA's copies. The authors' count has the copies of a pod k/2 times.
    """
    topology = FatTree(k)
    ports = topology.ports
    vertex = np.where(ports["switch"] >= 0, ports["switch"], len(topology.switches) + np.arange(len(ports)))
    ends = [
        (int(vertex[row]), int(vertex[ports["reverse"][row]]))
        for row in range(len(ports))
        if row < ports["reverse"][row]
    ]
    assert (
        euler_trails(len(topology.switches) + len(ports), ends)[1] == label_counts.generators(k)["int-path"]
    )
    assert (
        np.count_nonzero(ports["switch"] >= 0) * label_counts.ITEM == label_counts.round_bytes(k)["int-label"]
    )
    arrived, todo = 0, [(below, 1) for _, below in hula.probes(topology, roots=1).routes]
    while todo:
        below, items = todo.pop()
        arrived += 0 if below else items
        todo += [(further, items + 1) for further in below.values()]
    assert label_counts.hula_items(k) == arrived
    assert label_counts.hula_items_of_the_authors(k) - arrived == k * (k // 2 - 1) ** 2


@pytest.mark.kernel
@pytest.mark.parametrize(("interval", "telemetry"), [(0.05, 0.05), (0.05, 0.08), (0.02, 0.05), (0.1, 0.05)])
def test_sparse_ports_alone_explain_coverage(interval: float, telemetry: float) -> None:
    """Coverage of Base A in the simulation, without jitter, is the closed form's for ports of these rates."""
    found = measure(
        3, labelling__interval=interval, experiment__telemetry=telemetry, **scheme("Base A")
    )  # fmt: skip
    assert mean(found, "coverage_of_all") == pytest.approx(formula(interval, telemetry), abs=0.01)
