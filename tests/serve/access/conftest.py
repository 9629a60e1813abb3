"""A server with users, in this process, and browsers that talk to it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hopscope.operators import passwords
from hopscope.operators.audit import Author
from hopscope.serve.access.access import Access
from hopscope.serve.api import create_app
from hopscope.settings.serve import ServeSettings

PASSWORDS = {"ada": "a long password", "vera": "another password"}
TOKEN = "correct horse battery"


class Server:
    """An application over a data folder, with an operator `ada` and a viewer `vera`."""

    def __init__(self, folder: Path, settings: ServeSettings) -> None:
        self.app = create_app(settings, folder)
        self.guarded: Any = self.app.state.guarded
        self.access: Access = self.app.state.context.access
        self.folder = folder

    def browser(
        self, client: str = "192.0.2.7", base: str = "http://127.0.0.1:8080", **headers: str
    ) -> httpx.AsyncClient:
        """Something with cookies at this address."""
        transport = httpx.ASGITransport(self.guarded, raise_app_exceptions=False, client=(client, 4711))
        return httpx.AsyncClient(transport=transport, base_url=base, headers=headers)

    async def logged_in(self, name: str, **more: Any) -> tuple[httpx.AsyncClient, dict[str, Any]]:
        """A browser of a user, and the answer to its login."""
        browser = self.browser(**more)
        answer = await browser.post("/api/v0/login", json={"user": name, "password": PASSWORDS[name]})
        assert answer.status_code == 200, answer.text
        return browser, answer.json()


@pytest.fixture(scope="package", autouse=True)
def cheap_hashes() -> Iterator[None]:
    """Hashes of the least cost: these tests are not about it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "PASSES", 1)
        patch.setattr(passwords, "MEMORY_KIB", 64)
        passwords._hasher.cache_clear()
        passwords._of_no_one.cache_clear()
        yield
    passwords._hasher.cache_clear()
    passwords._of_no_one.cache_clear()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Any]:
    """Makes servers, of given settings."""
    servers: list[Server] = []

    def make(**settings: Any) -> Server:
        server = Server(tmp_path, ServeSettings(**settings))
        if not server.access.users.all():
            server.access.users.add("ada", "operator", PASSWORDS["ada"], Author("test"))
            server.access.users.add("vera", "viewer", PASSWORDS["vera"], Author("test"))
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.app.state.context.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run one conversation."""
    asyncio.run(work)
