"""Query parameters that several routes share."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from fastapi import HTTPException, Query

from ...present.text import UnreadableError, parse_when

Moment = Annotated[str | None, Query(max_length=60, description="RFC 3339, ns since 1970, or 5m")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="Rows to skip")]
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows")]
Order = Literal["asc", "desc"]
Text = Annotated[str | None, Query(max_length=100, description="Address or network")]
NodeName = Annotated[str | None, Query(max_length=200, description="Node id or name")]
Ports = Annotated[
    list[int] | None,
    Query(max_length=64, description="Egress ports, on the switches of `node` if given; repeatable"),
]
FlowId = Annotated[str | None, Query(pattern="^[0-9a-fA-F]{16}$", description="16 hexadecimal digits")]


def moment(name: str, text: str | None) -> int | None:
    """A time of a query parameter, ns since the epoch. Raises HTTPException."""
    try:
        return None if text is None else parse_when(text, time.time_ns())
    except UnreadableError as error:
        raise HTTPException(400, f"{name}: {error}, found {(text or '')[:60]!r}") from None
