"""INT-label's figures about other systems: 14 loss, 20 generators, 21 bandwidth, 22 the path of a flow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hopscope.config_label import LabellingSettings
from hopscope.fabric.labelling.network import NetworkModel
from hopscope.fabric.labelling.rivals import RIVALS, hula, int_path
from hopscope.fabric.labelling.rivals.pint import trace
from hopscope.fabric.labelling.rivals.rival import ETHERNET, IPV4, ITEM, UDP, Probes
from hopscope.fabric.labelling.rivals.sampled_int import HEADERS
from hopscope.fabric.labelling.rivals.sources import probe_sources
from hopscope.fabric.labelling.simulation import LabelSimulation
from hopscope.fabric.labelling.sources import Sources, from_hosts, join
from hopscope.fabric.records import WIRE_OVERHEAD
from hopscope.fabric.topology import FatTree, Topology, parse_topology

from .figures import Sheet, Stated, legend, percent

SIZE = 1000
RATE = 5e6
"""Of each of the two senders, bit/s (6.1)."""
QUEUE = 5 * (SIZE + WIRE_OVERHEAD)
"""Five packets: `MAX_Q_Size` of the published HULA topology."""
LINKS: list[int] = sorted(
    rate for a in range(16) for b in range(13) if 1e6 < (rate := int(2**a * 5**b)) < 2e7
)
"""Rates at which a byte lasts whole ps, bit/s: the lowest without loss is that of links between switches."""


def limited(rate: int) -> Topology:
    """The 4-4-4 fabric with links of this rate between switches, as the published topology limits them."""
    topology = parse_topology("paper")
    ports = topology.ports
    ports["rate"][(ports["switch"] >= 0) & (ports["peer_switch"] >= 0)] = rate
    return topology


def background(topology: Topology) -> Sources:
    """Server 1 and server 8 to random others, at equal gaps."""
    return from_hosts(topology, (0, topology.hosts - 1), RATE, size=SIZE, random=False)


def lost(topology: Topology, sources: Sources, settings: LabellingSettings, seconds: float) -> float:
    """Share of the hosts' packets that full queues dropped."""
    model = NetworkModel(buffer_bytes=QUEUE)
    simulation = LabelSimulation(topology, sources, settings, network=model)
    simulation.run(seconds)
    counts = simulation.counts
    return counts.tail_drops / max(counts.emitted, 1)


def quiet(interval: float) -> LabellingSettings:
    """Base A."""
    return LabellingSettings(algorithm="base-a", interval=interval)


def lowest(seconds: float) -> int:
    """Lowest rate of links at which the traffic alone, unlabelled, loses nothing."""
    for rate in LINKS:
        topology = limited(rate)
        if lost(topology, background(topology), quiet(1e6), seconds) == 0:
            return rate
    raise SystemExit(f"traffic is lost at {LINKS[-1]} bit/s too")


def by_packets(probes: Probes) -> Probes:
    """Probes that take a queue as long as a packet of traffic: bmv2's queues have a rate in packets/s."""
    return replace(probes, size=SIZE, item=0)


def figure14(quick: bool) -> Sheet:
    """Packets lost by interval, where links are as slow as traffic alone allows."""
    seconds = 5.0 if quick else 60.0
    rate = lowest(seconds)
    topology = limited(rate)
    rows: list[dict[str, object]] = []
    for interval in (0.01, 0.02, 0.05, 0.1) if quick else tuple(ms / 1000 for ms in range(10, 101, 10)):
        traffic = background(topology)
        flooded = hula.probes(topology)
        probes = probe_sources(topology, flooded, interval)
        alike = probe_sources(topology, by_packets(flooded), interval)
        rows.append(
            {
                "interval_ms": 1e3 * interval, "link_bps": rate,
                "base_a": lost(topology, traffic, quiet(interval), seconds),
                "base_b": lost(topology, traffic, LabellingSettings(interval=interval), seconds),
                "hula": lost(topology, join(traffic, probes), quiet(1e6), seconds),
                "hula_by_packets": lost(topology, join(traffic, alike), quiet(1e6), seconds),
            }
        )  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        x = [float(str(r["interval_ms"])) for r in rows]
        for key, name, style in (
            ("hula_by_packets", "HULA, queues that serve packets/s", "o-"),
            ("hula", "HULA, queues that serve bit/s", "o--"), ("base_a", "Base A", "s-"),
            ("base_b", "Base B", "x--"),
        ):  # fmt: skip
            axes.plot(x, [100 * float(str(r[key])) for r in rows], style, label=name)
        axes.set_xlabel("labelling or probing interval [ms]")
        axes.set_ylabel("packets lost [%]")
        legend(axes, f"links of {rate / 1e6:g} Mbit/s, queues of 5 packets")

    first, last = rows[0], rows[-1]
    most = max(float(str(r[key])) for r in rows for key in ("base_a", "base_b"))
    return Sheet(
        "figure14", "Fig. 14: loss that telemetry causes", draw, rows,
        [Stated("HULA's loss at 10 and 100 ms", "12 and 5 %",
                f"{percent(float(str(first['hula_by_packets'])))} and "
                f"{percent(float(str(last['hula_by_packets'])))}; "
                f"by bits {percent(float(str(first['hula'])))}",
                f"slowest links without loss of traffic alone, {rate / 1e6:g} Mbit/s: the paper does not say "
                "its rate. bmv2's queues serve packets/s, so that a short probe costs as much as a packet"),
         Stated("INT-label's loss", "0", percent(most), "highest of both, all intervals")],
    )  # fmt: skip


