"""`hopscope doctor`, and how commands find the collector that they ask."""

from __future__ import annotations

import http.server
import json
import math
import os
import re
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

from hopscope.cli.query import options
from hopscope.detect.counters import INDEX
from hopscope.detect.thresholds import CONTROL_FILE, create_control
from hopscope.memory import running
from hopscope.memory.data_folder import DataFolder
from hopscope.present.counter_advice import ADVICE, LABEL_TABLES, WARNINGS
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.runtime.pipeline.summary import LABEL_LOST, LOST
from hopscope.runtime.supervisor.control import ControlServer
from hopscope.serve import readiness
from hopscope.settings.collector import Settings
from hopscope.settings.section import item_section, section_of
from hopscope.wire.craft.frames import craft
from hopscope.wire.dialect import Dialect
from hopscope.wire.encode.encoder import encode_reports, new_hops, new_reports
from hopscope.wire.records import FrameBatch, ReportBatch
from support.processes.command import hopscope
from support.waiting import eventually

pytestmark = pytest.mark.kernel
PACKETS = Dialect("packets", packets=True)
SETTINGS = Settings.model_validate({"detect": {"flow_rows": 16, "ports": 64, "sources": 16}})


class Running:
    """A collector's folder and control socket, whose worker is a pipeline of the test."""

    def __init__(self, folder: DataFolder, settings: Settings = SETTINGS) -> None:
        self.folder = folder
        self.status: dict[str, Any] = {"processes": [self.process("worker-0")], "interfaces": []}
        create_control(folder.regions / CONTROL_FILE, settings.limits)
        self.pipeline = pipeline_of(
            settings, Shard(settings.history, data=folder.path, regions=folder.regions)
        )

    @staticmethod
    def process(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "pid": 7, "alive": True, "restarts": 0, "last_error": None, **more}

    def report(self, sequences: list[int]) -> None:
        reports, hops = new_reports(len(sequences)), new_hops(len(sequences), 0xB000)
        reports["int_version"], reports["instructions"] = 20, 0xB000
        reports["first_hop"], reports["hop_count"] = np.arange(len(sequences)), 1
        reports["sequence"], hops["node_id"] = sequences, 7
        frames: FrameBatch = encode_reports(ReportBatch(reports, hops))
        self.pipeline.step(frames)


@contextmanager
def made(path: Path, settings: Settings = SETTINGS, **owner: Any) -> Iterator[Running]:
    """A collector with nothing wrong."""
    with DataFolder(path) as folder:
        folder.write_owner(**owner)
        collector = Running(folder, settings)
        server = ControlServer(folder.path, lambda request, peer: collector.status)
        server.start()
        yield collector
        server.close()
        collector.pipeline.close()


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Running]:
    """A collector of reports."""
    names = tmp_path / "names.csv"
    names.write_text("node_id,port,name\n7,,leaf-7\n")
    with made(tmp_path / "data", listen=["udp://127.0.0.1:1"], api=None, names=str(names)) as collector:
        yield collector


def examined(folder: Path) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit status and findings, by what they are about."""
    done = hopscope("doctor", "--data", folder, "--seconds", "0.1", "--format", "json")
    return done.returncode, {row["what"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_a_page_over_tls(collector: Running) -> None:
    """Its certificate has the name that browsers know, of an authority that this machine need not know."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("hopscope.example").configure_cert(context)

    class Healthy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, format: str, *_: object) -> None:
            """Quiet."""

    with http.server.HTTPServer(("127.0.0.1", 0), Healthy) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"https://127.0.0.1:{server.server_address[1]}/"
        collector.folder.write_owner(listen=["udp://127.0.0.1:1"], api=url)
        status, found = examined(collector.folder.path)
        server.shutdown()
    assert status == 0, found
    assert found[url]["found"].startswith("answers in ")


def test_a_healthy_collector(collector: Running) -> None:
    """Nothing is bad: status 0; before the first report there is advice on how to send one."""
    status, found = examined(collector.folder.path)
    assert status == 0, found
    assert found["reports"]["verdict"] == "advice"
    assert "udp://127.0.0.1:1" in found["reports"]["advice"]
    collector.report([0, 1, 2])
    status, found = examined(collector.folder.path)
    assert status == 0, found
    assert {row["verdict"] for row in found.values()} == {"good"}, found
    assert {"collector", "worker-0", "reports", "lost", "workers busy", "history"} <= found.keys()


