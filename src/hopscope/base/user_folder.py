"""Folders of the user who runs a command."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import platformdirs


def user_folder(kind: Literal["cache", "config", "data"]) -> Path:
    """Hopscope's folder of this kind; it is in `/` if the user has no home, for
    example in some containers.
    """
    try:
        folder = Path(getattr(platformdirs, f"user_{kind}_dir")("hopscope"))
    except RuntimeError:  # neither HOME nor the list of users states it
        folder = Path("~")
    return folder if folder.is_absolute() else Path("/", f".{kind}", "hopscope")
