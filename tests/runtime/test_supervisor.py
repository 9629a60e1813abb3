"""What the supervisor does when a process keeps ending: capture outlives its helpers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from hopscope.base.process.affinity import allowed
from hopscope.memory.data_folder import DataFolder
from hopscope.runtime.processes import fork_server
from hopscope.runtime.supervisor.managed_process import (
    EXITS_SECONDS,
    MAX_EXITS,
    STOPPED_SECONDS,
    ManagedProcess,
)
from hopscope.runtime.supervisor.managed_processes import CollectorError
from hopscope.runtime.supervisor.process import Supervisor
from hopscope.runtime.supervisor.watch import LIMITS, Watch
from hopscope.settings.collector import Settings
from hopscope.settings.label import LabelSettings
from support.waiting import eventually


def end(supervisor: Supervisor, managed: ManagedProcess) -> None:
    """The process has ended, and the supervisor sees it."""
    process = subprocess.Popen([sys.executable, "-Sc", "raise SystemExit(7)"])
    process.wait()
    managed.started(process, None)
    supervisor.processes._reap(managed)


def affinities(managed: ManagedProcess) -> tuple[set[int], list[set[int]]]:
    """Processors of a process's main thread, and of each of its others."""
    assert managed.process is not None
    pid = managed.process.pid
    others = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir() if path.name != str(pid)]
    return os.sched_getaffinity(pid), [os.sched_getaffinity(other) for other in others]


@pytest.mark.parametrize("role", ["serve", "archive", "export", "labels"])
def test_a_helper_that_keeps_ending_is_left_stopped(tmp_path: Path, role: str) -> None:
    """Its fifth end within a minute stops it for longer than that; its status says so, nothing is raised."""
    supervisor = Supervisor(Settings(data=tmp_path))
    managed = ManagedProcess(role, role)
    for _ in range(MAX_EXITS):
        assert not managed.stopped
        end(supervisor, managed)
    assert managed.status() == {
        "name": role,
        "pid": None,
        "alive": False,
        "starting": False,
        "warm": False,
        "stopped": True,
        "restarts": 0,
        "last_error": "ended with 7",
        "tick_seconds": None,
    }
    assert managed.due > managed.exits[-1] + EXITS_SECONDS
    assert managed.due == managed.exits[-1] + STOPPED_SECONDS
    supervisor.stop()


def test_a_receiver_that_keeps_ending_ends_the_program(tmp_path: Path) -> None:
    """A worker; and without workers the process that takes labels."""
    for settings, role in (
        (Settings(data=tmp_path), "worker"),
        (Settings(data=tmp_path, listen=(), label=LabelSettings(listen="127.0.0.1:7254")), "labels"),
    ):
        supervisor, managed = Supervisor(settings), ManagedProcess(role, role)
        for _ in range(MAX_EXITS - 1):
            end(supervisor, managed)
        with pytest.raises(CollectorError, match=rf"^{role}: ended with 7 \(5 times in a minute\)$"):
            end(supervisor, managed)
        supervisor.stop()


def test_a_receiver_that_died_leaves_alarms(tmp_path: Path) -> None:
    """If it ends the collector, waits for its restart, or has been restarted but is not ready again when the
    collector is stopped, the next start ends its alarms; not if it is ready, or if it never collected.
    """
    settings = Settings(data=tmp_path / "data", regions=tmp_path)
    for exits, ready, collecting, left in (
        (MAX_EXITS, False, True, True),
        (1, False, True, True),
        (1, True, True, False),
        (1, False, False, False),
        (0, True, True, False),
    ):
        supervisor, managed = Supervisor(settings), ManagedProcess("worker-0", "worker", ready=True)
        supervisor.folder.acquire()
        assert (supervisor.folder.path / "regions").is_symlink()
        supervisor.processes.all.append(managed)
        supervisor._collecting = collecting
        with suppress(CollectorError):
            for _ in range(exits):
                end(supervisor, managed)
        managed.ready = ready
        supervisor.stop()
        with DataFolder(settings.data, tmp_path) as following:
            assert following.alarms_left == left
            following.alarms_left = False


