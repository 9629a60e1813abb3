"""Sources beside INT: samples of sFlow and flow records of IPFIX, decoded, and taken through detection."""

from __future__ import annotations

import time

import numpy as np

from harness.common import Bench, median, seconds_of
from hopscope.fabric.edge import Edge
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.pipeline.source_decoder import SourceDecoder
from hopscope.settings.collector import Settings
from hopscope.wire.ipfix.decoder import IpfixDecoder
from hopscope.wire.records import FRAME, FrameBatch, Link
from hopscope.wire.sflow.decoder import SflowDecoder

TICKS = 1000


def datagrams(kind: str) -> FrameBatch:
    """What the simulated edge sends to one listener, as a socket would hand it over."""
    edge = Edge()
    sent = [one.payload for _ in range(TICKS) for one in edge.tick(int(time.time())) if one.kind == kind]
    frames = np.zeros(len(sent), FRAME)
    frames["length"] = frames["wire_length"] = [len(one) for one in sent]
    frames["offset"] = np.cumsum(frames["length"]) - frames["length"]
    frames["link"], frames["time_ns"] = Link.UDP_PAYLOAD, time.time_ns()
    return FrameBatch(np.frombuffer(b"".join(sent), np.uint8), frames)


def main() -> None:
    """Both kinds, decoded, and through the whole pipeline without a journal."""
    bench, _ = Bench.start(
        "mixed",
        "samples of sFlow (a header, queue, depth and delay each) and flow records of IPFIX (nine fields) per"
        " second, one core, 20 in a datagram, a template in every tenth, datagrams in memory.",
        "sockets, the journal, and many flows: there are 20.",
    )
    rounds = 3 if bench.quick else 15
    makers: dict[str, type[SflowDecoder] | type[IpfixDecoder]] = {
        "sflow": SflowDecoder,
        "ipfix": IpfixDecoder,
    }
    for kind, maker in makers.items():
        batch = datagrams(kind)
        decoder: SourceDecoder = maker()
        count = len(decoder.decode(batch))
        pipeline = pipeline_of(Settings())
        for what, work in (
            ("decode", lambda decoder=decoder, batch=batch: decoder.decode(batch)),
            (
                "decode+detect",
                lambda decoder=decoder, batch=batch, pipeline=pipeline: pipeline.step(batch, source=decoder),
            ),
        ):
            seconds = median(seconds_of(work, rounds))
            bench.row({"source": kind, "what": what}, count / seconds, "reports/s")


if __name__ == "__main__":
    main()
