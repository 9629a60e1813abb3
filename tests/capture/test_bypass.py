"""Heartbeats of a bypass, in ordinary memory; the program that reads them is tested live."""

from __future__ import annotations

import mmap
import os
import time

import numpy as np
import pytest

from hopscope.capture.bypass import HOLD_SECONDS, Heartbeat


def shared_array() -> int:
    """Descriptor of a page of zeros."""
    array = os.memfd_create("heartbeats")
    os.truncate(array, mmap.PAGESIZE)
    return array


def test_frames_wait_for_the_worker_that_takes_over() -> None:
    """A held heartbeat is fresh until a time ahead, whatever its worker does; the next worker has no frames
    that the kernel passed on.
    """
    array = shared_array()
    words = np.frombuffer(mmap.mmap(array, mmap.PAGESIZE), np.uint64)
    old, new = (Heartbeat(array, 0, 0, 1, 0.5, 1) for _ in range(2))
    old.beat()
    old.hold()
    held = int(words[0])
    assert time.monotonic_ns() < held <= time.monotonic_ns() + int(HOLD_SECONDS * 1e9)
    old.beat()
    assert int(words[0]) == held
    new.beat()
    assert not new.passed(np.array([time.time_ns()], np.int64)).any()
    os.close(array)


def test_every_worker_knows_which_frames_were_redirected(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one of two workers stands still, the frames of both are redirected: also the one that never
    stood still forwards none of them, even if it did not look meanwhile.
    """
    clock = 10**12
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock)
    monkeypatch.setattr(time, "time_ns", lambda: 10**18 + clock)
    array = shared_array()
    still, steady = (Heartbeat(array, 1, worker, 2, 0.5, 2) for worker in range(2))
    for each in (still, steady, still):
        each.beat()
    milliseconds = np.arange(1500, dtype=np.int64) * 10**6 + 10**18 + clock
    clock += 450 * 10**6
    steady.beat()
    clock += 350 * 10**6
    still.beat()  # after 800 ms: redirected since 500 ms
    clock += 50 * 10**6
    for each in (still, steady):
        each.beat()
        assert np.flatnonzero(each.passed(milliseconds)).tolist() == list(range(500, 800))
    clock += 600 * 10**6
    still.beat()  # both stood still
    steady.beat()
    for each in (still, steady):
        each.beat()
        assert np.flatnonzero(each.passed(milliseconds)).tolist() == list(range(1350, 1450))
    os.close(array)


def test_workers_that_stop_one_after_the_other_forward_no_frame_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the moment at which the first of them stops, the kernel passes all frames on: the other forwards
    those of before, and none of after, whether it has looked meanwhile or not.
    """
    clock = 10**12
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock)
    monkeypatch.setattr(time, "time_ns", lambda: 10**18 + clock)
    for looks in (False, True):
        array = shared_array()
        first, second = (Heartbeat(array, 0, worker, 2, 0.5, 2) for worker in range(2))
        for each in (first, second, first):
            each.beat()
        clock += 10**6
        milliseconds = np.arange(200, dtype=np.int64) * 10**6 + 10**18 + clock
        clock += 100 * 10**6
        first.stop()
        assert np.flatnonzero(first.passed(milliseconds)).tolist() == list(range(100, 200))
        if looks:
            clock += 20 * 10**6
            second.beat()
            clock += 20 * 10**6
            assert np.flatnonzero(second.passed(milliseconds)).tolist() == list(range(100, 140))
        clock += 20 * 10**6
        second.stop()
        assert np.flatnonzero(second.passed(milliseconds)).tolist() == list(range(100, 200))
        os.close(array)
