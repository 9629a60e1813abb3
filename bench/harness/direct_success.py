"""Figures about what is found: DTA 12 and 13, DART 3 and 4."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopscope.direct import theory
from hopscope.direct.hashing import Hashing
from hopscope.direct.primitives.key_write import Variant
from support.direct.direct_measured import Filler, Tally, filled

from .figures import COLORS, Sheet, Stated, legend, percent

PUBLISHED = (1, 2, 4)
MIB, GIB = 1 << 20, 1 << 30
SLOT = 24
"""Bytes of a path of five hops and its checksum."""


def spread(filler: Filler, keys: int, sample: int) -> Tally:
    """Queries for at most `sample` keys, spread evenly over all ages."""
    if keys <= sample:
        return filler.ask(0, keys)
    parts = 256
    edges = np.linspace(0, keys - sample // parts, parts).astype(int)
    total = Tally(0, 0, 0, 0, 0)
    for first in edges.tolist():
        total += filler.ask(first, first + sample // parts)
    return total


def _curve(slots: int, copies: int, loads: list[float], **fields: Any) -> list[float]:
    filler = filled(slots, 0, copies, **fields)
    shares = []
    for load in loads:
        filler.until(round(load * slots))
        shares.append(spread(filler, filler.done, 1_000_000).success)
    return shares


def _loads(axes: Any) -> None:
    axes.set_xlabel("load: keys over slots")
    axes.set_ylabel("keys found, mean over all ages [%]")
    axes.set_ylim(0, 101)
    axes.set_xlim(0, 2)


def _optimum(axes: Any, top: float = 2) -> None:
    left = 0.0
    for copies, right in theory.optimum(4):
        axes.axvspan(left, min(right, top), color=COLORS[copies], alpha=0.1, linewidth=0)
        left = right


def dta12(quick: bool) -> Sheet:
    """Mean success against load and copies, with independent hashes and with the published ones."""
    slots = 1 << (16 if quick else 24)
    loads = [0.05, 0.1, 0.24, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 1.75, 2.0]
    rows: list[dict[str, object]] = []
    curves: dict[tuple[Hashing, int], list[float]] = {}
    for hashing in (Hashing.MIX, Hashing.CRC, Hashing.PUBLISHED):
        for copies in (1, 2, 3, 4):
            found = curves[hashing, copies] = _curve(slots, copies, loads, hashing=hashing)
            expected = theory.average(loads, copies, 32).correct
            for load, share, chance in zip(loads, found, expected, strict=True):
                rows.append(
                    {"hashing": hashing.name.lower(), "copies": copies, "load": load, "slots": slots,
                     "found": share, "theory": float(chance)}
                )  # fmt: skip

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        fine = np.linspace(0.001, 2, 200)
        _optimum(left)
        for copies in (1, 2, 3, 4):
            color = COLORS[copies]
            left.plot(
                fine, 100 * theory.average(fine, copies, 32).correct, color=color, label=f"N = {copies}"
            )
            left.plot(loads, [100 * v for v in curves[Hashing.MIX, copies]], "o", color=color)
            left.plot(loads, [100 * v for v in curves[Hashing.CRC, copies]], "x", color=color)
            right.plot(loads, [100 * v for v in curves[Hashing.PUBLISHED, copies]], "o-", color=color)
        left.set_title("closed form; mixer (o), CRC polynomials (x)", fontsize=9)
        right.set_title("as published: CRC32(key, n)", fontsize=9)
        legend(left, "behind: the best N")
        for axes in (left, right):
            _loads(axes)
        right.set_ylabel("")

    at = loads.index(0.24)
    stated = [
        Stated(
            f"found at load 0.24, N = {copies}, published hashing", "no number",
            percent(curves[Hashing.PUBLISHED, copies][at]),
            "with the published hashing, keys that collide in one copy collide in all",
        )
        for copies in PUBLISHED
    ]  # fmt: skip
    stated += [
        Stated(f"found at load 0.24, N = {copies}, independent hashing", "no number",
               percent(curves[Hashing.MIX, copies][at]),
               f"closed form {percent(float(theory.average(0.24, copies, 32).correct))}")
        for copies in PUBLISHED
    ]  # fmt: skip
    return Sheet("dta12", "DTA Fig. 12: Key-Write, keys found", draw, rows, stated, width=9.6)


def dart3(quick: bool) -> Sheet:
    """The same, with N adapted to the load, and the write with a swap of DART §7."""
    slots = 1 << (16 if quick else 24)
    loads = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.2, 1.6, 2.0]
    found = {copies: _curve(slots, copies, loads) for copies in (1, 2, 3, 4)}
    swapped = _curve(slots, 2, loads, variant=Variant.SWAP)
    rows: list[dict[str, object]] = [
        {"kind": f"N = {copies}", "load": load, "slots": slots, "found": share,
         "theory": float(theory.average(load, copies, 32).correct)}
        for copies in found for load, share in zip(loads, found[copies], strict=True)
    ]  # fmt: skip
    rows += [
        {"kind": "write and swap", "load": load, "slots": slots, "found": share,
         "theory": float(theory.write_swap_average(load))}
        for load, share in zip(loads, swapped, strict=True)
    ]  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        fine = np.linspace(0.001, 2, 200)
        _optimum(axes)
        for copies, shares in found.items():
            form = 100 * theory.average(fine, copies, 32).correct
            axes.plot(fine, form, color=COLORS[copies], label=f"N = {copies}")
            axes.plot(loads, [100 * v for v in shares], "o", color=COLORS[copies])
        axes.plot(fine, 100 * theory.write_swap_average(fine), "k--", label="write, swap if empty")
        axes.plot(loads, [100 * v for v in swapped], "ks")
        legend(axes, "lines: closed form; dots: measured\nbehind: the best N")
        _loads(axes)

    bounds = ", ".join(f"{copies} to {load:.3f}" for copies, load in theory.optimum(4)[:-1])
    return Sheet(
        "dart3", "DART Fig. 3: keys found by load and copies", draw, rows,
        [Stated("best N, for the mean", "read from a colour", f"{bounds}, then 1", "closed form"),
         Stated("write and swap at load 0.5 against the best N", "“can improve queryability”",
                f"{percent(swapped[4])} against {percent(max(found[c][4] for c in found))}",
                "the paper has neither formula nor number")],
    )  # fmt: skip


def _aged(filler: Filler, each: int) -> tuple[list[int], list[float]]:
    """Share found of `each` keys around ages of 2, 5, 10, 15 … 100 % of all keys."""
    wanted = [filler.done * part // 100 for part in (2, *range(5, 101, 5))]
    firsts = [min(max(filler.done - age - each // 2, 0), filler.done - each) for age in wanted]
    ages = [filler.done - first - each // 2 for first in firsts]
    return ages, [filler.ask(first, first + each).success for first in firsts]


def _ageing(name: str, title: str, sizes: list[tuple[str, float, int, int]], quick: bool) -> Sheet:
    """Success by age; `sizes`: label, bytes for 100 M flows, copies, and one in how many is done."""
    rows: list[dict[str, object]] = []
    drawn = []
    for label, nbytes, copies, scale in sizes:
        scale = max(scale, 200) if quick else scale
        slots, flows = int(nbytes / SLOT / scale), 100_000_000 // scale
        filler = filled(slots, flows, copies, data_bytes=20)
        ages, found = _aged(filler, min(200_000, flows // 100))
        mean = spread(filler, flows, 2_000_000).success
        form = theory.outcomes(np.array(ages) / slots, copies, 32).correct
        ages = [age * scale for age in ages]
        for age, share, chance in zip(ages, found, form, strict=True):
            rows.append(
                {"memory": label, "copies": copies, "one_in": scale, "later_flows": age, "found": share,
                 "theory": float(chance), "mean_found": mean,
                 "mean_theory": float(theory.average(flows / slots, copies, 32).correct)}
            )  # fmt: skip
        drawn.append((label, copies, ages, found, form))
        del filler

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, (label, copies, ages, found, form) in enumerate(drawn):
            millions = np.array(ages) / 1e6
            axes.plot(millions, 100 * form, color=f"C{number}", label=f"{label}, N = {copies}")
            axes.plot(millions, 100 * np.array(found), "o", color=f"C{number}")
        axes.set_xlabel("flows reported later [million]")
        axes.set_ylabel("flows found [%]")
        axes.set_ylim(0, 101)
        legend(axes, "lines: closed form; dots: measured")

    return Sheet(name, title, draw, rows)


def _at(sheet: Sheet, memory: str, copies: int, age: float) -> tuple[float, float]:
    """Measured and computed share nearest to an age, of one curve."""
    near = min(
        (r for r in sheet.rows if r["memory"] == memory and r["copies"] == copies),
        key=lambda r: abs(float(str(r["later_flows"])) - age),
    )
    return float(str(near["found"])), float(str(near["theory"]))


def dta13(quick: bool) -> Sheet:
    """Success by age at 3, 10 and 30 GiB."""
    sheet = _ageing(
        "dta13", "DTA Fig. 13: Key-Write ages out, 100 M paths of 20 B",
        [("3 GiB", 3 * GIB, 2, 1), ("10 GiB", 10 * GIB, 2, 10), ("30 GiB", 30 * GIB, 2, 10)], quick,
    )  # fmt: skip
    for memory, age, paper in (
        ("3 GiB", 10e6, "99.3 %"), ("3 GiB", 100e6, "44.5 %"), ("30 GiB", 10e6, "99.99 %"),
        ("30 GiB", 100e6, "98.2 %"),
    ):  # fmt: skip
        found, _ = _at(sheet, memory, 2, age)
        nbytes = float(memory.split()[0]) * GIB
        exact = float(theory.outcomes(age / (nbytes / SLOT), 2, 32).correct)
        mean = float(theory.average(age / (nbytes / SLOT), 2, 32).correct)
        digits = 2 if exact > 0.999 else 1
        word = f"closed form {percent(exact, digits)}"
        if age == 10e6:
            word += f"; the mean over the youngest 10 M is {percent(mean, digits)}"
        elif memory == "3 GiB":
            word += "; it gives 44.5 % at 92 M later flows"
        sheet.stated.append(
            Stated(f"{memory}, {age / 1e6:.0f} M later flows", paper, percent(found, digits), word)
        )
    return sheet


def dart4(quick: bool) -> Sheet:
    """Success by age at 3 and 30 GB, with two and four copies."""
    sheet = _ageing(
        "dart4", "DART Fig. 4: paths of 100 M flows",
        [("3 GB", 3000 * MIB, 2, 1), ("10 GB", 10_000 * MIB, 2, 10), ("30 GB", 30_000 * MIB, 2, 10),
         ("30 GB", 30_000 * MIB, 4, 10)], quick,
    )  # fmt: skip
    oldest = _at(sheet, "3 GB", 2, 100e6)
    sheet.stated = [
        Stated("3 GB, oldest flows, measured", "39.0 %", percent(oldest[0]),
               "their 3 GB are 3000 MiB: 131,072,000 slots of 24 B"),
        Stated("3 GB, oldest flows, computed", "38.7 %",
               percent(float(theory.outcomes(100e6 / (3000 * MIB / SLOT), 2, 32).correct), 2)),
    ]  # fmt: skip
    for memory, copies, paper in (("3 GB", 2, "71.4 %"), ("30 GB", 2, "99.3 %"), ("30 GB", 4, "99.9 %")):
        row = next(r for r in sheet.rows if r["memory"] == memory and r["copies"] == copies)
        sheet.stated.append(
            Stated(f"{memory}, mean, N = {copies}", paper, percent(float(str(row["mean_found"]))),
                   f"closed form {percent(float(str(row['mean_theory'])))}"
                   + (f"; at 1:{row['one_in']}" if row["one_in"] != 1 else ""))
        )  # fmt: skip
    return sheet
