"""A storm of alerts: 10,000 events per second into a webhook, Slack, e-mail and syslog."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from harness.collector import memory_bytes
from harness.common import Bench
from hopscope.detect.records import EVENT, Kind, Metric
from hopscope.export.counters import read_counters
from hopscope.export.positions import Positions
from hopscope.export.run import run
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.collector import Settings
from support.events.event_make import Events
from support.servers.http_receiver import Receiver

NAME = "pager"
STEPS_PER_SECOND = 20
TICKS = os.sysconf("SC_CLK_TCK")
CASES: dict[str, dict[str, Any]] = {
    "webhook": {"kind": "webhook"},
    "webhook, by flow": {"kind": "webhook", "group_by": ["flow"], "group_seconds": 5},
    "slack": {"kind": "slack"},
    "slack, by port": {"kind": "slack", "group_by": ["port"]},
    "email": {"kind": "email", "to": ["noc@example.net"]},
    "syslog": {"kind": "syslog"},
}


def storm(count: int, first: int) -> Events:
    """Alarms of 2,000 queues, which begin and end, and changed paths of 50,000 flows."""
    made = np.zeros(count, EVENT)
    made["sequence"] = numbers = np.arange(first, first + count)
    made["time_ns"] = time.time_ns() + np.arange(count)
    made["node_id"], made["port"], made["ident"] = 1 + numbers % 40, numbers % 50, 1
    made["metric"], made["value"], made["previous"] = Metric.QUEUE_OCCUPANCY, 3000 + numbers % 1000, 2500
    made["kind"] = np.where(numbers // 2000 % 2, Kind.CLEARED, Kind.RAISED)
    paths = numbers % 3 == 2
    made["kind"][paths], made["metric"][paths] = Kind.PATH_CHANGE, Metric.FLOW_PATH
    made["hop_count"][paths] = 2
    made["path"][paths, :2] = 1, 2
    made["flow_id"] = np.where(paths, 1 + numbers % 50_000, 0)
    made["ip_version"][paths], made["proto"][paths] = 4, 17
    made["src_lo"] = made["dst_lo"] = 0xFFFF_0A00_0000 + numbers % 50_000
    return made


@contextmanager
def receiving(kind: str) -> Iterator[dict[str, Any]]:
    """A server in a process of its own, and the settings that lead to it."""
    if kind == "syslog":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            yield {"url": f"udp://127.0.0.1:{taken.getsockname()[1]}"}
        return
    ends, other = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_mail if kind == "email" else _web, args=(other,), daemon=True)
    process.start()
    yield ends.recv()
    process.kill()
    process.join()


def _web(pipe: Any) -> None:
    with Receiver() as server:
        pipe.send({"url": server.url})
        server.serve_forever()


def _mail(pipe: Any) -> None:
    from aiosmtpd.controller import Controller

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    Controller(_Mailbox(), hostname="127.0.0.1", port=port).start()
    pipe.send({"url": f"smtp://127.0.0.1:{port}", "starttls": False})
    threading.Event().wait()


class _Mailbox:
    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        """Take every message."""
        return "250 OK"


def exporting(settings: Settings) -> None:
    """The export process."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    run(settings, settings.data, stop)


def measure(bench: Bench, case: str, given: argparse.Namespace) -> None:
    """One destination under the storm: what it delivered, what it counted, its memory and processor time."""
    more = CASES[case]
    with tempfile.TemporaryDirectory() as name, receiving(more["kind"]) as place:
        folder = Path(name)
        (folder / "regions").mkdir()
        tree = {"data": folder, "export": {NAME: {"begin": "oldest", **more, **place}}}
        process = multiprocessing.Process(target=exporting, args=(Settings.model_validate(tree),))
        written, most = 0, 0
        with JournalWriter(folder, 0) as writer:
            process.start()
            assert process.pid is not None
            begin = time.monotonic()
            while (passed := time.monotonic() - begin) < given.seconds:
                if (due := int(passed * given.rate)) > written:
                    writer.append(storm(due - written, written))
                    written = due
                most = max(most, memory_bytes(process.pid))
                time.sleep(1 / STEPS_PER_SECOND)
            positions = Positions(folder, NAME)
            late = written - positions.next(0)
            positions.close()
            stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            spent = (int(stat[11]) + int(stat[12])) / TICKS
            process.terminate()
            process.join()
        rows = read_counters(folder)
        counts = {each: int(rows[f"{each}_total"].sum()) for each in ("sent", "events", "unlisted", "failed")}
        state = json.loads((folder / "export" / f"{NAME}.state").read_text(encoding="utf-8"))
        box = state["outbox"]
        waiting = [*box["full"], *box["waiting"], *filter(None, [box["under_way"]])]
        held = sum(message["count"] for message in waiting)
        taken, lost = written - late, counts["failed"]
    of = {"destination": case}
    bench.row({**of, "what": "events"}, written / given.seconds, "events/s", f"{late:,} not read at the end")
    note = f"{counts['unlisted']:,} in them only counted, {held:,} wait, {lost} rejected"
    bench.row({**of, "what": "alerts in messages"}, counts["events"], "alerts", note)
    bench.row({**of, "what": "messages"}, counts["sent"] / given.seconds * 60, "per minute", "")
    bench.row({**of, "what": "memory"}, most / 2**20, "MiB", "RssAnon of the export process")
    bench.row({**of, "what": "processor"}, spent / given.seconds, "of a core", f"{taken:,} events taken")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--destinations", default=";".join(CASES), help="names, separated by semicolons")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=10_000, help="events per second")


def main() -> None:
    """Every destination."""
    bench, given = Bench.start(
        "alert_storm",
        "a storm of alarms and changed paths into alert destinations with their defaults: "
        "messages, alerts that messages only count, memory.",
        "a network, and what people do with the messages.",
        _options,
    )
    if bench.quick:
        given.seconds = 8.0
    for case in given.destinations.split(";"):
        measure(bench, case, given)


if __name__ == "__main__":
    main()
