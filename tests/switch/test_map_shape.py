"""Maps that another version has pinned are not shared: the error says what to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hopscope.bpf.build import LABEL_OBJECT, SWITCH_OBJECT
from hopscope.bpf.hash_map import HashMap
from hopscope.bpf.libbpf import BpfObject
from hopscope.bpf.map_shape import mapped
from hopscope.bpf.tc import pinned
from hopscope.capture.errors import CaptureError
from hopscope.switch.labels.program import LabelProgram
from hopscope.switch.layout import COUNTERS, PORT
from hopscope.switch.program import SwitchProgram
from support.network.switch_programs import settings

pytestmark = pytest.mark.kernel
FIRST = "run `hopscope switch detach` first"


@pytest.mark.parametrize(
    ("object_", "name", "load"),
    [
        (SWITCH_OBJECT, "counters", lambda pins: SwitchProgram(settings(), pins=pins)),
        (SWITCH_OBJECT, "ports", lambda pins: SwitchProgram(settings(), pins=pins)),
        (LABEL_OBJECT, "label_flows", lambda pins: LabelProgram(settings(label={}), 0, pins=pins)),
    ],
)
def test_a_pinned_map_of_another_version_is_refused(
    pins: Path, object_: Path, name: str, load: Callable[[Path], object]
) -> None:
    """One that is smaller, of INT and of labels; what is pinned stays."""
    with closing(BpfObject(object_)) as other:
        other.resize(name, 7)
        other.share(name, pins / name)
        other.load()
    with pytest.raises(CaptureError, match=rf"{name} is of another version.*entries 7.*{FIRST}"):
        load(pins)
    assert (pins / name).exists()


def test_who_reads_maps_refuses_those_of_another_version(pins: Path) -> None:
    """Records of another size are not read; the same version reads them."""
    for _ in range(2):
        SwitchProgram(settings(), pins=pins).close()
    counters, ports = pinned(pins / "counters"), pinned(pins / "ports")
    longer = np.dtype([("all", COUNTERS), ("more", "<u8")])
    with pytest.raises(CaptureError, match=rf"value bytes {COUNTERS.itemsize}.*{FIRST}"):
        mapped(counters, longer, 512, pins / "counters")
    with pytest.raises(CaptureError, match=FIRST):
        HashMap(ports, 4, PORT.itemsize + 8)
    assert not dict(HashMap(ports, 4, PORT.itemsize).items())
