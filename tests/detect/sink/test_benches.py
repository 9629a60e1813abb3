"""The sink's benchmarks of exactness, with few packets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.sink.records import Measure
from hopscope.wire.decode.plain import PlainDecoder
from sink_exact import Case, blocks, calibrated, compare_counts, wrong_flows
from sink_flows import DIALECT, failures, offer
from support.events.sink_truth import Flows, Histograms, differences
from support.packets.int_packets import Workload

pytestmark = pytest.mark.kernel


def test_the_sink_agrees_with_reference_columns(tmp_path: Path) -> None:
    """Events, flows and bins are those of a reference that sees no frame; an altered event is found."""
    workload, packets = Workload(flows=500, rate=1e6), 6000
    case = Case(tmp_path, calibrated(workload, (0.5e6,))[0], 1024)
    histograms, flows = Histograms(workload), Flows(workload)
    decoder = PlainDecoder(DIALECT)  # to compile one with bounds checks takes longer
    for block, count in blocks(workload, packets):
        for frames in block.batches(count):
            case.take(decoder.decode(frames))
        histograms.add(block, count)
        true = flows.add(block, count)
        case.compare(true)
    assert case.events > packets / 4
    assert (case.missed, case.invented) == (0, 0)
    assert wrong_flows(flows, case.detector) == 0
    for measure in Measure:
        total, off, other = compare_counts(measure, histograms, case.counts())
        assert total == packets * (1 if measure == Measure.END_TO_END else workload.hops)
        assert (off, other) == (0, 0)
    expected = true.events(case.limits, 0)
    wrong = expected.copy()
    wrong["latency_previous"][7] ^= np.uint64(1)
    assert differences(expected, wrong) == (1, 1)
    assert differences(expected, expected[1:]) == (1, 0)
    flows.packets[0] += 1
    assert wrong_flows(flows, case.detector) == 1


def test_flows_offered_are_kept_or_evicted() -> None:
    """A table too small for its flows loses no packet, and is as full as balls in bins say."""
    found = offer(Workload(flows=3000), 64, 12_000, PlainDecoder(DIALECT))
    assert found.evictions > 0
    assert failures(found) == []
    found.wrong = 1
    assert len(failures(found)) == 1
