"""SECURITY.md: every line of the threat model has a test; the systemd unit is confined."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.veth import Namespace

ROOT = Path(__file__).parents[1]


def test_every_line_of_the_threat_model_has_a_test() -> None:
    """The last cell of each row names a test that exists."""
    rows = re.findall(r"^\|(?!---)(?! who).*\| (.*) \|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    assert len(rows) > 15
    for cell in rows:
        named = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", cell)
        assert named, cell
        assert f"def {named[2]}(" in (ROOT / named[1]).read_text(), cell


PROBE = """
from hopscope.capture.bypass import Bypass
from hopscope.capture.errors import CaptureError
from hopscope.capture.sockets import bind_share
from hopscope.settings.collector import ListenSettings

bind_share(ListenSettings(kind="mirror", interface="near"))
print("ring")
try:
    Bypass(1, 1, 1.0).install(0, "near", "far", 1)
    print("bypass")
except CaptureError as error:
    print(error)
"""


@pytest.mark.e2e
def test_the_capabilities_of_the_unit_are_those_of_a_sink(namespace: Namespace) -> None:
    """With those of deploy/sink.conf alone the ring and the bypass work; without CAP_BPF it says so."""
    text = (ROOT / "deploy/sink.conf").read_text()
    lists = re.findall(r"^(?:CapabilityBoundingSet|AmbientCapabilities)=(.*)$", text, re.MULTILINE)
    assert len(lists) == 2
    assert lists[0] == lists[1]
    names = [name.removeprefix("CAP_").lower() for name in lists[0].split()]
    assert probe(namespace, names) == ["ring", "bypass"]
    names.remove("bpf")
    ring, reason = probe(namespace, names)
    assert ring == "ring"
    assert reason.endswith("it needs root, or CAP_BPF and CAP_NET_ADMIN")


def probe(namespace: Namespace, capabilities: list[str]) -> list[str]:
    """What PROBE prints with these capabilities and no others."""
    allowed = ",".join(f"+{name}" for name in capabilities)
    command = ["setpriv", "--inh-caps=-all", f"--bounding-set=-all,{allowed}", sys.executable, "-c", PROBE]
    done = subprocess.run(
        ["ip", "netns", "exec", namespace.name, *command], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_unit_is_confined() -> None:
    """`systemd-analyze security` rates its exposure below 2.0."""
    if shutil.which("systemd-analyze") is None:
        assert not os.environ.get("HOPSCOPE_REQUIRE_TOOLS")
        pytest.skip("systemd-analyze is not installed")
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    done = subprocess.run(
        [*command, str(ROOT / "deploy/hopscope.service")], capture_output=True, text=True, check=False
    )
    found = re.search(r"Overall exposure level for hopscope.service: ([\d.]+)", done.stdout)
    assert found, done.stderr
    assert float(found[1]) < 2.0
