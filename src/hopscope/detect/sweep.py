"""Schedule of the tables' periodic work."""

from __future__ import annotations

from ..settings.detect import DetectSettings

SLICES = 8
"""Sweeps of a table per push period."""


class Sweep:
    """Slices of the flow and port tables, chosen so that each row is swept `SLICES` times per push period."""

    def __init__(self, settings: DetectSettings, rows: int, ports: int) -> None:
        period = min(settings.push_seconds or settings.idle_seconds, settings.idle_seconds) / SLICES
        self.period_ns = max(int(period * 1e9), 1)
        self.due_ns = max(int(settings.push_seconds * 1e9) - self.period_ns // 2, 0)
        """Age at which a value is pushed; 0: never."""
        self._silent_ns = int(settings.silent_seconds * 1e9)
        self._lengths = (rows, ports)
        self._last_ns: int | None = None
        self._sources_ns = 0
        self._done = 0.0

    def advance(self, now_ns: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]], bool]:
        """Due slices of the flow rows and of the port rows, and whether sources are due."""
        last = now_ns if self._last_ns is None else self._last_ns
        self._last_ns = now_ns
        share = min(max(now_ns - last, 0) / self.period_ns, 1.0)
        begin, self._done = self._done, self._done + share
        slices: list[list[tuple[int, int]]] = []
        for length in self._lengths:
            first, stop = int(begin * length), int(self._done * length)
            slices.append(
                [(first, min(stop, length)), (0, stop - length)] if stop > length else [(first, stop)]
            )
        self._done %= 1.0
        sources = self._silent_ns > 0 and abs(now_ns - self._sources_ns) >= self._silent_ns // 16
        if sources:
            self._sources_ns = now_ns
        return slices[0], slices[1], sources
