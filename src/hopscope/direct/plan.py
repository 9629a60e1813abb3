"""Capacity planning for direct telemetry access: memory for flows, collectors for switches."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite

from ..base.errors import HopscopeError
from .primitives.append_layout import AppendLayout
from .primitives.key_write import KeyWriteLayout
from .primitives.postcarding_layout import PostcardingLayout
from .theory import age_for, average, error_bound, load_for, outcomes, stranger

MAX_SLOTS = 1 << 32
"""Maximum slots of one store."""
RATES = {
    "int-postcards": 19e6,
    "marple-flowlet": 7.2e6,
    "marple-tcp": 6.7e6,
    "netseer": 950e3,
}
"""Reports per second of one 6.4 Tb/s switch (DTA Table 1)."""
FRAME_BYTES = 98
"""Wire overhead of a write in bytes: preamble and gap 20, Ethernet with its FCS 18, IPv4 20, UDP 8, BTH 12,
RETH 16, ICRC 4.
"""
ATOMIC_BYTES = FRAME_BYTES + 12
"""Wire bytes of a fetch-and-add: an AtomicETH of 28 bytes, and no payload."""


class PlanError(HopscopeError):
    """The demand cannot be met; the message names the value and the possible range."""


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """A Key-Write store for one number of copies."""

    copies: int
    checksum_bits: int
    slot_bytes: int
    slots: int
    memory_bytes: int
    load: float
    """Flows per slot."""
    found: float
    """Probability of finding a flow, mean over all flows."""
    found_oldest: float
    wrong: float
    """Upper bound of the probability that the oldest flow gets another flow's value (DTA equation 4)."""
    wrong_stranger: float
    """Upper bound of the probability that a key which was never reported gets an answer."""
    survives: int
    """Later flows after which a flow is still found with the requested probability."""
    half_life: int
    """Later flows after which a flow is found with probability 0.5."""
    stores: int
    """Number of stores over which it must be spread, since a store has at most 2^32 slots."""


@dataclass(frozen=True, slots=True)
class StorePlan:
    """A choice for each number of copies, and the one that needs the least memory."""

    flows: float
    data_bytes: int
    success: float
    oldest: bool
    best: StoreChoice
    choices: tuple[StoreChoice, ...]


def plan_store(
    flows: float,
    data_bytes: int,
    success: float,
    *,
    oldest: bool = False,
    wrong: float = 1e-9,
    max_copies: int = 4,
) -> StorePlan:
    """Memory, copies and checksum to find `flows` flows with probability `success`.

    `oldest`: `success` applies to the oldest flow, not to the mean over all. `wrong`: maximum probability
    that an answer is another key's, for reported and unreported keys. Raises PlanError.
    """
    _within("flows", flows, 1, 1e15)
    _within("bytes of data", data_bytes, 1, 64)
    _within("success", success, 1e-6, 1 - 1e-12)
    _within("chance of a wrong answer", wrong, 0, 1, low_excluded=True)
    _within("copies", max_copies, 1, 16)
    choices = tuple(
        _choice(flows, data_bytes, success, oldest, wrong, copies) for copies in range(1, max_copies + 1)
    )
    return StorePlan(
        flows,
        data_bytes,
        success,
        oldest,
        min(choices, key=lambda choice: (choice.memory_bytes, choice.copies)),
        choices,
    )


