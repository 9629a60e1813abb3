"""The map of a network of 1,280 switches: what an answer costs the server, its bytes, and who else pays."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness.common import Bench, median
from hopscope.fabric.topology import parse_topology
from hopscope.present.collector_state import CollectorState
from hopscope.present.fabric.live import LiveFabric
from hopscope.present.fabric.view import network_of, shown, view_object
from support.events.fabric_state import FabricCollector

CASES = (("leaf-spine:4x16", 2_000), ("fat-tree:16", 20_000), ("fat-tree:32", 100_000))
"""Topologies with 20, 320 and 1,280 switches, and their live flows."""
LATENCY_LIMIT = 1_000_000


def cpu_ms(work: Callable[[], object], rounds: int) -> float:
    """Median processor time of a call, ms."""
    times = []
    for _ in range(rounds):
        before = time.process_time()
        work()
        times.append((time.process_time() - before) * 1000)
    return median(times)


def measure(bench: Bench, text: str, flows: int, rounds: int) -> None:
    """One topology: the parts of an answer, and the answer that a viewer gets again and again."""
    with tempfile.TemporaryDirectory() as folder:
        topology = parse_topology(text)
        collector = FabricCollector(Path(folder) / "data", topology, flows)
        collector.report(time.time_ns(), hot=[(1, 1)])
        state, names = CollectorState(collector.folder, fresh_seconds=0), collector.names
        live = LiveFabric(state)
        network = network_of(live.snapshot(), names)
        view = shown(network, names, None, None)
        first = view_object(network, view, names, "hop_latency", LATENCY_LIMIT, None)
        again = view_object(network, view, names, "hop_latency", LATENCY_LIMIT, first["version"])
        case: dict[str, object] = {"switches": len(topology.switches), "flows": flows}
        read = cpu_ms(state.path_hops, rounds)
        whole = cpu_ms(live.read, rounds)
        shape = cpu_ms(lambda: network_of(live.snapshot(), names), rounds)
        answer = cpu_ms(
            lambda: json.dumps(
                view_object(network, view, names, "hop_latency", LATENCY_LIMIT, first["version"])
            ),
            rounds,
        )
        bench.row({**case, "part": "paths"}, read, "CPU ms", "hops of all flows from shared memory")
        bench.row({**case, "part": "snapshot"}, whole, "CPU ms", f"{read / whole:.0%} of it: paths")
        bench.row({**case, "part": "layers and pods"}, shape, "CPU ms", "only if links have changed")
        bench.row({**case, "part": "answer"}, answer, "CPU ms", f"{answer / whole:.0%} of a snapshot")
        bench.row(
            {**case, "part": "first answer"},
            len(json.dumps(first, separators=(",", ":"))),
            "bytes",
            view.level,
        )
        bench.row({**case, "part": "next answers"}, len(json.dumps(again, separators=(",", ":"))), "bytes")
        period = max(400.0, 10 * whole)
        bench.row(
            {**case, "part": "while anybody watches"}, (whole + answer) / period * 100, "% of a core",
            f"a snapshot every {period / 1000:.1f} s, for all viewers",
        )  # fmt: skip
        collector.close()


def main() -> None:
    """All topologies."""
    bench, _ = Bench.start(
        "console_fabric",
        "CPU time and bytes of the answers of /api/v0/fabric.",
        "HTTP and validation by the models, and a writer that changes rows while they are read.",
    )
    for text, flows in CASES[:2] if bench.quick else CASES:
        measure(bench, text, flows, 3 if bench.quick else 7)


if __name__ == "__main__":
    main()
