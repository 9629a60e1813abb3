"""A request to a member: to take part, or to leave (`drain`)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from ...memory.text_file import write_text

FILE_NAME = "drain.json"
"""File in the data folder with the last request, for a start without NATS, and for `/readyz`."""
MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """A request to a member."""

    drained: bool = False
    silence_seconds: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """How long it waits for the last report; a silence that begins within this time may be completed."""
    number: Annotated[int, Field(ge=0)] = 0
    """Number of the request, ns since the epoch; the progress that answers it has the same number."""

    def encode(self) -> bytes:
        """The stored form, JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def decode(value: bytes) -> DrainRequest:
    """A stored request; an invalid one counts as none, since anyone with credentials can write it."""
    try:
        return TypeAdapter(DrainRequest).validate_json(value[: MAX_BYTES + 1])
    except ValidationError:
        return DrainRequest()


def remember(folder: Path, request: DrainRequest) -> None:
    """Store the request in the data folder."""
    write_text(folder / FILE_NAME, request.encode().decode())


def remembered(folder: Path) -> DrainRequest:
    """The last request to the member with this data folder."""
    try:
        return decode((folder / FILE_NAME).read_bytes())
    except OSError:
        return DrainRequest()
