"""`hopscope query distributions`: what it prints of history and of what is counted now."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from hopscope.detect.distributions.region import Distributions, log_edges
from hopscope.detect.records import BINS, DISTRIBUTED
from hopscope.history.writing.periods import PeriodArchive
from hopscope.settings.sink import DistributionSettings
from support.processes.command import hopscope

START = 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand latencies of two switches in history, one of them with more since."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "journal").mkdir()
    (folder / "regions").mkdir()
    counts = Distributions(DistributionSettings(queues=16), folder / "regions")
    counts.region["origin"][1] = START
    bins = counts.bins.reshape(-1, DISTRIBUTED, BINS)
    for node, values in ((1, np.arange(1, 1001)), (2, np.full(1000, 6))):
        row = counts.rows[node]
        row["key"], row["node_id"], row["port"] = 1 << 63 | node, node + 6, 3
        row["sum"][0], row["highest"][0], row["last_ns"] = values.sum(), values.max(), START + 5
        np.add.at(bins[node, 0], np.searchsorted(log_edges(), values), 1)
    PeriodArchive(folder, folder / "regions", 10).take(START + 10**9)
    bins[2, 0, 6] += np.uint64(1)
    counts.rows["sum"][2, 0] += np.uint64(6)
    (folder / "names.csv").write_text("node_id,port,name\n7,,spine-7\n7,3,to leaf-6\n")
    return folder


def run(data: Path, *words: str) -> CompletedProcess[str]:
    return hopscope("query", "distributions", "--data", data, "--names", data / "names.csv", *words)


def test_objects_have_quantiles_with_their_bounds(data: Path) -> None:
    """As JSON, a distribution has its bins, names, and intervals in which the quantiles are."""
    done = run(data, "--format", "json", "--by", "port", "--node", "spine-7")
    (one,) = (json.loads(line) for line in done.stdout.splitlines())
    assert one["node"] == {"id": 7, "name": "spine-7"}
    assert one["port"] == {"id": 3, "name": "to leaf-6"}
    assert (one["measure"], one["unit"], one["queue"], one["count"]) == ("hop_latency", "ns", None, 1000)
    assert (one["mean"], one["highest"], one["since"]) == (500.5, 1000, "2023-11-14T22:13:20.000000000Z")
    assert sum(each["count"] for each in one["bins"]) == 1000
    for found, true in zip(one["quantiles"], (500, 900, 990, 999), strict=True):
        assert found["lower"] <= true <= found["upper"]
        assert found["lower"] <= found["estimate"] <= found["upper"]


def test_tables_and_csv(data: Path) -> None:
    """A table has a histogram in a line and tells the window on stderr; CSV has the bounds; what is counted
    now is in both; a word that is no view or measure is refused.
    """
    done = run(data, "--measure", "hop_latency")
    lines = done.stdout.splitlines()
    assert lines[0].split()[:8] == ["measure", "node", "port", "queue", "count", "mean", "p50", "p90"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["hop_latency", "spine-7", "1000"],
        ["hop_latency", "8", "1001"],
    ]
    assert "█" in lines[1]
    assert "from 2023-11-14T22:13:20" in done.stderr
    (network,) = csv.DictReader(io.StringIO(run(data, "--by", "network", "--format", "csv").stdout))
    assert (network["count"], network["p50"], network["p50_lower"], network["p50_upper"]) == (
        "2001",
        "6",
        "6",
        "6",
    )
    refused = run(data, "--by", "rack")
    assert (refused.returncode, refused.stderr) == (
        2,
        "hopscope: --by: unknown view 'rack', expected queue, port, switch, network\n",
    )
    assert "unknown measure 'delay'" in run(data, "--measure", "delay").stderr
