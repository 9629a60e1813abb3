"""What the supervisor does when a process keeps ending: capture outlives its helpers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.runtime.member import EXITS_SECONDS, MAX_EXITS, STOPPED_SECONDS, Member
from hopscope.runtime.supervisor import CollectorError, Supervisor
from hopscope.settings.collector import Settings
from hopscope.settings.label import LabelSettings


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
