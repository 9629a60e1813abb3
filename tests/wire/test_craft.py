"""Objects to frames: what is decoded and crafted again decodes alike; the rest is filled in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopscope.wire.craft.frames import craft
from hopscope.wire.craft.keys import CraftError
from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT, DIALECTS, Dialect, Domain
from hopscope.wire.records import FrameBatch, Layer, ReportBatch
from oracle.encode import encode_scalar
from support.packets.wire_cases import frame_batch, frames_of, read_capture, report_batches

SLOW = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])


def decoded(frames: FrameBatch, dialect: Dialect = DEFAULT) -> list[dict[str, Any]]:
    """What `hopscope decode` prints of these frames."""
    objects = report_objects(decode_plain(frames, dialect), frames, dialect)
    return [json.loads(json.dumps(one)) for one in objects]


def again(objects: list[dict[str, Any]], dialect: Dialect = DEFAULT) -> list[dict[str, Any]]:
    """What the crafted frames of these objects decode to."""
    return decoded(craft(objects, dialect), dialect)


def one(**keys: Any) -> dict[str, Any]:
    """What one object becomes."""
    found = again([keys])
    assert len(found) == 1
    return found[0]


@SLOW
@given(report_batches())
def test_identity(reports: ReportBatch) -> None:
    """Every report that the encoder makes decodes alike after it was decoded and crafted."""
    expected = decoded(encode_scalar(reports))
    assert again(expected) == expected


@pytest.mark.parametrize("name", set(DIALECTS) - {"h3c"})
def test_identity_of_captures(name: str, shared: Path) -> None:
    """Every capture, decoded in every dialect and crafted in it, decodes alike in it."""
    dialect = DIALECTS[name]
    for path in sorted(shared.glob("*/*.pcap*")):
        expected = decoded(frame_batch(read_capture(path)), dialect)
        assert again(expected, dialect) == expected, path.name


WRITTEN: dict[str, Any] = {
    "node_id": 9, "ingress_port": 1, "egress_port": 2, "hop_latency": 300, "queue_id": 3,
    "queue_occupancy": 4, "ingress_time": 1000, "egress_time": 1300, "tx_utilization": 5,
}  # fmt: skip
"""A hop whose values fit every form."""


@pytest.mark.parametrize("name", sorted(set(DIALECTS) - {"h3c"}))
def test_every_dialect_by_hand(name: str) -> None:
    """Every report version with every INT version that a dialect has: written by hand, read as written."""
    dialect, done = DIALECTS[name], 0
    hops = [
        WRITTEN,
        {**WRITTEN, "node_id": 4, "hop_latency": None, "queue_id": None, "queue_occupancy": None},
    ]
    forms: list[tuple[str, list[dict[str, Any]]]] = [("md", hops), ("mx", []), ("mx", hops[:1])]
    for report in ("0.5", "1.0", "2.0"):
        for version in ("2015", "0.4", "0.5", "1.0", "2"):
            for mode, asked in forms:
                head = {"version": version, "mode": mode}
                path = asked
                if version == "2015":
                    path = [{**hop, "queue_id": hop["queue_id"] and 0} for hop in path]
                    path = [{name: hop[name] for name in hop if name != "egress_time"} for hop in path]
                item = {"report": {"version": report}, "int": head, "hops": path}
                try:
                    found = again([item], dialect)
                except CraftError as error:
                    if error.key not in ("report.version", "int.version", "int.mode", "int.carrier", "hops"):
                        raise
                    continue
                assert len(found) == 1
                assert "error" not in found[0], found
                assert "int" in found[0], (report, version, mode)
                assert found[0]["hops"] == path
                assert found[0]["int"]["version"] == version
                assert again(found, dialect) == found
                done += 1
    assert done or name == "fabric-tna"  # whose packets carry none


def test_only_hops() -> None:
    """Hops alone make a Report 2.0 about a UDP packet with INT-MD 2 whose instructions are the hops' keys."""
    found = one(hops=[{"node_id": 1, "hop_latency": 10}, {"node_id": 2, "queue_id": 3, "queue_occupancy": 4}])
    assert found["report"]["version"] == "2.0"
    assert found["report"]["node_id"] == 2
    assert found["report"]["tracked"]
    assert found["flow"]["src"] == "192.0.2.1"
    assert found["flow"]["dst"] == "192.0.2.2"
    assert found["flow"]["proto"] == 17
    assert found["int"]["version"] == "2"
    assert found["int"]["mode"] == "md"
    assert found["int"]["instructions"] == "0xb000"
    assert found["hops"] == [
        {"node_id": 1, "hop_latency": 10, "queue_id": None, "queue_occupancy": None},
        {"node_id": 2, "hop_latency": None, "queue_id": 3, "queue_occupancy": 4},
    ]


