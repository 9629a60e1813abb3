"""Previews of limits against the detector itself, which is run a second time with the limits proposed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.detector import Detector
from hopscope.detect.records import Kind, Metric
from hopscope.history.query import History
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.series.preview import COUNTED, Preview, Proposal, preview
from hopscope.settings.detect import DetectSettings
from hopscope.settings.limits import LimitSettings, MetricLimits, ThresholdSettings
from support.events.detect_make import T0, Hop, Report, batch

pytestmark = pytest.mark.kernel
QUEUE = "queue_occupancy"
_KINDS = {kind.value: kind.label for kind in Kind}


def reports(seed: int, count: int = 400) -> list[Report]:
    """Three flows through two queues, whose occupancies wander, jump, and come back; times are unique."""
    random = np.random.default_rng(seed)
    values = np.abs(np.cumsum(random.integers(-40, 41, (count, 2)), axis=0)) % 1000
    jumps = random.random((count, 2)) < 0.05
    values = np.where(jumps, random.integers(0, 1000, (count, 2)), values)
    return [
        Report(
            [Hop(1, occupancy=int(a), latency=int(10 * a)), Hop(2, occupancy=int(b))],
            flow=i % 3,
            time=1000 * i,
        )
        for i, (a, b) in enumerate(values.tolist())
    ]


def detected(limits: LimitSettings, given: list[Report]) -> Any:
    """EVENT records of a detector with these limits."""
    detector = Detector(DetectSettings(flow_rows=64, thresholds=limits.general, switches=limits.switches))
    blocks = [block.copy() for block in detector.update(batch(given))]
    return np.concatenate(blocks)


def counted(events: Any, metric: str) -> Counter[str]:
    """Events of a metric by kind."""
    mine = events[events["metric"] == Metric[metric.upper()]]
    return Counter(_KINDS[int(kind)] for kind in mine["kind"])


def limits_of(metric: str = QUEUE, /, **limits: int | None) -> LimitSettings:
    """Limits of all switches for one metric."""
    return LimitSettings(general=ThresholdSettings(**{metric: MetricLimits(**limits)}))


def ask(folder: Path, events: Any, before: LimitSettings, proposal: Proposal) -> Preview:
    """A preview over the history of these events."""
    with JournalWriter(folder, 0) as writer:
        writer.append(events)
    with History(folder) as history:
        return preview(history, before, proposal, T0, T0 + 10**12)


def told(counts: Any) -> dict[str, int]:
    """By kind."""
    return {name: getattr(counts, name) for name in COUNTED}


@pytest.mark.parametrize("metric", [QUEUE, "hop_latency", "flow_latency"])
@pytest.mark.parametrize(
    ("proposed"),
    [
        {"change": 30},
        {"change": 300},
        {"change": None},
        {"raise_above": 500, "clear_below": 200},
        {"change": 100, "raise_above": 700, "clear_below": 650},
    ],
)
def test_a_preview_is_exact_if_every_change_was_stored(
    tmp_path: Path, metric: str, proposed: dict[str, int | None]
) -> None:
    """With T = 0 history has all values: the preview has what the detector makes with the limits proposed."""
    before, given = limits_of(metric, change=0), reports(1)
    found = ask(tmp_path, detected(before, given), before, Proposal(metric, None, proposed))
    truth = counted(detected(limits_of(metric, **{"change": 0, **proposed}), given), metric)
    assert found.exact
    assert told(found.would) == {name: truth[name] for name in COUNTED}
    assert found.would.other == truth["new_key"]
    assert found.at_least <= found.would.total
    assert found.had.change == counted(detected(before, given), metric)["change"] > 100


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("old", "new"), [(100, 30), (100, 50), (100, 99), (50, 100), (50, 300), (20, 25)])
def test_a_preview_of_t_is_bounded_by_the_truth(tmp_path: Path, seed: int, old: int, new: int) -> None:
    """Values that made no event are not stored. The bound holds, and is what was there if T is halved;
    alarms do not depend on T, and are exact.
    """
    rule: dict[str, int | None] = {"raise_above": 600, "clear_below": 300}
    before, given = limits_of(change=old, **rule), reports(seed)
    found = ask(tmp_path, detected(before, given), before, Proposal(QUEUE, None, {"change": new}))
    truth = counted(detected(limits_of(change=new, **rule), given), QUEUE)
    assert not found.exact
    assert found.lower_bound == (new < old)
    assert found.at_least <= truth.total()
    assert (found.would.raised, found.would.cleared) == (truth["raised"], truth["cleared"])
    assert truth["raised"] > 3
    if new <= old / 2:
        assert found.at_least >= found.had.total
    if new >= old:
        assert abs(found.would.change - truth["change"]) <= 0.25 * truth["change"] + 5


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rule", [(700, 300), (500, 450), (650, 100), (550, None)])
def test_a_preview_of_an_alarm_is_a_lower_bound(
    tmp_path: Path, seed: int, rule: tuple[int, int | None]
) -> None:
    """Each alarm of the preview is one of the detector; changes of values are as they were."""
    before, given = limits_of(change=60, raise_above=600, clear_below=300), reports(seed)
    proposal = Proposal(QUEUE, None, {"raise_above": rule[0], "clear_below": rule[1]})
    found = ask(tmp_path, detected(before, given), before, proposal)
    truth = counted(detected(limits_of(change=60, raise_above=rule[0], clear_below=rule[1]), given), QUEUE)
    assert found.lower_bound
    assert found.would.change == found.had.change == truth["change"]
    assert 0 < found.would.raised + found.would.threshold <= truth["raised"] + truth["threshold"]
    assert found.would.cleared <= truth["cleared"]
    assert found.at_least == found.would.total <= truth.total()


def test_limits_in_force_change_nothing(tmp_path: Path) -> None:
    """A proposal of what is in force has the events that were."""
    before = limits_of(change=60, raise_above=600, clear_below=300)
    events = detected(before, reports(2))
    found = ask(tmp_path, events, before, Proposal(QUEUE, None, {"change": 60, "raise_above": 600}))
    assert found.exact
    assert found.had == found.would
    assert told(found.had) == {name: counted(events, QUEUE)[name] for name in COUNTED}
    assert found.at_least == found.had.total


def test_a_switch_of_its_own(tmp_path: Path) -> None:
    """Only its events are counted, by place; a word takes its limit away again."""
    before, given = limits_of(change=0), reports(3)
    events = detected(before, given)
    found = ask(tmp_path, events, before, Proposal(QUEUE, 2, {"change": 100}))
    after = Proposal(QUEUE, 2, {"change": 100}).applied(before)
    truth = detected(after, given)
    mine = counted(truth[truth["node_id"] == 2], QUEUE)
    assert told(found.would) == {name: mine[name] for name in COUNTED}
    assert [(place.node, place.port, place.ident) for place, _, _ in found.places] == [(2, 1, 0)]
    assert Proposal(QUEUE, 2, {"change": "general"}).applied(after).switches[0].given() == {"node": 2}


@pytest.mark.parametrize(
    "proposal",
    [
        Proposal(QUEUE, None, {"raise_above": 10, "clear_below": 20}),
        Proposal(QUEUE, None, {"change": "general"}),
        Proposal("flow_latency", 2, {"change": 1}),
    ],
)
def test_a_contradiction_is_refused(proposal: Proposal) -> None:
    """An alarm cleared above the value that raises it; what one switch cannot have."""
    with pytest.raises(ValueError, match=r"expected|only"):
        proposal.applied(LimitSettings())
