"""`hopscope craft`: captures from JSON lines, what is wrong with a line, and what other tools say of them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hopscope.base.errors import HopscopeError
from hopscope.capture.pcap.reader import read
from hopscope.cli.application import build


def craft(tmp_path: Path, *lines: str, words: tuple[str, ...] = ()) -> Path:
    """The capture that these lines become."""
    source, output = tmp_path / "in.jsonl", tmp_path / "out.pcap"
    source.write_text("\n".join(lines) + "\n")
    with redirect_stderr(io.StringIO()):
        status = build()(["craft", str(source), "--output", str(output), *words], standalone_mode=False)
    assert not status
    return output


def decode(path: Path, *words: str) -> list[dict[str, Any]]:
    """What decode prints of a capture."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        build()(["decode", str(path), *words], standalone_mode=False)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_decode_of_craft(tmp_path: Path) -> None:
    """Lines become a capture that decodes to them, on the port and from the address that were asked for."""
    line = {"time_ns": 5, "source": "10.0.0.1", "hops": [{"node_id": 7}, {"node_id": 8}]}
    path = craft(tmp_path, json.dumps(line), words=("--port", "9999", "--collector", "10.9.9.9"))
    assert decode(path) == []
    (found,) = decode(path, "--port", "9999")
    assert (found["time_ns"], found["source"], found["hops"]) == (5, "10.0.0.1", line["hops"])
    (batch,) = read(path)
    at = int(batch.frames["offset"][0])
    assert batch.arena[at + 30 : at + 34].tolist() == [10, 9, 9, 9]
    again = craft(tmp_path, json.dumps(found), words=("--port", "9999"))
    assert decode(again, "--port", "9999") == [found]


def test_frames_of_other_links(tmp_path: Path) -> None:
    """Refused packets keep their link type; a pcap has room for one, a pcapng for all."""
    lines = [{"hops": [{"node_id": 1}]}, {"frame": "45000000", "link": "raw_ip"}]
    with pytest.raises(HopscopeError, match=r"write a \.pcapng"):
        craft(tmp_path, *map(json.dumps, lines))
    source, output = tmp_path / "in.jsonl", tmp_path / "out.pcapng"
    with redirect_stderr(io.StringIO()):
        build()(["craft", str(source), "-o", str(output)], standalone_mode=False)
    assert [link for batch in read(output) for link in batch.frames["link"].tolist()] == [1, 101]


def test_a_pipe(tmp_path: Path) -> None:
    """`decode | craft | decode` through standard streams: nothing changes, refused packets included."""
    first = craft(tmp_path, *['{"hops": [{"node_id": 1}]}'] * 3)
    raw = bytearray(first.read_bytes())
    raw[24 + 16 + 42] = 0xF0  # an unknown report version in the first packet
    first.write_bytes(raw)
    streams: list[bytes] = [b""]
    for words in (("decode", str(first)), ("craft",), ("decode", "-")):
        command = [sys.executable, "-m", "hopscope.cli", *words]
        done = subprocess.run(command, input=streams[-1], capture_output=True, timeout=300, check=True)
        streams.append(done.stdout)
    assert streams[3] == streams[1]
    assert streams[1].count(b"unknown_version") == 1


def test_times_that_a_pcap_cannot_hold(tmp_path: Path) -> None:
    """A time before 1970 or after 2106 is an error in a pcap, not another time."""
    for time_ns in (-1, (1 << 32) * 10**9):
        with pytest.raises(HopscopeError, match="1970 to 2106"):
            craft(tmp_path, json.dumps({"time_ns": time_ns, "hops": [{"node_id": 1}]}))


def test_how_int_is_marked(tmp_path: Path) -> None:
    """INT is marked as the options say: by another DSCP, or by a port."""
    line = json.dumps({"flow": {"dport": 7777}, "hops": [{"node_id": 7}]})
    for words in (("--int-dscp", "0x2a"), ("--int-port", "7777")):
        (found,) = decode(craft(tmp_path, line, words=words), *words)
        assert found["hops"] == [{"node_id": 7}]
    (found,) = decode(craft(tmp_path, line, words=("--int-dscp", "0x2a")))
    assert "hops" not in found


def test_lines_of_many_packets(tmp_path: Path) -> None:
    """More packets than are written at once, with empty lines between."""
    path = craft(tmp_path, *['{"hops": [{"node_id": 1}]}', ""] * 1500)
    assert [item["report"]["sequence"] for item in decode(path)] == list(range(1500))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["", '{"hops": [{"nod_id": 1, "node_id": 2}]}'], "in.jsonl:2: hops[0].nod_id: "),
        (['{"hops": [{"node_id": 1}]}', "", '{"source": 1}'], "in.jsonl:3: source: found 1, expected an IPv"),
        (['{"hops": }'], "in.jsonl:1: not JSON: "),
        (["[1]"], "in.jsonl:1: it: found [1], expected an object"),
        (["[" * 100_000], "in.jsonl:1: "),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path: Path, lines: list[str], said: str) -> None:
    """A mistake ends the command with its line and its key."""
    with pytest.raises(HopscopeError) as caught:
        craft(tmp_path, *lines)
    assert said in str(caught.value)
    assert caught.value.status == 2


