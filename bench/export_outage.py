"""A destination that is away for a minute under load, while the export process is killed again and again."""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from harness.collector import memory_bytes
from harness.common import Bench
from harness.outage_servers import CASES, NAME, Outage, running
from hopscope.base.process.control_client import ControlError
from hopscope.export.counters import read_counters
from hopscope.export.positions import Positions
from hopscope.history.follow import EventFollower
from support.processes.collector_process import Collector, Load

REPORTS = 3500
"""Reports per second: each causes three or four events with the lowest limits."""
FLAGS = (
    *("--no-serve", "--listen", "udp://127.0.0.1:0"),
    *("--set", "detect.thresholds.hop_latency.change=1"),
    *("--set", "detect.thresholds.flow_latency.change=1"),
)
CATCH_UP_SECONDS = 600
TICKS = os.sysconf("SC_CLK_TCK")


class Watched:
    """A collector with its load: its events, its processor time, the memory of its export process."""

    def __init__(self, data: Path, reports: int, *flags: str) -> None:
        self.collector = Collector(data, *FLAGS, *flags)
        self.collector.start()
        self.load = Load(reports)
        self.load.port = self.collector.port
        self.most_memory = 0
        self.killed = 0
        self.kill_at: list[float] = []
        """When the export process is killed, monotonic seconds, ascending."""
        self._follower = EventFollower(data)
        self._spent = self._worker_seconds()

    def pid(self, role: str) -> int | None:
        """A process, if it runs."""
        with suppress(ControlError):
            process = self.collector.status().get(role)
            return int(process["pid"]) if process and process["alive"] else None
        return None

    def wait(self, seconds: float) -> None:
        """Go on for a while; kill the export process when it is due."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.2)
            pid = self.pid("export")
            if pid is None:
                continue
            with suppress(OSError):
                self.most_memory = max(self.most_memory, memory_bytes(pid))
                if self.kill_at and time.monotonic() >= self.kill_at[0]:
                    self.kill_at.pop(0)
                    os.kill(pid, signal.SIGKILL)
                    self.killed += 1

    def end(self) -> tuple[float, int]:
        """No more load; microseconds of a processor that the worker took per report, events in history."""
        spent = self._worker_seconds() - self._spent
        self.load.close()
        before, events = -1, self.events()
        while events > before:
            time.sleep(2)
            before, events = events, self.events()
        return spent * 1e6 / max(1, self.load.sent), events

    def _worker_seconds(self) -> float:
        """Processor time of the worker (proc_pid_stat(5))."""
        stat = Path(f"/proc/{self.pid('worker-0')}/stat").read_text(encoding="utf-8")
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def events(self) -> int:
        """Events of history."""
        return self._follower.end(0)

    def sent(self) -> int:
        """Events that the destination has confirmed."""
        positions = Positions(self.collector.data, NAME)
        try:
            return positions.next(0)
        finally:
            positions.close()


def measure(
    bench: Bench, case: str, one: Outage, root: Path, given: argparse.Namespace, alone: float
) -> None:
    """One destination; `alone`: what a report takes in the worker without one."""
    config = root / "hopscope.toml"
    values = {"kind": one.kind, "begin": "oldest", **one.settings}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    config.write_text("\n".join(['member = "m1"', f"[export.{NAME}]", *lines, ""]), encoding="utf-8")
    watched = Watched(root / "data", given.reports, "--config", str(config))
    begin = time.monotonic()
    watched.kill_at = [begin + given.every * (at + 0.5) for at in range(given.kills)]
    watched.wait((given.seconds - given.away) / 2)
    one.away()
    watched.wait(given.away)
    one.back()
    back = time.monotonic()
    watched.wait(max(0.0, begin + given.seconds - time.monotonic()))
    seconds = time.monotonic() - begin
    spent, events = watched.end()
    loaded = events
    while watched.sent() < events and time.monotonic() < back + CATCH_UP_SECONDS:
        time.sleep(0.5)
        events = watched.events()  # flows that expire are events, too
    took = time.monotonic() - back
    watched.wait(2)
    found, row = one.read(), read_counters(watched.collector.data)
    lost = {name: int(row[f"{name}_total"].sum()) for name in ("expired", "failed")}
    of = {"destination": case}
    bench.row({**of, "what": "load"}, loaded / seconds, "events/s", one.note)
    bench.row({**of, "what": "in history"}, events, "events")
    order = {None: "", True: ", in order", False: ", NOT in order"}[found.in_order]
    note = f"{found.copies} copies, {lost['expired']} expired, {lost['failed']} rejected{order}"
    bench.row({**of, "what": "arrived"}, found.events, "events", note)
    bench.row({**of, "what": "all arrived after"}, took, "s", f"{given.away:g} s away")
    bench.row({**of, "what": "export process"}, watched.most_memory / 2**20, "MiB", f"{watched.killed} kills")
    bench.row({**of, "what": "worker"}, spent / alone, "of its time alone", f"{spent:.1f} us a report")
    watched.collector.stop()


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--destinations", default=",".join(CASES), help="names, separated by commas")
    parser.add_argument("--seconds", type=float, default=300.0, help="load of each destination")
    parser.add_argument("--away", type=float, default=60.0, help="seconds, in the middle")
    parser.add_argument("--kills", type=int, default=20, help="of the export process")
    parser.add_argument("--every", type=float, default=15.0, help="seconds between kills; 5 a minute stop it")
    parser.add_argument("--reports", type=int, default=REPORTS, help="per second")


def main() -> None:
    """Once without a destination, then with each."""
    bench, given = Bench.start(
        "export_outage",
        "events into servers that are unreachable for a while, as the export process is killed "
        "again and again: the events that arrived, and the time and memory that this took.",
        "a network, and servers with cores of their own.",
        _options,
    )
    if bench.quick:
        given.seconds, given.away, given.kills, given.every = 24.0, 8.0, 3, 7.0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        root.chmod(0o755)
        watched = Watched(root / "alone", given.reports)
        watched.wait(given.seconds / 5)
        alone, events = watched.end()
        watched.collector.stop()
        bench.row({"destination": "none", "what": "load"}, events * 5 / given.seconds, "events/s")
        bench.row(
            {"destination": "none", "what": "worker"}, 1.0, "of its time alone", f"{alone:.1f} us a report"
        )
        for number, case in enumerate(given.destinations.split(",")):
            own = root / str(number)
            own.mkdir()
            with running(case, own / "server") as one:
                if one is None:
                    bench.say(f"{case}: the server is not installed")
                    continue
                measure(bench, case, one, own, given, alone)


if __name__ == "__main__":
    main()