SIZES = (4, 6, 8, 10, 12, 14, 16, 18, 20)


def figure20(quick: bool) -> Sheet:
    """Generators of probes by size of the fat tree."""
    rows: list[dict[str, object]] = []
    for k in SIZES[:3] if quick else SIZES:
        topology = FatTree(k)
        rows.append(
            {"k": k, **{name: RIVALS[name].generators(topology) for name in NEEDING},
             "int-path, 64 hops": int_path.cost(topology, most=64).generators}
        )  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name in (*NEEDING, "int-path, 64 hops"):
            title = RIVALS[name].title if name in RIVALS else "INT-path, trails of 64 hops"
            axes.plot([r["k"] for r in rows], [r[name] for r in rows], "o-", label=title)
        axes.set_yscale("symlog")
        axes.set_xlabel("k")
        axes.set_ylabel("generators of probes")
        legend(axes)

    return Sheet(
        "figure20", "Fig. 20: generators of probes", draw, rows,
        [Stated("INT-label", "0", "0"),
         Stated("INT-path, k/2 even and odd", "1; 2k for 2k odd vertices", "1; k²/2",
                "k²/2 edge switches have an odd number of links; INT-path has half as many trails")],
    )  # fmt: skip


NEEDING = ("int-label", "int-path", "hula", "pingmesh")
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "INT-label": ("int-label", {"labels": 2.0}),
    "INT-path, one way": ("int-path", {}),
    "INT-path, both ways, 64 hops": ("int-path", {"both_ways": True, "most": 64}),
    "HULA": ("hula", {}),
    "Pingmesh": ("pingmesh", {}),
    "sampled INT, 99 %": ("sampled-int", {}),
}
"""What Fig. 21 compares: T_i / T = 2 as in 6.1, and one round of probes in T_i."""


def figure21(quick: bool) -> Sheet:
    """Bits on all links in a telemetry interval."""
    rows: list[dict[str, object]] = []
    for k in SIZES[:3] if quick else SIZES:
        topology = FatTree(k)
        costs = {title: RIVALS[name].round(topology, **how) for title, (name, how) in FORMS.items()}
        rows.append({"k": k, **{title: cost.link_bits for title, cost in costs.items()}})

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for title in FORMS:
            axes.plot([r["k"] for r in rows], [float(str(r[title])) / 1e6 for r in rows], "o-", label=title)
        axes.set_yscale("log")
        axes.set_xlabel("k")
        axes.set_ylabel("Mbit on all links in a telemetry interval")
        legend(axes)

    more = [float(str(r["INT-path, one way"])) / float(str(r["INT-label"])) - 1 for r in rows]
    return Sheet(
        "figure21", "Fig. 21: bandwidth", draw, rows,
        [Stated("INT-path's bandwidth above INT-label's", "about 35 %",
                ", ".join(f"{100 * m:+.0f} % at k = {r['k']}" for m, r in zip(more, rows, strict=True)),
                "probes grow by 22 B a hop, so bandwidth goes with the square of a trail's length, which the "
                "paper does not state")],
    )  # fmt: skip


def figure22(quick: bool) -> Sheet:
    """Packets and bits until the path of one flow is known."""
    rows: list[dict[str, object]] = []
    trials = 50 if quick else 500
    for hops in range(2, 13):
        pint = trace(hops, trials=trials)
        around = 8 * (ETHERNET + IPV4 + UDP + HEADERS)
        rows.append(
            {"hops": hops, "pint_packets": pint.mean, "int_label_packets": 1, "int_packets": 1,
             "pint_bits": pint.extra_bits, "int_label_bits": 16 + 8 * ITEM * hops,
             "int_bits": around + 8 * ITEM * hops, "int_label_bits_ids": 16 + 32 * hops,
             "int_bits_ids": around + 32 * hops,
             "standard_error": float(pint.packets.std() / np.sqrt(trials))}
        )  # fmt: skip

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        x = [int(str(r["hops"])) for r in rows]
        for key, name, style in (
            ("pint", "PINT, 16 bits", "o-"), ("int_label", "INT-label", "s-"), ("int", "INT", "x--"),
        ):  # fmt: skip
            left.plot(x, [float(str(r[f"{key}_packets"])) for r in rows], style, label=name)
            ids = "" if key == "pint" else "_ids"
            right.plot(x, [float(str(r[f"{key}_bits{ids}"])) for r in rows], style, label=name)
        right.plot(
            x, [float(str(r["int_label_bits"])) for r in rows], ":C1", label="INT-label, items of 32 B"
        )
        left.set_ylabel("packets")
        right.set_ylabel("extra bits")
        right.set_yscale("log")
        for axes in (left, right):
            axes.set_xlabel("hops")
        legend(left)
        legend(right, "ids of 4 bytes")

    five = next(r for r in rows if r["hops"] == 5)
    return Sheet(
        "figure22", "Fig. 22: the path of one flow", draw, rows,
        [Stated("packets of PINT, 5 hops", "grow with hops", f"{float(str(five['pint_packets'])):.1f}",
                "two digests of 8 bits, chances of the published code; ids of the path itself"),
         Stated("fewest extra bits", "INT-label",
                f"5 hops: PINT {float(str(five['pint_bits'])):.0f}, INT-label {five['int_label_bits_ids']} "
                f"for ids of 4 bytes, {five['int_label_bits']} with items of 32",
                "PINT's digests name switches and nothing else")],
        width=9.0,
    )  # fmt: skip
