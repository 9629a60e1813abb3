"""The sample captures are small and are what the simulator makes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import hopscope
from hopscope.library.samples import FOLDER, SAMPLES

MAKER = Path(__file__).parents[2] / "docs" / "samples.py"


def test_samples_are_small_and_complete() -> None:
    """The folder holds exactly what is listed, in less than 320 KB."""
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(SAMPLES)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 320_000


@pytest.mark.kernel
def test_samples_are_what_the_simulator_makes(tmp_path: Path) -> None:
    """docs/samples.py writes the same bytes again."""
    spec = importlib.util.spec_from_file_location("samples", MAKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(tmp_path)
    for name in SAMPLES:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), f"run {MAKER.name}: {name}"


def test_microburst_is_in_the_reports() -> None:
    """All reports are accepted, and the queue of leaf-1 (node 2) port 2 is the fullest."""
    objects = [report for batch in hopscope.read(hopscope.sample("microburst")) for report in batch]
    hops = [hop for report in objects for hop in report["hops"]]
    fullest = max(hops, key=lambda hop: hop["queue_occupancy"])
    assert len(objects) > 400
    assert (fullest["node_id"], fullest["egress_port"]) == (2, 2)
    assert fullest["queue_occupancy"] > 2500


@pytest.mark.kernel
def test_a_queue_of_the_edge_fills_up() -> None:
    """Samples of both agents and flow records of the router; in the fifth second, the second agent's queue is
    the fullest.
    """
    objects = [one for batch in hopscope.read(hopscope.sample("edge")) for one in batch]
    assert {one["report"]["version"] for one in objects} == {"sflow-5", "ipfix"}
    fullest = max(objects, key=lambda one: one["report"]["metadata"].get("queue_occupancy", 0))
    assert (fullest["source"], fullest["time_ns"] // 1_000_000_000) == ("192.0.2.2", 1_700_000_004)


def test_unknown_sample_is_an_error() -> None:
    """The error lists what there is."""
    with pytest.raises(hopscope.HopscopeError, match=r"unknown sample 'nothing'; expected microburst\.pcap"):
        hopscope.sample("nothing")
