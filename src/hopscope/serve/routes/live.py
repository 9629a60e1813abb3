"""The WebSocket of live values: a page names paths of GETs, and gets their answers when they change."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from ..access.identity import identity_of
from ..live.answers import can_be_watched
from ..live.hub import MAX_PATHS, Hub, Viewer
from .router import PREFIX

router = APIRouter()
_TOO_MANY = 4429
_BAD = 4400
_ENDS = 1001


@router.websocket(f"{PREFIX}/live")
async def live(socket: WebSocket) -> None:
    """Messages from the page: `{"watch": ["/api/v0/overview", …]}`, always the whole list. Messages to the
    page: `{"path", "status", "data"}`, and `{"still": true}` after five seconds without news.
    """
    hub: Hub = socket.app.state.hub
    client = identity_of(socket.scope).address
    await socket.accept()
    if not hub.has_room(client):
        await socket.close(_TOO_MANY, "too many live views at once: close one first")
        return
    viewer = Viewer(client)
    hub.enter(viewer)
    tasks = [
        asyncio.create_task(work)
        for work in (_listen(socket, hub, viewer), _send(socket, viewer), _closing(socket))
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        hub.leave(viewer)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(RuntimeError, WebSocketDisconnect):  # it is already closed
            await socket.close(_ENDS)


async def _listen(socket: WebSocket, hub: Hub, viewer: Viewer) -> None:
    with suppress(WebSocketDisconnect):
        while True:
            paths = _paths(await socket.receive_text())
            if paths is None:
                await socket.close(_BAD, f'expected {{"watch": [...]}} with at most {MAX_PATHS} paths')
                return
            good = [path for path in paths if can_be_watched(socket.app, path)]
            hub.watch(viewer, good)
            for path in set(paths) - set(good):
                line = {"error": "this cannot be watched: expected the path of a GET of the API"}
                viewer.offer(path, json.dumps({"path": path[:200], "status": 404, "data": line}).encode())


def _paths(text: str) -> list[str] | None:
    """The paths that a message asks to watch; None if the message is malformed."""
    try:
        message: Any = json.loads(text)
    except ValueError:
        return None
    paths = message.get("watch") if isinstance(message, dict) else None
    if not isinstance(paths, list) or len(paths) > MAX_PATHS or not all(isinstance(p, str) for p in paths):
        return None
    return paths


async def _send(socket: WebSocket, viewer: Viewer) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):
        while True:
            message = await viewer.next()
            await socket.send_text(message.decode())


async def _closing(socket: WebSocket) -> None:
    await socket.app.state.context.closing.wait()
