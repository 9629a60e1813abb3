"""`hopscope plan int`: what INT adds to packets and links, and how many reports result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...base.errors import HopscopeError
from ...base.quantities import bit_rate, per_second
from ..options.declare import Options, option
from ..output.printer import Summary
from .options import PlanOutput

if TYPE_CHECKING:
    from ...fabric.overhead import IntDemand


@dataclass(frozen=True)
class IntOptions(Options):
    """What switches write."""

    title: ClassVar = "INT"

    mode: str = option(
        "--mode MODE", "md: packets collect the path; mx, xd: every switch reports each packet (2.0).", "md"
    )
    version: str = option("--report-version VERSION", "0.5, 1.0 or 2.0.", "2.0")
    fields: str = option(
        "--fields FIELDS",
        "What a switch writes, such as node_id,ports,hop_latency,queue_occupancy.",
        "",
        show_default="all",
    )
    hops: int = option("--hops HOPS", "Switches on the longest path.", 5)
    sample: float = option("--sample N", "One of N packets carries INT, or, with xd, is reported.", 1)
    mtu: int = option("--mtu BYTES", "Largest IP packet of the links.", 1500)


@dataclass(frozen=True)
class TrafficOptions(Options):
    """The packets that enter at the sources of INT."""

    title: ClassVar = "Traffic"

    traffic: str | None = option(
        "--traffic BITS",
        "Traffic that enters the network at its INT sources, such as 400G.",
        show_default="10G",
    )
    packets: str | None = option("--packets RATE", "The same in packets, such as 50M/s.")
    size: float = option("--size BYTES", "Mean IP bytes of a packet.", 800)


@dataclass(frozen=True)
class ReportOptions(Options):
    """The reports."""

    title: ClassVar = "Reports"

    reported: float = option(
        "--reported SHARE", "Share of packets with INT that switches report, if they filter.", 1
    )
    copied: int = option("--copied BYTES", "Bytes of the packet in a report, without INT.", 42)
    group: int = option("--group N", "Reports in a datagram, 1 to 8 (2.0).", 1)


def overhead(what: IntOptions, traffic: TrafficOptions, reports: ReportOptions, output: PlanOutput) -> None:
    """What INT adds to packets and links, the MTU that it needs, and how many reports result.

    The sizes are exact, for TCP and UDP over Ethernet. `plan cluster` takes the rate of reports.
    """
    from dataclasses import asdict

    from ...fabric.overhead import plan_int

    plan = plan_int(_demand(what, traffic, reports))
    if output.plot is not None:
        from .overhead_view import save

        save(output.plot, plan)
    if output.form is Summary.JSON:
        more = {"report_hops": plan.report_hops, "report_bits": plan.report_bits, "growth": plan.growth}
        print(json.dumps(asdict(plan) | more))
    else:
        from .overhead_view import show

        show(plan)


def _demand(what: IntOptions, traffic: TrafficOptions, reports: ReportOptions) -> IntDemand:
    """Raises HopscopeError."""
    from ...fabric.overhead import IntDemand, wire_bytes

    if traffic.packets is None:
        bits = bit_rate("--traffic", traffic.traffic or "10G")
        packets = bits / 8 / wire_bytes(max(traffic.size, 1))
    elif traffic.traffic is None:
        packets = per_second("--packets", traffic.packets)
    else:
        raise HopscopeError("--traffic and --packets exclude each other")
    return IntDemand(
        mode=what.mode,
        version=what.version,
        fields=tuple(name.strip() for name in what.fields.split(",") if name.strip()),
        hops=what.hops,
        packets=packets,
        size=traffic.size,
        sample=what.sample,
        reported=reports.reported,
        mtu=what.mtu,
        copied=reports.copied,
        group=reports.group,
    )
