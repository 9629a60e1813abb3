"""`hopscope query bursts`, and SQL into a Parquet file."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import duckdb
import pytest

from hopscope.detect.records import Kind, Metric
from hopscope.history.writing.journal import JournalWriter
from support.events.alert_events import SECOND, event, flow, joined
from support.events.event_make import START_NS
from support.processes.command import hopscope

RAISED, CLEARED = Kind.RAISED, Kind.CLEARED
run = partial(hopscope, "query")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue above its limit for 3 s, due to two flows; a hop for 1 s, and again, without an end."""
    folder = tmp_path_factory.mktemp("data")
    hop = {"metric": Metric.HOP_LATENCY, "hop": 1, "value": 4_000_000, "previous": 2_000_000}
    with JournalWriter(folder, 0) as journal:
        journal.append(
            joined(
                event(RAISED, 1, value=3000, **flow(1)),
                event(RAISED, 1.5, **hop, **flow(2)),
                event(Kind.CHANGE, 2, value=9000, **flow(2)),
                event(CLEARED, 2.5, **hop | {"value": 1000}, **flow(2)),
                event(CLEARED, 4, value=400, **flow(1)),
                event(RAISED, 5, **hop, **flow(2)),
            )
        )
    (folder / "names.csv").write_text("node_id,port,name\n7,,spine-7\n7,2,to leaf-6\n")
    return folder


def lines(data: Path, *words: str) -> list[str]:
    done = run("bursts", "--data", str(data), "--names", str(data / "names.csv"), *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_bursts_are_printed_with_their_flows(data: Path) -> None:
    """By hand, newest first: times with units, peaks of all events meanwhile, and what has not ended."""
    start = "2023-11-14T22:13:2"
    fields = [line.split("  ") for line in lines(data)]
    assert [[each.strip() for each in line if each] for line in fields[1:]] == [
        [f"{start}5.000000000Z", "not ended", "hop_latency", "spine-7", "to leaf-6", "4.00 ms", "2.00 ms",
         "1", "10.0.0.2:4002 → 10.0.0.255:80 tcp"],
        [f"{start}1.500000000Z", "≈ 1.00 s", "hop_latency", "spine-7", "to leaf-6", "4.00 ms", "2.00 ms",
         "1", "10.0.0.2:4002 → 10.0.0.255:80 tcp"],
        [f"{start}1.000000000Z", "≈ 3.00 s", "queue_occupancy", "spine-7", "to leaf-6", "1", "9000", "2500",
         "2", "10.0.0.2:4002 → 10.0.0.255:80 tcp"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--metric", "queue_occupancy"], [(3 * 10**9, 9000)]),
        (["--max-duration", "2s"], [(10**9, 4_000_000)]),
        (["--min-duration", "2s", "--sort", "duration"], [(3 * 10**9, 9000), (None, 4_000_000)]),
        (["--sort", "peak", "-n", "1", "--until", "2023-11-14T22:13:24Z"], [(10**9, 4_000_000)]),
        (["--metric", "queue_occupancy", "--above", "5000"], [(2 * 10**9, 9000)]),
        (["--node", "8"], []),
        (["--egress-port", "3"], []),
        (["--metric", "queue_occupancy", "--until", str(2**63 - 1)], [(3 * 10**9, 9000)]),
    ],
)
def test_bursts_are_chosen(data: Path, words: list[str], found: list[tuple[int, int]]) -> None:
    """Durations and peaks of the bursts that options choose."""
    rows = [json.loads(line) for line in lines(data, "--json", *words)]
    assert [(row["duration_ns"], row["peak"]) for row in rows] == found


def test_a_burst_that_began_before_history(tmp_path: Path) -> None:
    """A table says that it began before --since; or just before, without that option."""
    with JournalWriter(tmp_path, 0) as journal:
        journal.append(event(CLEARED, 1, value=400, **flow(1)))
    for words, start in (((), "before  "), (("--since", "2023-11-14"), "before --since  ")):
        done = run("bursts", "--data", str(tmp_path), *words)
        assert done.stdout.splitlines()[1].startswith(start), done.stderr


def test_bursts_ahead_of_the_clock(tmp_path: Path) -> None:
    """They are found, as `query events` finds their events, also one that has not ended."""
    ahead = (time.time_ns() - START_NS) // SECOND + 86_400
    with JournalWriter(tmp_path, 0) as journal:
        journal.append(
            joined(
                event(RAISED, ahead, value=3000, **flow(1)),
                event(CLEARED, ahead + 2, value=400, **flow(1)),
                event(RAISED, ahead + 3, value=4000, **flow(2)),
            )
        )
    done = run("bursts", "--data", str(tmp_path), "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["peak"], row["end"]) for row in rows] == [(4000, None), (3000, rows[1]["end"])], done.stderr
    assert [row["contributors"][0]["flow"]["sport"] for row in rows] == [4002, 4001]


def test_sql_writes_parquet(data: Path, tmp_path: Path) -> None:
    """Another reader finds all rows with their types; stderr says how many, and if there are more."""
    path = tmp_path / "raised.parquet"
    words = ("sql", "SELECT metric, value FROM events WHERE kind = 'raised' ORDER BY time", "-o", str(path))
    done = run(*words, "--data", str(data))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"{path}: 3 rows\n")
    found = duckdb.sql(f"FROM '{path}'")
    assert [str(each) for each in found.types] == ["VARCHAR", "UBIGINT"]
    assert found.fetchall()[0] == ("queue_occupancy", 3000)
    done = run(*words, "--data", str(data), "-n", "2")
    assert done.stderr == f"{path}: 2 rows (there are more: see --limit)\n"
    done = run("sql", "SELECT range FROM range(20_000)", "-o", str(path), "--data", str(data))
    assert done.stderr == f"{path}: 20,000 rows\n"
    done = run("sql", "SELECT range FROM range(20_000)", "--format", "csv", "--data", str(data))
    assert (len(done.stdout.splitlines()), done.stderr) == (
        10_001,
        "hopscope: more than 10000 rows: see --limit\n",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bursts", "--above", "3"), "--above: found without --metric"),
        (("bursts", "--metric", "drop"), "--metric drop: expected hop_latency, "),
        (("bursts", "--sort", "size"), "--sort size: expected start, peak or duration"),
        (("bursts", "--min-duration", "long"), "--min-duration: expected a time such as 500us"),
        (("sql", "SELECT 1", "-o", "a.csv"), "--output a.csv: expected a name such as a.parquet"),
        (("sql", "SELECT 1", "-o", "a.parquet", "--json"), "leave out --format or --json"),
        (("sql", "SELECT 1", "-o", "a.parquet", "--scope", "cluster"), "leave out --scope cluster"),
        (("sql", "SELECT 1", "-o", "/nowhere/a.parquet"), "/nowhere/a.parquet: cannot be written"),
    ],
)
def test_mistakes_say_what_is_expected(data: Path, words: tuple[str, ...], message: str) -> None:
    """Exit status 2, and one line."""
    done = run(*words, "--data", str(data))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
