"""Parameters and initial state of the ports of a simulated network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....labels.records import Chance
from ....settings.label import LabellingSettings
from ....wire.records import Records
from ...ports import FabricError, Topology, seed_bits
from ...records import PS, PS_NS, WIRE_OVERHEAD
from .records import LABELLING_PORT, NEVER_LABELLED, SETUP, PortFlag, TooLong

MAX_SECONDS = 50_000
"""Longest simulated time: fourteen hours, so that sums of times fit 64 bits."""
CACHE_LINE = 64
"""Bytes of a cache line."""
_CHANCES = {"f1": Chance.F1, "f2": Chance.F2, "f2-listing": Chance.F2_LISTING, "f3": Chance.F3}


@dataclass(frozen=True, slots=True)
class NetworkModel:
    """Queues, links and delays."""

    buffer_bytes: int = 1_500_000
    """Queue capacity of a port, bytes on the wire; excess packets are dropped."""
    propagation_ns: int = 1000
    """Delay of every link."""
    pipeline_ns: int = 1000
    """Delay from a packet's arrival in a switch or host interface to its queue."""

    jitter_ns: int = 0
    """Maximum random addition to `pipeline_ns`, uniform by packet and port; packets of one port keep their
    order.
    """
    loss: float = 0.0
    """Probability that a link between switches loses a packet."""
    mtu: int = 1500
    """Longest IP packet inside the fabric, with labels; probes that carry items may exceed it."""
    export_ns: int = 100_000
    """Delay from the last hop to the controller: T_u (section 4.2)."""
    control_ns: int = 100_000
    """Delay from the controller to a switch."""
    item_bytes: int = 32
    """Bytes of one label (section 2)."""
    option_bytes: int = 2
    """Bytes of INT OPTION before a packet's labels (section 5)."""

    def __post_init__(self) -> None:
        sizes = (self.buffer_bytes, self.item_bytes, self.option_bytes, self.jitter_ns, self.export_ns)
        if min(*sizes, self.control_ns, self.propagation_ns, self.pipeline_ns) < 0:
            raise FabricError(f"found {self}, expected delays and sizes of 0 or more")
        if not 0 <= self.loss <= 1:
            raise FabricError(f"loss is a probability from 0 to 1, not {self.loss}")
        if not 0 < self.buffer_bytes < 1 << 32 or not 0 < self.mtu < 1 << 16:
            raise FabricError("a queue holds 1 to 4294967295 bytes, and an MTU is 1 to 65535")


def aligned_zeros(rows: int, dtype: npt.DTypeLike) -> Records:
    """Zeros aligned to a cache line, so that the 64 bytes of a port, and the 32 of a packet, are in one line.

    NumPy's own arrays start 16 bytes into a line. Alignment raised the packet-hops per second (best of 12)
    from 23.9 M to 26.7 M for k = 16, and from 10.2 M to 11.5 M for k = 32.
    """
    size = rows * np.dtype(dtype).itemsize
    octets = np.zeros(size + CACHE_LINE, np.uint8)
    begin = -octets.ctypes.data % CACHE_LINE
    return octets[begin : begin + size].view(dtype)


def to_ps(seconds: float) -> int:
    """A time in ps. Raises FabricError if it is out of range."""
    if not 0 <= seconds <= MAX_SECONDS:
        raise FabricError(f"a simulated time is 0 to {MAX_SECONDS} s, not {seconds}")
    return round(seconds * PS)


def loss_threshold(chance: float) -> tuple[int, int]:
    """A probability of loss in the form that ports use: (probability · 2^32, PortFlag.LOSE_ALL or 0)."""
    if not 0 <= chance <= 1:
        raise FabricError(f"loss is a probability from 0 to 1, not {chance}")
    return min(round(chance * 2**32), 2**32 - 1), int(PortFlag.LOSE_ALL) if chance == 1 else 0


def port_states(topology: Topology, network: NetworkModel) -> Records:
    """LABELLING_PORT [ports] at the start."""
    links = topology.ports
    ports = aligned_zeros(len(links), LABELLING_PORT)
    if (8 * PS % links["rate"]).any() or (links["rate"] < 8 * PS >> 32).any():
        raise FabricError(
            f"{topology.name}: at the rate of its links a byte does not last a whole number of ps"
        )
    if (links["delay_ns"] >= 0).any():
        raise FabricError(
            f"{topology.name}: a simulation of labels has one delay for all links, propagation_ns of the "
            "network: remove `delay` from the file"
        )
    ports["ps_per_byte"] = 8 * PS // links["rate"]
    if network.buffer_bytes * int(ports["ps_per_byte"].max()) >= 1 << 62:
        raise FabricError(f"{network.buffer_bytes} bytes in a queue take too long at the rate of its link")
    ports["buffer"] = network.buffer_bytes
    ports["last"] = NEVER_LABELLED
    switch, last = links["switch"] >= 0, links["peer_switch"] < 0
    ports["flags"] = np.where(switch, int(PortFlag.SWITCH), 0) | np.where(
        switch & last, int(PortFlag.LAST_HOP), 0
    )
    chance, flag = loss_threshold(network.loss)
    inner = switch & ~last
    ports["loss"][inner] = chance
    ports["flags"][inner] |= flag
    return ports


def lookahead(ports: Records, network: NetworkModel, smallest: int) -> int:
    """Shortest time from a packet's arrival at a port to its arrival at the next, ps; `smallest`: IP
    bytes.
    """
    sending = int(ports["ps_per_byte"].min()) * (smallest + WIRE_OVERHEAD)
    return sending + (network.pipeline_ns + network.propagation_ns) * PS_NS


def setup_row(
    labelling: LabellingSettings,
    network: NetworkModel,
    *,
    seed: int,
    telemetry: float,
    custom: bool,
) -> Records:
    """SETUP [1]; the engine sets the width of the buckets."""
    setup = np.zeros(1, SETUP)
    row = setup[0]
    interval = to_ps(labelling.interval)
    row["seed"] = seed_bits(seed)
    row["interval"] = interval
    row["rest"] = round(interval * labelling.rest)
    row["telemetry"] = to_ps(telemetry)
    if row["telemetry"] < 1:
        raise FabricError(f"a telemetry interval is above 0 s, not {telemetry}")
    row["pipeline"] = network.pipeline_ns * PS_NS
    row["jitter"] = network.jitter_ns * PS_NS
    row["propagation"] = network.propagation_ns * PS_NS
    row["export"] = network.export_ns * PS_NS
    row["item_bytes"], row["option_bytes"] = network.item_bytes, network.option_bytes
    row["mtu"] = network.mtu
    row["chance"] = Chance.CUSTOM if custom else chance_function(labelling)
    row["max_hop"] = labelling.max_hop
    row["too_long"] = TooLong.FRAGMENT if labelling.too_long == "fragment" else TooLong.SKIP
    return setup


def chance_function(labelling: LabellingSettings) -> Chance:
    """Probability function for a further label in a labelled packet; none in Base A."""
    if labelling.algorithm != "base-b":
        return Chance.NEVER
    return Chance.TABLE if labelling.chance_table else _CHANCES[labelling.chance]


def chance_table(labelling: LabellingSettings) -> npt.NDArray[np.float64]:
    """Probabilities of Chance.TABLE, float64 [labels, parts of the interval]; [[0]] if there is no table."""
    return np.array(labelling.chance_table or [[0.0]], np.float64)
