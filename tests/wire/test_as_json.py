"""The objects of `hopscope decode`: a key is there exactly when the report carries it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopscope.wire.address import address
from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import Dialect
from hopscope.wire.encode.encoder import new_hops, new_reports
from hopscope.wire.records import HOP, Carried, Flag, Have, Kind, Link, ReportBatch
from oracle.encode import encode_scalar
from support.packets.wire_cases import frame_batch


def _objects(batch: ReportBatch) -> list[dict[str, Any]]:
    frames = encode_scalar(batch)
    return list(report_objects(decode_plain(frames), frames))


def test_the_example_of_the_format() -> None:
    """A Report 2.0 with INT 2.x and metadata of its own, key by key."""
    rows = new_reports(1, 20)
    for name, value in {
        "time_ns": 1_700_000_000_000_000_000, "source_lo": 0xFFFF_C000_0201, "node_id": 7, "hw_id": 1,
        "sequence": 42,
        "src_lo": 0xFFFF_C633_6401, "dst_lo": 0xFFFF_CB00_7109, "sport": 4000, "dport": 53, "int_version": 20,
        "instructions": 0xE000, "hop_count": 1, "remaining_hops": 5, "flags": Flag.TRACKED,
    }.items():  # fmt: skip
        rows[name] = value
    rows["carried"] |= np.uint8(Carried.OWN_HOP)
    hops = new_hops(2, 0xE000)
    hops["node_id"], hops["ingress_port"], hops["egress_port"], hops["hop_latency"] = 4, 1, 2, [250, 12]
    hops["present"][1] = Have.HOP_LATENCY
    (one,) = _objects(ReportBatch(rows, hops))
    assert one == {
        "packet": 0, "index": 0, "time_ns": 1700000000000000000, "source": "192.0.2.1",
        "report": {
            "version": "2.0", "kind": "int", "node_id": 7, "hw_id": 1, "sequence": 42, "dropped": False,
            "congested": False, "tracked": True, "intermediate": False, "metadata": {"hop_latency": 12},
        },
        "flow": {"src": "198.51.100.1", "dst": "203.0.113.9", "proto": 17, "sport": 4000, "dport": 53},
        "int": {
            "version": "2", "mode": "md", "carrier": "udp", "npt": 0, "instructions": "0xe000",
            "hop_words": 3, "remaining_hops": 5, "hops_exceeded": False, "mtu_exceeded": False,
        },
        "hops": [
            {"node_id": 4, "ingress_port": 1, "egress_port": 2, "hop_latency": 250},
            {"node_id": 7, "hop_latency": 12, "in_report": True},
        ],
    }  # fmt: skip


def _own(version: int, kind: Kind, present: int, **values: int) -> dict[str, Any]:
    rows = new_reports(1, version)
    rows["kind"], rows["node_id"] = kind, 9
    rows["flags"] = {Kind.DROP: Flag.DROPPED, Kind.QUEUE: Flag.CONGESTED}.get(kind, 0)
    rows["carried"] |= np.uint8(Carried.OWN_HOP | (Carried.DROP_REASON if kind == Kind.DROP else 0))
    hops = np.zeros(1, HOP)
    hops["present"] = present
    for name, value in values.items():
        (
            rows
            if name in ("drop_reason", "ingress_time") or (name == "queue_id" and kind == Kind.DROP)
            else hops
        )[name] = value
    if version == 5 and kind == Kind.QUEUE:
        rows["queue_id"] = values["queue_id"]
    (one,) = _objects(ReportBatch(rows, hops))
    return one["report"]


def test_drop_reports() -> None:
    """Queue id and drop reason are the report's own keys; 0.5 has them in its drop header."""
    for version in (5, 10, 20):
        report = _own(
            version, Kind.DROP, Have.PORTS, ingress_port=3, egress_port=4, queue_id=5, drop_reason=6
        )
        assert (report["kind"], report["node_id"], report["queue_id"], report["drop_reason"]) == (
            "drop",
            9,
            5,
            6,
        )
        assert report["metadata"] == {"ingress_port": 3, "egress_port": 4}
        assert ("ingress_time" in report) == (version != 20)
        assert ("intermediate" in report) == (version == 20)


def test_queue_reports() -> None:
    """The queue's occupancy is metadata; its id is also the report's own key."""
    for version in (5, 10, 20):
        have = Have.PORTS | Have.QUEUE_OCCUPANCY | Have.EGRESS_TIME
        report = _own(version, Kind.QUEUE, have, queue_id=5, queue_occupancy=700, egress_time=1234)
        assert (report["kind"], report["queue_id"]) == ("queue", 5)
        assert report["metadata"] == {
            "ingress_port": 0, "egress_port": 0, "queue_id": 5, "queue_occupancy": 700, "egress_time": 1234,
        }  # fmt: skip
        assert "drop_reason" not in report


