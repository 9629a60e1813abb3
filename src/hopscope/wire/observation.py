"""One packet seen at one switch, the input of monitors; it comes from a simulation or a capture."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..base.kernels.plain import mix64
from .records import Records

FLOW_BYTES = 13
"""Bytes of a flow: source, destination, protocol, source port, destination port, in network order."""
OBSERVATION = np.dtype(
    [
        ("time_ns", "<i8"),  # arrival in the switch, ns since the Unix epoch
        ("packet", "<u8"),  # id of the packet, the same at every switch that it passes
        ("switch", "<u4"),  # node id
        ("hop_latency", "<u4"),  # ns
        ("queue_depth", "<u4"),  # bytes before it in its queue
        ("size", "<u4"),  # IP length, bytes
        ("payload", "<u4"),  # bytes after the L4 header
        ("sequence", "<u4"),  # TCP
        ("acknowledgment", "<u4"),
        ("ingress_port", "<u2"),
        ("egress_port", "<u2"),
        ("flow", "u1", (FLOW_BYTES,)),  # see `flow_bytes`
        ("hop", "u1"),  # 1: the first switch
        ("path_length", "u1"),  # switches on the packet's way
        ("flags", "u1"),  # TCP
        ("drop_reason", "u1"),  # 0: it was not dropped here
        ("is_sink", "u1"),  # 1: the last switch, which it left
        ("ip_version", "u1"),
        ("reserved", "u1", (5,)),
    ]
)
"""One observation, 72 bytes. Values unknown to its source are 0."""

FIN, SYN, ACK = 1, 2, 16
"""Bits of `flags`."""
TCP, UDP = 6, 17
_FLOW = np.dtype(
    [("source", ">u4"), ("destination", ">u4"), ("protocol", "u1"), ("sport", ">u2"), ("dport", ">u2")]
)


def flow_bytes(
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    protocol: npt.ArrayLike,
    sport: npt.ArrayLike,
    dport: npt.ArrayLike,
) -> npt.NDArray[np.uint8]:
    """5-tuples of IPv4 addresses as numbers: uint8 [flows, 13]. An IPv6 address is folded before (`fold`)."""
    columns = (source, destination, protocol, sport, dport)
    flows = np.zeros(np.broadcast_shapes(*(np.shape(np.atleast_1d(c)) for c in columns)), _FLOW)
    for name, column in zip(_FLOW.names or (), columns, strict=True):
        flows[name] = column
    return flows.view(np.uint8).reshape(-1, FLOW_BYTES)


def fold(high: int, low: int) -> int:
    """An address in 32 bits: IPv4 (::ffff:a.b.c.d) unchanged, IPv6 hashed.

    So flows have one width, and the sizes of DTA's Table 2 apply to both versions. Two IPv6 addresses may
    collide, with a probability of 2^-32.
    """
    if not high and low >> 32 == 0xFFFF:
        return low & 0xFFFFFFFF
    return mix64(mix64(high) ^ low) >> 32


def addresses(observations: Records) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Source and destination of observations' flows, uint32 [observations] each."""
    flows = np.ascontiguousarray(observations["flow"]).view(_FLOW).reshape(-1)
    return flows["source"].astype(np.uint32), flows["destination"].astype(np.uint32)
