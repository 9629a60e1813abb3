"""`hopscope open`: the page of the collector that runs."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from hopscope.memory.data_folder import DataFolder
from hopscope.operators.codes import Codes
from hopscope.operators.database import Database
from hopscope.runtime.supervisor.control import ControlServer
from support.processes.command import run

PAGE = "http://127.0.0.1:8099/"


def test_the_address_is_printed_and_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a code that logs in once. A browser gets it only with a display, not with --print, and never as an
    argument that others can see; a collector without a page says so.
    """
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda page: opened.append(page) or True)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":7")
    with DataFolder(tmp_path / "data") as folder:
        server = ControlServer(folder.path, lambda request, peer: {})
        server.start()
        try:
            folder.write_owner(listen=[], api=PAGE)
            status, out, err = run("open", "--data", folder.path, "--print")
            assert (status, err) == (0, "")
            codes = Codes(Database(folder.path))
            page, code = out.strip().split("login?code=")
            assert page == PAGE
            assert codes.take(code)
            assert opened == []
            _, out, _ = run("open", "--data", folder.path)
            assert len(opened) == 1
            leading = Path(opened.pop().removeprefix("file://"))
            assert out.strip() in leading.read_text()
            assert leading.stat().st_mode & 0o777 == 0o600
            assert run("open", "--data", folder.path, "--viewer")[:2] == (0, PAGE + "\n")
            assert opened == [PAGE]
            monkeypatch.delenv("DISPLAY")
            assert run("open", "--data", folder.path)[0] == 0
            assert opened == [PAGE]
            folder.write_owner(listen=[], api=None)
            status, out, err = run("open", "--data", folder.path)
            assert (status, out, "has no page" in err) == (2, "", True)
        finally:
            server.close()
