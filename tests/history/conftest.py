"""Events to write and read back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.events.event_make import Events, random_events


@pytest.fixture(scope="session")
def make_events() -> Callable[..., Events]:
    """`make_events(n, seed=0, start=0)`."""
    return random_events
