"""Frequent polls, and a data folder with a destination of alerts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.export import sender
from hopscope.export.alerts.destination import AlertDestination
from hopscope.export.counters import DESTINATION, DestinationRow, health_of
from hopscope.export.destination import Context
from hopscope.export.kinds import destination_class
from hopscope.export.sender import Sender
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.destinations.kinds import EXPORT_KINDS
from support.events.alert_events import numbered
from support.events.event_make import Events
from support.waiting import HANG_SECONDS


@pytest.fixture(autouse=True)
def _frequent_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "POLL_SECONDS", 0.005)


class Rig:
    """A data folder with shard 0, whose events go to one destination; start it again after `stop`."""

    def __init__(
        self, folder: Path, writer: JournalWriter, kind: str, names: Names, settings: dict[str, Any]
    ) -> None:
        self.folder, self.row = folder, np.zeros(1, DESTINATION)
        self._kind, self._names, self._given = kind, names, settings
        self._writer = writer
        self._count = 0
        self.sender: Sender | None = None

    @property
    def destination(self) -> AlertDestination:
        """The destination that runs."""
        assert self.sender is not None
        found = self.sender.destination
        assert isinstance(found, AlertDestination)
        return found

    def make(self) -> AlertDestination:
        """A destination with the settings, and the state of the one before."""
        about = DestinationRow(self.row)
        given = {"kind": self._kind, "begin": "oldest", **self._given}
        settings = EXPORT_KINDS[self._kind].model_validate(given)
        context = Context("pager", "m1", self._names, about.count, self.folder / "export" / "pager.state")
        made = destination_class(self._kind)(settings, context)
        assert isinstance(made, AlertDestination)
        return made

    def start(self) -> None:
        """Start a sender, as a process does."""
        self.sender = Sender(self.make(), self.folder, DestinationRow(self.row))
        self.sender.start()

    def write(self, events: Events) -> None:
        """Write events to history."""
        numbered(events, self._count)
        self._count += len(events)
        self._writer.append(events)

    def stop(self) -> None:
        """End the sender when everything is delivered."""
        assert self.sender is not None
        self.sender.finish()
        assert self.sender.ended(HANG_SECONDS)

    def count(self, name: str) -> int:
        """A counter of the destination."""
        return int(self.row[f"{name}_total"][0])

    @property
    def problem(self) -> str:
        """What is wrong; empty: nothing is."""
        return health_of(self.row[0]).problem


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Callable[..., Rig]]:
    """Makes the rig of a test: kind, names, settings."""
    with JournalWriter(tmp_path / "data", 0) as writer:

        def make(kind: str, names: Names | None = None, **settings: Any) -> Rig:
            return Rig(tmp_path / "data", writer, kind, names or Names(), settings)

        yield make
