"""`hopscope blast`: measures how many reports a collector can take."""

from __future__ import annotations

import ipaddress
import json
import socket
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

from ..base.errors import HopscopeError
from ..base.plural import plural
from .options.declare import Options, option
from .options.settings import CollectorOptions, SettingsOptions
from .output.printer import Summary, SummaryOption

if TYPE_CHECKING:
    from ..fabric.load import Load
    from ..present.collector_state import CollectorState, CounterSnapshot
    from ..settings.collector import Settings
    from ..settings.listen import ListenSettings
    from ..wire.records import FrameBatch

PROBE_SECONDS = 0.05
"""Time in which this machine or one nearby answers that no program listens."""
TURN_SECONDS = 0.05
"""Time between two checks of the clock, with a rate."""
SETTLE_SECONDS = 0.5
"""After this time without a further report, the collector has taken all."""
WAIT_SECONDS = 30.0
TRAIN = 64
"""Datagrams of a train."""
MAX_DATAGRAM = 1472
"""Maximum payload of a datagram in an Ethernet frame of 1500 bytes."""
KERNEL_DROPS = "kernel_drops_total"
REJECTED, DETECTOR_LOST = "rejected", "detector_lost_reports_total"
LOST = {
    KERNEL_DROPS: "dropped by the kernel: the socket buffer or the ring was full",
    "denied_frames_total": "from sources that are not allowed",
    "rate_limited_frames_total": "above the rate limit",
    "oversized_frames_total": "longer than the receive buffer",
    REJECTED: "rejected by the decoder",
    DETECTOR_LOST: "received, but not handed to the detector: its queue was full",
}
"""Causes of losses, by counter."""
OF_DATAGRAMS = [key for key in LOST if key not in (REJECTED, DETECTOR_LOST)]
"""Counters of datagrams."""
ON_THE_WAY = "on the way: no socket or ring of the collector saw them"


@dataclass(frozen=True)
class LoadOptions(Options):
    """The reports, and how fast they are sent."""

    to: str = option(
        "--to ADDRESS",
        "Listener of the collector, such as udp://127.0.0.1:32766.",
        "",
        show_default="the first UDP listener of the collector that runs here, or of the settings",
    )
    rate: float = option("--rate N", "Reports per second; 0: as many as possible.", 0.0, min=0)
    seconds: float = option("--seconds S", "Duration.", 5.0, min=0.1, max=3600)
    flows: int = option("--flows N", "Number of flows.", 10_000, min=1, max=1_000_000)
    hops: int = option("--hops N", "Hops per report.", 3, min=1, max=20)
    fields: int = option("--fields N", "Fields of each hop: 8, or 1, the node id alone.", 8)
    group: int = option("--group N", "Reports of each datagram, a power of two.", 1, min=1)
    events: float = option("--events N", "Events per second (queue reports).", 0.0, min=0)
    trains: bool = option("--trains", "Hand 64 datagrams of a source to the kernel at once (UDP GSO).", False)
    interface: str = option(
        "--interface NAME",
        "Send frames through this interface, bypassing the kernel's UDP (root or CAP_NET_RAW).",
        "",
    )
    mac: str = option(
        "--mac ADDRESS",
        "With --interface: Ethernet address of the collector.",
        "",
        show_default="that of the neighbour table",
    )
    sources: int = option(
        "--sources N",
        "Senders, a power of two, on loopback or with --interface: workers share reports by source.",
        16,
        min=1,
        max=1024,
    )


class Sender(Protocol):
    """Sends datagrams."""

    unreachable: int
    """ICMP port-unreachable errors."""

    @property
    def sent(self) -> int:
        """Datagrams."""

    def send(self, batch: FrameBatch) -> object:
        """Send the last batch of the load, at its rate. Raises CaptureError."""

    def close(self) -> None:
        """Close it."""


