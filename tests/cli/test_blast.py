"""`hopscope blast`: datagrams arrive from all sources; nobody listening is an error."""

from __future__ import annotations

import json
import os
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hopscope.capture.listener import Listener
from hopscope.capture.ring.report_listener import ReportListener
from hopscope.capture.udp.listener import UdpListener
from hopscope.cli import blast
from hopscope.cli.options.settings import CollectorOptions
from hopscope.settings.listen import ListenSettings
from hopscope.settings.source import parse
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.records import Flag, Records
from support.processes.command import hopscope, run
from support.waiting import eventually

pytestmark = pytest.mark.kernel


@pytest.fixture
def listener() -> Iterator[UdpListener]:
    """One that nobody reads meanwhile."""
    made = UdpListener(ListenSettings(port=0))
    made.open()
    yield made
    made.close()


def test_reports_arrive_from_all_sources(listener: UdpListener, tmp_path: object) -> None:
    """At a rate, each a datagram; the output has how many were sent."""
    words = ("--rate", 1000, "--seconds", 0.2, "--sources", 4, "--flows", 7, "--data", tmp_path)
    done = hopscope("blast", "--to", f"udp://127.0.0.1:{listener.port}", *words, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["sent"] >= 50
    assert "received" not in found  # no collector runs there
    sources, total = set(), 0
    while total < found["sent"]:
        batch = listener.receive()
        assert batch is not None
        total += len(batch)
        sources |= set((batch.frames["source_lo"] & 0xFFFFFFFF).tolist())
    assert sources == {0x7F010101 + number for number in range(4)}


def test_groups_trains_and_events(listener: UdpListener, tmp_path: object) -> None:
    """Datagrams have several reports, those of a train one source, and so many reports cause events."""
    words = ("--rate", 4000, "--seconds", 0.2, "--sources", 4, "--group", 4, "--trains", "--events", 100)
    to = ("--to", f"udp://127.0.0.1:{listener.port}", "--data", tmp_path, "--format", "json")
    done = hopscope("blast", *to, *words, "--hops", 2, "--fields", 1)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["sent"] == 4 * found["datagrams"]
    assert 0 < found["events"] <= 100
    reports = decoded(listener, found["sent"])
    assert not reports["reason"].any()
    assert set(reports["hop_count"].tolist()) == {2}
    assert (reports["flags"] & Flag.CONGESTED != 0).sum() == found["events"]


def decoded(listener: Listener, count: int) -> Records:
    """So many reports."""
    parts: list[Records] = []

    def all_are_there() -> bool:
        while (batch := listener.receive()) is not None:
            parts.append(decode_plain(batch).reports.copy())
        return sum(map(len, parts)) >= count

    eventually(all_are_there)
    return np.concatenate(parts)


@pytest.mark.skipif(os.geteuid() != 0, reason="a packet socket needs root")
def test_frames_out_at_an_interface(tmp_path: object) -> None:
    """They arrive in a ring of reports at the other end, here the same: loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        ring = ReportListener(
            ListenSettings.model_validate({"kind": "ring", "interface": "lo", "port": port})
        )
        ring.open()
        words = ("--rate", 2000, "--seconds", 0.3, "--sources", 4, "--interface", "lo", "--mac", "00" * 6)
        to = ("--to", f"udp://127.0.0.1:{port}", "--data", tmp_path, "--format", "json")
        done = hopscope("blast", *to, *words)
        assert done.returncode == 0, done.stderr
        reports = decoded(ring, json.loads(done.stdout)["sent"])
        ring.close()
    assert len(reports) == json.loads(done.stdout)["sent"]
    sources = set((reports["source_lo"] & np.uint64(0xFFFFFFFF)).tolist())
    assert sources == {0xC6120101 + number for number in range(4)}


@pytest.mark.parametrize(
    ("group", "trains", "counted", "lost"),
    [
        (1, False, {"reports_total": 1000}, {}),
        (
            4, False,
            {"reports_total": 500, "kernel_drops_total": 100, "denied_frames_total": 20,
             "rejected_reports_total.truncated": 7},
            {"kernel_drops_total": 400, "denied_frames_total": 80, "rejected": 7, "on_the_way": 13},
        ),
        (1, True, {"reports_total": 360, "kernel_drops_total": 10}, {"kernel_drops_total": 640}),
        (
            1, False, {"reports_total": 1000, "detector_lost_reports_total": 30},
            {"detector_lost_reports_total": 30},
        ),
    ],
)  # fmt: skip
def test_every_report_has_its_place(
    group: int, trains: bool, counted: dict[str, int], lost: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1000 that were sent: received, or lost for a reason that the collector counts, or on the way. Drops
    count datagrams, of several reports, or trains.
    """
    monkeypatch.setattr(blast, "SETTLE_SECONDS", 0.0)
    state = SimpleNamespace(counters=lambda: Counter(counted))
    load = blast.LoadOptions(group=group, trains=trains)
    taken = blast._taken(state, Counter(), 1000, load)  # type: ignore[arg-type]
    assert taken == {"received": counted["reports_total"], "lost": lost}


def test_a_collector_that_was_restarted_says_nothing_of_what_it_took(
    listener: UdpListener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its counters began again: the difference would be too small, or below zero."""

    def started(time_ns: int) -> None:
        to = [f"udp://127.0.0.1:{listener.port}"]
        owner = {"listen": to, "regions": str(tmp_path), "started_ns": time_ns}
        (tmp_path / "owner.json").write_text(json.dumps(owner))

    def taken(*_: object) -> dict[str, object]:
        started(2)
        return {"received": -7, "lost": {}}

    monkeypatch.setattr(blast, "_taken", taken)
    for form in ("json", "text"):
        started(1)
        words = ("--seconds", 0.1, "--data", tmp_path, "--format", form)
        done = hopscope("blast", "--to", f"udp://127.0.0.1:{listener.port}", *words)
        assert done.returncode == 1, done.stderr
        if form == "json":
            found = json.loads(done.stdout)
            assert found["restarted"] is True
            assert not {"received", "lost"} & found.keys()
        else:
            assert done.stdout.splitlines()[-1].startswith("received  not known: the collector was restarted")


@pytest.mark.parametrize(
    ("listen", "to", "anywhere", "found"),
    [
        ("udp://127.0.0.1:7", "udp://127.0.0.1:7", False, True),
        ("udp://[::1]:7", "udp://[::1]:7", False, True),
        ("udp://0.0.0.0:7", "udp://127.0.0.1:7", False, True),
        ("udp://198.51.100.1:7", "udp://198.51.100.1:7", False, True),
        ("udp://0.0.0.0:7", "udp://198.51.100.1:7", False, False),
        ("udp://127.0.0.1:8", "udp://127.0.0.1:7", False, False),
        ("ring://lo?port=7", "udp://198.51.100.1:7", True, True),
        ("mirror://lo", "udp://127.0.0.1:7", True, False),
    ],
)
def test_whose_counters_are_read(listen: str, to: str, anywhere: bool, found: bool, tmp_path: Path) -> None:
    """Those of a collector that listens at the address: this machine's, or one in another namespace; not
    those of one here while reports go to another machine (198.51.100.1), nor of one that has ended.
    """
    owner = {"listen": [listen], "regions": str(tmp_path / "regions")}
    (tmp_path / "owner.json").write_text(json.dumps(owner))
    assert not blast._listens(tmp_path, parse(to), anywhere=anywhere)
    (tmp_path / "regions").mkdir()
    assert blast._listens(tmp_path, parse(to), anywhere=anywhere) == found


def test_the_address_says_which_of_several_collectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the collectors that run here, the one that listens there; a data folder that is named is the only
    one that is looked at.
    """
    folders = [tmp_path / name for name in ("one", "two")]
    for port, folder in enumerate(folders, 7):
        (folder / "regions").mkdir(parents=True)
        owner = {"listen": [f"udp://127.0.0.1:{port}"], "regions": str(folder / "regions")}
        (folder / "owner.json").write_text(json.dumps(owner))
    monkeypatch.setattr("hopscope.memory.running.running_folders", lambda: folders)
    (file := tmp_path / "hopscope.toml").write_text("")
    unnamed = CollectorOptions(config=file)
    for to, expected in (("udp://127.0.0.1:8", folders[1]), ("udp://127.0.0.1:9", None)):
        assert blast._collector_at(unnamed, parse(to), anywhere=False) == expected
    named = CollectorOptions(config=file, data=folders[0])
    assert blast._collector_at(named, parse("udp://127.0.0.1:8"), anywhere=False) is None


def test_nobody_listens(tmp_path: object) -> None:
    """One line says so, and little is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    status, out, err = run("blast", "--to", f"udp://127.0.0.1:{port}", "--seconds", 60, "--data", tmp_path)
    assert (status, out) == (2, "")
    assert f"udp://127.0.0.1:{port}: nobody listens there" in err


def test_a_host_has_a_name(tmp_path: object) -> None:
    """A name is looked up before reports are made for its address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    status, _, err = run("blast", "--to", f"udp://localhost:{port}", "--seconds", 60, "--data", tmp_path)
    assert status == 2
    assert f"udp://localhost:{port}: nobody listens there" in err


def test_the_listener_of_the_settings(tmp_path: Path) -> None:
    """Without --to, reports go to the first UDP listener; of every address, to that of this machine."""
    (file := tmp_path / "hopscope.toml").write_text(
        'data = "data"\nlisten = ["mirror://lo", "udp://0.0.0.0:41111", "udp://127.0.0.1:41112"]\n'
    )
    status, _, err = run("blast", "--seconds", 60, "--config", file)
    assert status == 2
    assert "udp://127.0.0.1:41111: nobody listens there" in err
    file.write_text('data = "data"\nlisten = ["mirror://lo"]\n')
    _, _, err = run("blast", "--seconds", 60, "--config", file)
    assert err == "hopscope: the collector has no udp:// listener: name an address with --to\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--to", "udp://no.invalid:9"), "udp://no.invalid:9: 'no.invalid' is not known"),
        (
            ("--interface", "none", "--to", "udp://127.0.0.1:9"),
            "none: this machine has no such interface",
        ),
        (("--to", "mirror://lo"), "--to mirror://lo: expected udp://HOST:PORT"),
        (("--sources", 3), "--sources 3: expected a power of two"),
        (("--group", 3), "--group 3: expected a power of two"),
        (("--group", 16), "--group 16: found datagrams of 3,272 bytes, expected at most 1,472"),
        (
            ("--group", 64, "--sources", 1024, "--fields", 1),
            "expected a product of at most 16384",
        ),
        (("--fields", 3), "--fields 3: expected 1 or 8"),
        (("--mac", "02:00:00:00:00:01"), "--mac: found without --interface"),
        (("--interface", "lo", "--trains"), "--trains: found with --interface, expected one of them"),
        (
            ("--interface", "lo", "--to", "udp://[::1]:9"),
            "--to udp://[::1]:9: expected an IPv4 address with --interface",
        ),
        (("--interface", "lo"), "lo: the Ethernet address of 127.0.0.1 is not known"),
        (("--interface", "lo", "--mac", "x"), "found 'x', expected an Ethernet address"),
    ],
)
def test_a_wrong_option_is_one_line(words: tuple[object, ...], line: str) -> None:
    """It is named, with what was expected."""
    status, _, err = run("blast", "--to", "udp://127.0.0.1:9", *words)
    assert (status, len(err.splitlines())) == (2, 1)
    assert line in err
