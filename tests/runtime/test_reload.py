"""SIGHUP: what may change is in force, what may not is named and stays, wrong settings change nothing."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hopscope.detect.thresholds import create_control, read_change, read_limits
from hopscope.runtime.processes.child import send
from hopscope.runtime.supervisor import managed_processes as module
from hopscope.runtime.supervisor.live_limits import LiveLimits
from hopscope.runtime.supervisor.managed_process import ManagedProcess
from hopscope.runtime.supervisor.process import Supervisor
from hopscope.runtime.supervisor.reload import CHANGEABLE, reload
from hopscope.settings.collector import Settings
from hopscope.settings.configuration.file import walk

BEFORE: dict[str, Any] = {"serve": {"token": "0123456789abcdef", "host": "0.0.0.0"}}


def changed(**sections: Any) -> Settings:
    return Settings.model_validate(BEFORE | sections)


def test_what_may_change_changes() -> None:
    """Keys are named; processes that need them start again; the others stay as they were."""
    after = changed(
        detect={
            "thresholds": {"hop_latency": {"raise_above": 5}},
            "switches": [{"node": 7}],
            "idle_seconds": 9,
        },
        sink={"quota": 3},
        history={"keep_days": 3, "keep_free": "2%"},
        serve={**BEFORE["serve"], "token": "fedcba9876543210", "port": 9},
        export={"pager": {"kind": "webhook", "url": "http://127.0.0.1:1/x"}},
        log={"level": "debug"},
    )
    found = reload(changed(), after)
    assert set(found.changed) == {
        "detect.thresholds.hop_latency.change", "detect.thresholds.hop_latency.raise_above",
        "detect.switches", "history.keep_days", "serve.token", "export", "log.level",
    }  # fmt: skip
    assert set(found.left) == {"detect.idle_seconds", "sink.quota", "history.keep_free", "serve.port"}
    assert found.roles == {"serve", "archive", "export"}
    assert found.settings == changed(
        detect={"thresholds": {"hop_latency": {"raise_above": 5}}, "switches": [{"node": 7}]},
        history={"keep_days": 3},
        serve={**BEFORE["serve"], "token": "fedcba9876543210"},
        export={"pager": {"kind": "webhook", "url": "http://127.0.0.1:1/x"}},
        log={"level": "debug"},
    )


def test_nothing_new_changes_nothing() -> None:
    """The same settings start no process again."""
    found = reload(changed(), changed())
    assert (found.changed, found.left, found.roles) == ((), (), frozenset())


def test_settings_that_do_not_fit_are_rejected() -> None:
    """Limits that a sink does not compare are an error while the collector is one."""
    queue = {"detect": {"thresholds": {"queue_congestion": {"raise_above": 5}}}}
    with pytest.raises(ValueError, match="expected none in a sink"):
        reload(changed(sink={"enabled": True}), changed(**queue))


def test_changeable_settings_exist() -> None:
    """Every key is one of the reference."""
    assert set(CHANGEABLE) <= {key for key, _ in walk(Settings)} | {"redis", "detect.switches"}


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """One with a page and a worker that are ordinary processes, started by no one else."""
    one = Supervisor(Settings(data=tmp_path))
    one._limits = LiveLimits(create_control(None, one.settings.limits), one.settings)
    monkeypatch.setattr(one, "_write_owner", lambda: None)
    monkeypatch.setattr(one.processes, "launch", partial(launch, one))
    monkeypatch.setattr(one.processes, "_can_start", lambda _: True)
    monkeypatch.setattr(module, "TURN_SECONDS", 0.01)
    one.processes.all = [ManagedProcess("worker-0", "worker"), ManagedProcess("serve", "serve")]
    for managed in one.processes:
        launch(one, managed)
    yield one
    one.stop()


def launch(supervisor: Supervisor, managed: ManagedProcess) -> bool:
    """Start a process that ends when it is told to."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = "import os\nwhile (told := os.read(0, 65536)) and b'\"stop\"' not in told: pass"
    with theirs:
        managed.started(subprocess.Popen([sys.executable, "-Sc", code], stdin=theirs.fileno()), ours)
    supervisor.processes._follow(managed)
    return True


