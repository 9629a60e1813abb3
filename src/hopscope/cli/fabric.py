"""`hopscope fabric`: a small fabric of real packets on this machine, whose switches label them."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .options import ConfigOption, SetOption, load
from .output import Format, FormatOption, Printer, until_reader_leaves
from .running import until_stopped

if TYPE_CHECKING:
    from ..config_label import FollowSettings
    from ..fabric.topology import Topology
    from ..testbed.fabric import Host, Plan

app = typer.Typer(
    help="A small fabric of network namespaces, whose switches label real packets. Needs root.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
NameOption = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Of the fabric: several may be up at once.")
]
STATUS_COLUMNS = (
    "switch", "port", "to", "frames/s", "labels/s", "frames", "labels", "restored", "S", "loss", "dropped",
)  # fmt: skip

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TELL_SECONDS = 30.0
COVERAGE_SECONDS = 10.0
"""Of the newest telemetry intervals, whose coverage `status` tells."""


@app.command()
def up(
    topology: Annotated[
        str,
        typer.Option(
            "--topology", "-t", metavar="FABRIC", help="leaf-spine:LxSxHOSTS, fat-tree:K, or paper: 4-4-4."
        ),
    ] = "leaf-spine:2x2x2",
    interval: Annotated[
        str | None,
        typer.Option(
            "--interval", metavar="TIME", help="T, as 50ms (label.labelling.interval).", show_default=False
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm", metavar="NAME", help="base-a or base-b (label.labelling.algorithm).",
            show_default=False,
        ),
    ] = None,
    adaptive: Annotated[
        str | None,
        typer.Option(
            "--adaptive", metavar="MODE", help="off, shift or one-bit (label.adaptive.mode).",
            show_default=False,
        ),
    ] = None,
    telemetry: Annotated[
        str | None,
        typer.Option(
            "--telemetry", metavar="TIME", help="Telemetry interval, as 100ms (label.telemetry).",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        list[str] | None,
        typer.Option(
            "--follow", metavar="SRC:DST[:EVERY]",
            help="A flow by hosts or addresses, of which all switches label one packet of so many (100). "
            "Repeatable.",
            show_default=False,
        ),
    ] = None,
    page: Annotated[
        int, typer.Option("--page", metavar="PORT", help="Of the live page; the next free one from here.")
    ] = 8080,
    inner_mtu: Annotated[
        int | None,
        typer.Option(
            "--inner-mtu", metavar="BYTES", min=1500, max=9000,
            help="MTU between switches; without, the hosts' and room for all labels.", show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", "-d", metavar="FOLDER", help="Data folder of the collector, which stays.",
            show_default="one that goes with the fabric",
        ),
    ] = None,
    name: NameOption = "fabric",
    config: ConfigOption = None,
    overrides: SetOption = None,
) -> None:  # fmt: skip
    """Start hosts, labelling switches and a collector, and come back when all of it works.

    It runs until `hopscope fabric down`. Exit status 2: it could not start, and nothing is left of it.
    """
    from ..fabric.topology import parse_topology
    from ..testbed.namespaces import require_root
    from ..testbed.running import COLLECTOR_SETTINGS, Wanted
    from ..testbed.running import up as start
    from ..testbed.state import check_name
    from .demo_processes import free_http_port

    require_root()
    flags: list[tuple[str, str, Any]] = [
        ("--interval", "label.labelling.interval", interval and seconds_of("--interval", interval)),
        ("--algorithm", "label.labelling.algorithm", algorithm),
        ("--adaptive", "label.adaptive.mode", adaptive),
        ("--telemetry", "label.telemetry", telemetry and seconds_of("--telemetry", telemetry)),
        ("--page", "serve.port", free_http_port(page)),
    ]
    defaults = [*(f"{key}={value}" for key, value in COLLECTOR_SETTINGS.items()), *(overrides or ())]
    settings = load(config, defaults, flags).settings
    # reports may come too, to any free port: another collector has the usual one
    settings = settings.model_copy(
        update={"listen": (settings.listen[0].model_copy(update={"port": 0, "workers": 1}),)}
    )
    fabric = parse_topology(topology)
    label = settings.label
    followed = tuple(one for text in follow or () for one in _followed(text, fabric))
    settings = settings.model_copy(
        update={"label": label.model_copy(update={"follow": (*label.follow, *followed)})}
    )
    wanted = Wanted(fabric, settings, check_name(name), data, inner_mtu)
    with _Waiting() as waiting:
        made = start(wanted, waiting.tell, waiting.turn)
    parts = made.plan()
    print(f"{made.topology}: {len(parts.topology.switches)} switches, {len(parts.hosts)} hosts, "
          f"{len(parts.ports)} switch ports; a label every {made.interval * 1000:g} ms and port")  # fmt: skip
    with until_reader_leaves():
        printer = Printer(Format.TABLE, ("host", "address", "ipv6", "at"))
        printer.put(_host_rows(parts))
        printer.flush()
    also = "" if name == "fabric" else f" --name {name}"
    first, last = parts.hosts[0], parts.hosts[-1]
    print(f"page    {made.page or 'none'}")
    print(f"try     hopscope fabric traffic udp{also}")
    print(f"        hopscope fabric status{also}")
    print(f"        ip netns exec {first.namespace} ping {last.ipv4}")
    print(f"        ip netns exec {parts.switches} tshark -i {parts.ports[-1].interface} ip proto 253")
    print(f"end     hopscope fabric down{also}")


class _Waiting:
    """Tells what a long start is about and how long it has taken; a signal ends it by KeyboardInterrupt."""

    def __init__(self) -> None:
        self._alive = sys.stderr.isatty()
        self._began = self._shown = time.monotonic()

    def __enter__(self) -> _Waiting:
        self._before = {number: signal.signal(number, self._end) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        if self._alive:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _end(self, *_: object) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # once is enough: what was made is being removed
        raise KeyboardInterrupt

    def tell(self, line: str) -> None:
        """Something begins."""
        self._text = line
        if self._alive:
            self._show()
        else:
            print(f"hopscope: {line}", file=sys.stderr, flush=True)

    def turn(self) -> None:
        """It goes on."""
        if time.monotonic() - self._shown < (1 if self._alive else _TELL_SECONDS):
            return
        if self._alive:
            self._show()
        else:
            self._shown = time.monotonic()
            print(f"hopscope: {self._shown - self._began:.0f} s so far", file=sys.stderr, flush=True)

    def _show(self) -> None:
        self._shown = time.monotonic()
        passed = self._shown - self._began
        print(f"\r\033[Khopscope: {passed:3.0f} s  {self._text}", end="", file=sys.stderr, flush=True)


def _followed(text: str, topology: Topology) -> list[FollowSettings]:
    """A flow of `--follow`: of hosts by name, those of both IP versions. Raises HopscopeError."""
    from ..config_label import FollowSettings
    from ..errors import HopscopeError
    from ..testbed.fabric import plan

    parts = plan(topology, "followed", max_hop=2)
    hosts = {host.name: (host.ipv4, host.ipv6) for host in parts.hosts}
    found = re.fullmatch(r"(\[[^]]+\]|[^:[]+):(\[[^]]+\]|[^:[]+)(?::(\d{1,9}))?", text)
    if found is None:
        raise HopscopeError(f"--follow {text}: expected SRC:DST[:EVERY], as host-0-0:host-1-0:10")
    one, other = (hosts.get(end, (end.strip("[]"),)) for end in found.groups()[:2])
    every = int(found[3] or 100)
    try:
        pairs = zip(one, other, strict=False)  # of an address and a host, the first of its addresses
        return [FollowSettings(src=src, dst=dst, every=every) for src, dst in pairs]
    except ValueError as error:
        raise HopscopeError(
            f"--follow {text}: found {found[1]} and {found[2]}, expected two hosts of the fabric, or two "
            "addresses of one version, and 1 or more packets"
        ) from error


def _host_rows(parts: Plan) -> list[dict[str, Any]]:
    switch_of = parts.topology.host_switch
    return [
        {
            "host": host.name,
            "address": host.ipv4,
            "ipv6": host.ipv6,
            "at": parts.topology.switches[int(switch_of[number])].name,
        }
        for number, host in enumerate(parts.hosts)
    ]


@app.command()
def traffic(
    kind: Annotated[
        Literal["udp", "tcp", "ping"],
        typer.Argument(
            metavar="KIND", help="udp: datagrams to random hosts; tcp: iperf3; ping: from one host to all."
        ),
    ] = "udp",
    rate: Annotated[
        str, typer.Option("--rate", metavar="RATE", help="udp: of each sender, as 5M, bit/s of IP packets.")
    ] = "5M",
    size: Annotated[int, typer.Option("--size", metavar="BYTES", help="udp: of a packet.")] = 1000,
    seconds: Annotated[
        float, typer.Option("--seconds", "-s", metavar="S", min=0, help="How long; 0: until Ctrl-C.")
    ] = 10.0,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from", metavar="HOST", help="Who sends; repeatable, `all`: every host.",
            show_default="the first and the last host",
        ),
    ] = None,
    ipv6: Annotated[bool, typer.Option("--ipv6", "-6", help="IPv6.")] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="udp: of the choice of hosts.")] = 1,
    name: NameOption = "fabric",
    form: FormatOption = Format.TABLE,
) -> None:  # fmt: skip
    """Send ordinary traffic between the hosts, and tell what arrived.

    Exit status 1: something was lost.
    """
    from ..testbed.namespaces import require_root
    from ..testbed.state import running

    require_root()
    parts = running(name).plan()
    version = 6 if ipv6 else 4
    senders = _hosts(parts, source)
    if kind == "udp":
        rows, lost = _datagrams(parts, senders, _rate(rate), size, seconds, version, seed)
    else:
        rows, lost = _pairs(kind, parts, senders, seconds, version)
    with until_reader_leaves():
        printer = Printer(form, tuple(rows[0]) if rows else ())
        printer.put(rows)
        printer.flush()
    raise typer.Exit(int(lost))


def _datagrams(
    parts: Plan, senders: list[Host], rate: float, size: int, seconds: float, version: int, seed: int
) -> tuple[list[dict[str, Any]], bool]:
    from ..testbed.traffic import Datagrams, send_datagrams

    with until_stopped() as stop:
        told = send_datagrams(parts, senders, Datagrams(rate, size, version, seed), seconds, stop)
    rows: list[dict[str, Any]] = [
        {
            "host": one.host,
            "sent": one.sent,
            "Mbit/s": round(one.sent * size * 8 / one.seconds / 1e6, 2) if one.seconds else 0.0,
            "received": one.received,
        }
        for one in told
    ]
    sent, received = sum(one.sent for one in told), sum(one.received for one in told)
    print(
        f"hopscope: {sent:,} packets sent, {received:,} received, {sent - received:,} lost", file=sys.stderr
    )
    return rows, received < sent


def _pairs(
    kind: str, parts: Plan, senders: list[Host], seconds: float, version: int
) -> tuple[list[dict[str, Any]], bool]:
    from ..testbed.traffic import iperf, ping

    if kind == "tcp":
        client, server = senders[0], next(host for host in reversed(parts.hosts) if host is not senders[0])
        end = iperf(client, server, version=version, seconds=seconds or 10)
        row = {
            "from": client.name,
            "to": server.name,
            "bytes": end["sum_received"]["bytes"],
            "Mbit/s": round(end["sum_received"]["bits_per_second"] / 1e6, 1),
            "retransmits": end["sum_sent"].get("retransmits", 0),
        }
        return [row], False
    rows: list[dict[str, Any]] = []
    lost = False
    for server in parts.hosts:
        if server is not senders[0]:
            answers, mean = ping(senders[0], server, version=version)
            lost |= answers < 3
            told = {"from": senders[0].name, "to": server.name}
            rows.append({**told, "answers": f"{answers}/3", "ms": round(mean * 1e3, 2)})
    return rows, lost


def _hosts(parts: Plan, names: list[str] | None) -> list[Host]:
    """The hosts of these names. Raises HopscopeError."""
    from ..testbed.fabric import TestbedError

    known = {host.name: host for host in parts.hosts}
    if names is None:
        return [parts.hosts[0], parts.hosts[-1]]
    if "all" in names:
        return list(parts.hosts)
    for name in names:
        if name not in known:
            raise TestbedError(f"--from {name}: expected a host, one of {', '.join(list(known)[:8])} …")
    return [known[name] for name in names]


@app.command()
def status(
    over: Annotated[
        float, typer.Option("--over", metavar="S", min=0.1, max=60, help="Rates are those of so long.")
    ] = 1.0,
    name: NameOption = "fabric",
    form: FormatOption = Format.TABLE,
) -> None:
    """Show what every port of every switch does; coverage, as the controller measures it, goes to stderr.

    Exit status 1: one of the fabric's processes has ended.
    """
    from ..testbed.process import last_words
    from ..testbed.registers import Registers
    from ..testbed.state import running
    from ..testbed.status import coverage, port_rows

    state = running(name)
    registers = Registers.attach(state.registers)
    before, since = registers.counters.copy(), time.monotonic()
    time.sleep(over)
    rows = port_rows(state.plan(), registers, before, time.monotonic() - since)
    ended = [role for role, runs in state.running().items() if not runs]
    with until_reader_leaves():
        printer = Printer(form, STATUS_COLUMNS)
        printer.put(rows)
        printer.flush()
    told = coverage(state, COVERAGE_SECONDS)
    if told is not None:
        share, intervals = told
        text = f"{share:.2%} in {intervals} telemetry intervals" if intervals else "none: no traffic"
        print(f"hopscope: coverage of the last {COVERAGE_SECONDS:g} s: {text}", file=sys.stderr)
    for role in ended:
        print(f"hopscope: the {role} ended: {last_words(state, role)}", file=sys.stderr)
    raise typer.Exit(int(bool(ended)))


@app.command()
def loss(
    switch: Annotated[str, typer.Argument(metavar="SWITCH", help="Its name or number, as leaf-0.")],
    port: Annotated[int, typer.Argument(metavar="PORT", help="Number of its port, as `status` shows.")],
    share: Annotated[float, typer.Argument(metavar="SHARE", help="Of the frames, 0 to 1; 0: none again.")],
    name: NameOption = "fabric",
) -> None:
    """Lose a share of the frames that a port sends, from now on."""
    from ..testbed.namespaces import require_root
    from ..testbed.registers import Registers
    from ..testbed.state import running

    require_root()
    state = running(name)
    topology = state.plan().topology
    row = topology.port_row(switch, port)
    registers = Registers.attach(state.registers, writable=True)
    registers.set_loss(int(topology.ports[row]["node_id"]), port, share)
    print(f"{topology.switch_name(int(topology.ports[row]['node_id']))} port {port} "
          f"({topology.port_name(row)}) loses {share:.1%} of its frames")  # fmt: skip


@app.command()
def down(
    name: NameOption = "fabric",
    every: Annotated[bool, typer.Option("--all", help="Every fabric of this machine.")] = False,
) -> None:
    """End a fabric: its processes, namespaces and folder, whatever state it is in; tell what was removed.

    Programs that were started in its namespaces end too.
    """
    from ..testbed.namespaces import require_root
    from ..testbed.running import down as remove
    from ..testbed.state import check_name, names

    require_root()
    for one in names() if every else [check_name(name)]:
        removed = remove(one)
        print(f"{one}: removed {removed}" if removed else f"{one}: nothing was there")


def seconds_of(flag: str, text: str) -> float:
    """A time as `50ms`, `0.05s` or `0.05`, s. Raises HopscopeError."""
    from ..errors import HopscopeError

    for unit, factor in (("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("", 1.0)):
        if text.endswith(unit):
            try:
                return float(text.removesuffix(unit)) * factor
            except ValueError:
                break
    raise HopscopeError(f"{flag} {text}: expected a time, as 50ms or 0.05s")


def _rate(text: str) -> float:
    from .simulate import parse_rate

    return parse_rate(text)
