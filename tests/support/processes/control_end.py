"""What a member's process talks to: the control socket of a collector, with its limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hopscope.detect.thresholds import CONTROL_FILE, create_control, read_limits
from hopscope.runtime.supervisor.control import ControlServer
from hopscope.runtime.supervisor.live_limits import LiveLimits
from hopscope.settings.collector import Settings
from hopscope.settings.limits import as_json


class ControlEnd:
    """Limits in the regions of `folder`, changed through its socket."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        (folder / "regions").mkdir(parents=True, exist_ok=True)
        self._region = create_control(folder / "regions" / CONTROL_FILE, settings.limits)
        self._limits = LiveLimits(self._region, settings, folder)
        self._limits.resume(print)
        self.server = ControlServer(folder, self._answer)

    def general(self, metric: str) -> dict[str, Any]:
        """Limits in force."""
        return as_json(read_limits(self._region))["general"][metric]

    def _answer(self, request: dict[str, Any], author: str) -> dict[str, Any]:
        answer = self._limits.answer(request, author)
        if answer is None:
            raise ValueError("unknown")
        return answer


@contextmanager
def control_end(settings: Settings, folder: Path) -> Iterator[ControlEnd]:
    """It answers meanwhile."""
    end = ControlEnd(settings, folder)
    end.server.start()
    try:
        yield end
    finally:
        end.server.close()
