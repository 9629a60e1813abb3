"""Sockets that nats-py forgets when a server refuses it again: collected where they were made."""

from __future__ import annotations

import gc
import warnings


def collect_forgotten() -> None:
    """Collect them without their warnings, which would fail whichever test runs next."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
