"""The pauses of loops."""

from __future__ import annotations

import socket

import pytest

from hopscope.base.process.loop import Gather, IdleWait, Pause


def test_a_loop_without_work_waits_for_its_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an empty turn, a datagram ends the wait; what gives no work does not make the loop spin. `before`
    is called before each wait.
    """
    slept: list[float] = []
    waits: list[int] = []
    monkeypatch.setattr("hopscope.base.process.loop.time.sleep", slept.append)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        # a wait that is not ended hangs
        doze = IdleWait(
            Pause(0.5, below=5), lambda: [ours.fileno()], before=lambda: waits.append(len(slept)), longest=1e6
        )
        doze(1)
        assert slept == [0.5]
        theirs.send(b"1")
        doze(0)
        assert slept == [0.5]
        doze(0)  # the datagram was not taken
        assert slept == [0.5] * 2
        doze(0)
        assert ours.recv(1) == b"1"
        doze(1)
        assert slept == [0.5] * 3
    assert waits == [1, 2]


def test_pauses_are_as_long_as_a_batch_takes_to_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """They become as long as 500 take to arrive, or shorter than the longest where that brings fewer than
    400; there is none after a turn that found as much as it may.
    """
    slept: list[float] = []
    monkeypatch.setattr("hopscope.base.process.loop.time.sleep", slept.append)
    gather = Gather(500, enough=400, longest=0.004)
    for rate, expected in (
        (250_000, 0.002), (10_000_000, 0.0005), (10, 0.0025), (60_000, 0.0034), (500_000, 0.001),
    ):  # fmt: skip
        for _ in range(10):
            waiting = int(rate * slept[-1]) if slept else 0
            while True:  # as batches of 400 at most
                found = min(400, waiting)
                waiting -= found
                before = len(slept)
                gather(found)
                if len(slept) > before:
                    break
        assert slept[-1] == pytest.approx(expected, rel=0.02)
