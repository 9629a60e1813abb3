"""Events of every kind, made up."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import numpy as np
import numpy.typing as npt

from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, Kind, Metric

Events = npt.NDArray[Any]
START_NS = 1_700_000_000_000_000_000


def random_events(n: int, seed: int = 0, start: int = 0) -> Events:
    """EVENT records of every kind, IPv4 and IPv6, with and without flow, node and port; `value` counts on."""
    rng = np.random.default_rng(seed)
    events = np.zeros(n, EVENT)
    events["time_ns"] = START_NS + start * 1000 + np.cumsum(rng.integers(-500, 2000, n))
    events["value"] = np.arange(start, start + n)
    events["previous"] = rng.integers(0, 2**64, n, dtype=np.uint64)
    events["kind"] = rng.choice([kind.value for kind in Kind], n)
    events["metric"] = rng.choice([metric.value for metric in Metric], n)
    events["hop_count"] = rng.integers(0, 20, n)
    events["hop"] = np.where(events["metric"] == Metric.FLOW_PATH, 0, rng.integers(0, 5, n))
    events["path"] = rng.integers(1, 9, (n, 8))
    events["node_id"] = np.where(rng.random(n) < 0.2, NO_NODE, rng.integers(1, 9, n))
    events["port"] = np.where(rng.random(n) < 0.2, NO_PORT, rng.integers(0, 4, n))
    events["ident"] = rng.integers(0, 9, n)
    of_link = events["metric"] == Metric.LINK_UTILIZATION
    events["ident"][of_link] = events["port"][of_link]
    version = rng.choice([0, 4, 6], n)
    events["ip_version"] = version
    mapped, base = np.uint64(0xFFFF << 32), int(ip_address("2001:db8::"))
    for side, net in (("src", 0x0A000000), ("dst", 0xC0000200)):
        host = rng.integers(0, 600, n).astype(np.uint64)
        low = np.where(version == 4, mapped | (np.uint64(net) + host), host << np.uint64(50))
        events[f"{side}_lo"] = np.where(version == 0, 0, low)
        events[f"{side}_hi"] = np.where(version == 6, np.uint64(base >> 64) + host % np.uint64(7), 0)
    flow = version != 0
    events["flow_id"] = np.where(flow, rng.integers(2**62, 2**64, n, dtype=np.uint64), 0)
    for port in ("sport", "dport"):
        events[port] = np.where(flow, rng.integers(0, 65536, n), 0)
    events["proto"] = np.where(flow, rng.choice([6, 17], n), 0)
    return events