def blast(load: LoadOptions, settings: CollectorOptions, form: SummaryOption = Summary.TEXT) -> None:
    """Send Telemetry Reports as fast as possible, and print how many the collector took.

    Reports are 2.0 with INT-MD, each a datagram unless they are grouped. The counters of a collector on this
    machine show how many it took, and why it lost the rest. Sending takes a core of its own, which on
    loopback also does most of the receiving. Exit status 1: reports were lost, or the collector was
    restarted meanwhile; 2: it could not start, or nothing listens.
    """
    from ..capture.sockets import resolve
    from ..present.collector_state import CollectorState
    from ..runtime.warmup import compile_parts
    from ..settings.source import parse_target

    if not load.to:
        load = replace(load, to=_listener(settings.load()))
    target = parse_target(load.to)
    target = target.model_copy(update={"host": resolve(target.host, target.port, load.to)[1][0]})
    local = target.host.startswith("127.")
    compile_parts("encoder")
    made = _load(load, target, local)
    sender = _ring(load, target, made) if load.interface else _udp(load, target, local)
    folder = _collector_at(settings, target, anywhere=bool(load.interface))
    state = None if folder is None else CollectorState(folder, fresh_seconds=0)
    with closing(sender):
        before = None if state is None else state.counters()
        started = _started(folder)
        sender.send(made.next(1))
        time.sleep(PROBE_SECONDS)
        sender.send(made.next(1))
        if sender.unreachable:
            raise HopscopeError(
                f"{load.to}: nobody listens there; start `hopscope collect`, or name its listener with --to"
            )
        first, begin, events = sender.sent, time.monotonic(), 0
        most = max(1, int(load.rate / load.group * TURN_SECONDS)) if load.rate else len(made.octets)
        while (seconds := time.monotonic() - begin) < load.seconds:
            due = int(load.events * (seconds + TURN_SECONDS)) - events
            batch = made.next(most, due)
            events += min(due, len(batch))
            sender.send(batch)
        result: dict[str, Any] = {
            "sent": sender.sent * load.group, "datagrams": sender.sent, "datagram_bytes": made.datagram_bytes,
            "seconds": round(seconds, 2), "per_second": round((sender.sent - first) * load.group / seconds),
        }  # fmt: skip
        if load.events:
            result["events"] = events
    if state is not None and before is not None:
        taken = _taken(state, before, result["sent"], load)
        result |= taken if _started(folder) == started else {"restarted": True}
    if form is Summary.JSON:
        print(json.dumps(result))
    else:
        _print(result, load)
    raise typer.Exit(int(bool(result.get("lost") or "restarted" in result)))


def _listener(settings: Settings) -> str:
    """The first UDP listener of the collector that runs, or of the settings. Raises HopscopeError."""
    from ..settings.section import reached_at
    from ..settings.source import url

    for each in _listeners(settings.data) or settings.listen:
        if each.kind == "udp":
            return url(each.model_copy(update={"host": reached_at(each.host)}))
    raise HopscopeError("the collector has no udp:// listener: name an address with --to")


def _load(load: LoadOptions, target: ListenSettings, local: bool) -> Load:
    """The stream of reports. Raises HopscopeError."""
    from ..fabric.load import BLOCK, FIELDS, Load
    from ..wire.records import Link

    if load.fields not in FIELDS:
        raise HopscopeError(f"--fields {load.fields}: expected {' or '.join(map(str, FIELDS))}")
    for name, value in (("--sources", load.sources), ("--group", load.group)):
        if BLOCK % value:
            raise HopscopeError(f"{name} {value}: expected a power of two")
    if load.interface and not _is_ipv4(target.host):
        raise HopscopeError(f"--to {load.to}: expected an IPv4 address with --interface")
    run = TRAIN if load.trains else 1
    sources = load.sources if local or load.interface else 1
    if BLOCK % (sources * run * load.group):
        raise HopscopeError(
            f"--sources {sources} --group {load.group}: expected a product of at most {BLOCK // run}"
        )
    made = Load(
        hops=load.hops, flows=load.flows, sources=sources, fields=load.fields, grouped=load.group, run=run,
        link=Link.ETHERNET if load.interface else Link.UDP_PAYLOAD, collector=target.host, port=target.port,
    )  # fmt: skip
    if load.group > 1 and made.datagram_bytes > MAX_DATAGRAM:
        raise HopscopeError(
            f"--group {load.group}: found datagrams of {made.datagram_bytes:,} bytes, expected at most "
            f"{MAX_DATAGRAM:,}"
        )
    return made


def _is_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def _udp(load: LoadOptions, target: ListenSettings, local: bool) -> Sender:
    from ..capture.udp.sender import UdpSender

    if load.mac:
        raise HopscopeError("--mac: found without --interface")
    rate = load.rate / load.group
    return UdpSender(target.host, target.port, rate=rate, trains=load.trains, by_source=local)