def test_a_sink(tmp_path: Path) -> None:
    """It has no sources: its packets with INT count as received, and without one, advice is about packets."""
    listen = [{"kind": "mirror", "interface": "eth1"}]
    settings = Settings.model_validate(
        {**SETTINGS.model_dump(include={"detect"}), "listen": listen, "sink": {"enabled": True}}
    )
    with made(tmp_path / "data", settings, listen=["mirror://eth1"], api=None) as sink:
        found = examined(sink.folder.path)[1]["reports"]
        assert (found["verdict"], found["found"]) == ("advice", "1 worker, no report yet")
        assert found["advice"].startswith("no INT, IFA or IOAM arrived at mirror://eth1")
        sink.pipeline.step(craft([{"int": {}, "hops": [{"node_id": 7, "hop_latency": 5}]}] * 3), PACKETS)
        sink.pipeline.tick(time.time_ns())
        found = examined(sink.folder.path)[1]["reports"]
        assert (found["verdict"], found["found"]) == ("good", "1 worker, 3 reports")


def test_a_page_in_another_network_namespace(collector: Running) -> None:
    """It is not wrong that it does not answer here; what asks it there is said."""
    inside = ["unshare", *([] if os.geteuid() == 0 else ["--user"]), "--net", "sleep", "60"]
    with subprocess.Popen(inside) as process:
        try:
            namespace = Path(f"/proc/{process.pid}/ns/net")
            eventually(lambda: process.poll() is not None or not namespace.samefile("/proc/self/ns/net"))
            if process.poll() is not None:
                pytest.skip("no network namespace can be made here")
            url = "http://127.0.0.1:1/"
            collector.folder.write_owner(listen=["udp://127.0.0.1:1"], api=url, pid=process.pid)
            status, found = examined(collector.folder.path)
            assert (status, found[url]["verdict"]) == (0, "advice")
            advice = f"nsenter --net={namespace} hopscope doctor --data {collector.folder.path}"
            assert found[url]["advice"] == advice
            collector.folder.write_owner(listen=["udp://127.0.0.1:1"], api=url, pid=os.getpid())
            assert examined(collector.folder.path)[1][url]["verdict"] == "bad"
        finally:
            process.kill()


def test_a_process_that_has_ended(collector: Running) -> None:
    """It has no process id, or that of a process that is no more."""
    ended = [("archive", None), ("export", 7)]
    collector.status = {"processes": [collector.process(name, alive=False, pid=pid) for name, pid in ended]}
    _, found = examined(collector.folder.path)
    assert {found[name]["found"] for name, _ in ended} == {"not running, 0 restarts"}


def test_a_disk_with_no_room_for_evidence(collector: Running) -> None:
    """The region is larger than the disk, and so would be its copy: advice. With a copy there is none."""
    region = collector.folder.regions / "worker-0.evidence"
    copy = collector.folder.path / "evidence" / region.name
    more = shutil.disk_usage(collector.folder.path).total * 2
    os.truncate(region, more)
    found = examined(collector.folder.path)[1]["evidence"]
    assert found["verdict"] == "advice"
    assert "lower history.evidence_bytes" in found["advice"]
    copy.parent.mkdir(exist_ok=True)
    copy.touch()
    os.truncate(copy, more)
    assert "evidence" not in examined(collector.folder.path)[1]


def test_what_is_wrong_comes_first_with_its_remedy(collector: Running) -> None:
    """A process that ended, a missing interface, lost reports: each with advice, and status 1."""
    collector.report([0, 1, 9])
    collector.status = {
        "processes": [
            collector.process("worker-0", restarts=2, last_error="killed"),
            collector.process("serve", alive=False, stopped=True, pid=None),
        ],
        "interfaces": [{"name": "eth9", "ready": False, "detail": "missing"}],
    }
    done = hopscope("doctor", "--data", collector.folder.path, "--seconds", "0.1")
    assert done.returncode == 1
    header, *rows = done.stdout.splitlines()
    assert header.split() == ["verdict", "what", "found", "advice"]
    assert [row.split()[0] for row in rows[:4]] == ["bad", "bad", "advice", "advice"]
    bad = "\n".join(rows[:2])
    assert "left stopped" in bad
    assert "interface eth9" in bad
    advice = "\n".join(rows[2:4])
    assert "2 restarts" in advice
    assert "7 missing by sequence number" in advice
    assert "/api/v0/sources" in advice
    assert done.stderr == "hopscope: 2 bad, 2 to improve\n"


@pytest.mark.parametrize(
    ("keep_free", "free_percent", "advice"),
    [
        (0, 2, ""),
        (0, 0.5, "while it is 0, history fills the disk up"),
        ("0%", 0, "while it is 0, history fills the disk up"),
        ("4%", 3.5, ""),
        ("4%", 2.5, "other files fill it faster"),
    ],
)
def test_a_disk_that_is_soon_full(
    collector: Running,
    monkeypatch: pytest.MonkeyPatch,
    keep_free: int | str,
    free_percent: float,
    advice: str,
) -> None:
    """History is to improve before its disk takes no more, with what to do; it stays ready."""
    collector.folder.write_owner(listen=[], api=None, retention={"keep_free": keep_free})
    total = os.statvfs(collector.folder.path)
    free = int(total.f_blocks * total.f_frsize * free_percent / 100)
    monkeypatch.setattr(readiness, "free_bytes", lambda at: free)
    found = examined(collector.folder.path)[1]["history"]
    assert found["verdict"] == ("advice" if advice else "good")
    assert advice in found["advice"]


