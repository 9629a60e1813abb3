"""`hopscope query`: what it prints, with and without a collector, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, Kind, Metric
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.events import event_cells
from hopscope.settings.history import HistorySettings
from support.processes.command import hopscope

run = partial(hopscope, "query")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A path, its change, a latency and a silent source; the first in a segment, the others in a journal."""
    folder = tmp_path_factory.mktemp("data")
    events = np.zeros(4, EVENT)
    events["time_ns"] = time.time_ns() - np.array([7200, 60, 30, 1]) * 10**9
    events["kind"] = [Kind.NEW_KEY, Kind.PATH_CHANGE, Kind.CHANGE, Kind.SILENT]
    events["metric"] = [Metric.FLOW_PATH, Metric.FLOW_PATH, Metric.HOP_LATENCY, Metric.NONE]
    events["node_id"], events["port"] = [NO_NODE, NO_NODE, 7, 8], [NO_PORT, NO_PORT, 2, NO_PORT]
    events["path"][:2, :3] = [[4, 5, 6], [4, 7, 6]]
    events["hop_count"][:2] = 3
    events["value"] = [0, 0, 900, 0]
    flow = slice(0, 3)
    events["flow_id"][flow], events["ip_version"][flow], events["proto"][flow] = 0xF00D << 48, 4, 17
    events["src_lo"][flow], events["dst_lo"][flow] = 0xFFFF_0A00_0001, 0xFFFF_0A00_0102
    events["sport"][flow], events["dport"][flow] = 4000, 53
    events["src_lo"][3] = 0xFFFF_C000_0201
    with JournalWriter(folder, 0, fsync_seconds=0) as writer:
        writer.append(events[:1])
        writer.rotate()
        archive_once(folder, HistorySettings())
        writer.append(events[1:])
    (folder / "names.csv").write_text("node_id,port,name\n7,,spine-7\n7,2,to leaf-6\n")
    return folder


def rows(data: Path, *words: str) -> list[dict[str, object]]:
    done = run(*words, "--data", str(data), "--names", str(data / "names.csv"), "--format", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_events_as_json_are_those_of_the_api(data: Path) -> None:
    """Newest first, with names, the flow's id in hexadecimal, and null for what an event has not."""
    events = rows(data, "events")
    assert [event["kind"] for event in events] == ["silent", "change", "path_change", "new_key"]
    assert events[1]["node"] == {"id": 7, "name": "spine-7"}
    assert events[1]["port"] == {"id": 2, "name": "to leaf-6"}
    assert events[1]["value"] == 900
    assert events[1]["flow"] == {
        "id": "f00d000000000000", "src": "10.0.0.1", "dst": "10.0.1.2",
        "proto": 17, "sport": 4000, "dport": 53,
    }  # fmt: skip
    assert [node["id"] for node in events[2]["path"]] == [4, 7, 6]  # type: ignore[attr-defined]
    assert events[0]["source"]["address"] == "192.0.2.1"  # type: ignore[index]
    assert events[0]["flow"] is None


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (("--since", "10m"), ["silent", "change", "path_change"]),
        (("--until", "-10m"), ["new_key"]),
        (("--kind", "silent,new_key"), ["silent", "new_key"]),
        (("--metric", "hop_latency"), ["change"]),
        (("--node", "spine-7"), ["change", "path_change"]),
        (("--node", "5", "--node", "8"), ["silent", "new_key"]),
        (("--egress-port", "2"), ["change"]),
        (("--node", "spine-7", "--egress-port", "2", "--egress-port", "3"), ["change"]),
        (("--node", "spine-7", "--egress-port", "3"), []),
        (("--flow", "10.0.0.1,,udp"), ["change", "path_change", "new_key"]),
        (("--flow", "dport=80"), []),
        (("--flow-id", "f00d000000000000", "--limit", "1"), ["change"]),
        (("--prefix", "10.0.1.0/24"), ["change", "path_change", "new_key"]),
        (("--oldest-first", "-n", "2"), ["new_key", "path_change"]),
    ],
)
def test_filters(data: Path, words: tuple[str, ...], kinds: list[str]) -> None:
    """Each keeps what it says."""
    assert [event["kind"] for event in rows(data, "events", *words)] == kinds


def test_pages(data: Path) -> None:
    """What is told on stderr continues where a page ended."""
    first = run("events", "-n", "3", "-d", str(data), "-f", "json")
    place = first.stderr.split("--after ")[1].strip()
    assert [event["kind"] for event in rows(data, "events", "--after", place)] == ["new_key"]


def test_table_and_csv_are_for_people_and_spreadsheets(data: Path) -> None:
    """Names where there are some, a path as arrows, a flow as one text, times to the ns."""
    words = ("events", "-d", str(data), "--names", str(data / "names.csv"))
    table = run(*words).stdout.splitlines()
    assert table[0].split()[:3] == ["time", "kind", "metric"]
    assert "spine-7" in table[2]
    assert "to leaf-6" in table[2]
    assert "10.0.0.1:4000 → 10.0.1.2:53 udp" in table[2]
    assert "4 → spine-7 → 6" in table[3]
    assert "source 192.0.2.1" in table[1]
    listed = list(csv.DictReader(io.StringIO(run(*words, "--format", "csv").stdout)))
    assert listed[2]["path"] == "4 → spine-7 → 6"
    assert len(listed[0]["time"]) == len("2026-01-01T00:00:00.000000000Z")