@pytest.mark.parametrize(
    ("kills", "status", "said"),
    [
        (8, -9, "ended by SIGKILL, as memory ran out: Linux killed a process"),
        (7, -9, "ended by SIGKILL"),
        (8, -15, "ended by SIGTERM"),
        (None, -9, "ended by SIGKILL"),
    ],
)
def test_an_end_for_want_of_memory_says_so(
    kills: int | None, status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counter of Linux has grown since the start; without one (`ProcSubset=pid`), no more is said."""
    vmstat = tmp_path / "vmstat"
    monkeypatch.setattr("hopscope.runtime.supervisor.managed_process.VMSTAT", vmstat)
    if kills is not None:
        vmstat.write_text("nr_free_pages 1\noom_kill 7\n")
    one = ManagedProcess("worker-0", "worker")
    one.started(SimpleNamespace(returncode=status), None)  # type: ignore[arg-type]
    if kills is not None:
        vmstat.write_text(f"nr_free_pages 1\noom_kill {kills}\n")
    one.exited(0.0)
    assert one.last_error == said


def test_who_hangs() -> None:
    """The limit of its role without a tick, once it was ready, longer before; time counts in which the
    supervisor ran.
    """
    processes = [
        ManagedProcess("worker-0", "worker"),
        ManagedProcess("worker-1", "worker", 1),
        ManagedProcess("detector", "detector"),
    ]
    processes += [ManagedProcess("serve", "serve"), ManagedProcess("standby", "standby")]
    for managed in processes:
        managed.process, managed.ready = SimpleNamespace(), True  # type: ignore[assignment]
    processes[2].ready = False
    watch, found = Watch(), []
    for second in range(130):
        processes[1].ticks += 1
        now = second + 1000 * (second >= 5)  # a pause of all processes
        found += [(second, managed.name) for managed in watch.hung(processes, now)]
    assert [each for each in found if each[0] < 30] == [(9, "worker-0"), (19, "worker-0"), (29, "worker-0")]
    assert [each for each in found if each[1] != "worker-0"] == [
        (59, "serve"), (119, "detector"), (119, "serve")
    ]  # fmt: skip


@pytest.mark.kernel
@pytest.mark.e2e  # for its pauses, which cost lanes that compute more
def test_stopped_processes_are_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker, a helper and the fork server that SIGSTOP has stopped are killed, and others take over, on
    the processors that the settings name.
    """
    mine, rest = max(allowed()), allowed() - {max(allowed())} or allowed()
    settings = Settings.model_validate(
        {
            "data": tmp_path / "data", "regions": tmp_path, "listen": [{"host": "127.0.0.1", "port": 0}],
            "serve": {"enabled": False}, "detect": {"flow_rows": 16, "ports": 64, "sources": 16},
            "processors": [mine],
        }
    )  # fmt: skip
    supervisor = Supervisor(settings)
    supervisor.start()
    try:
        processes = {managed.name: managed for managed in supervisor.processes}
        worker, server, archive = (processes[name] for name in ("worker-0", "fork-server", "archive"))
        main, others = affinities(worker)
        assert main == {mine}
        assert rest in others
        monkeypatch.setitem(LIMITS, "archive", 5.0)
        monkeypatch.setitem(LIMITS, "worker", 5.0)
        monkeypatch.setattr(fork_server, "FORK_SECONDS", 3.0)

        def ready() -> bool:
            supervisor.turn()
            return all(managed.ready for managed in (worker, server, archive))

        eventually(ready)  # who has not been ready yet is starting, and may take long
        for managed in (server, worker, archive):
            assert managed.process is not None
            os.kill(managed.process.pid, signal.SIGSTOP)

        def restarted() -> bool:
            supervisor.turn()
            return all(managed.restarts and managed.ready for managed in (worker, server, archive))

        eventually(restarted)
        main, others = affinities(worker)
        assert main == {mine}
        assert rest in others
        assert affinities(archive)[0] == rest
        for managed in (worker, archive):
            assert managed.last_error is not None
            assert "hung" in managed.last_error
        assert server.last_error == "it does not fork: no answer"
    finally:
        supervisor.stop()
