"""`hopscope craft`: a capture file from objects, as `hopscope decode` prints them or by hand."""

from __future__ import annotations

import ipaddress
import json
import sys
from array import array
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from ..base.errors import HopscopeError
from .options import ConfigOption, IntDscpOption, IntPortOption, MarkerOption, candidates, changes

BATCH = 1024
"""Frames that are written at once."""


def craft(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines; - is standard input.")] = "-",
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="pcap, or pcapng by its name; - for stdout (pcapng)."
        ),
    ] = "-",
    dialect: Annotated[
        str,
        typer.Option(
            "--dialect",
            metavar="NAME",
            help="How the packets will be read, as `hopscope config dialects` lists it, or one of your "
            "configuration.",
        ),
    ] = "spec",
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            "-p",
            metavar="PORT",
            min=0,
            max=65535,
            help="UDP port that reports are sent to; default: the dialect's first.",
            show_default=False,
        ),
    ] = None,
    int_dscp: IntDscpOption = None,
    int_port: IntPortOption = None,
    marker: MarkerOption = None,
    collector: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address that reports are sent to.")
    ] = "192.0.2.254",
    renumber: Annotated[
        bool, typer.Option("--renumber", help="Write packets as they come, whatever their numbers.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write packets from JSON: the output of decode, or your own.

    Only what matters must be given, as in {"hops": [{"node_id": 1}, {"node_id": 2}]}. Numbers that are
    missing between packets become frames that are no reports.
    Exit status 2: an object has a wrong key or value; nothing behind it is written.
    """
    from ..capture.pcap.reader import PcapWriter
    from ..wire.craft.frames import craft_frames, frame_batch
    from ..wire.craft.keys import CraftError

    possible = candidates(dialect, config)
    if len(possible) > 1:
        raise HopscopeError(f"--dialect {dialect}: is for reading; expected one of them")
    chosen = changes(None, False, int_dscp, int_port, marker).of(possible[0])
    try:
        ipaddress.ip_address(collector)
    except ValueError:
        raise HopscopeError(f"--collector {collector}: expected an IPv4 or IPv6 address") from None
    if output == "-" and sys.stdout.isatty():
        raise HopscopeError("a capture is nothing for a terminal: give --output FILE")
    lines: array[int] = array("Q")
    name = "standard input" if file == "-" else file
    with nullcontext(sys.stdin) if file == "-" else Path(file).open(encoding="utf-8") as stream:
        frames = craft_frames(
            _objects(stream, name, lines),
            chosen,
            port=port,
            collector=collector,
            renumber=renumber,
        )
        try:
            with PcapWriter(output, pcapng=True if output == "-" else None) as writer:
                while batch := list(islice(frames, BATCH)):
                    writer.write(frame_batch(batch))
        except CraftError as error:
            line = lines[error.number - 1] if error.number else lines[-1]
            raise HopscopeError(f"{name}:{line}: {error.key}: {error.problem}") from None
    print(f"{writer.packets} packets from {len(lines)} objects", file=sys.stderr)


def _objects(stream: TextIO, name: str, lines: array[int]) -> Iterator[Any]:
    """The objects of the lines that are not empty; `lines` gets their numbers."""
    number = 0
    try:
        for number, line in enumerate(stream, 1):
            if line.strip():
                lines.append(number)
                yield json.loads(line)
    except json.JSONDecodeError as error:
        raise HopscopeError(f"{name}:{number}: no JSON: {error.msg} (column {error.colno})") from None
    except UnicodeDecodeError:
        raise HopscopeError(f"{name}:{number + 1}: no UTF-8 text") from None
    except RecursionError:
        raise HopscopeError(f"{name}:{number}: no object: nested too deep") from None