def test_flows_paths_hops_and_summary(data: Path) -> None:
    """Each command's rows have what its help says."""
    (flow,) = rows(data, "flows")
    assert (flow["events"], flow["path_changes"]) == (3, 1)
    assert [[node["id"] for node in path["path"]] for path in rows(data, "paths")] == [[4, 5, 6], [4, 7, 6]]  # type: ignore[attr-defined]
    (hop,) = rows(data, "hops")
    assert (hop["node_id"], hop["port"], hop["highest"]) == (7, 2, 900)
    assert sum(int(str(row["events"])) for row in rows(data, "summary")) == 4
    assert len({row["bucket"] for row in rows(data, "summary", "--bucket", "1h")}) in (2, 3)
    for command in ("flows", "paths", "hops", "summary"):
        assert len(run(command, "-d", str(data)).stdout.splitlines()) > 1


def test_sql(data: Path) -> None:
    """A SELECT as an argument or on standard input; any other statement is refused."""
    done = run("sql", "SELECT kind FROM events ORDER BY time", "-d", str(data), "-f", "csv")
    assert done.stdout.split() == ["kind", "new_key", "path_change", "change", "silent"]
    done = run("sql", "-", "-d", str(data), "-f", "json", stdin=b"SELECT count(*) AS n FROM events;\n")
    assert json.loads(done.stdout) == {"n": 4}
    done = run("sql", "DROP VIEW events", "-d", str(data))
    assert done.returncode == 2
    assert done.stderr.startswith("hopscope: expected one SELECT")


def test_while_a_collector_writes(tmp_path: Path) -> None:
    """An open journal, locked by its writer, is read like any other."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(np.zeros(3, EVENT))
        assert len(rows_of(tmp_path)) == 3
        writer.append(np.zeros(2, EVENT))
        assert len(rows_of(tmp_path)) == 5


def test_an_empty_answer_says_so(tmp_path: Path) -> None:
    """Nothing on standard output, a reason on stderr, exit status 0."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(np.zeros(1, EVENT))
    for words, reason in (
        (("events", "--kind", "loop"), "no events match"),
        (("hops",), "no hop latencies match"),
        (("distributions",), "distributions are off: set distributions.enabled = true"),
        (("bottleneck", "--flow", "10.0.0.99"), "no matching flow"),
    ):
        done = run(*words, "-d", str(tmp_path), "-f", "json" if words[0] == "events" else "table")
        assert done.returncode == 0
        assert reason in done.stderr


def rows_of(folder: Path) -> list[str]:
    return run("events", "-d", str(folder), "-f", "json").stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("events", "--data", "{tmp}/nix"), "does not exist"),
        (("events", "--data", "{data}/file"), "is not a folder"),
        (("events", "--data", "{tmp}"), "is not a Hopscope data folder"),
        (("events", "--data", "{data}", "--kind", "dorp"), "unknown kind 'dorp'"),
        (("events", "--data", "{data}", "--node", "nobody"), "unknown node 'nobody'"),
        (("events", "--data", "{data}", "--since", "soon"), "expected a time"),
        (("events", "--data", "{data}", "--since", "1700000000"), "ns since 1970 (19 digits)"),
        (
            ("events", "--data", "{data}", "--since", "5m", "--until", "9m"),
            "expected a time before --until 9m",
        ),
        (("events", "--data", "{data}", "--until", "yesterday"), "expected a time"),
        (("events", "--data", "{data}", "--prefix", "10.0.0.0/40"), "expected an address or a prefix"),
        (("events", "--data", "{data}", "--flow-id", "x"), "hexadecimal"),
        (("events", "--data", "{data}", "--after", "here"), "expected the `after` of the page before"),
        (("bottleneck", "--data", "{data}", "--by", "highest"), "--by highest: expected latest or mean"),
        (("sql", "SELEC", "--data", "{data}"), "syntax error"),
    ],
)
def test_mistakes_are_one_line_and_exit_status_2(
    data: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    """No traceback, nothing on standard output."""
    (data / "file").touch()
    done = run(*(word.replace("{data}", str(data)).replace("{tmp}", str(tmp_path)) for word in words))
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_damaged_journal_is_named(tmp_path: Path) -> None:
    """It is left out, and left alone."""
    (tmp_path / "journal").mkdir()
    path = tmp_path / "journal" / f"00000-{0:020d}.journal"
    path.write_bytes(b"something else" * 20)
    done = run("events", "-d", str(tmp_path))
    assert done.returncode == 0
    assert f"{path} is damaged" in done.stderr
    assert path.read_bytes() == b"something else" * 20


def test_cells_of_events_have_units() -> None:
    """Times are shown as times, limits as limits, and hashes of paths not at all."""
    event = {
        "kind": "raised",
        "metric": "hop_latency",
        "value": 11_844_201,
        "previous": 1_000_000,
        "unit": "ns",
    }
    event |= {"flow": None, "source": None, "path": None, "node": None, "port": None}

    def cells(**changes: object) -> tuple[object, object]:
        found = event_cells({**event, **changes})
        return found["value"], found["previous"]

    assert cells() == ("11.8 ms", "limit 1.00 ms")
    assert cells(kind="change") == ("11.8 ms", "1.00 ms")
    assert cells(kind="new_key", previous=0) == ("11.8 ms", None)
    assert cells(metric="queue_occupancy", unit=None, value=4314, previous=2500) == ("4314", "limit 2500")
    assert cells(kind="path_change", metric="flow_path", unit=None, value="9" * 19) == (None, None)
    silent = {"address": "192.0.2.1", "node": None, "hw_id": 0}
    assert cells(kind="silent", metric="none", unit=None, value=0, previous=10**9, source=silent) == (
        "0",
        "1.00 s",
    )
