"""Runs each role in a fresh process with traffic; prints which kernels it first called while frames waited.

    python -m support.processes.late_kernels ROLE...

Every role starts as the program starts it, in a process that has called no kernel before, and in a network
namespace of its own.  Traffic is made in other processes, so that its kernels are not those of the role.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hopscope
from hopscope.base import log
from hopscope.base.kernels import kernel_cache
from hopscope.base.process import loop
from hopscope.runtime.warmup import compile_parts, load_steps, steps_for
from hopscope.settings import source
from hopscope.settings.collector import Settings

_NEW_NETWORK = 0x40000000
_PAUSE = 0.02
ROUNDS = 4


def forked(work: Callable[[], Any]) -> Any:
    """What `work` returns in a child of this process; its exception ends this process, too."""
    reader, writer = os.pipe()
    if not os.fork():
        os.close(reader)
        with os.fdopen(writer, "wb") as out:
            try:
                pickle.dump((work(), ""), out)
            except BaseException:
                pickle.dump((None, traceback.format_exc()), out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        found, error = pickle.load(answer)
    os.wait()
    if error:
        sys.exit(error)
    return found


def in_namespace() -> None:
    """Enter a network namespace of this process's own, with `lo` and a veth pair, `near` and `far`."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "unshare")
    for words in ("set lo up", "add near type veth peer name far", "set near up", "set far up"):
        subprocess.run(["ip", "link", *words.split()], check=True)


def captured(name: str, *, payloads: bool = False) -> list[bytes]:
    """Frames of a sample capture, or what their UDP datagrams hold."""
    from hopscope.capture.pcap.reader import read

    frames = []
    for batch in read(hopscope.sample(name)):
        for start, length in zip(batch.frames["offset"], batch.frames["length"], strict=True):
            frame = batch.arena[start : start + length].tobytes()
            frames.append(frame[42:] if payloads else frame)
    return frames


def changing(frames: Sequence[bytes]) -> list[bytes]:
    """INT packets whose paths, values and flows change, then those of a capture."""
    from hopscope.wire.craft.frames import craft

    packets = []
    for number in range(200):
        hops = [
            {"node_id": node, "hop_latency": number * 1_000_000 % 7_000_000, "queue_occupancy": number}
            for node in range(1, 2 + number % 12)
        ]
        flow = {"proto": 17 if number % 3 else 6, "sport": number % 7}
        packets.append({"int": {"instructions": "0xb000"}, "flow": flow, "hops": hops})
    batch = craft(packets)
    made = [
        batch.arena[start : start + length].tobytes()
        for start, length in zip(batch.frames["offset"], batch.frames["length"], strict=True)
    ]
    return made + list(frames) + [b"\xff" * 12 + b"\x08\x06" + bytes(46), b"\x02" * 1500]


class Role:
    """Stands in for the child of a supervisor."""

    index = 0
    bypass = None

    def __init__(
        self, settings: Settings, sockets: Sequence[socket.socket], send: Callable[[], None]
    ) -> None:
        self.settings, self._sockets, self._send = settings, sockets, send
        self.stop, self.released, self.orphaned = threading.Event(), threading.Event(), threading.Event()
        self.started = False
        from hopscope.capture.udp.counted_drops import SocketDrops
        from hopscope.runtime.processes.child import Share

        self.shares = [Share(number, SocketDrops()) for number in range(len(sockets))]
        self.listeners: deque[Any] = deque()  # no interface is bound again
        self._folder = tempfile.TemporaryDirectory()
        self.data = self.regions = Path(self._folder.name)

    def sockets(self) -> list[socket.socket]:
        """The role's own copies."""
        return [handle.dup() for handle in self._sockets]

    def notify(self, line: str) -> None:
        """Lines for the log."""

    def warn(self, line: str) -> None:
        """Warnings for the log."""

    def report(self, **message: Any) -> None:
        """Send traffic as soon as the role is ready."""
        if message.get("ready"):
            threading.Thread(target=self._feed).start()

    def _feed(self) -> None:
        for _ in range(ROUNDS):
            self._send()
            time.sleep(4 * _PAUSE)
        self.stop.set()


