"""What the XDP program counts while it is merged is neither lost nor added twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hopscope.bpf import layout
from hopscope.bpf.follow import install_kernel, merge_kernel, remove_kernel
from hopscope.detect.records import FLOW, FLOW_ROW, HOP_STATE, PORT, THRESHOLD, WAYS, FlowState

LATENCY = 3
COUNTS = ("packets", "latency_sum", "latency_samples")
HOP_COUNTS = ("latency_sum", "samples")


class Counting:
    """A row in which the program counts one more packet after each look of Python at a count."""

    def __init__(self, row: Any, names: tuple[str, ...], **others: Any) -> None:
        self.row, self.names, self.others = row, names, others

    def __getattr__(self, name: str) -> Any:
        if name in self.others:
            return self.others[name]
        value = self.row[name].copy()
        if name in self.names:
            self.count(name)
        return value

    def count(self, name: str) -> None:
        """Add a packet to one of the counts."""
        self.row[name] += LATENCY if name == "latency_sum" else 1


def test_what_is_counted_while_a_flow_is_merged_is_merged_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet that is counted between any two reads of a merge is in that merge or in the next one."""
    row, row_hop = np.zeros(1, layout.FLOW)[0], np.zeros(1, layout.HOP)[0]
    hop = Counting(row_hop, HOP_COUNTS)
    kept = Counting(row, COUNTS, hops=[hop])
    flows, states = np.zeros(WAYS, FLOW).view(np.recarray), np.zeros(64, HOP_STATE).view(np.recarray)
    rows = SimpleNamespace(
        common_hops=lambda *_: 1, state_at=lambda *_: 0, kept_hop=lambda kept, _more, h: kept.hops[int(h)]
    )
    for name, twin in {
        "order": lambda: None,
        "use_way": lambda *_: None,
        "keep_latest": lambda *_: None,
    }.items():
        monkeypatch.setattr(merge_kernel, name, twin)
    monkeypatch.setattr(merge_kernel, "rows_kernel", rows)
    tags = np.zeros(1, FLOW_ROW).view(np.uint32)
    seen, seen_hops = np.zeros((WAYS, 4), np.uint64), np.zeros((len(states), 2), np.uint64)

    def merge() -> None:
        merge_kernel.merge_flow.py_func(  # type: ignore[attr-defined]
            0, 0, tags, flows, states, [kept], None, seen, seen_hops, np.uint64(0)
        )

    for name in COUNTS:  # one after the other, as the program does
        kept.count(name)
        merge()
    kept.names, hop.names = (), ()
    kept.count("packets")
    merge()
    assert {name: int(flows[0][name]) for name in COUNTS} == {name: int(row[name]) for name in COUNTS}
    assert {name: int(states[0][name]) for name in HOP_COUNTS} == {
        name: int(row_hop[name]) for name in HOP_COUNTS
    }


def test_a_latency_that_is_counted_after_its_packet_is_merged() -> None:
    """The program counts a packet and then its latency: merges between both lose neither."""
    tags, flows, states = np.zeros(1, FLOW_ROW).view(np.uint32), np.zeros(WAYS, FLOW), np.zeros(64, HOP_STATE)
    kept, more = np.zeros(WAYS, layout.FLOW), np.zeros(1, layout.HOP)
    seen, seen_hops = np.zeros((WAYS, 4), np.uint64), np.zeros((len(states), 2), np.uint64)
    zero = np.uint64(0)
    for name in COUNTS:
        kept[name][0] += LATENCY if name == "latency_sum" else 1
        merge_kernel.merge_flow(zero, zero, tags, flows, states, kept, more, seen, seen_hops, zero)
    assert [int(flows[name][0]) for name in COUNTS] == [1, LATENCY, 1]


def test_a_peak_that_comes_while_a_port_is_merged_is_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program stores a higher value after the highest one is read, and before it begins again at 0."""

    class Metric:
        latest = highest = 100

        def __getattribute__(self, name: str) -> Any:
            value = object.__getattribute__(self, name)
            if name == "highest":
                self.latest = self.highest = 900
            return value

    monkeypatch.setattr(merge_kernel, "fence", lambda: None)
    monkeypatch.setattr(merge_kernel, "keep_latest_of_port", lambda *_: None)
    ports = np.zeros(1, PORT).view(np.recarray)
    ports["key"], ports["state"] = 5, 1
    kept = SimpleNamespace(
        key=5, state=layout.State.ACTIVE, samples=1, last_ns=1, metrics=[Metric(), Metric()]
    )
    merge_kernel.merge_ports.py_func(0, 1, ports, [kept], np.zeros((1, 2), np.uint64), 0)  # type: ignore[attr-defined]
    assert ports["highest"][0].tolist()[0] == 900


def test_packets_of_a_flow_whose_row_is_used_again_are_counted() -> None:
    """What the program counted of the flow before, and nobody merged, is lost to records, not to counters."""
    tags, flows, states = np.zeros(1, FLOW_ROW).view(np.uint32), np.zeros(WAYS, FLOW), np.zeros(64, HOP_STATE)
    flows["state"], flows["sport"], flows["flow_id"] = FlowState.HAS_PATH, 9, 1
    kept, more = np.zeros(WAYS, layout.FLOW), np.zeros(1, layout.HOP)
    kept["packets"], kept["transport"] = 7, 5
    seen, seen_hops = np.zeros((WAYS, 4), np.uint64), np.zeros((len(states), 2), np.uint64)
    seen[:, 0], lost = 4, np.zeros(1, np.uint64)
    limits, overrides, near = np.zeros(16, THRESHOLD), np.zeros(1, np.uint64), np.zeros(1, layout.TAGS)
    zero = np.uint64(0)
    for packets in (3, 3):
        assert install_kernel.install_flow(
            flows, zero, states, limits, overrides, near, kept, more, tags, seen, seen_hops, zero, lost
        )
        assert lost[0] == packets


def test_a_port_row_with_another_key_is_let_go() -> None:
    """It is, before the program's runs are waited for: it is installed again after that."""
    ports, kept = np.zeros(1, PORT), np.zeros(1, layout.PORT)
    ports["key"], kept["key"], kept["state"] = 5, 4, layout.State.ACTIVE
    assert not remove_kernel.refresh_port(ports, np.uint64(0), kept)
    assert kept["state"][0] == layout.State.ABSENT
