"""The Debian package: built from an installed environment, installed, used, removed and purged."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from types import ModuleType

import pytest

from support.processes.other_root import UNAVAILABLE, run_in_other_root

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs/guides/first-dashboard.md"
STAND_INS = """
sudo() { "$@"; }
apt() { dpkg -i "$3" >/dev/null; command -v "$4" >/dev/null; }
systemctl() { . "/etc/default/$2"; "/usr/bin/$2" $ARGS 2>/tmp/database & database=$!; }
hopscope() {
    [ "$1" = demo ] || { command hopscope "$@"; return; }
    command hopscope "$@" --topology leaf-spine:4x2x2 --load 0.1 --rate 2000 >/tmp/demo 2>&1 & demo=$!
}
cd /given
"""
"""For what a copy of Debian's files lacks: a network, systemd, a terminal. The demo is a small one."""
ANSWERED = """
PYTHONPATH=/given /usr/lib/hopscope/bin/python3 -m support.servers.dashboard_answers \\
    http://127.0.0.1:8428 /etc/grafana/provisioning $demo || { tail /tmp/demo /tmp/database; exit 1; }
kill -INT $demo
wait $demo || true
kill $database
cd /
"""
USE = """
unset -f sudo apt systemctl hopscope
echo installed $(stat -c %U:%a /var/lib/hopscope /etc/hopscope/hopscope.toml)
hopscope check --format json # by root: writes the bytecode that the package of this test lacks
cat > /tmp/use <<'END'
set -e
export HOPSCOPE_KERNEL_CACHE=/var/cache/hopscope HOPSCOPE_CONFIG=/etc/hopscope/hopscope.toml
hopscope config check --connect --format json
hopscope collect 2>/tmp/log &
collector=$!
until grep -q '"collecting"' /tmp/log; do
    kill -0 $collector || { cat /tmp/log; exit 1; }
    sleep 0.2
done
hopscope simulate --duration 0.2 --to udp://127.0.0.1:32766 >/dev/null
until [ -s /tmp/events ]; do
    sleep 0.2
    hopscope query events --kind new_key --limit 1 --format json >/tmp/events
done
cat /tmp/events
kill $collector
wait $collector
grep -c compiling /tmp/log || true
END
chmod 644 /tmp/use
runuser -u hopscope -- sh /tmp/use
zcat /usr/share/man/man1/hopscope-config.1.gz | head -1
_HOPSCOPE_COMPLETE=complete_bash COMP_WORDS="hopscope rep" COMP_CWORD=1 hopscope
dpkg --remove hopscope >/dev/null
test ! -e /usr/lib/hopscope -a ! -e /usr/bin/hopscope
echo removed $(ls /etc/hopscope)
dpkg --purge hopscope >/dev/null
test ! -e /etc/hopscope -a ! -e /var/cache/hopscope -a ! -e /lib/systemd/system/hopscope.service
echo purged $(ls /var/lib/hopscope)
"""
CONFIGURE = """
rm -rf /etc/hopscope /var/lib/hopscope /var/cache/hopscope
! getent passwd hopscope >/dev/null || userdel hopscope
! getent group hopscope >/dev/null || groupdel hopscope
mkdir /etc/hopscope
cd /etc/hopscope
touch hopscope.toml own.toml sink.toml # the others have been deleted
chmod 640 hopscope.toml
chmod 600 own.toml sink.toml
groupadd --system hopscope
sh /given/postinst configure
echo group $(id -gn hopscope):$(stat -c %G /var/cache/hopscope)
for each in *; do echo $(stat -c %G:%a $each) $each; done
echo $(stat -c %U:%a /var/lib/hopscope) /var/lib/hopscope
userdel hopscope # and its group
! getent group hopscope >/dev/null || groupdel hopscope
useradd --system --no-create-home --gid nogroup hopscope
mkdir /run/systemd /run/systemd/system
printf '#!/bin/sh\\necho $1\\nexit 1\\n' >/usr/bin/systemctl # as in a chroot with the machine's /run
printf '#!/bin/sh\\necho asked to restart\\nexit 1\\n' >/usr/bin/deb-systemd-invoke
chmod 755 /usr/bin/systemctl /usr/bin/deb-systemd-invoke
sh /given/postinst configure 0.1 >/tmp/said
id -nG hopscope | grep -qw hopscope && echo user in its group
cat /tmp/said
sh /given/prerm remove
sh /given/postrm remove
"""
"""Twice: with a group of this name; and with a user that is not in it, as an upgrade under systemd. Then
it is removed.
"""


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    """deploy/deb.py."""
    spec = importlib.util.spec_from_file_location("deb", ROOT / "deploy/deb.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Package(PathDistribution):
    """A package of which only the metadata is known."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read_text(self, filename: str) -> str | None:  # type: ignore[override]
        """Its METADATA."""
        return self._text if filename == "METADATA" else None


@pytest.mark.parametrize(
    ("lines", "accepted"),
    [
        ("License-Expression: MIT", True),
        ("License: BSD\nClassifier: License :: OSI Approved :: BSD License", True),
        ("License-Expression: LGPL-3.0-or-later", True),
        ("License-Expression: GPL-3.0-only", False),
        ("License-Expression: AGPL-3.0-or-later", False),
        ("Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)", False),
        ("Classifier: License :: OSI Approved :: GNU Affero General Public License v3", False),
    ],
)
def test_no_package_under_the_gpl_is_shipped(builder: ModuleType, lines: str, accepted: bool) -> None:
    """However its metadata say so."""
    package: Distribution = Package(f"Metadata-Version: 2.1\nName: one\nVersion: 1\n{lines}\n")
    if accepted:
        builder.check_licences([package])
    else:
        with pytest.raises(builder.PackageError, match="one is under"):
            builder.check_licences([package])


def test_configuring_keeps_what_an_administrator_has_made(tmp_path: Path) -> None:
    """The script after unpacking, in an overlay: with a group or a user of the name already, deleted and own
    settings, and a systemd that refuses all. What dpkg unpacked is readable by the group only. The scripts of
    removing do not fail either, or the package could not be removed.
    """
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare")
    given, folder = tmp_path / "given", tmp_path / "root"
    given.mkdir()
    folder.mkdir()
    for script in ("postinst", "prerm", "postrm"):
        shutil.copy(ROOT / "deploy/debian" / script, given)
    done = run_in_other_root(CONFIGURE, given, folder)
    if done.returncode == UNAVAILABLE:
        pytest.skip(f"no overlay can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "group hopscope:hopscope",
        "hopscope:640 hopscope.toml",
        "root:600 own.toml",
        "root:600 sink.toml",
        "hopscope:750 /var/lib/hopscope",
        "user in its group",
        "daemon-reload",
        "asked to restart",
        "disable",
        "daemon-reload",
    ]


@pytest.mark.wheel
@pytest.mark.timeout(900)
def test_the_package_is_installed_used_and_purged(
    installed: Path, tmp_path: Path, tool: Callable[..., str]
) -> None:
    """In an overlay of this machine: the guide's commands, until all queries of dashboards are answered; the
    package's user, a collector without rights and without compiling, data that outlives a purge.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if os.geteuid() or not Path(f"/usr/bin/python{version}").exists():
        pytest.skip(f"needs root, and Python {version} of Debian")
    for program in ("dpkg-deb", "unshare", "victoria-metrics"):
        tool(program)
    built = tmp_path / "built"
    words = [installed / "clean/bin/python", ROOT / "deploy/deb.py", installed / "clean", built]
    subprocess.run([*words, "--compress=none", "--no-bytecode"], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(built / "stage")
    (tmp_path / "root").mkdir()
    (built / "support" / "servers").mkdir(parents=True)
    for name in ("__init__", "waiting", "servers/__init__", "servers/dashboard_answers", "servers/grafana"):
        shutil.copy(ROOT / f"tests/support/{name}.py", built / "support" / f"{name}.py")
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL))
    done = run_in_other_root(STAND_INS + commands + ANSWERED + USE, built, tmp_path / "root")
    if done.returncode == UNAVAILABLE:
        pytest.skip(f"no overlay can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "installed hopscope:750 root:640" in lines
    (answers,) = (json.loads(line) for line in lines if line.startswith('{"queries"'))
    assert answers["queries"] > 30
    print(f"all {answers['queries']} queries were answered after {answers['seconds']} s")  # for -rP
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    findings = [row for row in rows if "verdict" in row]
    assert not [row for row in findings if row["verdict"] == "bad"]
    kernels = [row["found"] for row in findings if row["what"].startswith("kernels of")]
    assert set(kernels) == {"compiled"}
    assert [row["kind"] for row in rows if "kind" in row] == ["new_key"]
    assert "0" in lines, "kernels were compiled"
    assert any(line.startswith('.TH "HOPSCOPE') for line in lines)
    assert {"replay", "report-issue"} <= set(lines)
    assert "removed fabric.toml hopscope.toml sink.toml translate.toml" in lines
    assert lines[-1].startswith("purged ")
    assert "journal" in lines[-1]
