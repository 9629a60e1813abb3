"""What a user types to install an extra."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hopscope.base import extras


def test_the_command_installs_beside_this_hopscope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what installed it: uv, pip, pipx, the Debian package. Plain `pip` would be another environment's."""
    home = tmp_path / "the tools" / "hopscope"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(home))
    assert extras.install_command("mqtt") == f"uv pip install --python '{home}' 'hopscope[mqtt]'"
    (home / "bin/pip").touch()
    assert extras.install_command("mqtt") == f"'{home}/bin/pip' install 'hopscope[mqtt]'"
    (home / "pipx_metadata.json").touch()
    assert extras.install_command("mqtt") == "pipx runpip hopscope install 'hopscope[mqtt]'"
    monkeypatch.setattr(sys, "prefix", str(extras.DEBIAN))
    assert extras.install_command("mqtt").startswith("make deb EXTRAS=mqtt,")
