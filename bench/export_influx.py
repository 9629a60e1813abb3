"""Events into InfluxDB and VictoriaMetrics by line protocol: rates, and what the sender costs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from harness import exports
from harness.common import Bench
from hopscope.base.names import Names
from hopscope.export.counters import DESTINATION, DestinationRow
from hopscope.export.databases.influx import Influx
from hopscope.export.destination import Context
from hopscope.export.sender import Sender
from hopscope.settings.destinations.databases import InfluxSettings
from support.events.event_make import Events, random_events
from support.servers.server_process import InfluxServer, VictoriaMetrics

Server = InfluxServer | VictoriaMetrics
SERVERS: dict[str, type[InfluxServer] | type[VictoriaMetrics]] = {
    "influxd": InfluxServer,
    "victoria-metrics": VictoriaMetrics,
}


@contextmanager
def running(program: str) -> Iterator[Server]:
    """The server, with its data in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        server = SERVERS[program](program, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()


def measure(url: str, events: Events, create: bool) -> tuple[float, float, float]:
    """Events/s into a server; seconds of a processor that the sender took per event; bytes of an event."""
    settings = InfluxSettings(kind="influxdb", url=url, api=1, begin="oldest", create=create)

    def sender_of(folder: Path) -> tuple[Sender, Any]:
        row = np.zeros(1, DESTINATION)
        about = DestinationRow(row)
        return Sender(Influx(settings, Context("lab", "m1", Names(), about.count)), folder, about), row

    return exports.measure(sender_of, events)


def main() -> None:
    """Every server that is installed."""
    bench, _ = Bench.start(
        "export_influx",
        "events from a journal into a server on this machine, by one sender: rate, and CPU "
        "time of the sender.",
        "a network, a server with cores of its own, and slower disks than this machine's.",
    )
    events = random_events(50_000 if bench.quick else 500_000, seed=9)
    events["time_ns"] = events["time_ns"][0] + np.arange(len(events)) * 20_000
    for program in SERVERS:
        if shutil.which(program) is None:
            bench.say(f"{program}: not installed")
            continue
        with running(program) as server:
            create = isinstance(server, InfluxServer)
            measure(server.url, events[:5000], create)
            rate, spent, size = measure(server.url, events, create)
        note = f"sender {spent * 1e6:.1f} CPU us per event, {size:.0f} bytes (gzip)"
        bench.row({"server": program}, rate, "events/s", note)
        bench.row({"server": program, "at": "50,000/s"}, spent * 50_000, "of a core")


if __name__ == "__main__":
    main()
