"""Folders of the user who runs a command."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from hopscope.base.user_folder import user_folder


def refuse(uid: int) -> pwd.struct_passwd:
    """The list of users, without this one."""
    raise KeyError(uid)


def test_a_user_without_a_home_has_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a container or service whose user id has no name: none is named by ~, below the current folder."""
    for name in [name for name in os.environ if name == "HOME" or name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(pwd, "getpwuid", refuse)
    assert user_folder("data") == Path("/.data/hopscope")
    assert user_folder("config") == Path("/.config/hopscope")
    monkeypatch.setenv("HOME", "/home/one")
    assert user_folder("data") == Path("/home/one/.local/share/hopscope")
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/one")
    assert user_folder("cache") == Path("/var/cache/one/hopscope")
