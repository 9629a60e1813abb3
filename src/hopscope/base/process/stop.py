"""How a loop learns that it should end."""

from __future__ import annotations

from typing import Protocol


class Stop(Protocol):
    """An event of threading or multiprocessing."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; whether to stop."""
        ...