def test_a_reload_of_a_collector(supervisor: Supervisor) -> None:
    """Limits change without a restart of a worker; the page starts again, which counts as no failure."""
    worker, page = supervisor.processes
    before = {managed.name: managed.process for managed in supervisor.processes}
    after = {"detect": {"thresholds": {"hop_latency": {"raise_above": 5}}}, "serve": {"sql_rows": 7}}
    supervisor.reload(Settings.model_validate({"data": supervisor.settings.data, **after}), "SIGHUP")
    assert supervisor._limits is not None
    region = supervisor._limits._region
    assert read_limits(region).general.hop_latency.raise_above == 5
    change = read_change(region)
    assert change is not None
    assert change.author == "SIGHUP"
    process = before["serve"]
    assert process is not None
    process.wait()
    while page.process in (None, process):
        supervisor.turn()
    assert supervisor.settings.serve.sql_rows == 7
    assert worker.process is before["worker-0"]
    assert (page.restarts, list(page.exits), page.last_error) == (0, [], None)


def test_a_written_file_is_a_change(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, and a token in a file, are read again, though the settings name the same files."""
    data, renewed = supervisor.settings.data, list[frozenset[str]]()
    monkeypatch.setattr(supervisor.processes, "renew", renewed.append)
    names, token = data / "names.toml", data / "token"
    names.write_text("")
    token.write_text("a-token-of-18-char\n")
    after = Settings.model_validate({"data": data, "names": names, "serve": {"token": f"file:{token}"}})
    supervisor.reload(after, "SIGHUP")
    supervisor.reload(after, "SIGHUP")
    names.write_text("[nodes]\n1 = 'leaf'\n")
    supervisor.reload(after, "SIGHUP")
    token.write_text("another-token-of-20-\n")
    supervisor.reload(after, "SIGHUP")
    show = {"serve", "export"}
    assert renewed == [show, frozenset(), show, {"serve"}]


def test_a_helper_that_does_not_end_is_killed(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets as long to end at a reload as at a stop."""
    monkeypatch.setattr(module, "STOP_SECONDS", 0.3)
    page = supervisor.processes.all[1]
    assert page.process is not None
    page.process.kill()
    page.process.wait()
    while page.channel is not None:
        supervisor.processes._receive(page)
    stubborn = subprocess.Popen(["sleep", "600"])
    page.started(stubborn, None)
    after = {"data": supervisor.settings.data, "serve": {"sql_rows": 7}}
    supervisor.reload(Settings.model_validate(after), "SIGHUP")
    while page.process in (None, stubborn):
        supervisor.turn()
    stubborn.communicate()
    assert stubborn.returncode == -signal.SIGKILL
    assert list(page.exits) == []


def test_destinations_can_be_added(supervisor: Supervisor) -> None:
    """The first webhook starts the process that exports."""
    export = {"pager": {"kind": "webhook", "url": "http://127.0.0.1:1/x"}}
    supervisor.reload(Settings.model_validate({"data": supervisor.settings.data, "export": export}), "SIGHUP")
    while supervisor.processes.all[-1].process is None:
        supervisor.turn()
    assert [managed.role for managed in supervisor.processes] == ["worker", "serve", "export"]


def test_devices_to_ask_for_names_can_be_added(supervisor: Supervisor) -> None:
    """The first starts the process that asks; what shows names starts again when they have changed."""
    devices = {"lab": {"kind": "snmp", "hosts": ["127.0.0.1"], "port": 1, "community": "x"}}
    after = {"data": supervisor.settings.data, "names_from": devices}
    supervisor.reload(Settings.model_validate(after), "SIGHUP")
    added, page = supervisor.processes.all[-1], supervisor.processes.all[1]
    while added.process is None:
        supervisor.turn()
    assert added.role == "names"
    before, (ours, theirs) = page.process, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own, added.channel = added.channel, ours
    with ours, theirs:
        send(theirs, {"names": True})
        supervisor.processes._receive(added)
    added.channel = own
    while page.process in (None, before):
        supervisor.turn()
    assert list(page.exits) == []
