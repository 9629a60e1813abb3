"""Figures about what is counted: memory writes per report (DTA 8), whole paths out of the cache (DTA 14)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopscope.direct import theory
from hopscope.direct.primitives.postcarding import PostcardingLayout
from hopscope.direct.stores.store import WRITES, Store
from support.direct.direct_measured import filled, keys_of
from support.direct.direct_postcards import Sender, complete_share

from .figures import Sheet, Stated, legend, percent

MULTILOG = 2 / 0.0058
"""Memory instructions per report of the Atomic MultiLog: two copies of Key-Write are 0.58 % of it."""


def dta8(quick: bool) -> Sheet:
    """Memory operations per report, counted: redundancy 2, paths of five hops, batches of 16."""
    reports = 1 << (12 if quick else 16)
    key_write = float(filled(reports, reports, 2).store.state[WRITES]) / reports
    layout = PostcardingLayout(chunks=reports, hops=5, copies=2)
    store = Store.create(None, layout)
    flows = reports // 5
    Sender(layout, store).send(
        keys_of(0, flows, 3), np.ones((flows, 5), np.uint32), np.arange(flows), by_flow=True
    )
    postcarding = float(store.state[WRITES]) / (flows * 5)
    rows: list[dict[str, object]] = [
        {"primitive": "Key-Write, N = 2", "operations_per_report": key_write},
        {"primitive": "Postcarding, N = 2", "operations_per_report": postcarding},
        {"primitive": "Append, batch 16", "operations_per_report": _append(reports)},
    ]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        names = [*(str(row["primitive"]) for row in rows), "MultiLog (paper)"]
        values = [*(float(str(row["operations_per_report"])) for row in rows), MULTILOG]
        bars = axes.barh(names, values, color=["#00798c"] * len(rows) + ["0.6"])
        axes.bar_label(bars, labels=[f" {value:.3g}" for value in values])
        axes.set_xscale("log")
        axes.set_xlim(0.02, 3000)
        axes.set_xlabel("memory operations per report")
        axes.invert_yaxis()
        axes.grid(False, axis="y")

    return Sheet(
        "dta8", "DTA Fig. 8: memory operations per report", draw, rows,
        [Stated("Key-Write, N = 2", "0.58 % of MultiLog", f"{key_write:.3g} per report",
                "so MultiLog, which we did not run, has 345")],
    )  # fmt: skip


def _append(reports: int) -> float:
    """Writes per entry of a list, in batches of 16."""
    from hopscope.direct.primitives.append import AppendLayout
    from hopscope.direct.translation.translator import Translator
    from hopscope.direct.transport import MemoryTransport
    from hopscope.wire.dta.records import DTA

    layout = AppendLayout(batches=1 << 12, batch=16, data_bytes=4)
    store = Store.create(None, layout)
    entries = np.zeros(reports, DTA)
    entries["opcode"], entries["data_bytes"] = layout.opcode, 4
    Translator([layout], MemoryTransport([store])).translate(entries, np.zeros(4, np.uint8))
    return float(store.state[WRITES]) / reports


def dta14(quick: bool) -> Sheet:
    """Share of paths that are whole, by flows between a flow's postcards and by rows of the cache."""
    between = [0, 100, 300, 1000, 3000, 10_000, 30_000]
    rows: list[dict[str, object]] = []
    paths = 20_000 if quick else 500_000
    sizes = (1 << 13, 1 << 15, 1 << 17)
    for size in sizes:
        for flows in between:
            share = complete_share(size, flows, min(5000, -(-paths // (flows + 1))))
            rows.append(
                {"cache_rows": size, "flows_between": flows, "whole": share,
                 "theory": 1 - float(theory.early_emission(flows, size))}
            )  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        fine = np.linspace(0, between[-1], 200)
        for number, size in enumerate(sizes):
            shown = [r for r in rows if r["cache_rows"] == size]
            axes.plot(
                fine / 1e3, 100 * (1 - theory.early_emission(fine, size)), color=f"C{number}",
                label=f"{size // 1024}K rows",
            )  # fmt: skip
            axes.plot(
                [float(str(r["flows_between"])) / 1e3 for r in shown],
                [100 * float(str(r["whole"])) for r in shown], "o", color=f"C{number}",
            )  # fmt: skip
        axes.set_xlabel("other flows between a flow's first and last postcard [thousand]")
        axes.set_ylabel("paths that leave the cache whole [%]")
        axes.set_ylim(0, 101)
        legend(axes, "lines: (1 - 1/R)^F; dots: counted")

    at = next(r for r in rows if r["cache_rows"] == 1 << 15 and r["flows_between"] == 1000)
    return Sheet(
        "dta14", "DTA Fig. 14: paths of five hops in the translator's cache", draw, rows,
        [Stated("whole paths, 32K rows, 1,000 flows between", "read from a curve",
                percent(float(str(at["whole"]))), f"closed form {percent(float(str(at['theory'])))}")],
    )  # fmt: skip
