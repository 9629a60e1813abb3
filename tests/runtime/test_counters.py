"""No counter is declared and never written: its process has a source for it, or code counts it by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import hopscope
from hopscope.base.counter import Counter, Sources
from hopscope.capture.udp.listener import UdpListener
from hopscope.detect import counters as detect
from hopscope.direct import counters as direct
from hopscope.direct.stores.spec import parse_store
from hopscope.labels import counters as labels
from hopscope.naming import counters as naming
from hopscope.rdma import counters as rdma
from hopscope.runtime.direct.nic import NicProcess
from hopscope.runtime.direct.translator import TranslatorProcess
from hopscope.runtime.labels.process import LabelProcess
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.processes.worker import Receiver, Worker
from hopscope.settings.collector import Settings
from hopscope.settings.direct import DirectSettings, StoreSettings, TranslatorSettings
from hopscope.settings.label import LabelSettings
from hopscope.settings.listen import ListenSettings

DECLARATIONS = [Path(str(module.__file__)) for module in (detect, direct, labels, naming, rdma)]


def owner(kind: str, folder: Path) -> object:
    """What owns the counters of a kind."""
    if kind == "worker":
        worker = Worker(pipeline_of(Settings()))
        worker.receivers.append(Receiver(UdpListener(ListenSettings(port=0)), (), print))
        return worker
    if kind == "labels":
        return LabelProcess(LabelSettings(listen="127.0.0.1:0"), None)
    if kind == "nic":
        return NicProcess(DirectSettings(), folder, [parse_store("kw=key-write,bytes=64KiB")], port=0)
    stores = (StoreSettings(name="kw", primitive="key-write", options={"slots": 1 << 10}),)
    return TranslatorProcess(
        DirectSettings(stores=stores, translator=TranslatorSettings(port=0, form="sized")), folder
    )


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("kind", "counters"),
    [
        ("worker", detect.COUNTERS),
        ("labels", labels.LABEL_COUNTERS.counters),
        ("nic", rdma.NIC_COUNTERS.counters),
        ("translator", direct.TRANSLATOR_COUNTERS.counters),
    ],
)
def test_every_source_exists(kind: str, counters: Sequence[Counter], tmp_path: Path) -> None:
    """A path that leads nowhere raises; what belongs to a part that the settings do not name is left out."""
    assert Sources(counters).read(owner(kind, tmp_path))


def test_a_counter_without_a_source_is_counted_by_name() -> None:
    """Its name stands in the code, outside the declarations."""
    named = {
        name
        for path in Path(hopscope.__file__).parent.rglob("*.py")
        if path not in DECLARATIONS
        for name in re.findall(r'"(\w+)(?:\.[^"\n]*)?"', path.read_text(encoding="utf-8"))
    }
    files = (labels.LABEL_COUNTERS, naming.NAMES_COUNTERS, rdma.NIC_COUNTERS, direct.TRANSLATOR_COUNTERS)
    for counters in (detect.COUNTERS, *(file.counters for file in files)):
        unbound = {counter.name for counter in counters if counter.of is None and counter.tally is None}
        assert not unbound - named
    assert not {counter.name for counter in rdma.COUNTERS} - named - rdma.SENDER_INDEX.keys()