def _ring(load: LoadOptions, target: ListenSettings, made: Load) -> Sender:
    import numpy as np

    from ..capture.ring.paced_sender import PacedSender, mac_from, mac_of

    if load.trains:
        raise HopscopeError("--trains: found with --interface, expected one of them")
    to = mac_from(load.mac) if load.mac else mac_of(target.host, load.interface)
    sender = PacedSender(load.interface, rate=load.rate / load.group)
    made.octets[:, :12] = np.frombuffer(to + sender.address, np.uint8)
    return sender


def _collector_at(settings: CollectorOptions, target: ListenSettings, *, anywhere: bool) -> Path | None:
    """Data folder of the collector that receives at this address: that of the settings, or, if they name no
    folder, any that runs here.
    """
    from ..memory.running import running_folders

    loaded = SettingsOptions.loaded(settings)
    folders = [loaded.settings.data, *([] if "data" in loaded.origins else running_folders())]
    return next((folder for folder in folders if _listens(folder, target, anywhere=anywhere)), None)


def _started(folder: Path | None) -> object:
    """When the collector of a folder started: then its counters began."""
    from ..memory.data_folder import read_owner

    return folder and read_owner(folder).get("started_ns")


def _listens(folder: Path, target: ListenSettings, *, anywhere: bool) -> bool:
    """Whether the collector of a folder receives at this address and port; `anywhere`: at any address.

    Besides this machine's addresses, that may be one of a listener in another network namespace.
    """
    anywhere = anywhere or _is_own(target.host)
    return any(
        each.kind in ("udp", "ring", "xdp")
        and each.port == target.port
        and (anywhere or each.host == target.host)
        for each in _listeners(folder)
    )


def _listeners(folder: Path) -> list[ListenSettings]:
    """What the collector of a folder listens to, in any network namespace; empty if none runs."""
    from ..memory.data_folder import read_owner
    from ..settings.source import parse

    owner = read_owner(folder)
    if not Path(owner.get("regions", "")).is_dir():  # its memory ends with it, the file does not
        return []
    return [parse(text) for text in owner.get("listen", ())]


def _is_own(host: str) -> bool:
    """Whether an IP address is one of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as tried:
        try:
            tried.bind((host, 0))
        except OSError:
            return False
    return True


def _taken(state: CollectorState, before: CounterSnapshot, sent: int, load: LoadOptions) -> dict[str, Any]:
    """What the collector took and lost, once it has processed all: every report has its place."""
    from ..detect.counters import INDEX

    until = time.monotonic() + WAIT_SECONDS
    now, same_since = state.counters(), time.monotonic()
    while time.monotonic() < until and time.monotonic() - same_since < SETTLE_SECONDS:
        time.sleep(SETTLE_SECONDS / 10)
        newer = state.counters()
        if newer["reports_total"] != now["reports_total"]:
            same_since = time.monotonic()
        now = newer
    received = now["reports_total"] - before["reports_total"]
    lost = {key: now[key] - before[key] for key in LOST if key != REJECTED}
    lost[REJECTED] = sum(now[key] - before[key] for key in INDEX if key.startswith("rejected_reports_total."))
    for key in OF_DATAGRAMS:
        lost[key] *= load.group
    missing = sent - received - sum(count for key, count in lost.items() if key != DETECTOR_LOST)
    if load.trains and lost[KERNEL_DROPS]:  # the kernel counts a train once
        lost[KERNEL_DROPS] += missing
        missing = 0
    lost = {key: count for key, count in lost.items() if count}
    return {"received": received, "lost": lost | ({"on_the_way": missing} if missing > 0 else {})}


def _print(result: dict[str, Any], load: LoadOptions) -> None:
    what = plural(result["sent"], "report")
    if load.group > 1:
        what += f", in {plural(result['datagrams'], 'datagram')}"
    print(
        f"sent      {what} of {result['datagram_bytes']} bytes to {load.to} in {result['seconds']:.1f} s: "
        f"{result['per_second']:,} per second"
    )
    if "events" in result:
        print(f"events    {result['events']:,} caused")
    if "restarted" in result:
        print("received  not known: the collector was restarted, and its counters began again")
    if "received" in result:
        share = f"{result['received'] / result['sent']:.1%}"
        if result["received"] > result["sent"]:
            share = "with those of other senders"
        print(f"received  {result['received']:,} ({share})")
        for key, count in result["lost"].items():
            print(f"lost      {count:,} {LOST.get(key, ON_THE_WAY)}")
