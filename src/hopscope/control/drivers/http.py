"""Switches that run `hopscope switch serve`: JSON over HTTP."""

from __future__ import annotations

import json
from typing import TypeVar

import httpx
from pydantic import ValidationError

from ...base.errors import described
from ...base.tls import client_context
from ...base.version import VERSION
from ...settings.configuration.secrets import value_of
from ...settings.section import Section
from ...settings.switches import HttpSwitchSettings
from ..driver import RefusedError, SouthboundError
from ..neighbours import SwitchPorts
from ..state import SwitchState

PATH = "/api/v0/switch/state"
"""State of a switch: GET reads it, PATCH changes the given parts."""
PORTS_PATH = "/api/v0/switch/ports"
"""Ports of a switch and their neighbours: GET."""
MAX_BYTES = 8 * 1024 * 1024
"""Longest answer of a switch."""
Answer = TypeVar("Answer", bound=Section)


class HttpDriver:
    """One connection to a switch; no proxies, no redirects."""

    def __init__(self, name: str, settings: HttpSwitchSettings) -> None:
        self._name, self._settings = name, settings
        self._client: httpx.Client | None = None

    def connect(self) -> None:
        """Read token and certificates; the first request connects. Raises HopscopeError."""
        settings = self._settings
        token = value_of(f"switches.{self._name}.token", settings.token)
        tls = settings.url.startswith("https:")
        self._client = httpx.Client(
            base_url=settings.url.rstrip("/"),
            headers={
                "user-agent": f"hopscope/{VERSION}",
                "authorization": f"Bearer {token}",
                "accept-encoding": "identity",
            },
            timeout=settings.timeout_seconds,
            follow_redirects=False,
            trust_env=False,
            verify=client_context(settings.ca_file, settings.cert_file, settings.key_file) if tls else False,
        )

    def read(self) -> SwitchState:
        """The current state of the switch. Raises SouthboundError."""
        return self._ask("GET", PATH, SwitchState)

    def apply(self, change: SwitchState) -> None:
        """Change the parts that are not None. Raises SouthboundError, RefusedError."""
        self._ask("PATCH", PATH, SwitchState, change)

    def ports(self) -> SwitchPorts:
        """Its ports and their neighbours. Raises SouthboundError."""
        return self._ask("GET", PORTS_PATH, SwitchPorts)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self, method: str, path: str, kind: type[Answer], change: SwitchState | None = None) -> Answer:
        assert self._client is not None
        given = None if change is None else change.as_json()
        try:
            with self._client.stream(method, path, json=given) as answer:
                body = b""
                for part in answer.iter_raw():  # not decompressed, which could fill memory
                    body += part
                    if len(body) > MAX_BYTES:
                        raise SouthboundError(f"its answer is longer than {MAX_BYTES:,} bytes")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise SouthboundError(described(error)) from None
        if method == "PATCH" and answer.status_code == 400:
            raise RefusedError(_reason(body))
        if answer.status_code != 200:
            raise SouthboundError(f"status {answer.status_code}: {_reason(body)}")
        try:
            return kind.model_validate_json(body)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, problem["loc"]))
            raise SouthboundError(f"its answer is not that of a switch: {place}: {problem['msg']}") from None


def _reason(body: bytes) -> str:
    """The error message in an answer, as one line."""
    try:
        return str(json.loads(body)["error"])[:200]
    except (ValueError, KeyError, TypeError):
        return " ".join(body.decode("utf-8", "replace").split())[:200]
