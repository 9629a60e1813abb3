"""A destination of a package of its own: events as lines of JSON in a file."""

import json
from pathlib import Path

from hopscope.export.block import EventBlock
from hopscope.export.destination import DeliveryError, Destination
from hopscope.present.events import event_object
from hopscope.settings.destinations.common import ExportSettings


class LinesSettings(ExportSettings):
    """Lines of JSON."""

    file: Path
    """File that lines are appended to."""


class Lines(Destination):
    """One file."""

    Settings = LinesSettings

    def send(self, block: EventBlock) -> None:
        """Append a line for each event; a block that comes again is told by its id."""
        lines = [
            json.dumps({"block": block.id, **event_object(event, self.context.names)}) + "\n"
            for event in block.records
        ]
        try:
            with self.settings.file.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        except OSError as error:
            raise DeliveryError(f"{error.filename}: {error.strerror}") from error
