"""What `check` and `attach` say of a machine: interfaces of this network namespace, BPF file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopscope.capture.errors import CaptureError
from hopscope.capture.ring.offload import speed_of
from hopscope.switch.kernel import allowed
from hopscope.switch.program import attach, detach
from hopscope.switch.settings import SwitchSettings
from support.network.veth import Namespace


def test_interfaces_of_the_namespace(namespace: Namespace, pins: Path) -> None:
    """The kernel is asked for interfaces, and not /sys, which this thread has of another namespace, as under
    `nsenter --net`. An interface that is missing is one finding: it is not said to merge segments, too.
    """
    settings = SwitchSettings.model_validate(
        {
            "node_id": 7,
            "interfaces": ["near", "nowhere"],
            "pins": pins / "switch",
            "watch": [{"protocol": "tcp"}],
        }
    )
    advice = namespace.inside(lambda: {what: advice for what, _, advice in allowed(settings)})
    assert {what for what, text in advice.items() if text} == {"nowhere"}


def test_speed_of_an_interface_of_the_namespace(namespace: Namespace) -> None:
    """A veth has 10 Gbit/s, as in /sys, which this thread has of another namespace; loopback has none."""
    assert namespace.inside(lambda: [speed_of(name) for name in ("near", "lo")]) == [10_000, 0]
    with pytest.raises(CaptureError, match="no such interface"):
        namespace.inside(lambda: speed_of("nowhere"))


def test_no_bpf_file_system(
    namespace: Namespace, pins: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where programs cannot be pinned, both say how that is mended; where they can, nothing is said."""
    folder = tmp_path_factory.mktemp("plain")
    settings = SwitchSettings(node_id=7, interfaces=("near",), pins=folder / "switch")
    advice = namespace.inside(lambda: {what: advice for what, _, advice in allowed(settings)})
    assert f"`mount -t bpf bpf {folder}`" in advice["pins"]
    with pytest.raises(CaptureError, match=r"there is no BPF file system: .*nsenter --net"):
        namespace.inside(lambda: attach(settings))
    assert not settings.pins.exists()
    right = settings.model_copy(update={"pins": pins / "switch"})
    assert "pins" not in namespace.inside(lambda: {what for what, _, _ in allowed(right)})
    namespace.inside(lambda: attach(right))
    assert namespace.inside(lambda: detach(right))
