"""Quality of labelling: coverage, labelled packets, resolution, delay.

Functions of RECEIVED_LABEL records, the labels that reached the controller, in order of arrival (times in ps,
`port` a row of the topology's ports), and of `active`, bool [intervals, ports]: the switch ports that sent
traffic in each telemetry interval.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...records import PS

Labels = npt.NDArray[np.void]
"""RECEIVED_LABEL records."""
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
At = Literal["controller", "switch"]


def updates(labels: Labels) -> Bools:
    """Labels that updated the controller's database, being newer than all previous ones of their port, bool
    [labels] (INT-label, Algorithm 4).
    """
    return _newest(labels["port"], labels["labelled"])


def coverage(labels: Labels, active: Bools, telemetry: float, *, at: At = "controller") -> Floats:
    """Share of the ports with traffic in a telemetry interval that were covered in it, float64 [intervals].

    `at` selects one of the paper's two definitions. `controller`, the default: the controller's database was
    updated for the port in the interval (4.2, and the published code). `switch`: the port labelled a packet
    in the interval, and this label arrived at any time (6.2). `telemetry` is the interval in s. NaN if no
    port had traffic.
    """
    covered = _covered(labels, active, telemetry, at)
    return share(np.count_nonzero(covered, axis=1), np.count_nonzero(active, axis=1))


def port_coverage(labels: Labels, active: Bools, telemetry: float) -> Floats:
    """Share of a port's intervals with traffic in which the controller had its label, float64 [ports]; see
    `coverage`.
    """
    covered = _covered(labels, active, telemetry, "controller")
    return share(np.count_nonzero(covered, axis=0), np.count_nonzero(active, axis=0))


def _covered(labels: Labels, active: Bools, telemetry: float, at: At) -> Bools:
    """Active ports that were covered in each interval, bool [intervals, ports]."""
    covered = np.zeros_like(active)
    if at == "controller":
        labels = labels[updates(labels)]
    time = labels["received" if at == "controller" else "labelled"]
    interval = time // round(telemetry * PS)
    known = (interval >= 0) & (interval < len(active))
    covered[interval[known], labels["port"][known]] = True
    return covered & active


def share(part: npt.ArrayLike, whole: npt.ArrayLike) -> Floats:
    """`part` / `whole`; NaN where `whole` is 0."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)


def labelled_packets(labels: Labels) -> int:
    """Packets whose labels reached the controller (exports of last hops)."""
    return int(np.count_nonzero(labels["position"] == 0))


def resolution(labels: Labels, ports: int) -> Floats:
    """Mean time between updates at the controller by port, s, float64 [ports]; NaN with fewer than two."""
    new = labels[updates(labels)]
    count = np.bincount(new["port"], minlength=ports)
    first = np.full(ports, np.iinfo(np.int64).max)
    last = np.zeros(ports, np.int64)
    np.minimum.at(first, new["port"], new["received"])
    np.maximum.at(last, new["port"], new["received"])
    between = np.where(count > 1, (last - first) / PS, 0)
    return share(between, np.maximum(count - 1, 0))


def delay(labels: Labels) -> Floats:
    """Time from writing a label until the controller has it, s, float64 [labels]."""
    return (labels["received"] - labels["labelled"]) / PS


def _newest(ports: npt.NDArray[Any], times: npt.NDArray[np.int64]) -> Bools:
    """Rows whose time is above all earlier ones of their port, in row order."""
    if not len(times):
        return np.zeros(0, bool)
    rank = np.unique(times, return_inverse=True)[1].astype(np.int64) + 1
    order = np.argsort(ports, kind="stable")
    group = np.cumsum(np.r_[0, np.diff(ports[order]) != 0])
    highest = np.maximum.accumulate(group * (len(times) + 1) + rank[order])  # groups cannot overlap
    before = np.r_[-1, highest[:-1]]
    new = np.empty(len(times), bool)
    new[order] = group * (len(times) + 1) + rank[order] > before
    return new
