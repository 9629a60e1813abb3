"""A network of INT switches as a program: what comes in at one interface leaves at another with INT of some
hops, what comes from there passes. Used by the tests of a live sink, in a namespace.

    python -m support.network.inserter i0:i1 i3:i2      # INT is added from i0 to i1, and from i3 to i2
"""

from __future__ import annotations

import signal
import sys
import time

import numpy as np

from hopscope.capture.ring.listener import RingListener
from hopscope.runtime.sink.forward import Forwarder, to_interface
from hopscope.settings.listen import ListenSettings
from hopscope.settings.sink import SinkSettings
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import HOP, REPORT, Records, ReportBatch
from support.packets.insert_batch import Inserter

NODES = (101, 102, 103, 104)
LATENCY_NS, SLOW_LATENCY_NS, SLOW_EVERY = 1_000, 5_000_000, 50
"""Of a hop; of the third switch in every so many frames."""
OCCUPANCY, UTILIZATION, PORT, QUEUE = 40, 70, 3, 1
INSTRUCTIONS = 0xF100
"""Node id, ports, hop latency, queue, egress utilisation."""
_NOTHING = ReportBatch(np.zeros(0, REPORT), np.zeros(0, HOP))


class Lane:
    """One direction between two interfaces."""

    def __init__(self, source: str, to: str, out: Forwarder, inserter: Inserter | None) -> None:
        self._listener = RingListener(ListenSettings(kind="mirror", interface=source, output=to))
        self._listener.open()
        self._out = out
        self._inserter = inserter
        self._seen = 0

    def turn(self) -> int:
        """Pass on what has come; how many frames."""
        frames = self._listener.receive()
        if frames is None:
            return 0
        count = len(frames)
        if self._inserter is not None:
            frames = self._inserter.insert(frames, self._hops(count))
        self._out(frames, _NOTHING, DEFAULT)
        self._seen += count
        return count

    def _hops(self, frames: int) -> Records:
        """What the switches write into so many frames, HOP [frames * nodes]."""
        hops: Records = np.zeros((frames, len(NODES)), HOP)
        hops["node_id"] = NODES
        hops["hop_latency"] = LATENCY_NS
        hops["hop_latency"][(self._seen + np.arange(frames)) % SLOW_EVERY == 0, 2] = SLOW_LATENCY_NS
        hops["queue_occupancy"], hops["tx_utilization"] = OCCUPANCY, UTILIZATION
        hops["egress_port"], hops["queue_id"] = PORT, QUEUE
        return hops.reshape(-1)


def main(pairs: list[str]) -> None:
    """Pass frames on until SIGTERM."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    counted: dict[str, int] = {}

    def count(key: str, more: int) -> None:
        counted[key] = counted.get(key, 0) + more

    lanes = []
    for pair in pairs:
        outer, inner = pair.split(":")
        ways = {name: to_interface(name, SinkSettings(strip=False), count) for name in (outer, inner)}
        lanes.append(Lane(outer, inner, ways[inner], Inserter(INSTRUCTIONS)))
        lanes.append(Lane(inner, outer, ways[outer], None))
    print("ready", flush=True)
    while not ended:
        if not sum([lane.turn() for lane in lanes]):
            time.sleep(0.0003)
    print(counted, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