@pytest.mark.parametrize("version", ["0.5", "1.0", "2.0"])
def test_the_version_follows_the_dialect(version: str) -> None:
    """A report of which no version is given is of the version that the dialect reads."""
    (found,) = again([{"hops": HOPS}], DIALECTS[f"report-{version}"])
    assert (found["report"]["version"], len(found["hops"])) == (version, len(HOPS))


def test_sequence_numbers_follow() -> None:
    """Reports that give no sequence number count up, each source for itself."""
    found = again([{"hops": [{"node_id": node}]} for node in (1, 1, 2, 1)])
    assert [item["report"]["sequence"] for item in found] == [0, 1, 0, 2]


@pytest.mark.parametrize(("version", "usual"), [("0.5", "0.5"), ("1.0", "1.0"), ("2.0", "2")])
def test_int_of_the_reports_time(version: str, usual: str) -> None:
    """A report carries the INT of its time where none is named."""
    found = one(report={"version": version}, hops=[{"node_id": 1}])
    assert found["report"]["version"] == version
    assert found["int"]["version"] == usual


@pytest.mark.parametrize("carrier", ["tcp", "udp"])
@pytest.mark.parametrize("npt", [0, 1, 2])
@pytest.mark.parametrize("proto", [6, 17, 1])
def test_what_the_shim_keeps(carrier: str, npt: int, proto: int) -> None:
    """The packet's own port or protocol is in the shim, over UDP and, as some programs do, over TCP."""
    if npt < 2 and {"tcp": 6, "udp": 17}[carrier] != proto:
        return
    flow = {"src": "192.0.2.1", "dst": "192.0.2.9", "proto": proto}
    flow |= {"sport": 5, "dport": 6} if proto != 1 else {}
    head = {"carrier": carrier, "npt": npt}
    found = one(report={}, flow=flow, int=head, hops=[{"node_id": 1}])
    assert found["flow"] == flow
    assert {name: found["int"][name] for name in head} == head
    assert again([found]) == [found]


def test_null_is_all_ones() -> None:
    """A value that is null, in a hop and in the report's own metadata, is null again."""
    names = ("node_id", "ingress_port", "egress_port", "ingress_time", "l2_ingress_port", "l2_egress_port")
    hop = dict.fromkeys((*names, "queue_id", "queue_occupancy"))
    own = {name: None for name in hop if name != "node_id"}
    found = one(hops=[hop], report={"metadata": own, "node_id": None})
    assert found["hops"] == [hop]
    assert found["report"]["metadata"] == own
    assert found["report"]["node_id"] is None


def test_numbers_are_kept() -> None:
    """A packet that is missing becomes a frame that is no report; --renumber leaves it out."""
    objects = [{"packet": 2, "hops": [{"node_id": 1}]}, {"packet": 5, "hops": [{"node_id": 1}]}]
    frames = craft(objects)
    assert [len(frame) for frame in frames_of(frames)[:2]] == [14, 14]
    assert len(frames) == 6
    assert [item["packet"] for item in decoded(frames)] == [2, 5]
    assert len(craft(objects, renumber=True)) == 2


