"""The uncompiled decoder under a fuzzer that is guided by coverage (atheris, `pip install hopscope[fuzz]`).

    python bench/fuzz_scalar.py --seconds 600 --corpus FOLDER
    python bench/fuzz_scalar.py crash-…

Decodes frames and makes the objects that `hopscope decode` prints; every exception is a crash, whose input is
left in the working directory.  Hides: the batch decoder, which bench/mutants.py compares.  An input's first
two bytes choose the dialect, the link layer and whether packets are searched; the rest is the frame.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

try:
    import atheris
except ImportError:
    print("fuzz_scalar: needs atheris, as in: pip install hopscope[fuzz]")
    sys.exit(0 if "--quick" in sys.argv else 2)

import numpy as np

with atheris.instrument_imports(include=["hopscope.wire"]):
    from hopscope.wire.decode.as_json import report_objects
    from hopscope.wire.decode.plain import decode_plain
    from hopscope.wire.dialect import DIALECTS
    from hopscope.wire.records import FRAME, FrameBatch, Link
    from support.packets.corpus import corpus

LINKS = tuple(Link)
PACKETS = 0x80
READERS = [replace(one, packets=packets) for one in DIALECTS.values() for packets in (False, True)]


def target(data: bytes) -> None:
    """Decode one input, and make the objects that `hopscope decode` prints."""
    if len(data) < 2:
        return
    dialect = READERS[data[0] % len(DIALECTS) * 2 + (data[1] >= PACKETS)]
    raw = data[2:]
    frames = np.zeros(1, FRAME)
    frames["length"] = frames["wire_length"] = len(raw)
    frames["link"] = LINKS[data[1] % PACKETS % len(LINKS)]
    batch = FrameBatch(np.frombuffer(raw, np.uint8), frames)
    for _ in report_objects(decode_plain(batch, dialect), batch, dialect):
        pass


def write_corpus(folder: Path) -> None:
    """The valid frames of every dialect, as inputs."""
    for number, (name, dialect) in enumerate(DIALECTS.items()):
        for at, seed in enumerate(corpus(dialect)):
            if number == 0 or at % 5 == 0:
                head = bytes([number, LINKS.index(Link(seed.link)) | PACKETS * (at // 5 % 2)])
                (folder / f"{name}-{at}").write_bytes(head + seed.raw)


def main() -> None:
    """Run the fuzzer, or the inputs that are named."""
    parser = argparse.ArgumentParser(description="Fuzzes the uncompiled decoder, guided by coverage.")
    parser.add_argument("inputs", nargs="*", type=Path, help="inputs to run, instead of fuzzing")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--quick", action="store_true", help="10 seconds")
    parser.add_argument("--corpus", type=Path, help="folder that keeps what reached something new")
    given = parser.parse_args()
    for path in given.inputs:
        target(path.read_bytes())
    if given.inputs:
        return
    with tempfile.TemporaryDirectory() as seeds:
        write_corpus(Path(seeds))
        kept = given.corpus or Path(tempfile.mkdtemp())
        kept.mkdir(parents=True, exist_ok=True)
        seconds = 10 if given.quick else given.seconds
        atheris.Setup(
            [sys.argv[0], f"-max_total_time={seconds}", "-max_len=2048", "-timeout=10", str(kept), seeds],
            target,
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
