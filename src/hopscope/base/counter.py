"""What a counter is: its name, what it means, and whether it can fall. Rooms declare lists of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter, a uint64 in a region or a block."""

    name: str
    """Prometheus name without the `hopscope_` prefix."""
    help: str
    label: tuple[str, str] | None = None
    """Name and value of the one label, where the counter is one of a family."""
    falls: bool = False
    """It can become less, so Prometheus gets it as a gauge."""

    @property
    def key(self) -> str:
        """`name`, or `name.value` in a family: how Python code addresses the counter."""
        return f"{self.name}.{self.label[1]}" if self.label else self.name