def test_groups() -> None:
    """Objects with one packet number share a datagram, with one sequence number."""
    objects = [{"packet": 0, "hops": [{"node_id": 1}]}, {"packet": 0, "index": 1, "hops": [{"node_id": 1}]}]
    found = again(objects)
    assert [(item["packet"], item["index"], item["report"]["sequence"]) for item in found] == [
        (0, 0, 0),
        (0, 1, 0),
    ]


def test_refused_packets_are_their_bytes() -> None:
    """A packet in which a report was refused is written from its bytes as a whole."""
    raw = frames_of(craft([{"hops": [{"node_id": 1}]}]))[0][:70]
    objects = [
        {"packet": 0, "index": 0, "error": {"reason": "truncated"}, "frame": raw.hex(), "link": "ethernet"}
    ]
    assert frames_of(craft(objects)) == [raw]
    cut = frame_batch([raw])
    cut.frames["wire_length"] = 1500
    expected = decoded(cut)
    assert "1,500" in expected[0]["error"]["detail"]
    assert again(expected) == expected


PACKETS = replace(DEFAULT, name="packets", packets=True)
LAYERS = [layer.name.lower() for layer in Layer]
HOPS = [{"node_id": 1, "ingress_time": 7}, {"node_id": 2, "ingress_time": None}]


@pytest.mark.parametrize("report", [True, False])
@pytest.mark.parametrize("src", ["10.0.0.1", "2001:db8::5"])
@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer: str, src: str, report: bool) -> None:
    """Each layer around the packet of a report, or around the packet itself, is decoded as it was asked for;
    so are a VLAN id and a tunnel id.
    """
    flow: dict[str, Any] = {"src": src, "layers": [layer]}
    if layer in ("vlan", "qinq"):
        flow["vlan"] = 5
    if layer in ("gre", "vxlan", "vxlan_gpe", "geneve", "gtp_u"):
        flow["tunnel_id"] = 77
    objects: list[dict[str, Any]] = [
        {"flow": {**flow, "proto": proto}, "int": {}, "hops": HOPS} for proto in (6, 17)
    ]
    if report:
        objects = [{**item, "report": {}} for item in objects]
    expected = again(objects, PACKETS)
    assert len(expected) == 2
    for item in expected:
        assert layer in item["flow"]["layers"]
        assert {name: item["flow"][name] for name in flow if name != "layers"} | {"layers": [layer]} == flow
        assert item["hops"] == HOPS
        assert ("report" in item) == report
    assert again(expected, PACKETS) == expected


@settings(max_examples=60)
@given(
    st.sets(st.sampled_from(LAYERS)),
    st.sampled_from([0, 5, 2**24 - 1]),
    st.sampled_from([6, 17, 1]),
    st.booleans(),
)
def test_several_layers(layers: set[str], tunnel_id: int, proto: int, report: bool) -> None:
    """Any layers together decode alike after they were crafted; too many are refused, and kept."""
    item: dict[str, Any] = {"flow": {"layers": sorted(layers), "tunnel_id": tunnel_id, "proto": proto}}
    if proto != 1:
        item |= {"int": {}, "hops": HOPS}
    if report or proto == 1:
        item["report"] = {}
    expected = again([item], PACKETS)
    assert len(expected) == 1
    assert again(expected, PACKETS) == expected