def test_an_interface_that_is_down(collector: Running) -> None:
    """The collector is ready, since it is bound; what to do is said."""
    detail = "down, or without a carrier: nothing arrives"
    collector.status["interfaces"] = [{"name": "eth9", "ready": True, "detail": detail}]
    found = examined(collector.folder.path)[1]["interface eth9"]
    assert (found["verdict"], found["found"]) == ("advice", detail)
    assert "bring it up" in found["advice"]


def test_no_collector(tmp_path: Path) -> None:
    """Its absence is bad, and the advice is how to start one."""
    status, found = examined(tmp_path)
    assert status == 1
    assert list(found) == ["collector"]
    assert "hopscope collect" in found["collector"]["advice"]


def test_a_query_finds_the_collector_that_runs_here(
    collector: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --data the only running collector is asked, with its names; of several, one must be named."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HOPSCOPE_CONFIG", raising=False)
    collector.report([0])
    folder = collector.folder.path
    monkeypatch.setattr(options, "SLOW_SECONDS", math.inf)
    monkeypatch.setattr(running, "running_folders", lambda: [folder])
    done = hopscope("query", "events", "--kind", "new_key")
    assert done.returncode == 0, done.stderr
    assert "leaf-7" in done.stdout
    assert done.stderr.splitlines()[0] == f"hopscope: asking the collector of {folder}"
    own = tmp_path / "own.csv"
    own.write_text("node_id,port,name\n7,,seven\n")
    assert "seven" in hopscope("query", "events", "--names", own).stdout
    monkeypatch.setattr(running, "running_folders", lambda: [folder, tmp_path / "other"])
    done = hopscope("query", "events")
    assert done.returncode == 2
    assert done.stderr == (
        f"hopscope: 2 collectors run here: choose one with --data: {folder}, {tmp_path / 'other'}\n"
    )
    assert hopscope("query", "events", "--data", folder).stderr == ""


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_query_says_what_it_lacks(collector: Running, form: str) -> None:
    """Events that wait for a full disk are named on stderr in every form; those of a disk that works, which
    wait for a moment, are not.
    """
    words = ("query", "events", "--data", collector.folder.path, "--format", form)
    counted = collector.pipeline.shard.counted
    counted.put("journal_waiting_events", 1234)
    assert "in memory" not in hopscope(*words).stderr
    counted.put("journal_failing", 1)
    done = hopscope(*words)
    assert "1,234 events wait in memory and are not in this answer" in done.stderr
    assert "in memory" not in done.stdout
    assert done.returncode == 0


def test_top_says_what_waits(collector: Running) -> None:
    """While the disk takes no events, their number is among the counters."""
    collector.report([0, 1])
    words = ("top", "--once", "--data", collector.folder.path)
    assert "wait for the disk" not in hopscope(*words).stdout
    counted = collector.pipeline.shard.counted
    counted.put("journal_failing", 1)
    counted.put("journal_waiting_events", 1234)
    row = next(line for line in hopscope(*words).stdout.splitlines() if "wait for the disk" in line)
    assert row.split()[-1] == "1,234"


def test_a_slow_query_says_how_it_becomes_quick(collector: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow answer about all of history has a hint; one that is quick, or has --since, has none."""
    collector.report([0, 1])
    words = ("query", "flows", "--data", collector.folder.path)
    monkeypatch.setattr(options, "SLOW_SECONDS", math.inf)
    assert "--since" not in hopscope(*words).stderr
    monkeypatch.setattr(options, "SLOW_SECONDS", 0.0)
    assert "--since 1h searches the last hour" in hopscope(*words).stderr
    assert "--since" not in hopscope(*words, "--since", "1h").stderr


def test_every_counter_of_losses_has_advice() -> None:
    """A counter that the summary lists as lost says what to do about it; and all counters exist."""
    assert ADVICE.keys() == LOST.keys() | LABEL_LOST.keys()
    assert WARNINGS.keys() <= INDEX.keys()


def test_advice_names_only_settings_that_exist() -> None:
    """Words such as `listen.rate_limit` in the advice about a counter are keys of the settings."""
    words = " ".join([*ADVICE.values(), *(text for _, text in {**WARNINGS, **LABEL_TABLES}.values())])
    named = re.findall(r"\b([a-z]+)\.([a-z_]+)\b", words)
    sections = {
        name: section_of(field.annotation) or item_section(field.annotation)
        for name, field in Settings.model_fields.items()
    }
    checked = [(name, key, section) for name, key in named if (section := sections.get(name))]
    assert len(checked) > 10
    assert [(name, key) for name, key, section in checked if key not in section.model_fields] == []
