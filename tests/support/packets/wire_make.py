"""Frames through the XDP program of a wire, and through the sink without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hopscope.bpf.wire_heads import WireHeads
from hopscope.bpf.wire_program import WireProgram
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.records import ReportBatch
from hopscope.wire.rewrite.strip_batch import Stripper

from .mutants import difference
from .wire_cases import frame_batch

PACKETS = replace(DEFAULT, packets=True, ports=())
"""The dialect of a sink."""
XDP_PASS, XDP_REDIRECT = 2, 4
ETHERNET_BYTES = 14
"""Less the kernel does not give to a program."""
LONGEST = 3400
"""Most bytes that it takes in one piece."""


@dataclass
class Passage:
    """What became of frames."""

    frames: list[bytes]
    verdicts: list[int]
    out: list[bytes]
    """As the program left each."""
    heads: ReportBatch
    """What the decoder reads in the heads."""


class Wire:
    """The program with a sink's decoder and stripper beside it; frames are given by BPF_PROG_TEST_RUN."""

    def __init__(
        self, dialect: Dialect = PACKETS, *, strip: bool = True, mtu: int = LONGEST, ring_bytes: int = 1 << 22
    ) -> None:
        self.program = WireProgram(dialect, strip=strip, ring_bytes=ring_bytes)
        self.program.aim("lo")
        self.program.turn_on(mtu)
        self.heads = WireHeads()
        self.heads.map(self.program.ring, self.program.ring_bytes)
        self.decoder, self._stripper = Decoder(dialect), Stripper(dialect)

    def give(self, frames: Sequence[bytes]) -> Passage:
        """Run the program on each frame that it can be given, and read what came up."""
        given = [frame for frame in frames if ETHERNET_BYTES <= len(frame) <= LONGEST]
        results = [self.program.changed(frame) for frame in given]
        batch = self.heads.receive()
        heads = self.decoder.decode(batch) if batch is not None else self.decoder.decode(frame_batch([]))
        heads = ReportBatch(heads.reports.copy(), heads.hops.copy(), 0, heads.other)
        assert batch is None or len(batch) < 4096, "more heads than one batch holds"
        return Passage(given, [verdict for verdict, _ in results], [out for _, out in results], heads)

    def stripped(self, frames: Sequence[bytes]) -> tuple[list[bytes], int]:
        """The frames as the sink forwards them without the program, and how many are unverified."""
        batch = frame_batch(list(frames))
        out = self._stripper.strip(batch, self.decoder.decode(batch, trails=True))
        places = zip(out.frames["offset"].tolist(), out.frames["length"].tolist(), strict=True)
        return [out.arena[at : at + length].tobytes() for at, length in places], self._stripper.unverified

    def unlike(self, passage: Passage) -> str:
        """The first frame, or head, that is not what the sink makes of it otherwise; empty: none."""
        expected, _ = self.stripped(passage.frames)
        taken = list[bytes]()
        for given, verdict, out, whole in zip(
            passage.frames, passage.verdicts, passage.out, expected, strict=True
        ):
            if verdict not in (XDP_PASS, XDP_REDIRECT):
                return f"verdict {verdict}: {given.hex()}"
            if out != (given if verdict == XDP_PASS else whole):
                return f"verdict {verdict}: {given.hex()}\n{out.hex()}\n{whole.hex()}"
            if verdict == XDP_REDIRECT:
                taken.append(given)
        decoded = self.decoder.decode(frame_batch(taken))
        if decoded.unknown_int:
            return "redirected, but counted as INT of an unknown version"
        reports = decoded.reports.copy()
        heads = passage.heads.reports
        if len(reports) != len(heads):
            return f"{len(heads)} heads of {len(reports)} packets with INT"
        reports["time_ns"] = heads["time_ns"]
        reports["packet"] = heads["packet"]
        return difference(ReportBatch(reports, decoded.hops), ReportBatch(heads, passage.heads.hops))

    def close(self) -> None:
        """Free the program."""
        self.program.close()
