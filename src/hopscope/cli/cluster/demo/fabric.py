"""The demo's switches: a simulated fabric in a process of its own, each leaf with an address of its own.

Run as a program it reads one JSON object (`Request`) and then, line by line, the members that get reports; it
prints `ready`, `start`, `sent` and `end` objects, and ends when its input does.
"""

from __future__ import annotations

import hashlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .place import FABRIC, Place

if TYPE_CHECKING:
    from ....capture.udp.sender import UdpSender
    from ....fabric.simulation import Simulation
    from ....wire.records import FrameBatch

PROGRESS_SECONDS = 0.1
LINK_RATE = 100_000_000
"""Rate of hosts, bit/s: with ten times as many packets, the simulation would starve three collectors."""
ADDRESS_MASK = 0xFFFF_FFFF


@dataclass(frozen=True)
class Request:
    """The fabric to simulate, and how it sends."""

    topology: str
    rate: float
    seed: int
    source: str
    """Address of the first switch; the others have the following addresses."""
    to: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Members that get reports, with their addresses."""


def owner(source: int, members: Mapping[str, object]) -> str:
    """The member that gets the reports of a switch: the highest hash of both (rendezvous hashing, Thaler and
    Ravishankar 1998), so that only the switches of a member that leaves get another one.
    """
    return max(members, key=lambda name: hashlib.blake2b(b"%s %d" % (name.encode(), source)).digest())


class Fabric:
    """The demo's handle of the process."""

    def __init__(self, place: Place, request: Request, log: Path) -> None:
        pipe = subprocess.PIPE
        words = [sys.executable, "-m", __name__]
        self._process = place.start(words, log, FABRIC, stdin=pipe, stdout=pipe)
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self.log = log
        self.last: dict[str, dict[str, Any]] = {}
        """The newest message of each kind."""
        self._reader_done = threading.Event()
        self._write(asdict(request))
        threading.Thread(target=self._listen, daemon=True).start()

    def send_to(self, to: Mapping[str, tuple[str, int]]) -> None:
        """Send to these members from now on."""
        self._write({"to": to})

    def begin(self) -> None:
        """Let it send."""
        self._write({"begin": True})

    def look(self) -> None:
        """Read the process's messages."""
        while not self._messages.empty():
            message = self._messages.get()
            self.last[message["kind"]] = message

    @property
    def ready(self) -> bool:
        """Whether it can begin."""
        self.look()
        return "ready" in self.last

    @property
    def ended(self) -> bool:
        """Whether it has ended, for whatever reason."""
        return self._process.poll() is not None

    @property
    def reports(self) -> int:
        """Reports sent so far, as of PROGRESS_SECONDS ago; the exact number after `stop`."""
        self.look()
        return max(int(self.last.get(kind, {}).get("reports", 0)) for kind in ("sent", "end"))

    def stop(self) -> None:
        """Let the process end."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader_done.wait(5)
        self.look()

    def _write(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `ended` reports it

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._messages.put(json.loads(line))
        self._reader_done.set()


# --------------------------------------------------------------------------------------- in the process


class _Sender:
    """Sends every frame to the member of its source."""

    def __init__(self, sources: range) -> None:
        self._sources = sources
        self._senders: dict[tuple[str, int], UdpSender] = {}
        self._to: dict[str, tuple[str, int]] = {}
        self._owners: Any = None
        self._fresh: dict[str, tuple[str, int]] | None = None
        self.sent = 0
        self.unsent = 0
        """Reports dropped while there was no member."""

    def change(self, to: Mapping[str, Any]) -> None:
        """Use other members from the next frames on; from any thread."""
        self._fresh = {name: (str(host), int(port)) for name, (host, port) in to.items()}

    def send(self, batch: FrameBatch) -> int:
        """Send frames; returns their number."""
        import numpy as np

        from ....wire.records import FrameBatch

        if self._fresh is not None:
            self._to, self._fresh = self._fresh, None
            names = list(self._to)
            table = [names.index(owner(source, self._to)) if names else -1 for source in self._sources]
            self._owners = np.array(table)
        of = self._owners[
            (batch.frames["source_lo"] & np.uint64(ADDRESS_MASK)).astype(np.int64) - self._sources.start
        ]
        for number, address in enumerate(self._to.values()):
            part = batch.frames[of == number]
            if len(part):
                self.sent += self._sender(address).send(FrameBatch(batch.arena, part, batch.first_packet))
        self.unsent += int((of < 0).sum())
        return len(batch.frames)

    def _sender(self, address: tuple[str, int]) -> UdpSender:
        from ....capture.udp.sender import UdpSender

        if address not in self._senders:
            self._senders[address] = UdpSender(*address, trains=False, by_source=True)
        return self._senders[address]


def simulation(request: Request) -> Simulation:
    """The fabric of a request; its clock starts now."""
    from ....fabric.simulation import Simulation, SimulationModel
    from ....fabric.switch import ReportModel
    from ....fabric.topology import parse_topology
    from ....fabric.traffic import TrafficModel

    report = ReportModel(source_address=int(IPv4Address(request.source)), epoch_ns=time.time_ns())
    model = SimulationModel(
        traffic=TrafficModel(flows=500, load=0.3), report=report, seed=request.seed,
        reports_per_second=request.rate,
    )  # fmt: skip
    return Simulation(parse_topology(request.topology, LINK_RATE), model)


def main() -> None:
    """The process."""
    from ....fabric.pace import play
    from ....runtime.warmup import compile_parts

    request = Request(**json.loads(sys.stdin.readline()))
    compile_parts("fabric")
    made = simulation(request)
    first = int(IPv4Address(request.source))
    sender = _Sender(range(first, first + len(made.topology.switches)))
    sender.change(request.to)
    made.rehearse()
    begin, stop = threading.Event(), threading.Event()

    def follow() -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "to" in message:
                sender.change(message["to"])
            if message.get("begin"):
                begin.set()
        stop.set()
        begin.set()

    threading.Thread(target=follow, daemon=True).start()
    _say("ready")
    begin.wait()
    due = 0.0

    def send(batch: FrameBatch) -> None:
        nonlocal due
        sender.send(batch)
        if made.now >= due:
            due = made.now + PROGRESS_SECONDS
            _say("sent", reports=sender.sent, unsent=sender.unsent, seconds=made.now)

    if not stop.is_set():
        made = simulation(request)  # its clock begins now
        _say("start")
        play(made, send, None, stop=stop.is_set)
    _say("end", reports=sender.sent, unsent=sender.unsent, seconds=made.now, made=made.truth.reports)


def _say(kind: str, **more: Any) -> None:
    print(json.dumps({"kind": kind, "time_ns": time.time_ns(), **more}), flush=True)


if __name__ == "__main__":
    main()
