"""The sample captures are small and are what the simulator makes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import hopscope
from hopscope.library.samples import FOLDER, SAMPLES

MAKER = Path(__file__).parents[2] / "docs" / "samples.py"


def test_samples_are_small_and_complete() -> None:
    """The folder holds exactly what is listed, in less than 300 KB."""
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(SAMPLES)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 300_000


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


def test_unknown_sample_is_an_error() -> None:
    """The error lists what there is."""
    with pytest.raises(hopscope.HopscopeError, match=r"unknown sample 'nothing'; expected microburst\.pcap"):
        hopscope.sample("nothing")
