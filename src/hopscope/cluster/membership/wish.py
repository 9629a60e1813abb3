"""What is wanted of a member: that it takes part, or that it leaves (`drain`)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from ...memory.text_file import write_text

FILE_NAME = "drain.json"
"""In the data folder: what was wanted last, for a start without NATS, and for `/readyz`."""
MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of a member."""

    drained: bool = False
    silence_seconds: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """How long it waits at most for the last report; a silence that begins by then is waited out."""
    number: Annotated[int, Field(ge=0)] = 0
    """Of the request, ns since the epoch: progress has the one that it answers."""

    def encode(self) -> bytes:
        """As it is stored: JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def decode(value: bytes) -> Wish:
    """A wish as it was stored; one that is no good counts as none: whoever has credentials can write it."""
    try:
        return TypeAdapter(Wish).validate_json(value[: MAX_BYTES + 1])
    except ValidationError:
        return Wish()


def remember(folder: Path, wish: Wish) -> None:
    """Note it in the data folder."""
    write_text(folder / FILE_NAME, wish.encode().decode())


def remembered(folder: Path) -> Wish:
    """What was wanted last of the member with this data folder."""
    try:
        return decode((folder / FILE_NAME).read_bytes())
    except OSError:
        return Wish()
