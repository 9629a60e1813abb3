"""Messages on stderr at the end of a capture file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ...capture.pcap.reader import PcapReader


def end_of_file(reader: PcapReader) -> None:
    """Report unread packets, and damage. Raises typer.Exit(1) if the file is damaged or truncated."""
    for text in reader.unread_texts:
        print(f"hopscope: {text}", file=sys.stderr)
    if reader.damage:
        print(f"hopscope: {reader.damage}", file=sys.stderr)
        raise typer.Exit(1)
