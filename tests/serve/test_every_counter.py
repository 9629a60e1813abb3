"""Every counter that a process declares is in /metrics, with its value."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import hopscope
from hopscope.base.names import Names
from hopscope.cluster import counters as cluster
from hopscope.control import counters as control
from hopscope.detect import counters as detect
from hopscope.direct import counters as direct
from hopscope.export import counters as export
from hopscope.history import counters as history
from hopscope.labels import counters as labels
from hopscope.lake import counters as lake
from hopscope.memory.counter_region import CounterFile
from hopscope.naming import counters as naming
from hopscope.operators import counters as operators
from hopscope.present.collector_state import CollectorState
from hopscope.rdma import counters as rdma
from hopscope.serve.prometheus import render
from hopscope.settings.serve import TopFlowSettings

SOURCE = Path(hopscope.__file__).parent
FILES = [
    ("regions", detect.counters_of("worker-0")),
    ("regions", detect.counters_of("detector")),
    ("regions", history.HISTORY_COUNTERS),
    ("regions", labels.LABEL_COUNTERS),
    ("regions", naming.NAMES_COUNTERS),
    ("regions", control.CONTROL_COUNTERS),
    ("regions", cluster.CLUSTER_COUNTERS),
    ("regions", lake.LAKE_COUNTERS),
    ("regions", operators.ACCESS_COUNTERS),
    ("direct", direct.TRANSLATOR_COUNTERS),
    ("direct", rdma.NIC_COUNTERS),
]
"""Folder, and file of the counters, of every process that counts in a region of its own."""


@pytest.fixture
def samples(tmp_path: Path) -> list[tuple[str, dict[str, str], float]]:
    """Name, labels and value of all samples; each counter has the value 1 + its place."""
    (tmp_path / "journal").mkdir()
    for folder, file in FILES:
        file.open(tmp_path / folder).values[:] = np.arange(1, len(file.counters) + 1)
    places = [
        export.DestinationLabel("webhook", "http://127.0.0.1/x", "pager"),
        export.DestinationLabel("kafka", "127.0.0.1", "bus"),
    ]
    region = export.open_counters(tmp_path, places)
    for at, name in enumerate(export.NAMES, 1):
        region["destinations"][name] = at
    text = render(
        CollectorState(tmp_path), Names(), tmp_path, tmp_path / "direct", TopFlowSettings()
    ).decode()
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


@pytest.mark.parametrize("file", [file for _, file in FILES], ids=[file.name for _, file in FILES])
def test_every_declared_counter_is_exported(
    samples: list[tuple[str, dict[str, str], float]], file: CounterFile
) -> None:
    """In base units, with the label of its family and, of workers, its process."""
    process = re.search(r"worker-(\d+)|(detector)", file.name)
    more = {"worker": process[1] or process[2]} if process else {}
    missing = []
    for value, counter in enumerate(file.counters, 1):
        wanted = dict([counter.label] if counter.label else []) | more
        found = [has for name, of, has in samples if name == counter.metric and of == wanted]
        if found != [pytest.approx(counter.exposed(value))]:
            missing.append((counter.metric, wanted, found))
    assert missing == []


def test_no_two_counters_of_a_process_have_one_source() -> None:
    """As those of a family would whose source does not contain `{}`."""
    for _, file in FILES:
        found = [source for counter in file.counters if (source := counter.of or counter.tally)]
        assert len(found) == len(set(found)), file.name


def test_every_counter_of_exports_is_exported(samples: list[tuple[str, dict[str, str], float]]) -> None:
    """Those of every destination, and the reasons of losses."""
    values = {name: float(at) for at, name in enumerate(export.NAMES, 1)}
    other = {"destination": "bus"}
    wanted = [(f"hopscope_export_{name}", other, values[name]) for name, _ in export.EXPORTS]
    lost = [(name, other | {"reason": reason}) for name, reason, _ in export.LOST]
    wanted += [("hopscope_export_lost_total", of, values[name]) for name, of in lost]
    assert [each for each in wanted if each not in samples] == []


def test_every_counter_is_documented() -> None:
    """The reference has the counters of every process."""
    page = (Path(__file__).parents[2] / "docs/reference/counters.md").read_text()
    names = {counter.metric for _, file in FILES for counter in file.counters}
    assert [name for name in sorted(names) if f"| `{name}` |" not in page] == []


def test_no_counters_are_declared_elsewhere() -> None:
    """A module that declares counters is one of those above."""
    declaration = re.compile(r"^\w*COUNTERS\b.*= (CounterFile)?\(", re.M)
    declared = {path for path in SOURCE.rglob("*.py") if declaration.search(path.read_text())}
    modules = (cluster, control, detect, history, labels, lake, direct, naming, operators, rdma)
    assert declared == {Path(str(module.__file__)) for module in modules}
