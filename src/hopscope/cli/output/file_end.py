"""What is said on stderr at the end of a capture file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ...capture.pcap.reader import PcapReader


def end_of_file(reader: PcapReader) -> None:
    """Say what of a file was not read. Raises typer.Exit(1) if it is damaged or cut."""
    if reader.unread:
        print(f"hopscope: {reader.unread_text}", file=sys.stderr)
    if reader.damage:
        print(f"hopscope: {reader.damage}", file=sys.stderr)
        raise typer.Exit(1)
