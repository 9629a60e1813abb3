"""Reports for the API under load, from a process of their own: of few flows, or each of a new flow."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Literal

import numpy as np

from hopscope.capture.udp.listener import UdpSender
from hopscope.fabric.load import LOOPBACK, Load, reports_of
from hopscope.wire.encode.encoder import encode_reports, mapped_v4
from hopscope.wire.records import FrameBatch, Link

from .sending import CONTEXT

Kind = Literal["steady", "new flows", "made up"]
FLOWS = 10_000
"""Of a steady load."""
HOPS, FIELDS = 3, 8
SOURCES = 16
_STEP = 1000
"""Reports of new flows that are made at a time."""
_MADE_UP = 1 << 19
"""Addresses of made-up sources, from 127.16.0.0 on."""
_NODES = 1 << 20


class Sending:
    """The process: `start`, then `stop` says how many reports it has sent."""

    def __init__(self, port: int, kind: Kind, rate: float) -> None:
        self._channel, other = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_send, args=(other, port, kind, rate), daemon=True)
        self._process.start()
        self._channel.recv()

    def start(self) -> None:
        """Send until `stop`."""
        self._channel.send(True)

    def stop(self) -> int:
        """Reports that were sent since the start."""
        self._channel.send(False)
        return self._channel.recv()

    def close(self) -> None:
        """End the process."""
        self._channel.send(None)
        self._process.join()


def _send(channel: Connection, port: int, kind: Kind, rate: float) -> None:
    following = _steady(rate) if kind == "steady" else _new(kind == "made up")
    sender = UdpSender("127.0.0.1", port, rate=rate, trains=False, by_source=True)
    batch = following()
    channel.send(True)
    while channel.recv():
        before = sender.sent
        while not channel.poll():
            sender.send(batch)
            batch = following()
        channel.recv()
        channel.send(sender.sent - before)
    sender.close()


def _steady(rate: float) -> Callable[[], FrameBatch]:
    load = Load(hops=HOPS, flows=FLOWS, sources=SOURCES, fields=FIELDS)
    return lambda: load.next(max(1, int(rate / 20)))


def _new(made_up: bool) -> Callable[[], FrameBatch]:
    """Each report is of a flow of its own; `made_up`: also of a source and of switches of their own."""
    random = np.random.default_rng(1)
    first = 0

    def following() -> FrameBatch:
        nonlocal first
        number = np.arange(first, first + _STEP, dtype=np.uint32)
        first += _STEP
        batch = reports_of(number, HOPS, FIELDS)
        reports, hops = batch.reports, batch.hops
        hops["hop_latency"] = random.integers(500, 100_000, len(hops))
        hops["queue_occupancy"] = random.integers(1, 1000, len(hops))
        source = (LOOPBACK + number % SOURCES).astype(np.uint32)
        reports["sequence"] = number // SOURCES & 0x3FFFFF
        if made_up:
            source = (0x7F100000 + number % _MADE_UP).astype(np.uint32)
            hops["node_id"] = random.integers(1, _NODES, len(hops))
        reports["source_lo"] = mapped_v4(source)
        return encode_reports(batch, link=Link.UDP_PAYLOAD)

    return following