def _choice(
    flows: float, data_bytes: int, success: float, oldest: bool, wrong: float, copies: int
) -> StoreChoice:
    for bits in range(8, 65, 8):
        slots = ceil(flows / (age_for if oldest else load_for)(success, copies, bits))
        load = flows / slots
        error = float(error_bound(load, copies, bits))
        if max(error, stranger(copies, bits)) <= wrong:
            break
    else:
        raise PlanError(
            f"chance of a wrong answer: found {wrong:g}; with {copies} copies a checksum of 64 bits, "
            f"the longest, allows {stranger(copies, 64):.2g}"
        )
    slot_bytes = bits // 8 + data_bytes
    return StoreChoice(
        copies, bits, slot_bytes, slots, slots * slot_bytes, load,
        float(average(load, copies, bits).correct), float(outcomes(load, copies, bits).correct),
        error, stranger(copies, bits),
        int(age_for(success, copies, bits) * slots), int(age_for(0.5, copies, bits) * slots),
        ceil(slots / MAX_SLOTS),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Nic:
    """Capacity of a collector's network card."""

    messages: float = 100e6
    """Memory operations per second, as DTA measured for Key-Write (§6.5)."""
    atomics: float = 100e6
    """Fetch-and-adds per second; the papers did not measure them, and real cards do fewer than writes."""
    bits: float = 100e9
    """Line rate, bit/s."""


@dataclass(frozen=True, slots=True)
class PrimitiveLoad:
    """Collectors that one primitive needs."""

    primitive: str
    about: str
    reports_per_write: float
    """Reports per memory operation; below 1 if each report is written several times."""
    wire_bytes: int
    """Bytes on the wire per memory operation."""
    by_messages: float
    """Reports per second and collector, limited by messages."""
    by_bytes: float
    """Reports per second and collector, limited by the line rate."""
    collectors: int

    @property
    def reports(self) -> float:
        """Reports per second that one collector takes."""
        return min(self.by_messages, self.by_bytes)

    @property
    def limit(self) -> str:
        """The limiting resource."""
        return "messages" if self.by_messages <= self.by_bytes else "line rate"


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """Collectors that a network needs, by primitive, and the cores that a CPU-based collector would need."""

    switches: int
    rate: float
    """Reports per second of one switch."""
    total: float
    loads: tuple[PrimitiveLoad, ...]
    core_rate: float
    cores: int


def plan_network(
    switches: int,
    rate: float,
    *,
    nic: Nic | None = None,
    copies: int = 1,
    data_bytes: int = 4,
    checksum_bits: int = 32,
    batch: int = 16,
    hops: int = 5,
    core_rate: float = 1.9e6,
) -> NetworkPlan:
    """Collectors that `switches` of `rate` reports per second need (DTA §2, Table 1).

    Raises PlanError. `core_rate`: reports per second that one CPU core stores; 1.9 M/s follows from Fig. 3:
    nearly 10,000 cores for 1,000 switches of 19 M/s.
    """
    nic = nic or Nic()
    _within("switches", switches, 1, 1e9)
    for name, value in (
        ("rate", rate), ("core rate", core_rate), ("messages", nic.messages), ("atomics", nic.atomics),
        ("line rate", nic.bits),
    ):  # fmt: skip
        _within(name, value, 0, 1e18, low_excluded=True)
    _within("copies", copies, 1, 16)
    _within("bytes of data", data_bytes, 1, 64)
    _within("batch", batch, 1, 16)
    _within("hops", hops, 1, 16)
    slot = KeyWriteLayout(slots=1, data_bytes=data_bytes, checksum_bits=checksum_bits).stride
    chunk = PostcardingLayout(chunks=1, hops=hops).chunk_bytes
    entries = AppendLayout(batches=1, batch=batch, data_bytes=data_bytes).slot_bytes
    total = switches * rate
    loads = []
    for primitive, about, reports, wire, messages in (
        ("key-write", f"{data_bytes} B, {copies}x", 1 / copies,
         FRAME_BYTES + _padded(slot), nic.messages),
        ("postcarding", f"{hops} hops a write, {copies}x", hops / copies, FRAME_BYTES + _padded(chunk),
         nic.messages),
        ("append", f"{data_bytes} B, {batch} a write", float(batch), FRAME_BYTES + _padded(entries),
         nic.messages),
        ("key-increment", f"8 B, {copies}x", 1 / copies, ATOMIC_BYTES, nic.atomics),
    ):  # fmt: skip
        by_messages, by_bytes = messages * reports, nic.bits / (8 * wire) * reports
        need = ceil(total / min(by_messages, by_bytes) - 1e-9)
        loads.append(PrimitiveLoad(primitive, about, reports, wire, by_messages, by_bytes, max(need, 1)))
    return NetworkPlan(switches, rate, total, tuple(loads), core_rate, ceil(total / core_rate - 1e-9))


def _padded(count: int) -> int:
    """RoCEv2 pads payloads to four bytes."""
    return -(-count // 4) * 4


def _within(name: str, value: float, low: float, high: float, *, low_excluded: bool = False) -> None:
    if not isfinite(value) or not low <= value <= high or (low_excluded and value == low):
        least = f"more than {low:g}" if low_excluded else f"{low:g}"
        raise PlanError(f"{name}: found {value:g}, expected {least} to {high:.12g}")
