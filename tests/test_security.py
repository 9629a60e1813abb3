"""SECURITY.md: every line of the threat model has a test; the systemd unit is confined."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.network.veth import Namespace

ROOT = Path(__file__).parents[1]
UNITS = ROOT / "deploy/systemd"


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
from hopscope.settings.listen import ListenSettings

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
    """With those of its unit alone the ring and the bypass work; without CAP_BPF it says so."""
    text = (UNITS / "hopscope-sink.service").read_text()
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


@pytest.mark.parametrize(
    ("unit", "most"),
    [("hopscope", 2.0), ("hopscope-translate", 2.0), ("hopscope-sink", 2.5), ("hopscope-fabric", 7.5)],
)
def test_the_units_are_confined(unit: str, most: float, tool: Callable[..., str]) -> None:
    """`systemd-analyze security` rates their exposure: best 0, unconfined 9.6."""
    done = subprocess.run(
        [tool("systemd-analyze"), "security", "--offline=true", "--no-pager", str(UNITS / f"{unit}.service")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(rf"Overall exposure level for {unit}.service: ([\d.]+)", done.stdout)
    assert found, done.stderr
    assert float(found[1]) < most


def test_the_units_are_valid(tmp_path: Path, tool: Callable[..., str]) -> None:
    """`systemd-analyze verify` finds nothing; the drop-ins are merged."""
    for unit in UNITS.glob("*.service"):
        text = unit.read_text().replace("/opt/hopscope/bin/hopscope", shutil.which("true") or "true")
        (tmp_path / unit.name).write_text(text)
    folder = tmp_path / "hopscope.service.d"
    folder.mkdir()
    for drop_in in UNITS.glob("*.conf"):
        shutil.copy(drop_in, folder)
    units = sorted(map(str, tmp_path.glob("*.service")))
    assert len(units) == 5
    done = subprocess.run(
        [tool("systemd-analyze"), "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_confined_units_differ_in_rights_only() -> None:
    """What is said about one is true of all: notify, watchdog, the same confinement but for capabilities."""
    rights = {
        "CapabilityBoundingSet", "AmbientCapabilities", "RestrictAddressFamilies", "SystemCallFilter",
        "PrivateUsers", "StateDirectory", "ExecStartPre", "ExecStart", "ExecReload",
        "FileDescriptorStoreMax",
    }  # fmt: skip
    same = {
        unit: sorted(
            line
            for line in (UNITS / f"{unit}.service").read_text().partition("[Service]")[2].splitlines()
            if "=" in line and line.partition("=")[0] not in rights and not line.startswith("#")
        )
        for unit in ("hopscope", "hopscope-sink", "hopscope-translate")
    }
    assert same["hopscope"] == same["hopscope-sink"] == same["hopscope-translate"]
    assert {"Type=notify", "WatchdogSec=60", "User=hopscope", "NoNewPrivileges=yes"} <= set(same["hopscope"])
