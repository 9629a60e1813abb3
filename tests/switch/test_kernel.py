"""What `check` and `attach` say of a machine: interfaces of this network namespace, BPF file system."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hopscope.capture.errors import CaptureError
from hopscope.switch.kernel import allowed
from hopscope.switch.program import attach, detach
from hopscope.switch.settings import SwitchSettings
from support.veth import Namespace


@pytest.fixture
def namespace(pins: Path) -> Iterator[Namespace]:
    """`near` and `far`, which this thread's /sys does not have, as under `nsenter --net`."""
    try:
        made = Namespace(f"hopscope-check-{os.getpid()}")
    except (OSError, subprocess.CalledProcessError) as error:
        if os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1":
            raise
        pytest.skip(f"no network namespaces with veth pairs here: {error}")
    try:
        yield made
    finally:
        made.remove()


def test_interfaces_of_the_namespace(namespace: Namespace, pins: Path) -> None:
    """The kernel is asked for interfaces, and not /sys, which may be of another namespace."""
    settings = SwitchSettings(node_id=7, interfaces=("near", "nowhere"), pins=pins / "switch")
    advice = namespace.inside(lambda: {what: advice for what, _, advice in allowed(settings)})
    assert {what for what, text in advice.items() if text} == {"nowhere"}


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
