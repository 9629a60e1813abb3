"""All monitors on one translator, with the stores and rules that `translate --monitor` sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopscope.cli.options.settings import StoreOptions
from hopscope.direct.monitors.bases import Events, read_bytes
from hopscope.direct.monitors.registry import MONITORS, make_monitors
from hopscope.direct.monitors.run import start
from hopscope.direct.stores.spec import StoreSpec
from hopscope.direct.translation.routes import RouteError
from hopscope.runtime.direct.local import LocalStores
from hopscope.runtime.direct.output import TranslatorOptions
from hopscope.settings.direct import DirectSettings
from support.events.monitor_traffic import seen

pytestmark = pytest.mark.kernel
KEYS = 64


def opened(folder: Path, options: StoreOptions) -> LocalStores:
    """The stores of these options, and their translator."""
    tree: dict[str, Any] = {"translator": {}}
    for _, key, value in options.flags():
        *path, last = key.split(".")[1:]
        (tree[path[0]] if path else tree)[last] = value
    settings = DirectSettings.model_validate(tree)
    return LocalStores(settings, folder, TranslatorOptions.of(settings, lambda: True))


def test_all_monitors_run_together(tmp_path: Path) -> None:
    """Each store holds what it holds with a translator of its own."""
    together = opened(tmp_path, StoreOptions(monitor=[f"{name}:{KEYS}" for name in MONITORS]))
    for name, monitor in make_monitors(list(MONITORS)).items():
        alone = start(make_monitors([name])[name], KEYS)
        for part in (monitor.observe(seen()), monitor.flush()):
            if monitor.first_list:
                part.number_lists_from(monitor.first_list)
            together.translator.translate(part.records, part.arena)
            assert not part.records["reason"].any(), name
        alone.take(seen())
        alone.flush()
        while not together.translator.flush():
            pass
        store = together.stores.current[name]
        assert store.layout == alone.store.layout
        if isinstance(monitor, Events):
            for number in range(monitor.lists):
                assert (read_bytes(store, number) == read_bytes(alone.store, number)).all(), name
        else:
            assert (store.memory == alone.store.memory).all(), name
    together.close()


def test_a_monitor_may_have_several_collectors() -> None:
    """Options after its name are those of its store, beside those that it chooses."""
    given = StoreOptions(monitor=["int-path-tracing:64,collectors=2", "netseer-losses:64,collectors=2"])
    options = {key: value for _, key, value in given.flags()}
    for described in options["direct.stores"]:
        spec = StoreSpec.of(described["name"], described["primitive"], described["options"])
        alone = make_monitors([spec.name])[spec.name].layout(64)
        assert spec.layout == replace(alone, collectors=2)


def test_stores_that_would_take_the_same_report_are_rejected(tmp_path: Path) -> None:
    """A store beside a monitor of its primitive and length: the start names both and what to add."""
    options = StoreOptions(
        store=["mine=append,lists=8,bytes=1MiB,data_bytes=18"], monitor=[f"netseer-losses:{KEYS}"]
    )
    with pytest.raises(RouteError, match="stores mine and netseer-losses take the same append reports"):
        opened(tmp_path, options)
