"""The demo without processes: a simulated fabric with four faults, a pipeline, and what exports read of it.

Simulated time ends now, so that databases show it by default; it passes as fast as the simulation runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.base.process import control_client
from hopscope.cli.demo.command import CONFIG
from hopscope.cli.demo.schedule import schedule
from hopscope.export.counters import DestinationLabel, DestinationRow, open_counters
from hopscope.export.metrics.destination import Round
from hopscope.export.metrics.families import Families
from hopscope.fabric.faults import Fault
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.switch import ReportModel
from hopscope.fabric.topology import parse_topology
from hopscope.fabric.traffic import TrafficModel
from hopscope.memory.data_folder import DataFolder
from hopscope.present.collector_state import CollectorState
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.settings.configuration.file import load
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import FrameBatch

SECONDS = 12
"""Simulated seconds of traffic."""
SILENCE = 6
"""Seconds after it without reports: sources become silent."""
ROUND_SECONDS = 2
"""Interval of the metrics."""
_WINDOW = 0.1


@dataclass
class DemoCollector:
    """What a collector of the demo leaves: a data folder with events, and its metrics every ROUND_SECONDS."""

    folder: Path
    names: Names
    faults: list[Fault]
    start_ns: int
    end_ns: int
    rounds: list[Round] = field(default_factory=list)


@contextmanager
def demo_collector(folder: Path) -> Iterator[DemoCollector]:
    """Simulate the demo; every hundredth report is lost, and every hundredth datagram damaged."""
    topology = parse_topology("leaf-spine:4x2x2", 100_000_000)
    faults = schedule(topology, float(SECONDS), 1)
    (folder / "names.toml").write_text(topology.names_toml())
    places = {"data": f'"{folder}/data"', "names": f'"{folder}/names.toml"', "listeners": "", "limits": ""}
    (folder / "demo.toml").write_text(CONFIG.format(**places, port=0, http_port=0))
    settings = load(folder / "demo.toml", environment={}).settings
    end_ns = time.time_ns()
    start_ns = end_ns - (SECONDS + SILENCE) * 10**9
    names = Names.load(settings.names)
    model = SimulationModel(
        traffic=TrafficModel(flows=40, load=0.3),
        report=ReportModel(epoch_ns=start_ns),
        faults=tuple(faults),
        reports_per_second=2000,
    )
    simulation = Simulation(topology, model)
    processes = [
        {"name": name, "pid": os.getpid(), "alive": True, "restarts": 0} for name in ("worker-0", "export")
    ]
    with (
        DataFolder(folder / "data", settings.regions, lambda *_: []) as owned,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(control_client, "request", lambda *_, **__: {"processes": processes})
        counters = open_counters(owned.path, [DestinationLabel("influxdb", "http://127.0.0.1:8086", "lab")])
        exported = DestinationRow(counters["destinations"][:1])
        exported.healthy(True, "")
        pipeline = pipeline_of(settings, Shard(settings.history, data=owned.path, regions=owned.regions))
        made = DemoCollector(owned.path, names, faults, start_ns, end_ns)
        families = Families(
            CollectorState(owned.path, 0), names, owned.path, folder / "stores", settings.serve.top_flows
        )
        for second in range(ROUND_SECONDS, SECONDS + SILENCE + 1, ROUND_SECONDS):
            now_ns = start_ns + second * 10**9
            if second <= SECONDS:
                for reports in simulation.run(float(second), _WINDOW):
                    frames = simulation.frames(reports)
                    kept = frames.frames[np.arange(len(frames)) % 100 != 50]
                    kept["length"][10::100] = 9
                    pipeline.step(FrameBatch(frames.arena, kept, frames.first_packet), DEFAULT)
            pipeline.tick(now_ns)
            exported.count("events_total", 1000)
            exported.count("bytes_total", 100_000)
            made.rounds.append(Round(now_ns // 10**6, list(families.collect())))
        pipeline.close()
        yield made