def small(*urls: str, **sections: Any) -> Settings:
    """Small tables, whose flows expire and are evicted."""
    return Settings.model_validate({
        "listen": [source.parse(text) for text in urls], **sections,
        "detect": {"flow_rows": 1, "idle_seconds": 0.3, "push_seconds": 0.3, "silent_seconds": 0.3},
        "history": {"ring_events": 1024},
    })  # fmt: skip


def started(settings: Settings, send: Callable[[], None]) -> Role:
    """A role with its sockets, the regions that the supervisor makes, and the kernels that the fork server
    loads.
    """
    from hopscope.capture.sockets import bind_share
    from hopscope.detect.thresholds import CONTROL_FILE, create_control
    from hopscope.runtime.pipeline.mode import mode_of

    role = Role(settings, [bind_share(listen) for listen in settings.listen], send)
    create_control(role.regions / CONTROL_FILE, settings.limits)
    mode_of(settings).make_queues(role.regions)
    load_steps(steps_for(settings), role.notify)
    return role


def worker(send: Callable[[], None], *urls: str, **sections: Any) -> None:
    """A worker with small tables."""
    from hopscope.runtime.processes.worker import run

    run(started(small(*urls, **sections), send))  # type: ignore[arg-type]


def to_port(port: int, payloads: Sequence[bytes]) -> Callable[[], None]:
    """Sends datagrams to a port of the namespace."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send() -> None:
        for number, payload in enumerate(payloads):
            sender.sendto(payload, ("127.0.0.1", port))
            if not number % 50:
                time.sleep(_PAUSE)

    return send


def to_far(frames: Sequence[bytes]) -> Callable[[], None]:
    """Sends frames that arrive at `near`."""
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind(("far", 0))

    def send() -> None:
        for number, frame in enumerate(frames):
            sender.send(frame)
            if not number % 50:
                time.sleep(_PAUSE)

    return send


def collect() -> None:
    """A collector of reports with distributions, over UDP."""
    payloads = forked(lambda: captured("microburst", payloads=True))
    in_namespace()
    worker(to_port(4000, [*payloads, b"\x20"]), "udp://127.0.0.1:4000", distributions={"enabled": True})


def collect_auto() -> None:
    """A collector of an interface that finds out the dialect, and of its reports."""
    frames = forked(lambda: captured("microburst"))
    in_namespace()
    worker(to_far(frames), "mirror://near?dialect=auto", "ring://near?promiscuous=yes")


def mixed() -> None:
    """A collector of sFlow and IPFIX, over UDP and TCP; data sets come before their template."""
    from support.packets import ipfix_make as make

    sflow = forked(lambda: [payload for payload in captured("edge", payloads=True) if payload[1] == 0])
    ipfix = [
        *(make.message(make.set_of(256, make.record()), sequence=number) for number in range(3)),
        make.message(make.set_of(2, make.template(256, make.FLOW)), sequence=3),
    ]
    in_namespace()
    ways = [to_port(4001, sflow), to_port(4002, ipfix)]

    def send() -> None:
        for way in ways:
            way()
        with socket.create_connection(("127.0.0.1", 4002)) as exporter:
            exporter.sendall(b"".join(reversed(ipfix)))

    worker(send, "sflow://127.0.0.1:4001", "ipfix://127.0.0.1:4002", "ipfix+tcp://127.0.0.1:4002")


def one_of_several() -> None:
    """A worker that hands its reports to a detector."""
    payloads = forked(lambda: captured("microburst", payloads=True))
    in_namespace()
    worker(to_port(4000, [*payloads, b"\x20"]), "udp://127.0.0.1:4000?workers=2")


def detector() -> None:
    """The detector of two workers, with distributions."""
    from hopscope.detect.report_queue import QueueWriter, attach_queue, queue_path
    from hopscope.runtime.processes.detector import run
    from hopscope.wire.dialect import Clock
    from hopscope.wire.records import ReportBatch

    batches = forked(_decoded)
    in_namespace()
    settings = small("udp://127.0.0.1:4000?workers=2", distributions={"enabled": True})

    def send() -> None:
        writers = [QueueWriter(attach_queue(queue_path(role.regions, number))) for number in range(2)]
        for number, (reports, hops) in enumerate(batches):
            reports["time_ns"] = time.time_ns()
            writers[number % 2].put(ReportBatch(reports, hops), Clock(), time.monotonic_ns())
        for writer in writers:
            writer.close()

    role = started(settings, send)
    run(role)  # type: ignore[arg-type]


def _decoded() -> list[tuple[Any, Any]]:
    """Reports and hops of a sample capture."""
    from hopscope.capture.pcap.reader import read
    from hopscope.wire.decode.decoder import Decoder
    from hopscope.wire.dialect import DEFAULT

    decoder = Decoder(DEFAULT)
    found = (decoder.decode(batch) for batch in read(hopscope.sample("microburst")))
    return [(batch.reports.copy(), batch.hops.copy()) for batch in found]


def sink(**settings: Any) -> None:
    """A sink that forwards."""
    frames = forked(lambda: changing(captured("int-md")))
    in_namespace()
    subprocess.run(["ip", "link", "add", "out", "type", "veth", "peer", "name", "beyond"], check=True)
    for name in ("out", "beyond"):
        subprocess.run(["ip", "link", "set", name, "mtu", "1400", "up"], check=True)
    worker(to_far(frames), "mirror://near?output=out", sink={"enabled": True, "quota": 5, **settings})


def sink_reports(when: str, version: str = "2.0") -> None:
    """A sink that sends Telemetry Reports."""
    sink(report={"to": "127.0.0.1:4001", "when": when, "version": version, "flow_seconds": 0.1})


def labels() -> None:
    """The process that takes labels."""
    from hopscope.capture.sockets import bind_share
    from hopscope.runtime.labels.process import listen_settings, run

    payloads = forked(lambda: captured("labels", payloads=True))
    in_namespace()
    settings = Settings.model_validate({"label": {"listen": "127.0.0.1:4000"}})
    role = Role(settings, [bind_share(listen_settings(settings.label))], to_port(4000, payloads))
    load_steps(steps_for(settings), role.notify)
    run(role)  # type: ignore[arg-type]


def _dta_reports() -> list[bytes]:
    from hopscope.direct.reporter import Reporter
    from hopscope.wire.dta.forms import Form

    reporter = Reporter(Form.SIZED, first=1)
    keys = np.arange(400, dtype=np.uint8).reshape(100, 4)
    made = []
    for batch in (
        reporter.key_write(keys, keys, redundancy=2),
        reporter.append(np.arange(100, dtype=np.uint32) % 3, keys),
        reporter.key_increment(keys, np.ones(100, np.uint64), redundancy=1),
        *(reporter.postcard(keys, hop, keys) for hop in range(1, 4)),
        reporter.report(16, keys, keys),
    ):
        made += [
            batch.arena[start : start + length].tobytes()
            for start, length in zip(batch.frames["offset"], batch.frames["length"], strict=True)
        ]
    return made


_STORES = [
    {"name": "flows", "primitive": "key-write", "options": {"slots": 1 << 10}},
    {"name": "events", "primitive": "append", "options": {"lists": 10, "batches": 1 << 6}},
    {"name": "hosts", "primitive": "key-increment", "options": {"slots": 1 << 10}},
    {"name": "paths", "primitive": "postcarding", "options": {"chunks": 1 << 10}},
    {"name": "who", "primitive": "cardinality", "options": {"sketches": 128}},
]


def _until(send: Callable[[], None], stop: threading.Event, rounds: int = ROUNDS) -> None:
    def feed() -> None:
        for _ in range(rounds):
            send()
            time.sleep(4 * _PAUSE)
        stop.set()

    threading.Thread(target=feed).start()


def translate(**translator: Any) -> None:
    """A translator, into memory unless the settings say otherwise."""
    from hopscope.runtime.direct.translator import TranslatorProcess
    from hopscope.settings.direct import DirectSettings

    payloads = forked(_dta_reports)
    if "transport" not in translator:
        in_namespace()
    compile_parts("direct")
    with tempfile.TemporaryDirectory() as folder:
        settings = DirectSettings.model_validate(
            {"stores": _STORES, "translator": {"port": 4000, "form": "sized", **translator}}
        )
        process = TranslatorProcess(settings, Path(folder))
        process.open()
        stop = threading.Event()
        time.sleep(0.5)  # collectors connect
        _until(to_port(4000, payloads), stop)
        process.run(stop)


def nic() -> None:
    """Two software NICs, and a translator that spreads keys over both."""
    from hopscope.direct.stores.spec import parse_store
    from hopscope.runtime.direct.nic import NicProcess
    from hopscope.settings.direct import DirectSettings

    in_namespace()
    compile_parts("direct")
    late: list[str] = []
    other = threading.Thread(target=lambda: late.extend(forked(lambda: measured(_translate_to_nic))))
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        specs = [
            parse_store(text)
            for text in ("kw=key-write,bytes=64KiB,collectors=2", "lists=append,bytes=64KiB")
        ]
        settings = DirectSettings.model_validate(
            {"nic": {"hosts": ["127.0.0.1", "127.0.0.3"], "any_ip_id": False}}
        )
        process = NicProcess(settings, Path(folder), specs)
        process.open()
        other.start()
        threading.Thread(target=lambda: (other.join(), stop.set())).start()  # type: ignore[func-returns-value]
        process.run(stop)
    assert not late, f"the translator: {late}"


def _translate_to_nic() -> None:
    translate(transport="rocev2", collectors=["127.0.0.1", "127.0.0.3"], address="127.0.0.2")


def switch_direct() -> None:
    """The reporter of DTA at a switch: one report of its programs."""
    from hopscope.runtime.warmup import _REPORT
    from hopscope.switch.direct_sender import DirectSender, DtaOutlet
    from hopscope.wire.records import Link
    from support.packets.wire_cases import frame_batch

    datagrams, stop = frame_batch([_REPORT], Link.UDP_PAYLOAD), threading.Event()
    sender = DirectSender(["int-path-tracing", "packetscope-traversal"], DtaOutlet("127.0.0.1", 4000))

    def turn() -> int:
        sender.take(datagrams)
        stop.set()
        return 1

    sender.turn = turn  # type: ignore[method-assign]
    loop.run(sender, stop, lambda found: None)
    assert sender.made, "the report is none of its monitors'"


def measured(role: Callable[[], None]) -> list[str]:
    """Run a role; the kernels that it called too late."""
    log.configure()
    before: list[set[str]] = []
    counted: list[int] = []
    run = loop.run

    def watched(*words: Any) -> None:
        before.append(set(kernel_cache.loaded))
        try:
            run(*words)
        finally:
            counted.append(loop.late_kernels())

    loop.run = watched  # type: ignore[assignment]
    role()
    late = sorted(name for name in kernel_cache.loaded - before[0] if name.endswith(".entry"))
    assert counted == [len(late)], (counted, late)
    return [".".join(name.split("/")[-3::2]) for name in late]


ROLES: dict[str, Callable[[], None]] = {
    "collect": collect,
    "collect-auto": collect_auto,
    "mixed": mixed,
    "one-of-several": one_of_several,
    "detector": detector,
    "sink": sink,
    "sink-packet-reports": lambda: sink_reports("packet"),
    "sink-event-reports": lambda: sink_reports("event", "1.0"),
    "sink-flow-reports": lambda: sink_reports("flow"),
    "labels": labels,
    "translate": translate,
    "translate-limited": lambda: translate(rate_limit=500),
    "nic": nic,
    "switch-direct": switch_direct,
}


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ROLES:
        print(json.dumps({"role": chosen, "late": forked(partial(measured, ROLES[chosen]))}), flush=True)
