"""Passwords and tokens, read when a destination connects."""

from __future__ import annotations

from ..settings.destinations import shown
from .destination import DeliveryError


def secret(text: str) -> str:
    """A password or token of the settings (`shown.secret`). Raises DeliveryError if it cannot be read."""
    try:
        return shown.secret(text)
    except (ValueError, OSError) as error:
        raise DeliveryError(error) from None
