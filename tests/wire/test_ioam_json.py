"""What `decode` prints of IOAM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hopscope.wire.buffer import Buffer
from hopscope.wire.decode.as_json import report_object
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import HOP, REPORT, ReportBatch
from oracle.ioam import read_ioam
from oracle.row import Row
from support.packets.ioam_cases import OPTIONS, extension, packet
from support.packets.wire_cases import frame_batch


def told(name: str) -> dict[str, Any]:
    """The object of a packet with this option."""
    raw = packet(extension(OPTIONS[name]))
    row = Row({})
    read_ioam(Buffer(raw, 14 + 40 + 4), row, DEFAULT)
    row.set(hop_count=len(row.hops))
    report = np.array([tuple(row.fields.get(key, 0) for key in REPORT.names or ())], REPORT)
    hops = np.array([tuple(getattr(hop, key) for key in HOP.names or ()) for hop in row.hops], HOP)
    return report_object(ReportBatch(report, hops), 0, frame_batch([raw]))


def test_a_trace() -> None:
    """Namespace and trace type stand where INT has its instructions; hops have the keys of INT's."""
    one = told("pre-allocated with room")
    assert one["int"] == {
        "version": "ioam", "mode": "preallocated", "carrier": "ipv6_option", "namespace": 123,
        "trace_type": "0xf00000", "hop_words": 4, "remaining_hops": 1, "hops_exceeded": False,
    }  # fmt: skip
    assert [hop["node_id"] for hop in one["hops"]] == [1, 2]
    assert one["hops"][0]["ingress_port"] == 11
    assert one["hops"][0]["ingress_time"] == 0x66000000_00000064


def test_direct_export() -> None:
    """It has no hops, and says nothing of their size."""
    one = told("direct export")
    assert one["int"].items() >= {"mode": "dex", "namespace": 123, "trace_type": "0xf00000"}.items()
    assert (one["int"]["flow_id"], one["int"]["sequence"]) == (0xCAFE0001, 42)
    assert "hop_words" not in one["int"]
    assert one["hops"] == []


def test_extras() -> None:
    """What INT has no key for is named in `extras` of its hop; a snapshot is hexadecimal digits."""
    old, new = told("every bit")["hops"]
    assert new["extras"] == {
        "hop_limit": 63, "namespace_data": 0xDEAD0001, "wide_hop_limit": 63, "wide_node_id": 2,
        "wide_namespace_data": 0x1122334455667788, "schema": 7, "snapshot": b"SNAPSHOT".hex(),
    }  # fmt: skip
    assert (old["extras"]["schema"], old["extras"]["snapshot"]) == (None, "")
    assert told("pre-allocated with room")["hops"][0]["extras"] == {"hop_limit": 64}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option(name: str) -> None:
    """All of them can be told; a value that is not available is null."""
    one = told(name)
    if name == "nothing available":
        kept = {key: value for key, value in one["hops"][0].items() if key != "extras"}
        assert set(kept.values()) == {None}
    assert one["int"]["version"] == "ioam"
