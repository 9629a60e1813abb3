"""Main of the export process: sends events and metrics to destinations, with a thread for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..base.names import Names
from ..base.process.stop import Stop
from ..memory.counter_region import CounterFile
from ..present.collector_state import CollectorState
from ..settings.collector import Settings
from ..wire.records import Records
from .counters import DestinationRow, open_counters
from .delivery import DeliveryThread, stop_all
from .destination import Context
from .kinds import METRICS, check_exports, destination_class, places
from .metrics.families import Families
from .metrics.sender import MetricsSender
from .positions import FOLDER
from .sender import Sender

TURN_SECONDS = 0.1
CLOSE_SECONDS = 5.0
"""Maximum time at the end for destinations to deliver what waits."""


def run(settings: Settings, folder: Path, stop: Stop, more: Sequence[CounterFile] = ()) -> None:
    """Export from the data folder `folder` until `stop` is set; then deliver the rest within CLOSE_SECONDS.

    `more`: further counters for the metrics (see `Families`).
    Raises HopscopeError if a destination lacks a requirement.
    """
    check_exports(settings)
    rows = open_counters(folder, list(places(settings)))["destinations"]
    threads = list(_threads(settings, folder, rows, more))
    for thread in threads:
        thread.start()
    try:
        while not stop.wait(TURN_SECONDS):
            pass
    finally:
        stop_all(threads, CLOSE_SECONDS)


def _threads(
    settings: Settings, folder: Path, rows: Records, more: Sequence[CounterFile]
) -> Iterator[DeliveryThread[Any]]:
    """The thread of every destination, in the order of `places`, with its DESTINATION."""
    names = Names.load(settings.names, folder)
    member = settings.member_name
    left = (DestinationRow(rows[at : at + 1]) for at in range(len(rows)))

    def context(name: str, row: DestinationRow) -> Context:
        return Context(
            name,
            member,
            names,
            row.count,
            state=folder / FOLDER / f"{name}.state",
            queue_by_port=settings.detect.queue_by_port,
            data=folder,
            regions=folder / "regions",
            idle_seconds=settings.detect.idle_seconds,
        )

    for name, export in settings.destinations.items():
        row = next(left)
        yield Sender(destination_class(export.kind)(export, context(name, row)), folder, row)
    for name, metrics in settings.metrics.items():
        row = next(left)
        families = Families(
            CollectorState(folder), names, folder, settings.stores_folder, settings.serve.top_flows, more
        )
        yield MetricsSender(METRICS[metrics.kind](metrics, context(name, row)), families.collect, row)
