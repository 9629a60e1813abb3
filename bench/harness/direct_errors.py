"""Figures about errors: DART 5, and every outcome against the equations over a grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopscope.direct import theory
from support.direct.direct_measured import filled

from .figures import Sheet, Stated, legend


def dart5(quick: bool) -> Sheet:
    """Wrong answers by load and checksum."""
    slots = 1 << (16 if quick else 24)
    loads = [0.1, 0.25, 0.5, 1.0, 2.0]
    rows: list[dict[str, object]] = []
    for bits in (8, 16, 32):
        filler = filled(slots, 0, 2, bits=bits)
        for load in loads:
            filler.until(round(load * slots))
            tally = filler.ask(0, filler.done)
            form = theory.average(load, 2, theory.used_bits(bits))
            rows.append(
                {"bits": bits, "load": load, "keys": tally.asked, "wrong": tally.wrong,
                 "share": tally.wrong / tally.asked, "theory": float(form.wrong),
                 "standard_error": float(np.sqrt(form.wrong / tally.asked))}
            )  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        fine = np.geomspace(0.05, 2.2, 100)
        for number, bits in enumerate((8, 16, 32)):
            axes.plot(
                fine, 100 * theory.average(fine, 2, bits).wrong, color=f"C{number}", label=f"{bits} bits"
            )
            shown = [r for r in rows if r["bits"] == bits and r["wrong"]]
            axes.plot(
                [float(str(r["load"])) for r in shown], [100 * float(str(r["share"])) for r in shown], "o",
                color=f"C{number}",
            )  # fmt: skip
        axes.set_yscale("log")
        axes.set_xscale("log")
        axes.set_xlabel("load: keys over slots")
        axes.set_ylabel("keys with a wrong answer [%]")
        legend(axes, "N = 2; lines: closed form\ndots: measured (none at 32 bits)")

    last = rows[-1]
    return Sheet(
        "dart5", "DART Fig. 5: wrong answers by checksum", draw, rows,
        [Stated("wrong answers with 32 bits", "none seen", f"{last['wrong']} of {last['keys']:,} at load 2",
                f"expected {float(str(last['theory'])) * int(str(last['keys'])):.3f}")],
    )  # fmt: skip


def equations(quick: bool) -> Sheet:
    """Every outcome at every load, number of copies and checksum, in standard errors from the closed form."""
    slots = 1 << (15 if quick else 22)
    loads = [0.01, 0.03, 0.1, 0.3, 1.0, 2.0]
    rows: list[dict[str, object]] = []
    for bits in (8, 16, 32):
        for copies in (1, 2, 3, 4):
            filler = filled(slots, 0, copies, bits=bits, seed=copies + 1)
            for load in loads:
                filler.until(round(load * slots))
                for rule in theory.Rule:
                    tally = filler.ask(0, filler.done, rule.value)
                    form = theory.average(load, copies, theory.used_bits(bits), rule)
                    for name in ("correct", "wrong", "empty", "conflict"):
                        count, chance = getattr(tally, name), float(getattr(form, name))
                        error = float(np.sqrt(tally.asked * chance * (1 - chance)))
                        rows.append(
                            {"bits": bits, "copies": copies, "load": load, "rule": rule.value,
                             "outcome": name, "keys": tally.asked, "count": count,
                             "expected": tally.asked * chance,
                             "standard_errors": (count - tally.asked * chance) / error if error > 5 else ""}
                        )  # fmt: skip
    measured = [abs(float(str(r["standard_errors"]))) for r in rows if r["standard_errors"] != ""]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.axhspan(-4, 4, color="0.9", linewidth=0)
        for number, name in enumerate(("correct", "wrong", "empty", "conflict")):
            shown = [r for r in rows if r["outcome"] == name and r["standard_errors"] != ""]
            expected = [float(str(r["expected"])) / int(str(r["keys"])) for r in shown]
            axes.plot(expected, [r["standard_errors"] for r in shown], ".", color=f"C{number}", label=name)
        axes.set_xscale("log")
        axes.set_xlabel("computed probability of the outcome")
        axes.set_ylabel("measured minus computed [standard errors]")
        axes.set_ylim(-4.5, 8.5)
        legend(axes, "equations 1-4, b = 8, 16, 32\nN = 1…4, load 0.01…2", loc="upper left")

    most = max(measured)
    return Sheet(
        "equations", "Key-Write against its closed forms", draw, rows,
        [Stated(f"{len(measured)} counts against equations 1-4", "equal",
                f"at most {most:.1f} standard errors apart",
                f"{slots:,} slots, both query rules; those with a standard error below 5 are left out")],
    )  # fmt: skip
