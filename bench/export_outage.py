"""A destination that is away for a minute under load, while the export process is killed again and again."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from harness.common import Bench

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from hopscope.base.control_client import ControlError
from hopscope.export.counters import read_counters
from hopscope.history.query import History
from support.collector_process import Collector, Load
from support.server_process import InfluxServer

KILL_SECONDS = 15.0
"""Interval of kills: a process that ends five times in a minute is left stopped for a while."""
REPORTS = 3500
"""Reports per second: each causes three or four events with the lowest limits."""
FLAGS = (
    *("--no-serve", "--listen", "udp://127.0.0.1:0"),
    *("--set", "detect.thresholds.hop_latency.change=1"),
    *("--set", "detect.thresholds.flow_latency.change=1"),
)


class Watched:
    """A collector with its load: how many events it found, and the memory of its export process."""

    def __init__(self, data: Path, *flags: str) -> None:
        self.collector = Collector(data, *FLAGS, *flags)
        self.collector.start()
        self.load = Load(REPORTS)
        self.load.port = self.collector.port
        self.most_memory = 0
        self.killed = 0

    def export_pid(self) -> int | None:
        """The export process, if it runs."""
        with suppress(ControlError):
            process = self.collector.status().get("export")
            return int(process["pid"]) if process and process["alive"] else None
        return None

    def wait(self, seconds: float, *, kills: bool = False) -> None:
        """Go on for a while; kill the export process every KILL_SECONDS."""
        until = time.monotonic() + seconds
        due = time.monotonic() + KILL_SECONDS / 2
        while time.monotonic() < until:
            time.sleep(0.2)
            pid = self.export_pid()
            if pid is None:
                continue
            with suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
                self.most_memory = max(self.most_memory, int(status.split("RssAnon:")[1].split()[0]) * 1024)
                if kills and time.monotonic() >= due:
                    due += KILL_SECONDS
                    os.kill(pid, signal.SIGKILL)
                    self.killed += 1

    def end(self) -> int:
        """No more load; returns the reports that were sent."""
        self.load.close()
        return self.load.sent

    def events(self) -> int:
        """Events of history."""
        with History(self.collector.data) as history:
            return int(history.sql("SELECT count(*) AS n FROM events")["n"][0])


def main() -> None:
    """Once without a destination, once with one."""
    bench, _ = Bench.start(
        "export_outage",
        "events into InfluxDB 1.6, which is killed for a minute, while the export process is killed every"
        " 15 s.",
        "a network, other destinations, and a server with cores of its own.",
    )
    program = shutil.which("influxd")
    if program is None:
        bench.say("influxd is not installed")
        return
    away = 10.0 if bench.quick else 60.0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "influx").mkdir()
        alone = Watched(root / "alone")
        alone.wait(away / 2)
        sent = alone.end()
        alone.collector.stop()
        rate = alone.events() / (away / 2)
        bench.row({"destination": "none"}, rate, "events/s", f"{sent:,} reports")
        server = InfluxServer(program, root / "influx")
        server.start()
        config = root / "hopscope.toml"
        config.write_text(
            f'[export.lab]\nkind = "influxdb"\nurl = "{server.url}"\napi = 1\nbegin = "oldest"\n'
        )
        one = Watched(root / "with", "--config", str(config))
        one.wait(away / 2, kills=True)
        server.kill()
        one.wait(away, kills=True)
        server.start()
        back = time.monotonic()
        one.wait(away / 2, kills=True)
        sent = one.end()
        events, found = one.events(), -1
        while found < events and time.monotonic() < back + 600:
            time.sleep(0.5)
            events = one.events()
            rows = server.query("SELECT count(sequence) FROM int_event", "hopscope")
            found = int(str(rows[0]["count"])) if rows else 0
        took = time.monotonic() - back
        lost = int(read_counters(one.collector.data)["expired_total"].sum())
        seconds = 2 * away
        bench.row({"destination": "influxdb"}, events / seconds, "events/s", f"{sent:,} reports")
        bench.row({"destination": "influxdb", "in": "history"}, events, "events")
        bench.row({"destination": "influxdb", "in": "database"}, found, "events", f"{lost} expired")
        bench.row({"destination": "influxdb", "back": "until all are there"}, took, "s")
        bench.row({"process": "export", "killed": one.killed}, one.most_memory / 2**20, "MiB", "RssAnon")
        one.collector.stop()
        server.kill()


if __name__ == "__main__":
    main()
