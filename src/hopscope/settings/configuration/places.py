"""Files of settings that are read if none is named."""

from __future__ import annotations

from pathlib import Path

import platformdirs

LOCAL_FILE = Path("hopscope.toml")
"""The file that is read from the current folder if no other is named."""


def default_file() -> Path:
    """The user's file, which is read if no other is named, none is in the current folder, and it exists."""
    return Path(platformdirs.user_config_dir("hopscope")) / "config.toml"
