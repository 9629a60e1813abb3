"""What the log says of an error inside the API, with a real server."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from hopscope.serve.context import Context
from hopscope.serve.server import bind, run, url_of
from hopscope.settings.collector import Settings
from hopscope.settings.serve import ServeSettings


def test_an_internal_error_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets one line and status 500; the log gets one from the API, none from the web server."""

    async def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    lines: list[str] = []
    log = SimpleNamespace(error=lambda event, **more: lines.append(more["error"]))
    monkeypatch.setattr("hopscope.serve.api.log", log)
    monkeypatch.setattr(Context, "run", broken)
    settings = Settings(data=tmp_path, serve=ServeSettings(port=0))
    listener, stop = bind(settings.serve, tmp_path), threading.Event()
    thread = threading.Thread(target=run, args=(settings, tmp_path, stop, listener))
    thread.start()
    try:
        answer = httpx.get(f"{url_of(listener)}api/v0/queries", timeout=60)
    finally:
        stop.set()
        thread.join()
    assert (answer.status_code, set(answer.json())) == (500, {"error"})
    assert len(lines) == 1
    assert "broken" in lines[0]
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
