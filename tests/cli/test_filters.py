"""Filters of reports, over records made by hand."""

from __future__ import annotations

import ipaddress

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.cli.decode.filter import ReportFilter
from hopscope.cli.options.filters import FilterError, flow_filter
from hopscope.wire.records import HOP, REPORT, Carried, Have, Kind, ReportBatch


def batch() -> ReportBatch:
    """An IPv4 flow over nodes 1, 2; an IPv6 flow over 2, 3; a drop report of node 9; a refused report."""
    reports = np.zeros(4, REPORT)
    for row, src, dst, port in ((0, "10.0.0.1", "10.1.0.1", 80), (1, "2001:db8::1", "2001:db8::2", 53)):
        for side, text in (("src", src), ("dst", dst)):
            address = ipaddress.ip_address(text)
            number = int(address) | (0xFFFF << 32 if address.version == 4 else 0)
            reports[f"{side}_hi"][row], reports[f"{side}_lo"][row] = number >> 64, number & (1 << 64) - 1
        reports["carried"][row] = Carried.FLOW | Carried.PORTS
        reports["dport"][row], reports["sport"][row], reports["proto"][row] = port, 4000 + row, (6, 17)[row]
    reports["first_hop"], reports["hop_count"] = [0, 2, 4, 4], [2, 2, 0, 0]
    reports["kind"][2], reports["carried"][2], reports["node_id"][2] = Kind.DROP, Carried.NODE_ID, 9
    reports["reason"][3], reports["node_id"][3] = 1, 9
    hops = np.zeros(5, HOP)
    hops["node_id"] = [1, 2, 2, 3, 1]
    hops["present"] = Have.NODE_ID
    return ReportBatch(reports, hops)


@pytest.mark.parametrize(
    ("filter_", "rows"),
    [
        (ReportFilter(), [0, 1, 2, 3]),
        (ReportFilter(flow="10.0.0.1,10.1.0.1,tcp,4000,80"), [0]),
        (ReportFilter(flow="10.0.0.0/8"), [0]),
        (ReportFilter(flow="*,2001:db8::2"), [1]),
        (ReportFilter(flow="dport=53,proto=17"), [1]),
        (ReportFilter(flow="proto=17,dport=80"), []),
        (ReportFilter(flow="10.0.0.1:4000 → 10.1.0.1:80 tcp"), [0]),
        (ReportFilter(flow="10.0.0.1:4000 → 10.1.0.1:80 udp"), []),
        (ReportFilter(flow="[2001:db8::1]:4001 -> [2001:db8::2]:53"), [1]),
        (ReportFilter(flow="2001:db8::1 → 2001:db8::2 udp"), [1]),
        (ReportFilter(flow="[2001:db8::1]"), [1]),
        (ReportFilter(prefixes=["[2001:db8::]/32"]), [1]),
        (ReportFilter(flow="0.0.0.0/0"), [0]),
        (ReportFilter(prefixes=["10.1.0.0/16", "2001:db8::/32"]), [0, 1]),
        (ReportFilter(nodes=["2"]), [0, 1]),
        (ReportFilter(nodes=["0x1"]), [0]),
        (ReportFilter(nodes=["9"]), [2]),
        (ReportFilter(nodes=["core"], names=Names(nodes={3: "core"})), [1]),
        (ReportFilter(kinds=["int"]), [0, 1]),
        (ReportFilter(kinds=["DROP, error"]), [2, 3]),
        (ReportFilter(kinds=["int"], nodes=["3"]), [1]),
    ],
)
def test_rows_that_pass(filter_: ReportFilter, rows: list[int]) -> None:
    """Each filter alone and together; a refused report passes only by what was read of it."""
    found = batch()
    assert np.flatnonzero(filter_.mask(found)).tolist() == rows
    assert len(filter_.select(found)) == len(rows)


def test_hops_without_a_node_match_none() -> None:
    """A node id that is absent or all ones is no node."""
    found = batch()
    found.hops["present"][0] = 0
    found.hops["null"][1] = Have.NODE_ID
    assert ReportFilter(nodes=["1"]).mask(found).tolist() == [False] * 4
    assert ReportFilter(nodes=["2"]).mask(found).tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0",
        "1.1.1.1,2.2.2.2,tcp,1,2,3",
        "color=red",
        "src=1.1.1.1,src=2.2.2.2",
        ",,tpc",
        ",,,70000",
        "sport=x",
    ],
)
def test_flows_that_are_none(text: str) -> None:
    """What was found and what was expected, in one line."""
    with pytest.raises(FilterError) as caught:
        flow_filter(text, None)
    assert str(caught.value).startswith(f"--flow {text}: ")
    assert "expected" in str(caught.value)
