"""Figures beside other systems: INT-label 14 and 20 to 22."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from hopscope.fabric.labelling.rivals import RIVALS, int_path, pint
from hopscope.fabric.labelling.rivals.rival import Round
from hopscope.fabric.labelling.theory.plan import ITEM_BYTES, OPTION_BYTES
from hopscope.fabric.ports import Topology
from hopscope.fabric.topology import parse_topology
from hopscope.settings.label import LabellingSettings
from support.network.limited_links import QUEUE, lost

from . import label_counts
from .figures import Sheet, Stated, legend, percent
from .label_authors import apart, authors, beside, sending_time
from .label_runs import ALGORITHMS, COLORS

LIMITS = sorted(2**a * 5**b for a in range(16) for b in range(13) if 1e6 <= 2**a * 5**b <= 4e7)
"""Rates of links, bit/s, at which a byte lasts a whole number of ps."""
SHOWN = ("hula", "pingmesh", "int-path", "int-label")
AUTHORS = {"hula": "HULA", "pingmesh": "pingmesh", "int-path": "INT-path", "int-label": "INT-label"}
"""Their names of series in Figures 20 and 21."""
SOON = "HULA, probes exactly at the interval"


@cache
def limit(seed: int) -> int:
    """The lowest limit at which traffic alone loses nothing, bit/s."""
    return next(rate for rate in LIMITS if lost(rate, None, seed) == 0)


def _labelling(algorithm: str, interval: float) -> LabellingSettings:
    return LabellingSettings.model_validate({"algorithm": algorithm, "interval": interval})


def figure14(quick: bool) -> Sheet:
    """Loss of traffic where switches are as fast as traffic alone needs."""
    seeds = 2 if quick else 5
    intervals = [10, 100] if quick else [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    curves: dict[str, list[list[float]]] = {}
    for name, algorithm in ALGORITHMS.items():
        curves[name] = [
            [lost(limit(seed), _labelling(algorithm, t / 1e3), seed) for seed in range(1, seeds + 1)]
            for t in intervals
        ]
    for name, send in (("HULA", sending_time()), (SOON, 0.0)):
        curves[name] = [
            [lost(limit(seed), None, seed, t / 1e3 + send) for seed in range(1, seeds + 1)] for t in intervals
        ]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, found in curves.items():
            axes.errorbar(
                intervals, [100 * np.mean(one) for one in found], [100 * np.std(one) for one in found],
                marker="o", capsize=2, color=COLORS.get(name, "grey"), label=name,
            )  # fmt: skip
            beside(axes, authors(14, name), COLORS.get(name, "grey"), 100)
        axes.set_ylim(-1, 40)
        axes.set_xlabel("labelling or probing interval [ms]")
        axes.set_ylabel("traffic lost [%]")
        legend(axes, "lines: ours, diamonds: the authors")

    rows: list[dict[str, object]] = [
        {"curve": name, "interval_ms": t, "seeds": seeds}
        | {"lost": float(np.mean(one)), "lost_sd": float(np.std(one))}
        | {"lost_authors": authors(14, name).get(t, "")}
        for name, found in curves.items()
        for t, one in zip(intervals, found, strict=True)
    ]  # fmt: skip
    means = {name: [float(np.mean(one)) for one in found] for name, found in curves.items()}
    theirs, at = authors(14, "HULA"), (0, intervals.index(50) if 50 in intervals else 0, -1)
    points = 100 * apart(theirs, intervals, means["HULA"])
    most = max(float(np.mean(one)) for name in ALGORITHMS for one in curves[name])
    limits = " or ".join(f"{one:g}" for one in sorted({limit(s) / 1e6 for s in range(1, seeds + 1)}))
    stated = [
        Stated("HULA's loss, probing every 10, 50, 100 ms", "12 to 5 %",
               ", ".join(percent(means["HULA"][n]) for n in at),
               f"the interval is a pause between sends, and a send takes {1e3 * sending_time():.1f} ms: the "
               f"authors' 20 processes of a sender make {1 / sending_time():.0f} packets/s each. All eight "
               f"servers send probes, as in the published code. At most {points:.1f} points apart; probes "
               f"exactly at the interval lose {percent(means[SOON][0])} to {percent(means[SOON][-1])}. "
               f"Ports send {limits} Mbit/s, the least at which traffic alone loses nothing, from queues of "
               f"{QUEUE} packets, which the paper does not give",
               ", ".join(percent(list(theirs.values())[n]) for n in (0, 4, -1))),
        Stated("loss by Base A and B", "none", percent(most),
               f"the same limits; labels take {ITEM_BYTES} B each and {OPTION_BYTES} B a packet on "
               "links", "0.0 %"),
    ]  # fmt: skip
    return Sheet("figure14", "Fig. 14: loss where packets are limited", draw, rows, stated)


def _sizes(quick: bool) -> list[int]:
    return [4, 8, 10] if quick else [4, 6, 8, 10, 12, 14, 16, 20, 30]


@cache
def _fabric(k: int) -> Topology:
    return parse_topology(f"fat-tree:{k}")


MOST = int_path.hops_for_mtu(1500)
"""Switches that an INT-path probe passes at most."""


@cache
def _round(name: str, k: int) -> Round:
    return RIVALS[name].round(_fabric(k), **({"max_hops": MOST} if name == "int-path" else {}))


def figure20(quick: bool) -> Sheet:
    """Places that send probes."""
    sizes = _sizes(quick)
    counts = {name: [RIVALS[name].generators(_fabric(k)) for k in sizes] for name in SHOWN}
    counted = {name: [label_counts.generators(k)[name] for k in sizes] for name in SHOWN}

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, found in counts.items():
            title = RIVALS[name].title
            axes.plot(sizes, found, ":", color=COLORS[title])
            axes.plot(sizes, counted[name], color=COLORS[title], label=title)
            beside(axes, authors(20, AUTHORS[name]), COLORS[title])
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(bottom=-0.2)
        axes.set_xlabel("k of the fat tree")
        axes.set_ylabel("probe generators")
        title = (
            "lines: counted as the authors do,\ndotted: by each system's own paper,\ndiamonds: the authors"
        )
        legend(axes, title, loc="lower right", bbox_to_anchor=(1, 0.08))

    rows: list[dict[str, object]] = [
        {"k": k}
        | {name: found[n] for name, found in counts.items()}
        | {f"{name}_counted": found[n] for name, found in counted.items()}
        | {f"{name}_authors": authors(20, AUTHORS[name]).get(k, "") for name in SHOWN}
        for n, k in enumerate(sizes)
    ]
    at, ten = sizes.index(8), sizes.index(10)

    def each(found: dict[str, Any]) -> str:
        return ", ".join(f"{RIVALS[name].title} {value}" for name, value in found.items())

    stated = [
        Stated("generators at k = 10", "INT-label 0, Pingmesh most",
               each({n: counted[n][ten] for n in SHOWN}),
               "hosts are vertices of INT-path's graph, each with an odd number of links, and Pingmesh "
               "counts hosts and edge switches. By the systems' own papers: "
               f"{each({n: counts[n][ten] for n in SHOWN})}",
               each({n: f"{authors(20, AUTHORS[n])[10]:.0f}" for n in SHOWN})),
        Stated("INT-path without odd vertices", "1", str(counts["int-path"][at]),
               "k = 8, hosts are no vertices; where k/2 is odd as many as edge and aggregation switches "
               "with k/2 links"),
    ]  # fmt: skip
    return Sheet("figure20", "Fig. 20: probe generators", draw, rows, stated)


def figure21(quick: bool) -> Sheet:
    """Bandwidth for one view of the whole network."""
    sizes = _sizes(quick)
    bits = {name: [_round(name, k).link_bits for k in sizes] for name in SHOWN}
    counted = {name: [label_counts.megabits(k)[name] for k in sizes] for name in SHOWN}

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        for name, found in bits.items():
            title = RIVALS[name].title
            left.plot(sizes, counted[name], color=COLORS[title], label=title)
            beside(left, authors(21, AUTHORS[name]), COLORS[title])
            right.plot(sizes, 1e-6 * label_counts.ROUNDS * np.array(found), color=COLORS[title], label=title)
        for axes in (left, right):
            axes.set_yscale("log")
            axes.set_xlabel("k of the fat tree")
        left.set_ylabel("Mbit/s of 100 rounds a second")
        legend(left, "bytes as they arrive; diamonds: the authors")
        legend(right, "bytes on every link")

    rows: list[dict[str, object]] = [
        {"k": k}
        | {f"{name}_bits": found[n] for name, found in bits.items()}
        | {f"{name}_counted_mbps": found[n] for name, found in counted.items()}
        | {f"{name}_authors_mbps": authors(21, AUTHORS[name]).get(k, "") for name in SHOWN}
        for n, k in enumerate(sizes)
    ]
    more = [p / label - 1 for p, label in zip(bits["int-path"], bits["int-label"], strict=True)]
    most = [RIVALS[max(SHOWN, key=lambda name: bits[name][n])].title for n in range(len(sizes))]
    ten = sizes.index(10)
    theirs = {name: authors(21, AUTHORS[name])[10] for name in SHOWN}
    extra = counted["int-path"][ten] / counted["int-label"][ten] - 1
    spare = label_counts.hula_items_of_the_authors(10) / label_counts.hula_items(10) - 1

    def each(found: dict[str, float]) -> str:
        return ", ".join(f"{RIVALS[name].title} {value:,.4g}" for name, value in found.items())

    stated = [
        Stated("bandwidth at k = 10, Mbit/s", "highest: HULA", each({n: counted[n][ten] for n in SHOWN}),
               "bytes as they arrive, 100 rounds a second: a label of each port of each switch, 32 B; k³/4 "
               "probes of INT-path, 5 x 32 + 56 B; pings of 8 B between hosts of a rack and between edge "
               "switches; the items of HULA's copies, 32 B, of which the authors count those within a pod "
               f"k/2 times ({percent(spare)} too many). Pingmesh and HULA are exact at k = 10, 20, 30; half "
               "a byte per host remains unexplained in the others",
               each(theirs)),
        Stated("INT-path's bandwidth above INT-label's", "about 35 %", percent(extra),
               f"at every k, counted this way. Bytes on every link make it {percent(min(more), 0)} to "
               f"{percent(max(more), 0)} by k: INT-path carries 106 B, and 22 B a switch to the end of its "
               f"trail, cut to {MOST} switches (MTU 1500), INT-label 32 + 2 B to the last switch",
               percent(theirs["int-path"] / theirs["int-label"] - 1)),
        Stated("highest bandwidth, bytes on every link", "HULA",
               ", ".join(f"k = {k}: {name}" for k, name in zip(sizes, most, strict=True)),
               "Pingmesh: every server pings those of its rack and one of every other rack each round, 60 "
               "B frames"),
    ]  # fmt: skip
    return Sheet("figure21", "Fig. 21: bandwidth of one round", draw, rows, stated, 9.6)


OPTION, SWITCH_ID = 16, 8
"""Bits of INT OPTION, and of the switch id that path tracing needs (published code: `sw_id`)."""
PROBE = 8 * (14 + 20 + 8 + 16)
"""Bits in front of the items of a probe: Ethernet, IPv4, UDP, shim and header of INT-MD 2.1."""


def figure22(quick: bool) -> Sheet:
    """Packets and bits that are needed to learn the path of one flow."""
    hops = [2, 5] if quick else list(range(1, 11))
    trials = 50 if quick else 400
    traced = [pint.trace(n, trials=trials, seed=n) for n in hops]
    packets = {
        "INT-label": [1.0] * len(hops),
        "PINT": [one.mean for one in traced],
        "INT": [1.0] * len(hops),
    }
    bits = {
        "INT-label": [float(OPTION + SWITCH_ID * n) for n in hops],
        "PINT": [one.extra_bits for one in traced],
        "INT": [float(PROBE + SWITCH_ID * n) for n in hops],
    }
    errors = [float(one.packets.std() / np.sqrt(trials)) for one in traced]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for name in packets:
            bars = errors if name == "PINT" else None
            style = "x--" if name == "INT" else "o-"
            left.errorbar(hops, packets[name], bars, fmt=style, capsize=2, color=COLORS[name], label=name)
            wide = [16 * error for error in errors] if bars else None
            right.errorbar(hops, bits[name], wide, fmt=style, capsize=2, color=COLORS[name], label=name)
        left.set_ylabel("packets until the path is known, mean")
        right.set_ylabel("bits added to packets until then, mean")
        for axes in (left, right):
            axes.set_xlabel("switches on the path")
            axes.set_ylim(bottom=0)
            legend(axes)

    rows: list[dict[str, object]] = [
        {"hops": n} | {f"{name}_packets": packets[name][at] for name in packets}
        | {f"{name}_bits": bits[name][at] for name in bits} | {"PINT_packets_error": errors[at]}
        for at, n in enumerate(hops)
    ]  # fmt: skip
    five = hops.index(5)
    stated = [
        Stated("packets for one path, INT-label and INT", "1", "1", "a tracked flow (3.3)"),
        Stated("PINT's packets and bits", "grow with the hops",
               f"{packets['PINT'][0]:.1f} to {packets['PINT'][-1]:.1f} packets, {bits['PINT'][-1]:.0f} bits",
               f"2 digests of 8 bits; {hops[0]} to {hops[-1]} hops"),
        Stated("fewest bits", "INT-label", min(bits, key=lambda name: bits[name][five]),
               f"5 hops: {', '.join(f'{name} {bits[name][five]:.0f}' for name in bits)}; {SWITCH_ID} bits "
               f"of a switch id, as path tracing needs; with items of 32 B INT-label has {OPTION + 1280}"),
    ]  # fmt: skip
    return Sheet("figure22", "Fig. 22: the path of one flow", draw, rows, stated, 9.6)