def test_all_ones_are_null() -> None:
    """A word of all ones is unavailable; a packed word with only one part all ones is a value."""
    have = Have.QUEUE_OCCUPANCY | Have.HOP_LATENCY
    ones = _own(20, Kind.QUEUE, have, queue_id=255, queue_occupancy=0xFFFFFF, hop_latency=0xFFFFFFFF)
    assert (ones["queue_id"], ones["metadata"]) == (
        None,
        {"hop_latency": None, "queue_id": None, "queue_occupancy": None},
    )
    part = _own(20, Kind.QUEUE, have, queue_id=5, queue_occupancy=0xFFFFFF)
    assert part["metadata"] == {"hop_latency": 0, "queue_id": 5, "queue_occupancy": 0xFFFFFF}
    time = _own(20, Kind.INT, Have.INGRESS_TIME)
    assert (time["ingress_time"], time["metadata"]) == (0, {"ingress_time": 0})


def test_congestion_of_0_5() -> None:
    """Bit 6 of INT 0.5 is queue congestion; its queue id is told where bit 3 tells none."""
    rows = new_reports(2, 5)
    rows["int_version"], rows["instructions"], rows["hop_count"], rows["first_hop"] = (
        5,
        [0x0200, 0x1200],
        1,
        [0, 1],
    )
    hops = np.zeros(2, HOP)
    hops["queue_id"], hops["queue_occupancy"], hops["congestion_queue_id"], hops["queue_congestion"] = (
        1,
        2,
        3,
        4,
    )
    first, second = _objects(ReportBatch(rows, hops))
    assert first["hops"] == [{"queue_id": 3, "queue_congestion": 4}]
    assert second["hops"] == [{"queue_id": 1, "queue_occupancy": 2, "queue_congestion": 4}]
    assert "mtu_exceeded" not in first["int"]


def test_keys_follow_what_is_carried() -> None:
    """No IP, no flow; no TCP or UDP, no ports; no INT, no hops; 0.5 without a header of its own has no node
    id.
    """
    rows = new_reports(3, 5)
    rows["carried"][0] = 0
    rows["proto"][1] = 50
    nothing, esp, udp = _objects(ReportBatch(rows, np.zeros(0, HOP)))
    assert not {"flow", "int", "hops"} & set(nothing)
    assert set(esp["flow"]) == {"src", "dst", "proto"}
    assert set(udp) == {"packet", "index", "time_ns", "source", "report", "flow"}
    assert "node_id" not in udp["report"]
    assert udp["packet"] == 2


def test_an_error_says_what_was_found() -> None:
    """A damaged report has reason, place and a detail in words; the packet number counts over the file."""
    batch = frame_batch(
        [bytes.fromhex("2000000100000007") + bytes(4) + bytes.fromhex("13090000")], Link.UDP_PAYLOAD
    )
    batch.first_packet = 41
    decoded = decode_plain(batch)
    fine, bad = report_objects(decoded, batch)
    assert fine["report"]["kind"] == "inner"
    assert bad == {
        "packet": 41, "index": 1,
        "error": {
            "reason": "truncated", "at": "report header",
            "detail": "the report takes 40 bytes, 4 are left (byte 12)",
        },
        "link": "udp_payload", "frame": "20000001000000070000000013090000",
    }  # fmt: skip


def test_addresses() -> None:
    """IPv4 is kept as ::ffff:a.b.c.d and printed as IPv4."""
    assert address(0, 0xFFFF_C000_0201) == "192.0.2.1"
    assert address(0x20010DB8 << 32, 1) == "2001:db8::1"


def test_the_detail_of_a_report_on_another_port() -> None:
    """A capture may be read on ports that the dialect at hand does not name: the detail is told all the
    same.
    """
    rows = new_reports(1, 5)
    rows["proto"] = 6
    batch = encode_scalar(ReportBatch(rows, np.zeros(0, HOP)), port=9999)
    batch.frames["length"] -= 18
    (one,) = report_objects(decode_plain(batch, Dialect("mine", ports=(9999,))), batch)
    assert (
        one["error"]["detail"]
        == "ports needs 4 bytes, 2 are left (byte 88); the capture kept 90 of 108 bytes"
    )


def test_what_the_capture_cut_is_told() -> None:
    """Truncated by the capture's snap length is told apart from truncated by the sender."""
    reports, hops = new_reports(1), new_hops(1, 0x8000)
    reports["int_version"], reports["instructions"], reports["hop_count"] = 20, 0x8000, 1
    frames = encode_scalar(ReportBatch(reports, hops), link=Link.ETHERNET)
    whole = int(frames.frames["length"][0])
    for kept, wire_length, said in ((whole - 4, whole - 4, False), (whole - 4, whole, True)):
        frames.frames["length"], frames.frames["wire_length"] = kept, wire_length
        (one,) = report_objects(decode_plain(frames), frames)
        assert one["error"]["reason"] == "truncated"
        told = f"; the capture kept {kept} of {whole} bytes"
        assert (told in one["error"]["detail"]) == said
