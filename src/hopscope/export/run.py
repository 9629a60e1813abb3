"""Main of the export process: rings to webhooks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..config import Settings
from ..detect.as_json import event_object
from ..detect.records import EVENT_VERSION
from ..memory.rings import Rings
from ..names import Names
from ..stop import Stop
from .counters import open_counters
from .webhook import Webhook

TURN_SECONDS = 0.1


def run(settings: Settings, folder: Path, stop: Stop) -> None:
    """Post alerts until `stop` is set, or the process that started this one is gone."""
    names = Names.load(settings.names)

    def describe(row: np.void) -> dict[str, Any]:
        return event_object(row, names)

    parent = os.getppid()
    region = open_counters(folder, len(settings.alerts))
    webhooks = [
        Webhook(alert, describe, region["webhooks"][at : at + 1]) for at, alert in enumerate(settings.alerts)
    ]
    rings = Rings(folder / "regions", "events", EVENT_VERSION, region["next"])
    try:
        while not stop.wait(TURN_SECONDS) and os.getppid() == parent:
            blocks, lost = rings.read()
            for webhook in webhooks:
                for at, block in enumerate(blocks):
                    webhook.offer(block, lost if at == 0 else 0)
    finally:
        for webhook in webhooks:
            webhook.close()
