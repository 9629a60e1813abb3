"""The ports of a software NIC: addresses whose peers write to the same stores (multi-NIC, DTA 7)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ...capture.udp.datagram import DatagramSocket
from ...memory.region import Region
from ...rdma.advertisement import Renewal
from ...rdma.connection import Connection
from ...rdma.endpoint import Endpoint, Session
from ...rdma.memory_table import MemoryTable
from ...settings.direct import NicSettings

LOOPBACK = ("127.0.0.0/8", "::1/128")
Peer = tuple[Endpoint, Session]
"""A connected peer, and the endpoint that it is connected to."""


class NicPorts:
    """An endpoint and a socket for each address; one thread executes all writes, so they never interleave."""

    def __init__(self, nic: NicSettings, table: MemoryTable, notices: Region, port: int) -> None:
        self.table = table
        self.endpoints = [
            Endpoint(host, table=table, notices=notices, any_ip_id=nic.any_ip_id, any_icrc=nic.any_icrc)
            for host in nic.hosts
        ]
        self.sockets = [DatagramSocket(host, port, allow=nic.allow or LOOPBACK) for host in nic.hosts]

    def open(self) -> None:
        """Bind. Raises CaptureError."""
        for each in self.sockets:
            each.open()

    def notes(self) -> list[str]:
        """Lines for the log at startup."""
        return [note for each in self.sockets for note in each.notes()]

    def turn(self, now_ns: int) -> int:
        """Receive once at each address, and answer; returns the number of datagrams."""
        count = 0
        for endpoint, each in zip(self.endpoints, self.sockets, strict=True):
            batch = each.receive()
            if batch is not None:
                count += len(batch)
                endpoint.receive(batch, now_ns, time.time_ns())
            for frames in endpoint.frames(now_ns):
                each.send(frames)
        return count

    def serve(self, port: int, advertise: Callable[[Connection], list[bytes]]) -> None:
        """Send new peers of an RDMA-CM port an advertisement."""
        for endpoint in self.endpoints:
            endpoint.serve(port, advertise)

    def renew(self, port: int, renewal: Renewal) -> list[Peer]:
        """Announce a new epoch to all peers of a service; returns those that have to move."""
        return [
            (endpoint, session) for endpoint in self.endpoints for session in endpoint.renew(port, renewal)
        ]

    @property
    def peers(self) -> list[Peer]:
        """Connected peers."""
        return [(endpoint, session) for endpoint in self.endpoints for session in endpoint.sessions.values()]

    def disconnect(self) -> None:
        """End all connections."""
        for endpoint, session in self.peers:
            endpoint.disconnect(session, time.monotonic_ns())

    def close(self) -> None:
        """Close the sockets."""
        for each in self.sockets:
            each.close()

    @property
    def verbs_by_target(self) -> npt.NDArray[np.uint64]:
        """Executed verbs by target, uint64 [256]."""
        return self._sum([endpoint.responder.verbs_by_target for endpoint in self.endpoints])

    @property
    def reasons(self) -> npt.NDArray[np.uint64]:
        """Packets by `RoceReason`; executed requests at NONE."""
        return self._sum([endpoint.responder.counts for endpoint in self.endpoints])

    @property
    def counts(self) -> dict[str, int]:
        """Sums over the ports, by name of the counter."""
        endpoints = self.endpoints
        sockets = [each.counts() for each in self.sockets]
        return {
            "packets": sum(each.packets for each in endpoints),
            "verbs": sum(each.responder.verbs_executed for each in endpoints),
            "answers": sum(each.answers for each in endpoints),
            "notices": sum(each.responder.notices_written for each in endpoints),
            "notifications": sum(each.notifications for each in endpoints),
            "denied": sum(each["denied_frames_total"] for each in sockets),
            "kernel_drops": sum(each["kernel_drops_total"] for each in sockets),
            "established": sum(each.connections.counters.established for each in endpoints),
            "rejected": sum(each.connections.counters.rejected for each in endpoints),
        }

    @staticmethod
    def _sum(arrays: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
        return np.add.reduce(arrays, axis=0, dtype=np.uint64)
