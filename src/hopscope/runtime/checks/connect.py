"""Tries every source, destination and file that the settings name, for `hopscope config check --connect`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base.errors import HopscopeError, described
from ...base.names import Names
from ...base.plural import plural
from ...base.tls import client_context
from ...detect.links import read_links
from ...memory.data_folder import read_owner
from ...memory.running import running_folders
from ...settings.cluster import STREAM, ClusterSettings
from ...settings.collector import Settings
from ...settings.configuration.secrets import Scrubber, secrets_of, value_of
from ...settings.destinations.common import ExportSettings
from ...settings.destinations.metrics import MetricsSettings
from ...settings.destinations.redis import RedisServerSettings
from ...settings.destinations.shown import shown
from ...settings.direct import QuerySettings
from ...settings.listen import ListenSettings
from ...settings.names_from import DeviceSettings
from ...settings.section import host_and_port
from ...settings.source import url
from ...settings.switches import ControlledSettings
from ..labels.process import listen_settings
from .environment import Finding, Verdict
from .environment import listener as find_listener
from .environment import page as find_page

if TYPE_CHECKING:
    from ...export.destination import Context

MAX_TRIES = 16
"""How many destinations are tried at the same time."""
REDIS_SECONDS = 5.0
"""Timeout for the Redis server that stores labels."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One connection to try: `run` returns a description, or raises an error that says what is wrong."""

    what: str
    run: Callable[[], str]


def connections(settings: Settings) -> Iterator[Finding]:
    """One finding for each source and destination that the settings name.

    No event is sent, but a destination creates what it would create at startup, such as its database.
    """
    yield from _files(settings)
    yield from _sources(settings)
    scrub = Scrubber(secrets_of(settings))
    with ThreadPoolExecutor(MAX_TRIES) as pool:
        for finding in pool.map(_tried, _destinations(settings)):
            yield Finding(finding.what, scrub(finding.found), finding.verdict)


def _tried(attempt: Attempt) -> Finding:
    try:
        return Finding(attempt.what, attempt.run())
    except HopscopeError as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
    except Exception as error:  # of a client library, or of another package
        reason = described(error)
    return Finding(attempt.what, " ".join(reason.split()), Verdict.BAD)


def _files(settings: Settings) -> Iterator[Finding]:
    if settings.names is not None:
        yield _tried(Attempt("names", lambda: plural(len(Names.load(settings.names).nodes), "node")))
    if settings.postcards.links is not None:
        yield _tried(
            Attempt("postcards.links", lambda: plural(len(read_links(settings.postcards.links)), "link"))
        )


def _sources(settings: Settings) -> Iterator[Finding]:
    """Tries to bind every listener's address, unless the running collector of this data folder has it."""
    own = read_owner(settings.data) if settings.data.absolute() in running_folders() else {}
    listening: list[object] = own.get("listen") or []
    for at, listen in enumerate(settings.listen):
        yield from _source(f"listen[{at}]", listen, listening)
    if settings.label.listen:
        yield from _source("label.listen", listen_settings(settings.label), [own.get("labels")])
    if settings.serve.enabled:
        place = f"serve {settings.serve.address}"
        if own.get("api"):
            yield Finding(place, "the running collector listens on it")
        else:
            found = find_page(settings)
            yield Finding(place, found.advice or found.found, found.verdict)
    if settings.sink.report.to:
        to = settings.sink.report.to
        yield _tried(Attempt(f"sink.report.to {to}", lambda: _route(to)))


def _source(key: str, listen: ListenSettings, taken: list[object]) -> Iterator[Finding]:
    what = f"{key} {url(listen)}"
    if url(listen) in taken:
        yield Finding(what, "the running collector listens on it")
        return
    found = next(find_listener(listen))
    yield Finding(what, found.advice or found.found, found.verdict)


def _route(to: str) -> str:
    """Raises OSError if there is no route to an address; nothing is sent."""
    host, port = host_and_port(to)
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as handle:
        handle.connect(address)
    return "a route exists; UDP does not show whether anything listens"