@pytest.mark.parametrize("report", [True, False])
@pytest.mark.parametrize("mode", ["md", "mx"])
@pytest.mark.parametrize(
    ("carrier", "versions"),
    [
        ("tcp", ("0.5", "1.0", "2")),
        ("udp", ("0.5", "1.0", "2")),
        ("gre", ("2",)),
        ("vxlan_gpe", ("0.5", "1.0", "2")),
        ("geneve", ("0.5", "1.0", "2")),
        ("udp_inserted", ("2",)),
    ],
)
def test_carriers(carrier: str, versions: tuple[str, ...], mode: str, report: bool) -> None:
    """INT behind every carrier is decoded as it was asked for, in a report and in a packet."""
    for version in versions:
        if mode == "mx" and version != "2":
            continue
        item: dict[str, Any] = {
            "flow": {"proto": 17 if carrier == "udp" else 6},
            "int": {"version": version, "carrier": carrier, "mode": mode, "instructions": "0x8800"},
            "hops": HOPS if mode == "md" else [],
        }
        if report:
            item["report"] = {}
        (found,) = expected = again([item], PACKETS)
        assert {name: found["int"][name] for name in item["int"]} == item["int"]
        assert found["hops"] == item["hops"]
        assert found["flow"]["proto"] == item["flow"]["proto"]
        assert again(expected, PACKETS) == expected


@pytest.mark.parametrize("npt", [0, 1, 2])
def test_next_protocol_types(npt: int) -> None:
    """The original DSCP, port or protocol in the shim is the packet's again."""
    for proto in (6, 17, 1)[: 3 if npt == 2 else 2]:
        if npt == 1 and proto == 6:
            continue
        flow = {"src": "192.0.2.1", "dst": "192.0.2.9", "proto": proto}
        if proto != 1:
            flow |= {"sport": 5, "dport": 6}
        (found,) = expected = again([{"flow": flow, "int": {"npt": npt}, "hops": HOPS}], PACKETS)
        assert found["flow"] == flow
        assert again(expected, PACKETS) == expected


DOMAIN = Dialect(
    "domain",
    domains=(
        Domain(
            7,
            ((0, "jitter", 4), (1, "colour", 2), (1, "padding", 2)),
            ((3, "source_mac", 6), (3, "reserved", 2)),
        ),
    ),
)


