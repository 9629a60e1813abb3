"""Headers of a trusted proxy: the client's address, and the user that it has authenticated."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers

from ...settings.serve import Role, ServeSettings
from ...wire.address import network, number_of

_LONGEST_NAME = 200


class Proxy:
    """The proxies of the settings; headers from other addresses are ignored."""

    def __init__(self, settings: ServeSettings) -> None:
        self._networks = [network(text) for text in settings.proxy_addresses]
        self._user_header = settings.proxy_user_header.lower()
        self._role_header = settings.proxy_role_header.lower()
        self._operators = set(settings.proxy_operators)
        self._role: Role = settings.proxy_role

    def client(self, peer: str, headers: Headers) -> str:
        """Address of the client: the last in `X-Forwarded-For` that is not a trusted proxy's."""
        if not self._is_trusted(peer):
            return peer
        found = peer
        for part in reversed(",".join(headers.getlist("x-forwarded-for")).split(",")):
            try:
                found = str(ipaddress.ip_address(part.strip()))
            except ValueError:
                return found
            if not self._is_trusted(found):
                return found
        return found

    def user(self, peer: str, headers: Headers) -> tuple[str, Role] | None:
        """User and role that the proxy has authenticated; None: no user, or not a trusted proxy."""
        if not self._user_header or not self._is_trusted(peer):
            return None
        names = headers.getlist(self._user_header)
        if len(names) != 1:  # two: the proxy adds its own to one that the client sent
            return None
        name = names[0].strip()
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            return None
        return name, self._role_of(headers.getlist(self._role_header) if self._role_header else [])

    def _role_of(self, lines: Sequence[str]) -> Role:
        if not self._role_header:
            return self._role
        groups = {part.strip() for part in lines[0].split(",")} if len(lines) == 1 else set()
        return "operator" if groups & self._operators else "viewer"

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = number_of(peer.partition("%")[0])
        except ValueError:
            return False
        return any(first <= address <= last for first, last in self._networks)
