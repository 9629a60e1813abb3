"""Decode alone, and decode + detect, on one core: reports a second against hops, fields and flows."""

from __future__ import annotations

from dataclasses import asdict

from harness.common import Bench
from hopscope.detect.flows.tables import memory_bytes
from hopscope.detect.records import EVENT
from hopscope.runtime.measure import CASES, QUICK_CASES, ROWS, measure
from hopscope.settings.detect import DetectSettings


def main() -> None:
    """Every case of hops, fields and flows."""
    bench, _ = Bench.start(
        "decode_detect",
        "reports per second through the compiled decoder and the detector, one core, frames in memory.",
        "sockets, the journal (steady state: no events), and the first report of each flow.",
    )
    for case in QUICK_CASES if bench.quick else CASES:
        speed = measure(case, 5 if bench.quick else 15)
        for what, typical, best in (
            ("decode", speed.decode_ns, min(speed.decode)),
            ("decode+detect", speed.both_ns, min(speed.both)),
        ):
            note = f"{typical:.0f} ns a report, best round {1e3 / best:.2f} M/s"
            if what != "decode":
                note += f", {speed.events} events"
            bench.row({"what": what, **asdict(case)}, 1e9 / typical, "reports/s", note)
    size = memory_bytes(DetectSettings(flow_rows=ROWS)) - memory_bytes(DetectSettings(flow_rows=1))
    bench.row({"what": "flow table", "flows": ROWS * 12}, size / (ROWS * 12), "bytes/flow")
    bench.row({"what": "event"}, EVENT.itemsize, "bytes/event")


if __name__ == "__main__":
    main()
