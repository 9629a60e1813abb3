"""`hopscope direct report`: what it prints can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopscope.cli.direct.report import examples
from hopscope.cli.direct.view import read_values
from hopscope.cli.options.settings import EXPECTED_KEYS
from hopscope.direct.collectors.open import open_collectors
from hopscope.direct.monitors.query import monitor_of, query_decoded
from hopscope.direct.monitors.registry import MONITORS, make_monitors
from hopscope.direct.stores.answers import QueryOptions
from hopscope.direct.stores.store import Store, StoreError
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from support.events.monitor_traffic import TREE, seen

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("monitor", MONITORS)
def test_printed_queries_find_an_answer(tmp_path: Path, monitor: str) -> None:
    """Every monitor reports something of a network with losses, and what `direct report` prints is found in
    the store that `translate --monitor` makes.
    """
    (source,) = make_monitors([monitor]).values()
    parts = [source.observe(seen()), source.flush()]
    printed = examples(source, parts, [switch.node_id for switch in TREE.switches])
    assert printed
    store = Store.create(tmp_path / f"{monitor}.region", source.layout(EXPECTED_KEYS))
    translator = Translator([store.layout], MemoryTransport([store]))
    for part in parts:
        translator.translate(part.records, part.arena)
    translator.flush()
    for line in printed:
        key, _, values = line.partition(" --values ")
        options = QueryOptions(values=read_values(values or None))
        group = open_collectors((), tmp_path)
        (answer,) = query_decoded(group, monitor, [key], options, monitor=monitor_of(monitor))
        assert answer["status"] == "found", line
        assert "decoded" in answer or "path" in answer, line


@pytest.mark.parametrize("text", ["5-4", "0-4294967296", "0-16777216"])
def test_a_range_of_values_has_bounds(text: str) -> None:
    """Backwards, beyond 32 bits, or too many: one line says so."""
    with pytest.raises(StoreError, match="expected a range of at most"):
        read_values(text)
