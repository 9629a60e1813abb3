"""Creates or changes the buckets and streams of a cluster in NATS by its settings; never deletes any."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..settings.cluster import ClusterSettings
from .buckets import run
from .connection import ClusterError, Connection
from .membership.members import MAX_BYTES
from .names import ClusterNames

if TYPE_CHECKING:
    from nats.js.api import StreamConfig
    from nats.js.client import JetStreamContext

REVISIONS = 64
"""How many revisions of the configuration are kept: the maximum that NATS allows."""
MIN_BYTES = 4096
"""Free space that a bucket needs for one more entry."""
PEERS_SECONDS = 10.0
"""How long servers may take to find each other."""
_NO_PEERS = 10005
"""Error of JetStream: no servers for the replicas."""
_NO_CLUSTER = 10074
"""Error of JetStream: several replicas were requested of a single server."""


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The desired state of a bucket or stream."""

    name: str
    """Name of the stream; for a bucket, `KV_` and the bucket's name."""
    about: str
    subjects: tuple[str, ...] = ()
    history: int = -1
    """For a bucket, how many values of each key are kept; -1: it is a stream."""
    seconds: float = 0.0
    """How long messages are kept; 0: for ever."""
    most_bytes: int = -1
    """For a stream, the size above which the oldest messages are dropped; -1: no limit."""
    most_value_bytes: int = -1
    """Maximum size of a message; -1: the limit of NATS."""
    duplicate_seconds: float = 120.0
    """How long the id of a message is remembered."""


def stream_specs(settings: ClusterSettings) -> list[StreamSpec]:
    """The buckets and streams of a cluster."""
    names = ClusterNames(settings.name)
    return [
        _bucket(names.members, "Members that are there", MAX_BYTES, seconds=settings.member_seconds),
        _bucket(names.known, "All members that ever were there", MAX_BYTES),
        _bucket(names.drains, "Members that leave, and how far they are", MAX_BYTES),
        _bucket(names.configuration, "Configuration of all members", history=REVISIONS),
        _bucket(names.owners, "Owners of keys, by generation", history=REVISIONS),
    ]


def init(connection: Connection) -> list[tuple[str, str]]:
    """Create missing ones, and change those that differ; returns names with `created`, `changed` or
    `unchanged`.

    Raises ClusterError.
    """
    from nats.js.errors import APIError

    try:
        return run(connection, _init(connection), 60, "a stream")
    except ClusterError as error:
        cause, settings = error.__cause__, connection.settings
        if not isinstance(cause, APIError) or cause.err_code != _NO_CLUSTER:
            raise
        raise ClusterError(
            f"NATS at {settings.place}: a single server cannot keep {settings.replicas} replicas: set "
            "cluster.replicas=1, or cluster the servers"
        ) from None


def lacking(connection: Connection) -> list[str]:
    """Buckets and streams that are missing or full, one line each. Raises ClusterError."""
    return run(connection, _lacking(connection), 60, "a stream")


async def _lacking(connection: Connection) -> list[str]:
    from nats.js.errors import NotFoundError

    found = []
    for each in stream_specs(connection.settings):
        try:
            info = await connection.jetstream.stream_info(each.name)
        except NotFoundError:
            found.append(f"{_shown(each)} is missing; `hopscope cluster init` makes it")
            continue
        config, state = info.config, info.state
        bounds = ((config.max_bytes, state.bytes + MIN_BYTES), (config.max_msgs, state.messages))
        if any(most is not None and 0 < most <= now for most, now in bounds):
            found.append(f"{_shown(each)} is full; give it more room in NATS")
    return found


def _shown(spec: StreamSpec) -> str:
    return f"bucket {spec.name.removeprefix('KV_')}" if spec.history > 0 else f"stream {spec.name}"


async def _init(connection: Connection) -> list[tuple[str, str]]:
    from nats.js.errors import NotFoundError

    jetstream, done = connection.jetstream, []
    for each in stream_specs(connection.settings):
        try:
            info = await jetstream.stream_info(each.name)
        except NotFoundError:
            await _add(jetstream, _config(each, connection.settings.replicas))
            done.append((each.name, "created"))
            continue
        config = _config(each, connection.settings.replicas)
        before = info.config
        shape = replace(
            before, max_age=config.max_age, duplicate_window=config.duplicate_window,
            num_replicas=config.num_replicas, max_bytes=config.max_bytes,
            max_msgs_per_subject=config.max_msgs_per_subject, max_msg_size=config.max_msg_size,
        )  # fmt: skip
        if shape != before:
            await jetstream.update_stream(shape)
        done.append((each.name, "unchanged" if shape == before else "changed"))
    return done


async def _add(jetstream: JetStreamContext, config: StreamConfig) -> None:
    """Create a stream; retried while servers that have just started have not found each other yet."""
    from nats.js.errors import BadRequestError

    until = time.monotonic() + PEERS_SECONDS
    while True:
        try:
            await jetstream.add_stream(config)
            return
        except BadRequestError as error:
            if error.err_code != _NO_PEERS or time.monotonic() > until:
                raise
        await asyncio.sleep(0.5)


def _bucket(
    name: str, about: str, most_value_bytes: int = -1, *, history: int = 1, seconds: float = 0.0
) -> StreamSpec:
    """A bucket whose entries are all read at once needs `most_value_bytes`."""
    duplicates = min(120.0, seconds or 120.0)
    subjects = (f"$KV.{name}.>",)
    return StreamSpec(f"KV_{name}", about, subjects, history, seconds, -1, most_value_bytes, duplicates)


def _config(spec: StreamSpec, replicas: int) -> StreamConfig:
    from nats.js.api import DiscardPolicy, StreamConfig

    bucket = spec.history > 0
    return StreamConfig(
        name=spec.name,
        description=spec.about,
        subjects=list(spec.subjects),
        num_replicas=replicas,
        max_age=spec.seconds,
        max_bytes=spec.most_bytes,
        max_msg_size=spec.most_value_bytes,
        max_msgs_per_subject=spec.history,
        duplicate_window=spec.duplicate_seconds,
        discard=DiscardPolicy.NEW if bucket else DiscardPolicy.OLD,
        allow_rollup_hdrs=bucket,
        deny_delete=bucket,
    )
