"""What the supervisor does when a process keeps ending: capture outlives its helpers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hopscope.detect.counters import INDEX
from hopscope.runtime.member import EXITS_SECONDS, MAX_EXITS, STOPPED_SECONDS, Member
from hopscope.runtime.supervisor import CollectorError, Supervisor
from hopscope.runtime.watch import Watch
from hopscope.settings.collector import Settings
from hopscope.settings.label import LabelSettings
from support.waiting import eventually


def end(supervisor: Supervisor, member: Member) -> None:
    """The member's process has ended, and the supervisor sees it."""
    process = subprocess.Popen([sys.executable, "-Sc", "raise SystemExit(7)"])
    process.wait()
    member.started(process, None)
    supervisor._reap(member)


@pytest.mark.parametrize("role", ["serve", "archive", "export", "labels"])
def test_a_helper_that_keeps_ending_is_left_stopped(tmp_path: Path, role: str) -> None:
    """Its fifth end within a minute stops it for minutes, and its status says so; nothing is raised."""
    supervisor = Supervisor(Settings(data=tmp_path))
    member = Member(role, role)
    for _ in range(MAX_EXITS):
        assert not member.stopped
        end(supervisor, member)
    assert member.status() == {
        "name": role,
        "pid": None,
        "alive": False,
        "warm": False,
        "stopped": True,
        "restarts": 0,
        "last_error": "ended with 7",
    }
    assert member.due > member.exits[-1] + EXITS_SECONDS
    assert member.due == member.exits[-1] + STOPPED_SECONDS
    supervisor.stop()


def test_a_receiver_that_keeps_ending_ends_the_program(tmp_path: Path) -> None:
    """A worker; and without workers the process that takes labels."""
    for settings, role in (
        (Settings(data=tmp_path), "worker"),
        (Settings(data=tmp_path, listen=(), label=LabelSettings(listen="127.0.0.1:7254")), "labels"),
    ):
        supervisor, member = Supervisor(settings), Member(role, role)
        for _ in range(MAX_EXITS - 1):
            end(supervisor, member)
        with pytest.raises(CollectorError, match=rf"^{role}: ended with 7 \(5 times in a minute\)$"):
            end(supervisor, member)
        supervisor.stop()


def test_who_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds without a tick, of a process that receives, and in which the supervisor ran."""
    ticks = {"worker-0": 0, "worker-1": 0, "detector": 0}
    monkeypatch.setattr(
        "hopscope.runtime.watch.attach_counters",
        lambda path: {INDEX["ticks_total"]: ticks[path.name.removesuffix(".counters")]},
    )
    members = [Member("worker-0", "worker"), Member("worker-1", "worker", 1), Member("detector", "detector")]
    members.append(Member("serve", "serve"))
    for member in members:
        member.process, member.ready = SimpleNamespace(), True  # type: ignore[assignment]
    members[2].ready = False
    watch, found = Watch(tmp_path), []
    for second in range(30):
        ticks["worker-1"] += 10
        now = second + 1000 * (second >= 5)  # a pause of all processes
        found += [(second, member.name) for member in watch.hung(members, now)]
    assert found == [(9, "worker-0"), (19, "worker-0"), (29, "worker-0")]


@pytest.mark.kernel
def test_a_stopped_worker_is_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that SIGSTOP has stopped is killed, and another one takes its reports."""
    monkeypatch.setattr("hopscope.runtime.watch.HANG_SECONDS", 2.0)
    settings = Settings.model_validate(
        {
            "data": tmp_path / "data", "regions": tmp_path, "listen": [{"host": "127.0.0.1", "port": 0}],
            "serve": {"enabled": False}, "detect": {"flow_rows": 16, "ports": 64, "sources": 16},
        }
    )  # fmt: skip
    supervisor = Supervisor(settings)
    supervisor.start()
    try:
        (worker,) = (member for member in supervisor.members if member.role == "worker")
        assert worker.process is not None
        os.kill(worker.process.pid, signal.SIGSTOP)

        def restarted() -> bool:
            supervisor.turn()
            return worker.restarts == 1 and worker.ready

        eventually(restarted)
        assert worker.last_error is not None
        assert "hung" in worker.last_error
    finally:
        supervisor.stop()