def _destinations(settings: Settings) -> Iterator[Attempt]:
    for name, table in settings.names_from.items():
        for node, host in table.devices.items():
            yield _device(f"names_from.{name}", table, node, host)
    for name, switch in settings.switches.items():
        yield _switch(name, switch)
    if settings.label.redis:
        yield _redis("label.redis", settings.label.redis)
    for name, export in settings.destinations.items():
        yield _export(name if name == STREAM else f"export.{name}", name, export, settings)
    for name, metrics in settings.metrics.items():
        yield _metrics(f"metrics.{name}", name, metrics, settings)
    if settings.cluster.enabled:
        yield _cluster(settings.cluster)
    if settings.lake.enabled:
        yield _lake(settings)
    query = settings.direct.query
    for place in query.collectors:
        if "://" in place:
            yield _collector(place, query)


def _switch(name: str, settings: ControlledSettings) -> Attempt:
    def run() -> str:
        from ...control.driver import driver_of
        from ...export.kinds import require_client

        require_client(settings.kind)
        driver = driver_of(name, settings)
        try:
            driver.connect()
            return f"it has {', '.join(driver.read().parts()) or 'nothing to control'}"
        finally:
            driver.close()

    return Attempt(f"switches.{name} {settings.place}", run)


def _device(key: str, table: DeviceSettings, node: int, host: str) -> Attempt:
    def run() -> str:
        from ...export.kinds import require_client

        require_client(table.kind)
        from ...naming.client import ask

        names = asyncio.run(ask(key, table, node, host))
        return f"{names.node_label(node)}, {plural(len(names.ports), 'port')}"

    return Attempt(f"{key} {host}", run)


def _redis(key: str, place: str) -> Attempt:
    def run() -> str:
        from ...export.kinds import require_client
        from ...export.redis.client import redis_client

        require_client(key)
        with closing(redis_client(RedisServerSettings(url=place), REDIS_SECONDS)) as client:
            return f"Redis {client.info('server').get('redis_version')}"

    return Attempt(f"{key} {shown(place)}", run)


def _export(key: str, name: str, export: ExportSettings, settings: Settings) -> Attempt:
    def run() -> str:
        from ...export.kinds import destination_class

        kind = destination_class(export.kind)
        kind.check(export)
        with closing(kind(export, _context(name, settings))) as destination:
            destination.connect()
        return "connected"

    return Attempt(f"{key} {export.place}", run)


def _metrics(key: str, name: str, metrics: MetricsSettings, settings: Settings) -> Attempt:
    def run() -> str:
        from ...export.kinds import METRICS, require_client

        require_client(metrics.kind)
        with closing(METRICS[metrics.kind](metrics, _context(name, settings))) as destination:
            destination.connect()
        return "connected"

    return Attempt(f"{key} {metrics.place}", run)


def _context(name: str, settings: Settings) -> Context:
    from ...export.destination import Context

    return Context(name, settings.member_name, Names(), lambda counter, count: None)


def _cluster(settings: ClusterSettings) -> Attempt:
    def run() -> str:
        from ...cluster.connection import Connection

        with Connection(settings, "config check"):
            return "connected"

    return Attempt(f"cluster {settings.place}", run)


def _lake(settings: Settings) -> Attempt:
    def run() -> str:
        from ...lake.catalog import Lake, create
        from ...lake.check import sizes_of
        from ...lake.extensions import check_lake

        check_lake()
        made = create(settings.lake)
        with Lake(settings.lake, memory_bytes=256 * 1024**2, threads=1) as lake:
            return f"{'made' if made else 'connected'}, {plural(len(sizes_of(lake)), 'file')}"

    return Attempt(f"lake {settings.lake.place}", run)


def _collector(place: str, query: QuerySettings) -> Attempt:
    def run() -> str:
        import httpx

        token = value_of("direct.query.token", query.token)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        trusted = client_context(query.ca_file) if place.startswith("https:") else False
        with httpx.Client(
            timeout=query.timeout_seconds, trust_env=False, headers=headers, verify=trusted
        ) as client:
            status = client.get(f"{place.rstrip('/')}/readyz").status_code
        if status in (401, 403):
            raise HopscopeError(f"status {status}: direct.query.token is not its token")
        return f"answers (status {status})"

    return Attempt(f"direct.query.collectors {shown(place)}", run)
