"""What is read of a folder: nothing where nothing is, rates, workers that begin again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from hopscope.detect.counters import COUNTERS, COUNTERS_KIND, COUNTERS_VERSION, INDEX
from hopscope.memory.region import Region
from hopscope.present.collector_state import CollectorState
from support.waiting import HANG_SECONDS

REPORTS = INDEX["reports_total"]


def counters(folder: Path, worker: int = 0) -> np.ndarray:
    """A worker's counters, recreated."""
    (folder / "regions").mkdir(exist_ok=True)
    path = folder / "regions" / f"worker-{worker}.counters"
    arrays = {"counters": (np.uint64, len(COUNTERS))}
    return Region.create(path, COUNTERS_KIND, COUNTERS_VERSION, arrays)["counters"]


def test_a_folder_without_a_collector_is_empty(tmp_path: Path) -> None:
    """No file: zeros and empty tables, no error."""
    state = CollectorState(tmp_path / "nowhere")
    assert state.counters().total.sum() == 0
    assert len(state.flows()) == len(state.ports()) == len(state.sources()) == 0
    assert state.limits() is None
    assert state.rates().seconds == 0


def test_counters_are_summed_and_a_copy_is_used_again(tmp_path: Path) -> None:
    """Two workers add up; within the time that a copy is fresh, everybody gets the same one."""
    one, two = counters(tmp_path), counters(tmp_path, 1)
    one[REPORTS], two[REPORTS] = 5, 7
    state = CollectorState(tmp_path, fresh_seconds=60)
    first = state.counters()
    assert first["reports_total"] == 12
    one[REPORTS] = 100
    assert state.counters() is first
    assert CollectorState(tmp_path).counters()["reports_total"] == 107


def test_how_far_limits_are_raised_is_the_highest_of_workers(tmp_path: Path) -> None:
    """Two workers that raise their limits by a quarter and by half: they are not raised by three quarters."""
    one, two = counters(tmp_path), counters(tmp_path, 1)
    for key, values in {"sink_threshold_increase_permille": (250, 500), "journal_failing": (1, 1)}.items():
        one[INDEX[key]], two[INDEX[key]] = values
        assert CollectorState(tmp_path).counters()[key] == max(values)


def test_rates_follow_workers_that_begin_anew(tmp_path: Path) -> None:
    """A recreated region is mapped again, and its counters count from zero: a rate is never negative."""
    block = counters(tmp_path)
    block[REPORTS] = 1000
    state = CollectorState(tmp_path, fresh_seconds=0)
    state.counters()
    block[REPORTS] = 1500
    assert state.rates()["reports_total"] > 0
    counters(tmp_path)[REPORTS] = 20
    assert state.counters()["reports_total"] == 20
    assert state.rates()["reports_total"] > 0
    assert (state.rates().total >= 0).all()


def test_a_report_that_was_late_is_no_loss(tmp_path: Path) -> None:
    """The number of lost reports falls by one: none was lost then, and three once four more are missing."""
    lost = INDEX["lost_reports"]
    block = counters(tmp_path)
    block[lost] = 5900
    state = CollectorState(tmp_path, fresh_seconds=0)
    state.counters()
    block[lost] -= 1
    assert state.rates()["lost_reports"] == 0
    block[lost] += 4
    rates = state.rates()
    assert round(rates["lost_reports"] * rates.seconds) == 3


def test_a_foreign_region_is_a_problem_with_a_line(tmp_path: Path) -> None:
    """A file that is no region is named, and the others are read."""
    counters(tmp_path)[REPORTS] = 3
    (tmp_path / "regions" / "worker-1.counters").write_bytes(b"nothing of ours" * 10)
    state = CollectorState(tmp_path)
    assert state.counters()["reports_total"] == 3
    assert "worker-1.counters" in state.problems


def test_one_table_is_read_while_another_is(tmp_path: Path) -> None:
    """A table whose reading does not end holds up nobody who wants another; two who want it read it once."""
    counters(tmp_path)
    state, free = CollectorState(tmp_path, fresh_seconds=60), threading.Event()
    reads: list[int] = []

    def slow() -> int:
        reads.append(1)
        free.wait(HANG_SECONDS)
        return 7

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(state._once, "flows", slow) for _ in range(2)]
        try:
            pool.submit(state.counters).result(HANG_SECONDS / 2)
        finally:
            free.set()
        assert [each.result() for each in waiting] == [7, 7]
    assert len(reads) == 1