@pytest.mark.parametrize("instructions", ["0x8000", "0x8001", "0xff80"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("mode", ["md", "mx"])
def test_domain_specific_metadata(instructions: str, known: bool, mode: str) -> None:
    """Extras of hops, of the source and of the report itself come back, named where the dialect knows the
    domain and as bytes where it does not.
    """
    hops: list[dict[str, Any]] = [
        {"extras": {"jitter": 1, "colour": None, "source_mac": 0x020000000009}},
        {"extras": {"jitter": 3, "colour": 4}},
    ]
    head: dict[str, Any] = {"mode": mode, "instructions": instructions}
    if mode == "mx":
        hops, head = [], {**head, "extras": {"source_mac": 5}}
    report = {"metadata": {"hop_latency": 5}, "extras": {"jitter": 9}}
    first = decoded(craft([{"report": report, "int": head, "hops": hops}], DOMAIN), DOMAIN)
    if mode == "md":
        assert [hop["extras"] for hop in first[0]["hops"][:2]] == [hop["extras"] for hop in hops]
    else:
        assert first[0]["int"]["extras"] == {"source_mac": 5}
    assert first[0]["report"]["metadata"] == report["metadata"]
    assert first[0]["report"]["extras"] == report["extras"]
    dialect = DOMAIN if known else DEFAULT
    expected = decoded(craft(first, DOMAIN), dialect)
    assert again(expected, dialect) == expected
    text = json.dumps(expected)
    assert ("jitter" in text) == known
    assert ('"ds": "' in text) != known


@pytest.mark.parametrize(
    ("keys", "key", "problem"),
    [
        ({"hopz": []}, "hopz", "no such key"),
        ({"hops": {}}, "hops", "list"),
        ({"hops": [7]}, "hops[0]", "expected an object"),
        ({"hops": [{"node": 1}]}, "hops", "found only node, expected metadata, such as node_id"),
        ({"hops": [{}]}, "hops", "found no key of a hop, expected metadata"),
        ({"hops": [{"node_id": 1, "node": 1}]}, "hops[0].node", "no such key"),
        ({"hops": [{"node_id": -1}]}, "hops[0].node_id", "0 to 4294967295"),
        ({"hops": [{"node_id": True}]}, "hops[0].node_id", "0 to 4294967295"),
        ({"hops": [{"node_id": 1, "queue_occupancy": 1 << 24}]}, "hops[0].queue_occupancy", "0 to 16777215"),
        ({"hops": [{"node_id": 1}] * 65}, "hops", "64"),
        ({"report": {"version": "3"}}, "report.version", "0.5, 1.0, 2.0"),
        ({"report": {"dropped": 1}}, "report.dropped", "true or false"),
        ({"report": {"kind": "queue", "tracked": True}}, "report.kind", "as its flags say"),
        ({"report": {"version": "0.5", "kind": "inner"}}, "report.kind", "no inner-only form"),
        ({"report": {"version": "0.5", "intermediate": False}}, "report.intermediate", "no such key"),
        ({"report": {"metadata": {"node_id": 4}}}, "report.metadata.node_id", "no such key"),
        ({"source": "here"}, "source", "address"),
        ({"flow": {"src": 4}}, "flow.src", "address"),
        ({"flow": {"proto": 1, "sport": 4}}, "flow.sport", "no such key"),
        ({"flow": {"proto": 1}, "hops": [{"node_id": 1}]}, "int.carrier", "protocol 1"),
        (
            {"int": {"version": "1.0", "hop_words": 9}, "hops": [{"node_id": 1}]},
            "int.hop_words",
            "expected 1",
        ),
        ({"int": {"version": "3"}}, "int.version", "2015"),
        ({"packet": 10**9}, "packet", "--renumber"),
        ({"index": 3}, "index", "--renumber"),
        ({"hops": [{"node_id": 1, "extras": {"x": 1}}]}, "hops[0].extras.x", "no such key"),
        ({"report": {"extras": {"x": 1}}}, "report.extras.x", "no such key"),
        ({"frame": "0g"}, "frame", "hexadecimal"),
        ({"error": {}}, "frame", "missing"),
    ],
)
def test_mistakes(keys: dict[str, Any], key: str, problem: str) -> None:
    """A wrong key, type or value is an error that names the object and the key."""
    with pytest.raises(CraftError) as caught:
        craft([{"hops": [{"node_id": 1}]}, keys])
    assert (caught.value.number, caught.value.key) == (2, key)
    assert problem in caught.value.problem


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.sampled_from(["", "0x17", "2.0", "md", "1.2.3.4"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("packet", "index", "report", "version", "kind", "flow", "src", "proto", "dport"),
                    *("layers", "vlan", "tunnel_id", "int", "carrier", "mode", "npt", "instructions"),
                    *("hop_words", "hops", "node_id", "queue_id", "hop_latency", "metadata", "frame"),
                    *("link", "error"),
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@SLOW
@given(st.lists(JSON, max_size=4))
def test_any_objects(objects: list[Any]) -> None:
    """Whatever JSON comes is crafted or refused with its object and key; nothing else happens."""
    try:
        craft(objects)
    except CraftError as error:
        caught = error
    else:
        return
    assert 1 <= caught.number <= len(objects)
    assert caught.key


@SLOW
@given(report_batches(3), st.integers(0, 2**32 - 1))
def test_identity_of_damaged_frames(reports: ReportBatch, seed: int) -> None:
    """What is accepted and what is refused of damaged frames decodes alike after it was crafted."""
    rng = np.random.default_rng(seed)
    frames: list[bytes] = []
    for frame in frames_of(encode_scalar(reports)) * 12:
        changed = bytearray(frame)
        for _ in range(rng.integers(1, 4)):
            changed[int(rng.integers(0, min(len(changed), 160)))] = int(rng.choice([0, 1, 2, 255, 16]))
        frames.append(bytes(changed))
    expected = decoded(frame_batch(frames))
    assert again(expected) == expected
