"""What direct telemetry access needs: memory for so many flows, and collectors for so many switches."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite

from ..base.errors import HopscopeError
from .primitives.append_layout import AppendLayout
from .primitives.key_write import KeyWriteLayout
from .primitives.postcarding_layout import PostcardingLayout
from .theory import age_for, average, error_bound, load_for, outcomes, stranger

MOST_SLOTS = 1 << 32
"""Slots of one store."""
RATES = {
    "int-postcards": 19e6,
    "marple-flowlet": 7.2e6,
    "marple-tcp": 6.7e6,
    "netseer": 950e3,
}
"""Reports a second of one 6.4 Tb/s switch (DTA Table 1)."""
FRAME_BYTES = 98
"""Bytes on the wire of a write beside its payload: preamble and gap 20, Ethernet with its check 18, IPv4 20,
UDP 8, BTH 12, RETH 16, ICRC 4."""
ATOMIC_BYTES = FRAME_BYTES + 12
"""The same of a fetch-and-add: an AtomicETH of 28 bytes, and no payload."""


class PlanError(HopscopeError):
    """What was asked for cannot be planned; the message says which value, and what is possible."""


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """A Key-Write store for one number of copies."""

    copies: int
    checksum_bits: int
    slot_bytes: int
    slots: int
    memory_bytes: int
    load: float
    """Flows over slots."""
    found: float
    """Chance to find a flow: the mean over all of them."""
    found_oldest: float
    wrong: float
    """Bound of the chance that the oldest flow gets another's value (DTA equation 4)."""
    wrong_stranger: float
    """Bound of the chance that a key which was never reported gets an answer."""
    survives: int
    """Later flows after which one is still found with the success that was asked for."""
    half_life: int
    """Later flows after which one is found with a chance of one half."""
    stores: int
    """Stores over which it has to be spread: one has at most 2^32 slots."""


@dataclass(frozen=True, slots=True)
class StorePlan:
    """Alternatives by number of copies, and the one that needs least memory."""

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
    """Memory, copies and checksum with which so many flows are found with the chance `success`.

    `oldest`: that is the chance of the oldest flow, not the mean over all. `wrong`: the most that an answer
    may be another key's, for keys that were reported and for others. Raises PlanError.
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
        min(choices, key=lambda one: (one.memory_bytes, one.copies)),
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
        ceil(slots / MOST_SLOTS),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Nic:
    """What a collector's network card takes."""

    messages: float = 100e6
    """Memory operations a second: what DTA measured for Key-Write (§6.5)."""
    atomics: float = 100e6
    """Fetch-and-adds a second; the papers measured none, and real cards do fewer than writes."""
    bits: float = 100e9
    """Line rate."""


@dataclass(frozen=True, slots=True)
class Load:
    """One primitive's way to a collector."""

    primitive: str
    about: str
    reports_per_write: float
    """Reports that one memory operation carries; below 1 where each is written several times."""
    wire_bytes: int
    """Of one memory operation."""
    by_messages: float
    """Reports a second that a collector takes by its messages."""
    by_bytes: float
    """The same by its line rate."""
    collectors: int

    @property
    def reports(self) -> float:
        """Reports a second that one collector takes."""
        return min(self.by_messages, self.by_bytes)

    @property
    def limit(self) -> str:
        """Which of the two it is."""
        return "messages" if self.by_messages <= self.by_bytes else "line rate"


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """Collectors that a network needs, by primitive, and the cores of one that stores by processor."""

    switches: int
    rate: float
    """Reports a second of one switch."""
    total: float
    loads: tuple[Load, ...]
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
    """How many collectors `switches` of `rate` reports a second need (DTA §2, Table 1). Raises PlanError.

    `core_rate`: reports a second of one core that stores them by processor; 1.9 M/s is what Fig. 3 says:
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
        loads.append(Load(primitive, about, reports, wire, by_messages, by_bytes, max(need, 1)))
    return NetworkPlan(switches, rate, total, tuple(loads), core_rate, ceil(total / core_rate - 1e-9))


def _padded(count: int) -> int:
    """RoCEv2 pads a payload to four bytes."""
    return -(-count // 4) * 4


def _within(name: str, value: float, low: float, high: float, *, low_excluded: bool = False) -> None:
    if not isfinite(value) or not low <= value <= high or (low_excluded and value == low):
        least = f"more than {low:g}" if low_excluded else f"{low:g}"
        raise PlanError(f"{name}: found {value:g}, expected {least} to {high:.12g}")
