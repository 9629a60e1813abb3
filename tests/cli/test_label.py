"""`hopscope label decode`: what it prints of labelled packets and of last hops' datagrams."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hopscope.capture.pcap.reader import PcapWriter
from hopscope.cli.label import app
from hopscope.wire.label.batch import encode_blocks
from hopscope.wire.label.codec import push_label
from hopscope.wire.label.layout import LabelItem, PublishedItem
from hopscope.wire.label.records import LABEL
from support.packets.by_hand import ethernet, ipv4, udp
from support.packets.label_cases import probe
from support.packets.packet_cases import Packet
from support.packets.wire_cases import frame_batch

ITEMS = (LabelItem(1, 2, 3, 1000, 40, 50), LabelItem(4, 5, 6, 2000, 70, 80))


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Two labelled packets, one of them cut, one of the published code, two exported ones, and another."""
    labelled, published = Packet().frame(), push_label(probe((1,)), PublishedItem(9, 1, 2, 5, 7))
    six = Packet(version=6, options=True).frame()
    for item in ITEMS:
        labelled, six = push_label(labelled, item), push_label(six, item, tracked=True)
    labels = np.zeros(3, LABEL)
    labels["packet"], labels["node_id"] = (0, 0, 7), (11, 12, 13)
    export = ethernet(ipv4(udp(encode_blocks(labels), 7254)))
    path = tmp_path / "labels.pcap"
    with PcapWriter(path) as writer:
        writer.write(frame_batch([labelled, labelled[:60], six, published, export, Packet().frame()]))
    return path


def test_json(capture: Path) -> None:
    """An object for each labelled packet and exported block, in path order; refusals with the bytes."""
    done = CliRunner().invoke(app, ["decode", str(capture)])
    assert done.exit_code == 0, done.output
    first, cut, six, published, *exported = map(json.loads, done.stdout.splitlines())
    labels = [asdict(item) for item in ITEMS]
    assert first == {
        "packet": 0, "index": 0, "time_ns": 0, "form": "packet", "tracked": False, "labels": labels,
        "flow": {"src": "192.0.2.1", "dst": "192.0.2.2", "proto": 17, "sport": 40_000, "dport": 53_000},
    }  # fmt: skip
    assert (cut["error"]["reason"], cut["error"]["at"]) == ("truncated", "label")
    assert bytes.fromhex(cut["frame"])[:14] == Packet().frame()[:14]
    assert (six["tracked"], six["labels"], six["flow"]["dport"]) == (True, labels, 53_000)
    assert (published["form"], published["specific"]) == ("published", False)
    assert [one["device_id"] for one in published["labels"]] == [9]
    assert [(one["index"], [label["node_id"] for label in one["labels"]]) for one in exported] == [
        (0, [11, 12]), (1, [13]),
    ]  # fmt: skip
    assert (
        "6 packets: 3 with labels, 2 reported by last hops, 8 labels, 1 rejected (1 truncated)" in done.stderr
    )


def test_table_and_csv(capture: Path) -> None:
    """A table names the path; CSV has a row for each label, the published code's in the same units."""
    names = capture.with_suffix(".toml")
    names.write_text('[nodes]\n1 = "leaf"\n')
    table = CliRunner().invoke(app, ["decode", str(capture), "-f", "table", "--names", str(names)]).stdout
    assert "leaf:3 → 4:6" in table
    assert "truncated at label" in table
    rows = CliRunner().invoke(app, ["decode", str(capture), "-f", "csv", "--limit", "4"]).stdout.splitlines()
    assert len(rows) == 1 + 2 + 1 + 2 + 1
    assert rows[-1].startswith("3,0,0,published,")
    assert ",0,9,1,2,7000,2000,0" in rows[-1]


def test_other_settings(capture: Path) -> None:
    """Protocol, MAX_hop and port are those that were asked for."""
    run = CliRunner().invoke
    other = run(app, ["decode", str(capture), "--protocol", "200", "--port", "99"]).stdout.splitlines()
    assert [json.loads(line)["form"] for line in other] == ["published"]
    assert run(app, ["decode", str(capture), "--max-hop", "2", "-n", "1"]).exit_code == 0
