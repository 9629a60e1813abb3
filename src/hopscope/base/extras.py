"""Extras: packages that only some settings, commands and functions need."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

DEBIAN = Path("/usr/lib/hopscope")
"""The environment of the Debian package, which has no pip."""


def install_command(extra: str) -> str:
    """The command that installs an extra for this Hopscope, depending on how Hopscope was installed."""
    home, package = Path(sys.prefix), f"'hopscope[{extra}]'"
    if home == DEBIAN:
        return f"make deb EXTRAS={extra}, in a clone; then install that package"
    if (home / "pipx_metadata.json").exists():
        return f"pipx runpip {home.name} install {package}"
    pip = home / "bin/pip"
    if pip.exists():
        return f"{shlex.quote(str(pip))} install {package}"
    return f"uv pip install --python {shlex.quote(str(home))} {package}"