def test_a_first_mistake_leaves_no_file(tmp_path: Path) -> None:
    """Neither an empty capture, nor one in the place of an older one; later ones leave what came before."""
    good, wrong = '{"hops": [{"node_id": 1}]}', "[1]"
    with pytest.raises(HopscopeError):
        craft(tmp_path, wrong)
    assert not (tmp_path / "out.pcap").exists()
    path = craft(tmp_path, good)
    assert path == tmp_path / "out.pcap"
    for lines, packets in (([good, good, wrong], 1), ([good] * 1025 + [wrong], 1024)):
        with pytest.raises(HopscopeError):
            craft(tmp_path, *lines)
        assert len(decode(path)) == packets


@pytest.mark.parametrize("words", [("--dialect", "none"), ("--dialect", "auto"), ("--collector", "none")])
def test_wrong_options(tmp_path: Path, words: tuple[str, str]) -> None:
    """A dialect or an address that there is not is told."""
    with pytest.raises(HopscopeError, match=f"{words[0]} {words[1]}: "):
        craft(tmp_path, "{}", words=words)


CHECKED = ("ip.check_checksum", "udp.check_checksum", "tcp.check_checksum")
WRONG = (
    "_ws.malformed or ip.checksum.status == 0 or udp.checksum.status == 0 or tcp.checksum.status == 0"
    " or _ws.expert.severity >= 6291456"
)


def tshark(tool: Callable[..., str], path: Path, *options: str) -> list[str]:
    """A line per packet that is shown: its number, the layers in it, what is wrong with it."""
    command = [tool("tshark"), "-r", str(path), "-T", "fields", *options]
    for field in ("frame.number", "frame.protocols", "_ws.expert.message"):
        command += ["-e", field]
    for option in CHECKED:
        command += ["-o", f"{option}:TRUE"]
    command += ["-o", "tcp.analyze_sequence_numbers:FALSE"]  # the packets are no connection
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.splitlines()


def experts(tool: Callable[..., str], path: Path) -> list[str]:
    """What tshark finds wrong in a capture."""
    return tshark(tool, path, "-Y", WRONG)


def test_nothing_is_wrong_to_tshark(tmp_path: Path, tool: Callable[..., str]) -> None:
    """Reports over IPv4 and IPv6, and packets with INT over UDP and TCP: lengths and checksums are right."""
    hops = [{"node_id": 1, "ingress_time": 5}, {"node_id": 2, "ingress_time": None}]
    flows: list[dict[str, Any]] = [
        {"proto": proto, "src": src} for proto in (6, 17) for src in ("10.0.0.1", "2001:db8::5")
    ]
    flows[1]["dst"] = flows[3]["dst"] = "2001:db8::6"
    lines: list[dict[str, Any]] = [{"source": source, "hops": hops} for source in ("10.0.0.1", "2001:db8::7")]
    for flow in flows:
        versions = ("0.5", "1.0", "2")
        lines += [{"flow": flow, "int": {"version": version}, "hops": hops} for version in versions]
    path = craft(tmp_path, *map(json.dumps, lines))
    assert experts(tool, path) == []


LAYERS = {
    "vlan": "vlan", "qinq": "vlan", "mpls": "mpls", "gre": "gre", "vxlan": "vxlan", "vxlan_gpe": "udp:ip",
    "geneve": "geneve", "gtp_u": "gtp", "ip_in_ip": "ip:ip", "erspan": "erspan",
}  # fmt: skip
"""Layers of a flow, and what tshark calls them."""


def test_tunnels_are_right_to_tshark(tmp_path: Path, tool: Callable[..., str]) -> None:
    """tshark finds each tunnel, the packet in it with INT over TCP and UDP, and nothing wrong."""
    hops = [{"node_id": 1}, {"node_id": 2}]
    lines: list[dict[str, Any]] = []
    expected: list[tuple[str, str]] = []
    for source, layer, proto in product(("10.0.0.1", "2001:db8::5"), LAYERS, (6, 17)):
        flow: dict[str, Any] = {"src": source, "layers": [layer], "proto": proto}
        if layer in ("gre", "vxlan", "vxlan_gpe", "geneve", "gtp_u"):
            flow["tunnel_id"] = 77
        lines.append({"flow": flow, "int": {}, "hops": hops})
        inner = "ip:ipv6" if layer == "ip_in_ip" and ":" in source else LAYERS[layer]
        expected.append((inner, "tcp" if proto == 6 else "udp"))
    path = craft(tmp_path, *map(json.dumps, lines))
    assert experts(tool, path) == []
    for shown, (layer, transport) in zip(tshark(tool, path), expected, strict=True):
        protocols = shown.split("\t")[1]
        assert layer in protocols
        assert transport in protocols.split(":")


@pytest.mark.parametrize("carrier", ["gre", "vxlan_gpe", "geneve", "udp_inserted"])
def test_carriers_are_right_to_tshark(tmp_path: Path, tool: Callable[..., str], carrier: str) -> None:
    """INT in a tunnel's header, and under an inserted UDP header, of every version that can be."""
    versions = ("2",) if carrier == "gre" else ("2015", "0.5", "1.0", "2")
    dialects = {"2015": "int-2015"}
    captures = []
    for version in versions:
        line = {"int": {"version": version, "carrier": carrier}, "hops": [{"node_id": 1}, {"node_id": 2}]}
        words = ("--dialect", dialects.get(version, "spec"))
        captures.append(craft(tmp_path, json.dumps(line), words=words).read_bytes())
    path = tmp_path / "all.pcap"
    path.write_bytes(captures[0] + b"".join(capture[24:] for capture in captures[1:]))  # one file header
    assert len(tshark(tool, path)) == len(versions)
    assert experts(tool, path) == []
