"""Figures about the speed of stores on this machine, by the cases of direct_primitives: DTA 7, 10, 11."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from hopscope.direct.hashing import Hashing, checksums_of, slots_of
from hopscope.direct.plan import RATES
from hopscope.direct.primitives import key_write
from hopscope.direct.primitives.append import AppendLayout
from hopscope.direct.primitives.key_write import KeyWriteLayout
from hopscope.wire.dta.forms import Form
from hopscope.wire.records import Records
from support.direct.direct_measured import filled, keys_of

from .common import median
from .direct import KEY_WRITE, Draw, Feed, Work, translating, uniform
from .direct_lists import appending, postcarding
from .figures import Sheet, Stated, legend
from .rivals import cuckoo_table, log_with_index

ONE_CORE = "one core of this machine, parsing included"


def rate(make: Callable[[], Work], rounds: int) -> float:
    """Million units a second: the median of so many rounds, after one that is not counted."""
    return rates({"": make}, rounds)[""]


def rates(makes: Mapping[str, Callable[[], Work]], rounds: int) -> dict[str, float]:
    """The same for several cases whose rounds take turns, so that all meet the same noise."""
    works = {name: make() for name, make in makes.items()}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    units = dict.fromkeys(works, 0)
    for _ in range(rounds + 1):
        for name, work in works.items():
            work.renew()
            start = time.perf_counter()
            units[name] = work.run()
            seconds[name].append(time.perf_counter() - start)
    return {name: units[name] / median(taken[1:]) / 1e6 for name, taken in seconds.items()}


def sized(key_bytes: int, data_bytes: int) -> np.dtype[np.void]:
    """Reports in our own form, with lengths; `key` is the first 4 bytes of the key, or an Append's list."""
    return np.dtype(
        [("opcode", "u1"), ("flags", "u1"), ("key_bytes", "u1"), ("data_bytes", "u1"), ("sequence", ">u4"),
         ("redundancy", "u1"), ("hop", "u1"), ("path_length", "u1"), ("reserved", "u1"), ("key", ">u4"),
         ("rest", "u1", (key_bytes - 4,)), ("data", "u1", (data_bytes,))]
    )  # fmt: skip


def drawn(keys: int, **constant: int) -> Draw:
    """Random keys of so many, the same data; other fields as given."""

    def draw(rows: Records, random: np.random.Generator) -> None:
        for name, value in constant.items():
            rows[name] = value
        rows["key"] = random.integers(keys, size=len(rows), dtype=np.uint32)

    return draw


def key_writes(nbytes: int, copies: int, data_bytes: int, key_bytes: int = 4) -> Work:
    """Key-Write in our own form, so that data may have any length."""
    layout = KeyWriteLayout.sized(nbytes, data_bytes=data_bytes)
    draw = drawn(
        nbytes // layout.stride, opcode=1, redundancy=copies, key_bytes=key_bytes, data_bytes=data_bytes
    )
    return translating(Feed(sized(key_bytes, data_bytes), draw), layout, form=Form.SIZED)


def appends(nbytes: int, data_bytes: int, batch: int = 16) -> Work:
    """One list of entries of any length."""
    layout = AppendLayout.sized(nbytes, data_bytes=data_bytes, batch=batch)
    draw = drawn(1, opcode=2, key_bytes=4, data_bytes=data_bytes)
    return translating(Feed(sized(4, data_bytes), draw), layout, form=Form.SIZED)


def bars(axes: Any, names: Sequence[str], values: Sequence[float], ours: int, label: str) -> None:
    drawn_bars = axes.barh(names, values, color=["#00798c"] * ours + ["0.6"] * (len(names) - ours))
    axes.bar_label(drawn_bars, labels=[f" {value:.3g}" for value in values], fontsize=8)
    axes.set_xlim(0, max(values) * 1.18)
    axes.set_xlabel(label)
    axes.invert_yaxis()
    axes.grid(False, axis="y")


