"""`hopscope craft`: a capture file from objects, as `hopscope decode` prints them or by hand."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from ..base.errors import HopscopeError
from ..base.plural import plural
from ..wire.address import is_address
from .options.declare import argument, option
from .options.reading import DialectOptions
from .options.settings import SettingsOptions
from .options.standard_input import standard_input

BATCH = 1024
"""How many frames are written at a time."""


@dataclass(frozen=True)
class WritingOptions(DialectOptions):
    """The dialect of the packets."""

    dialect: str = option(
        "--dialect DIALECT",
        "Dialect in which the packets will be read: see `hopscope config dialects`.",
        "spec",
    )
    port: int | None = option(
        "--port -p PORT", "UDP port that reports are sent to; default: the dialect's first.", min=0, max=65535
    )


def craft(
    writing: WritingOptions,
    settings: SettingsOptions,
    file: str = argument("FILE", "JSON lines; - is standard input.", "-"),
    output: str = option(
        "--output -o FILE", "pcap, or pcapng by its name, which may end in .gz; - for stdout (pcapng).", "-"
    ),
    collector: str = option("--collector ADDRESS", "Address that reports are sent to.", "192.0.2.254"),
    renumber: bool = option("--renumber", "Ignore packet numbers.", False),
) -> None:
    """Write packets from JSON: the output of decode, or your own.

    Keys may be omitted, as in {"hops": [{"node_id": 1}, {"node_id": 2}]}. Packet numbers that are missing
    become frames without a report.
    Exit status 2: an object has a wrong key or value. Packets are written 1,024 at a time: that
    object's batch and all later ones are not written; if it is the first batch, no file is made.
    """
    from ..capture.pcap.reader import PcapWriter
    from ..wire.craft.frames import craft_frames, frame_batch
    from ..wire.craft.keys import CraftError

    chosen, *others = writing.dialects(settings)
    if others:
        raise HopscopeError(f"--dialect {writing.dialect}: is for reading; expected one of them")
    if not is_address(collector):
        raise HopscopeError(f"--collector {collector}: expected an IPv4 or IPv6 address")
    lines: array[int] = array("Q")
    name = "standard input" if file == "-" else file
    with nullcontext(standard_input()) if file == "-" else Path(file).open(encoding="utf-8") as stream:
        frames = craft_frames(
            _objects(stream, name, lines),
            chosen,
            port=writing.port,
            collector=collector,
            renumber=renumber,
        )
        try:
            batch = list(islice(frames, BATCH))  # before there is a file, which a mistake would leave empty
            with PcapWriter(output, pcapng=True if output == "-" else None) as writer:
                while batch:
                    writer.write(frame_batch(batch))
                    batch = list(islice(frames, BATCH))
        except CraftError as error:
            line = lines[error.number - 1] if error.number else lines[-1]
            raise HopscopeError(f"{name}:{line}: {error.key}: {error.problem}") from None
    print(f"{plural(writer.packets, 'packet')} from {plural(len(lines), 'object')}", file=sys.stderr)


def _objects(stream: TextIO, name: str, lines: array[int]) -> Iterator[Any]:
    """The objects in nonempty lines; `lines` gets the line numbers."""
    number = 0
    try:
        for number, line in enumerate(stream, 1):
            if line.strip():
                lines.append(number)
                yield json.loads(line)
    except json.JSONDecodeError as error:
        raise HopscopeError(f"{name}:{number}: not JSON: {error.msg} (column {error.colno})") from None
    except UnicodeDecodeError:
        raise HopscopeError(f"{name}:{number + 1}: not UTF-8 text") from None
    except RecursionError:
        raise HopscopeError(f"{name}:{number}: nested too deep") from None
