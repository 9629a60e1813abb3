"""Settings of webhooks."""

from __future__ import annotations

from pydantic import Field

from ..section import Seconds, Section


class AlertSettings(Section):
    """One webhook."""

    url: str = Field(pattern=r"^https?://")
    """Where events are posted, as JSON."""
    kinds: tuple[str, ...] = Field(
        default=("raised", "cleared", "path_change", "loop", "silent", "returned"), min_length=1
    )
    """Kinds of events that are posted."""
    per_minute: int = Field(default=30, ge=1)
    """Most posts per minute for each kind; events above the limit are counted, and the next post has their
    number."""
    retries: int = Field(default=5, ge=0)
    """Retries after a failure, with doubling pauses."""
    timeout_seconds: Seconds = Field(default=5.0, gt=0)
    """Timeout of one post."""