def dta7(quick: bool) -> Sheet:
    """Reports a second beside a cuckoo table and an indexed log; switches that one core serves."""
    nbytes, rounds = (32 << 20, 3) if quick else (512 << 20, 25)
    feed = Feed(KEY_WRITE, uniform(nbytes // 16, opcode=1, flags=0, redundancy=1))
    found = rates(
        {
            "Key-Write": lambda: translating(feed, KeyWriteLayout.sized(nbytes)),
            "Postcarding": lambda: postcarding(nbytes, 1000),
            "Append": lambda: appending(nbytes, 1),
            "cuckoo table": lambda: cuckoo_table(feed, nbytes),
            "indexed log": lambda: log_with_index(feed, nbytes),
            "lossy flows: Append, 13 B": lambda: appends(nbytes, 13),
            "TCP timeouts: Key-Write": lambda: key_writes(nbytes, 1, 4, 13),
            "flowlet sizes: Append, 17 B": lambda: appends(nbytes, 17),
        },
        rounds,
    )
    names = list(found)
    reports = {name: found[name] for name in names[:5]}
    log = found["indexed log"]
    each = {name: RATES["marple-flowlet" if "flowlet" in name else "marple-tcp"] / 1e6 for name in names[5:]}
    switches = {name: found[name] / each[name] for name in each}
    switches["any: indexed log"] = log / (RATES["marple-tcp"] / 1e6)
    rows: list[dict[str, object]] = [
        {"panel": "a", "what": name, "value": value, "unit": "M reports/s"} for name, value in reports.items()
    ]
    rows += [
        {"panel": "b", "what": name, "value": value, "unit": "switches"} for name, value in switches.items()
    ]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        bars(left, list(reports), list(reports.values()), 3, "million reports a second, one core")
        bars(right, list(switches), list(switches.values()), 3, "switches with Marple, one core")

    return Sheet(
        "dta7", "DTA Fig. 7: reports a second, and switches", draw, rows,
        [Stated(f"{name} against collectors that process reports", f"{paper} MultiLog",
                f"{found[name] / log:.1f}x the indexed log, "
                f"{found[name] / found['cuckoo table']:.1f}x the cuckoo table",
                "one core, parsing included; a bare log with one index is faster than MultiLog")
         for name, paper in (("Key-Write", "at least 4x"), ("Postcarding", "16x"), ("Append", "41x"))],
        width=9.6,
    )  # fmt: skip


def dta10(quick: bool) -> Sheet:
    """Key-Write by copies, data of 4 and 20 bytes."""
    nbytes, rounds = (32 << 20, 3) if quick else (4 << 30, 15)
    rows: list[dict[str, object]] = [
        {"data_bytes": size, "copies": copies, "memory_bytes": nbytes,
         "million_reports": rate(partial(key_writes, nbytes, copies, size), rounds)}
        for size in (4, 20) for copies in (1, 2, 3, 4)
    ]  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, size in enumerate((4, 20)):
            shown = [r for r in rows if r["data_bytes"] == size]
            places = [int(str(r["copies"])) + 0.4 * number - 0.2 for r in shown]
            columns = axes.bar(places, [r["million_reports"] for r in shown], 0.38, label=f"{size} B")
            axes.bar_label(columns, fmt="%.3g", fontsize=8)
        axes.set_xticks([1, 2, 3, 4])
        axes.set_xlabel("copies N")
        axes.set_ylabel("million reports a second, one core")
        legend(axes, "data")

    first, last = (float(str(rows[i]["million_reports"])) for i in (0, 3))
    return Sheet(
        "dta10", "DTA Fig. 10: Key-Write by copies", draw, rows,
        [Stated("Key-Write, N = 1, 4 B", "100 M/s", f"{first:.1f} M/s", f"a NIC there; here {ONE_CORE}"),
         Stated("rate of N = 4 over N = 1", "1/4: linear", f"{last / first:.2f}",
                "parsing is done once for all copies")],
    )  # fmt: skip


def dta11(quick: bool) -> Sheet:
    """Key-Write queries by copies, and the share of hashing in them."""
    nbytes, count = (32 << 20, 1 << 17) if quick else (4 << 30, 1 << 20)
    rows: list[dict[str, object]] = []
    for hashing in (Hashing.MIX, Hashing.CRC):
        for copies in (1, 2, 3, 4):
            filler = filled(nbytes // 8, count, copies, hashing=hashing)
            keys, store = keys_of(0, count, filler.seed), filler.store
            whole = median(_seconds(partial(key_write.query, store, keys)))
            slots = median(_seconds(partial(slots_of, store.params, keys)))
            checks = median(_seconds(partial(checksums_of, store.params, keys)))
            rows.append(
                {"hashing": hashing.name.lower(), "copies": copies, "memory_bytes": nbytes,
                 "million_queries": count / whole / 1e6, "slots_share": slots / whole,
                 "checksum_share": checks / whole}
            )  # fmt: skip
            del filler, store

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for number, name in enumerate(("mix", "crc")):
            shown = [r for r in rows if r["hashing"] == name]
            places = [int(str(r["copies"])) + 0.4 * number - 0.2 for r in shown]
            columns = left.bar(places, [r["million_queries"] for r in shown], 0.38, label=name)
            left.bar_label(columns, fmt="%.3g", fontsize=8)
            slots = [100 * float(str(r["slots_share"])) for r in shown]
            checks = [100 * float(str(r["checksum_share"])) for r in shown]
            right.bar(places, slots, 0.38, color=f"C{number}", label=f"{name}: slots")
            right.bar(places, checks, 0.38, slots, color=f"C{number}", alpha=0.5, label=f"{name}: checksum")
        left.set_ylabel("million queries a second, one core")
        right.set_ylabel("hashing alone, of a query's time [%]")
        for axes in (left, right):
            axes.set_xticks([1, 2, 3, 4])
            axes.set_xlabel("copies N")
            legend(axes)

    two = next(r for r in rows if r["hashing"] == "crc" and r["copies"] == 2)
    mixed = next(r for r in rows if r["hashing"] == "mix" and r["copies"] == 2)
    return Sheet(
        "dta11", "DTA Fig. 11: Key-Write queries", draw, rows,
        [Stated("queries, N = 2, per core", "1.78 M/s (7.1 M/s on 4)",
                f"{float(str(two['million_queries'])):.1f} M/s with CRCs, "
                f"{float(str(mixed['million_queries'])):.1f} M/s with the mixer", "keys that were written")],
        width=9.6,
    )  # fmt: skip


def _seconds(work: Callable[[], object]) -> list[float]:
    taken = []
    for _ in range(6):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return taken[1:]
