"""Labels by packet: INT-label's section 4.3 against the simulation, and where its independence breaks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from harness.common import Bench
from harness.figures import Sheet, legend
from harness.label_measured import (
    apart,
    forms,
    labelling,
    measure,
    on_these_routes,
    towards_hosts,
    traffic,
)
from hopscope.fabric.labelling.theory import closed_forms as theory
from hopscope.fabric.labelling.theory.mean_field import labels_on_fat_tree
from hopscope.fabric.topology import FatTree, parse_topology

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "images" / "label"
ALGORITHMS: dict[str, str | None] = {"Base A": None, "Base B": "f1"}
WAYS = {"paper": "C3", "paper, linear g": "C1", "paper, renewal g": "C3", "ports with memory": "C0"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, help="folder; default docs/images/label, --quick: bench/out")


def distributions(bench: Bench) -> Sheet:
    """k = 4, 8, 16 and both algorithms: every formula's largest difference from the simulation."""
    packets = 60_000 if bench.quick else 3_000_000
    sizes = (4, 8) if bench.quick else (4, 8, 16)
    rows: list[dict[str, object]] = []
    for k in sizes:
        topology = FatTree(k)
        for algorithm, chance in [*ALGORITHMS.items(), ("Base B, F2", "f2"), ("Base B, F3", "f3")]:
            for ratio in (0.01, 0.1):
                found = measure(topology, traffic(topology, ratio), labelling(chance), packets)
                every = forms(k, ratio, chance)
                for name, form in every.items():
                    worst = apart(found.labels, form)
                    case: dict[str, object] = {
                        "k": k, "algorithm": algorithm, "T_s/T": ratio, "formula": name,
                    }  # fmt: skip
                    note = f"labelled: {1 - found.labels[0]:.4f} measured, {1 - form[0]:.4f} by formula"
                    if chance in ALGORITHMS.values():
                        bench.row(case, worst, "probability", note)
                    rows += [
                        {**case, "labels": s, "measured": float(found.labels[s]), "computed": float(form[s]),
                         "packets": found.packets}
                        for s in range(6)
                    ]  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots(2, len(sizes), sharey="row")
        for row, algorithm in enumerate(ALGORITHMS):
            for column, k in enumerate(sizes):
                one = axes[row][column]
                shown = [
                    r
                    for r in rows
                    if (r["k"], r["algorithm"], r["T_s/T"]) == (k, algorithm, 0.01) and r["labels"]
                ]
                for number, name in enumerate(dict.fromkeys(str(r["formula"]) for r in shown)):
                    form = [r for r in shown if r["formula"] == name]
                    if number == 0:
                        one.bar(
                            [int(str(r["labels"])) for r in form], [float(str(r["measured"])) for r in form],
                            color="0.8", label="simulation",
                        )  # fmt: skip
                    one.plot(
                        [int(str(r["labels"])) for r in form], [float(str(r["computed"])) for r in form],
                        "o-" if name == "ports with memory" else "s--", color=WAYS[name], label=name,
                    )  # fmt: skip
                one.set_yscale("log")
                one.set_ylim(1e-7 if algorithm == "Base A" else 1e-4, 1)
                one.set_title(f"{algorithm}, k = {k}", fontsize=9)
                if row:
                    one.set_xlabel("labels")
            axes[row][0].set_ylabel("share of packets")
            axes[row][0].legend(fontsize=6)

    return Sheet(
        "theory-distribution", "Labels by packet at T_s / T = 0.01", draw, rows, width=9.0
    )  # fmt: skip


def constant(count: int, max_hop: int, elapsed: float, interval: float) -> float:
    """A chance that is the same for all packets: it says what g is."""
    return 0.5 * (5.0 / max_hop) ** 2


def measured_g(bench: Bench) -> Sheet:
    """Ports whose packets are all labelled by the same chance f: how many find the interval run out."""
    topology, ratio = FatTree(4), 0.05
    packets = 60_000 if bench.quick else 3_000_000
    rows: list[dict[str, object]] = []
    for knob in (50, 35, 25, 16, 11, 8, 6, 5):
        f = constant(0, knob, 0.0, 1.0)
        found = measure(
            topology, traffic(topology, ratio), labelling("f1", knob), packets, chance=constant
        )  # fmt: skip
        ports = towards_hosts(topology)
        share = float((found.share[ports] * found.passed[ports]).sum() / found.passed[ports].sum())
        run_out = (share - f) / (1 - f)
        rows.append(
            {"f": f, "measured": run_out * (1 - f), "renewal": theory.renewal_g(f, ratio),
             "linear": theory.linear_g(f, ratio)}
        )  # fmt: skip
        bench.row(
            {"f": round(f, 4), "T_s/T": ratio}, run_out * (1 - f), "g measured",
            f"renewal {theory.renewal_g(f, ratio):.3g}, linear {theory.linear_g(f, ratio):.3g}",
        )  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        fine = np.geomspace(0.005, 0.6, 100)
        axes.plot(fine, [theory.renewal_g(x, ratio) for x in fine], label="renewal g: ours")
        axes.plot(fine, [theory.linear_g(x, ratio) for x in fine], "--", label="linear g: published code")
        axes.plot(
            [float(str(r["f"])) for r in rows],
            [float(str(r["measured"])) for r in rows],
            "ko",
            label="simulation",
        )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(1e-6, 0.1)
        axes.set_xlabel("f: chance of a label by count, the same for all packets")
        axes.set_ylabel("g: chance of a label by interval")
        legend(axes, f"T_s / T = {ratio}")

    return Sheet("theory-g", "What a label by chance leaves to the interval", draw, rows)


