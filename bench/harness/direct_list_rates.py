"""Figures about the speed of postcards and lists on this machine: DTA 14, 15 and 16."""

from __future__ import annotations

from functools import partial
from typing import Any

from hopscope.direct.primitives.postcarding import PostcardingLayout, PostcardingWriter
from hopscope.direct.stores.store import Store
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport

from .direct import Collecting, Feed, Work
from .direct_lists import HOPS, POSTCARD, appending, postcards
from .direct_polling import polling
from .direct_rates import ONE_CORE, bars, rate
from .figures import COLORS, Sheet, Stated, legend


def _postcards(nbytes: int, in_flight: int) -> tuple[Work, Translator]:
    layout = PostcardingLayout.sized(nbytes)
    store = Store.create(None, layout)
    translator = Translator([layout], MemoryTransport([store]))
    return Collecting(
        Feed(POSTCARD, postcards(in_flight)), translator.translate, lambda: (0.0, 0.0)
    ), translator


def dta14rate(quick: bool) -> Sheet:
    """Whole paths per second, by flows in flight, with a cache of 32K rows."""
    nbytes, rounds = (32 << 20, 3) if quick else (1 << 30, 15)
    rows: list[dict[str, object]] = []
    for in_flight in (1, 100, 1000, 3000, 10_000, 30_000):
        made: list[Translator] = []

        def make(flows: int = in_flight, made: list[Translator] = made) -> Work:
            work, translator = _postcards(nbytes, flows)
            made.append(translator)
            return work

        cards = rate(make, rounds)
        writer = made[0].writers[0]
        assert isinstance(writer, PostcardingWriter)
        counters = writer.counters
        left = counters["completed"] + counters["early"]
        share = counters["completed"] * HOPS / (sum(int(n) for n in made[0].translated))
        rows.append(
            {"in_flight": in_flight, "million_postcards": cards, "whole_share": share,
             "million_whole_paths": cards / HOPS * share, "chunks_written": left}
        )  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        places = [float(str(r["in_flight"])) for r in rows]
        axes.plot(places, [float(str(r["million_postcards"])) / HOPS for r in rows], "o-", label="taken in")
        axes.plot(places, [r["million_whole_paths"] for r in rows], "s-", label="written whole")
        axes.set_xscale("log")
        axes.set_ylim(0)
        axes.set_xlabel("flows in flight")
        axes.set_ylabel("million paths of five hops a second, one core")
        legend(axes)

    best = max(float(str(r["million_whole_paths"])) for r in rows)
    return Sheet(
        "dta14rate", "DTA Fig. 14: postcards a second", draw, rows,
        [Stated("paths per second, at most", "90.5 M/s (452.5 M postcards/s)",
                f"{best:.1f} M/s ({best * HOPS:.0f} M postcards/s)", ONE_CORE)],
    )  # fmt: skip


def dta15(quick: bool) -> Sheet:
    """Append by batch and by memory of the list."""
    sizes = {"1 MiB": 1 << 20, "32 MiB": 32 << 20} if quick else {
        "1 MiB": 1 << 20, "32 MiB": 32 << 20, "1 GiB": 1 << 30}  # fmt: skip
    rounds, batches = 3 if quick else 25, (1, 2, 4, 8, 16)
    rows: list[dict[str, object]] = [
        {"list": name, "batch": batch,
         "million_entries": rate(partial(appending, nbytes, 1, batch), rounds)}
        for name, nbytes in sizes.items() for batch in batches
    ]  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, name in enumerate(sizes):
            shown = [r["million_entries"] for r in rows if r["list"] == name]
            axes.plot(batches, shown, "o-", color=COLORS[number + 1], label=name)
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, [str(batch) for batch in batches])
        axes.set_ylim(0)
        axes.set_xlabel("entries in one write")
        axes.set_ylabel("million entries of 4 B a second, one core")
        legend(axes, "list")

    best = max(float(str(r["million_entries"])) for r in rows)
    return Sheet(
        "dta15", "DTA Fig. 15: Append by batch", draw, rows,
        [Stated("entries per second, batches of 16", "over 1,000 M/s", f"{best:.0f} M/s", ONE_CORE)],
    )  # fmt: skip


def dta16(quick: bool) -> Sheet:
    """Entries a second that readers of lists get, alone and beside a writer."""
    rows: list[dict[str, object]] = [
        {"cores": cores, "beside": "writer" if writing else "nothing", "million_entries": million}
        for cores, writing, million in polling(0.3 if quick else 3.0)
    ]

    def draw(figure: Any) -> None:
        names = [f"{r['cores']} reader{'s' if r['cores'] != 1 else ''}, beside: {r['beside']}" for r in rows]
        bars(
            figure.subplots(), names, [float(str(r["million_entries"])) for r in rows], len(rows),
            "million entries of 4 B a second",
        )  # fmt: skip

    return Sheet(
        "dta16", "DTA Fig. 16: polling lists", draw, rows,
        [Stated("reading all appended entries", "8 cores for over 1,000 M/s",
                f"{float(str(rows[0]['million_entries'])):.0f} M/s by one core", "batches, copied out")],
    )  # fmt: skip