CASES: dict[str, dict[str, Any]] = {
    "all to all, random gaps": {},
    "all to all, equal gaps": {"random": False},
    "16 destinations each": {"destinations": 16},
    "4 destinations each": {"destinations": 4},
    "1 destination each": {"destinations": 1},
    "1 destination each, equal gaps": {"destinations": 1, "random": False},
    "all to all, switches started together": {"together": True},
}


def breaks(bench: Bench) -> Sheet:
    """Traffic that mixes less and less: formulas of exactly these routes, so only independence is left."""
    packets = 60_000 if bench.quick else 2_000_000
    rows: list[dict[str, object]] = []
    for place, names in (("fat-tree:8", list(CASES)), ("paper", ["all to all, random gaps"])):
        topology = parse_topology(place)
        for name in names:
            for algorithm, chance in ALGORITHMS.items():
                senders = 1 if place == "paper" else None
                how = dict(CASES[name])
                together = how.pop("together", False)
                sources = traffic(topology, 0.01, senders, **how)
                found = measure(topology, sources, labelling(chance), packets, together=together)
                form = on_these_routes(topology, sources, chance).labels[:6]
                worst = apart(found.labels, form)
                several = float(found.labels[2:].sum()), float(form[2:].sum())
                case = "one sender, 4-4-4" if senders else name
                rows.append(
                    {"traffic": case, "algorithm": algorithm, "apart": worst, "several_measured": several[0],
                     "several_computed": several[1], "packets": found.packets}
                )  # fmt: skip
                bench.row(
                    {"traffic": case, "algorithm": algorithm}, worst, "probability",
                    f"two labels or more: {several[0]:.2e} measured, {several[1]:.2e} if independent",
                )  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        cases = list(dict.fromkeys(str(r["traffic"]) for r in rows))
        for offset, algorithm in ((-0.2, "Base A"), (0.2, "Base B")):
            shown = [r for r in rows if r["algorithm"] == algorithm]
            for shift, key, face in ((-0.09, "several_measured", True), (0.09, "several_computed", False)):
                color = "C0" if algorithm == "Base A" else "C1"
                axes.barh(
                    np.arange(len(cases)) + offset + shift, [float(str(r[key])) for r in shown], 0.18,
                    color=color if face else "white", edgecolor=color,
                    label=f"{algorithm}, {'simulation' if face else 'independent ports'}",
                )  # fmt: skip
        axes.set_yticks(np.arange(len(cases)), cases)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlabel("share of packets with two labels or more")
        figure.legend(loc="outside lower center", ncols=4, fontsize=7)

    return Sheet("theory-breaks", "Where ports are not independent, T_s / T = 0.01", draw, rows, width=8.0)


def sparse(bench: Bench) -> Sheet:
    """T_s / T up to 2: where T_s / T is no probability."""
    topology, packets = FatTree(4), 60_000 if bench.quick else 1_000_000
    rows: list[dict[str, object]] = []
    for ratio in (0.01, 0.03, 0.1, 0.3, 1.0, 2.0):
        found = measure(topology, traffic(topology, ratio), labelling(None), packets)
        mean = theory.expected_labels(found.labels)
        ours = theory.expected_labels(labels_on_fat_tree(4, ratio, None).labels)
        paper = theory.expected_labels(theory.labels_base_a(4, ratio)) if ratio <= 1 else float("nan")
        rows.append({"ratio": ratio, "measured": mean, "paper": paper, "ports": ours})
        bench.row(
            {"k": 4, "algorithm": "Base A", "T_s/T": ratio}, mean, "labels a packet",
            f"paper {paper:.4g}, ports with memory {ours:.4g}".replace("nan", "undefined"),
        )  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for key, style in (("paper", "s--C3"), ("ports", "o-C0"), ("measured", "kx")):
            axes.plot(
                [float(str(r["ratio"])) for r in rows], [float(str(r[key])) for r in rows], style, label=key
            )
        axes.set_xscale("log")
        axes.set_xlabel("T_s / T")
        axes.set_ylabel("E[Z]: labels a packet")
        legend(axes, "Base A, k = 4")

    return Sheet("theory-sparse", "Few packets in an interval", draw, rows)


def main() -> None:
    """Measure, and write pictures and tables."""
    bench, args = Bench.start(
        "label_theory",
        "labels per packet in the simulation, and the largest difference in probability "
        "between the formulas and the simulation.",
        "queues: links have a load of a few percent, so delays are small compared with T.",
        arguments,
    )
    folder = args.output or (ROOT / "bench" / "out" if bench.quick else DOCS)
    for sheet in (distributions, measured_g, breaks, sparse):
        sheet(bench).save(folder)


if __name__ == "__main__":
    main()
