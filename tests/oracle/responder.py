"""The receiving side of a queue pair, written plainly from the rules: the twin of the kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from hopscope.wire.reasons import RoceReason
from hopscope.wire.roce.records import Opcode, RoceFlag

SENDS = {0: "first", 1: "middle", 2: "last", 3: "last", 4: "only", 5: "only"}
REFUSED_KEY = (RoceReason.BAD_KEY, RoceReason.OUT_OF_BOUNDS, RoceReason.NO_ACCESS)


@dataclass
class PlainPair:
    """One queue pair with one memory region; fields as on the wire, plain numbers."""

    number: int
    peer: tuple[int, int]
    unreliable: bool
    psn: int
    mtu: int
    base: int
    key: int
    access: int
    memory: bytearray
    receives: int = 0
    alive: bool = True
    message: int = 0
    kind: str = ""
    at: int = 0
    left: int = 0
    gap: int = 0
    due: bool = False
    kept: list[tuple[int, int]] = field(default_factory=list)
    answers: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(opcode, syndrome, PSN, value)."""

    def batch(self, packets: list[dict[str, int | bytes]]) -> list[RoceReason]:
        """Take packets in order; answers at the end of `answers`."""
        reasons = [self.packet(packet) for packet in packets]
        if self.due:
            self.answers.append((0x11, 0x1F, (self.psn - 1) % 2**24, 0))
        self.due = False
        return reasons

    def packet(self, p: dict[str, int | bytes]) -> RoceReason:
        """One packet."""
        opcode = int(p["opcode"])
        if p["reason"]:
            return RoceReason(int(p["reason"]))
        if opcode >= 64 or opcode % 32 in range(13, 19):
            return RoceReason.NONE
        if p["queue_pair"] != self.number or (p["source_hi"], p["source_lo"]) != self.peer or not self.alive:
            return RoceReason.UNKNOWN_QUEUE_PAIR
        if int(p["partition"]) % 2**15 != 0x7FFF:
            return RoceReason.BAD_PARTITION
        if opcode // 32 != int(self.unreliable):
            return RoceReason.UNKNOWN_OPCODE
        operation, psn = opcode % 32, int(p["psn"])
        step = SENDS[operation % 6] if operation < 12 else ""
        if psn != self.psn:
            if not self.unreliable:
                return self.out_of_turn(operation, psn)
            self.kind, self.psn = "", psn
            if step not in ("first", "only"):
                self.psn = (psn + 1) % 2**24
                return RoceReason.PSN_GAP
        reason = self.request(p, operation, step)
        if reason is RoceReason.NONE:
            self.psn, self.gap = (psn + 1) % 2**24, 0
            if operation < 12 and int(p["flags"]) & RoceFlag.ACK_REQUEST and not self.unreliable:
                self.due = True
        elif self.unreliable:
            self.kind, self.psn = "", (psn + 1) % 2**24
        elif reason is RoceReason.NOT_READY:
            self.answer(0x11, 0x20, self.psn)
        else:
            self.answer(0x11, 0x62 if reason in REFUSED_KEY else 0x61, self.psn)
            self.alive = False
        return reason

    def answer(self, opcode: int, syndrome: int, psn: int, value: int = 0) -> None:
        """An answer says as much as an acknowledgment that is due."""
        self.answers.append((opcode, syndrome, psn, value))
        self.due = False

    def out_of_turn(self, operation: int, psn: int) -> RoceReason:
        """A duplicate, or behind a gap."""
        if (psn - self.psn) % 2**24 < 2**23:
            if self.gap % 1024 == 0:
                self.answer(0x11, 0x60, self.psn)
            self.gap += 1
            return RoceReason.PSN_GAP
        if operation not in (19, 20):
            self.due = True
        for kept, value in self.kept[-256:]:
            if operation in (19, 20) and kept == psn:
                self.answer(0x12, 0x1F, psn, value)
                break
        return RoceReason.DUPLICATE

    def request(self, p: dict[str, int | bytes], operation: int, step: str) -> RoceReason:
        """A request in its turn."""
        payload = p["payload"]
        assert isinstance(payload, bytes)
        if operation == Opcode.RC_READ_REQUEST or operation > 20:
            return RoceReason.UNKNOWN_OPCODE
        kind = "atomic" if operation > 12 else "send" if operation < 6 else "write"
        if step in ("first", "only") and self.unreliable:
            self.kind = ""
        if self.kind != ("" if step in ("first", "only", "") else kind):
            return RoceReason.BAD_SEQUENCE
        if kind == "atomic":
            return self.atomic(p, operation, payload)
        if kind == "send" and step in ("first", "only"):
            if not self.receives:
                return RoceReason.NOT_READY
            self.left = 65536
        if len(payload) > self.mtu or (step in ("first", "middle") and len(payload) < self.mtu):
            return RoceReason.BAD_LENGTH
        if kind == "write":
            reason = self.write(p, step, payload)
            if reason is not RoceReason.NONE:
                return reason
        elif len(payload) > self.left:
            return RoceReason.BAD_LENGTH
        elif step in ("first", "only"):
            self.receives -= 1
        self.left -= len(payload)
        self.kind = kind if step in ("first", "middle") else ""
        self.message += step in ("last", "only")
        return RoceReason.NONE

    def place(self, p: dict[str, int | bytes], length: int, access: int) -> tuple[RoceReason, int]:
        """Where it goes."""
        at = int(p["address"]) - self.base
        if p["key"] != self.key:
            return RoceReason.BAD_KEY, 0
        if at < 0 or at + length > len(self.memory):
            return RoceReason.OUT_OF_BOUNDS, 0
        return (RoceReason.NONE if self.access & access else RoceReason.NO_ACCESS), at

    def write(self, p: dict[str, int | bytes], step: str, payload: bytes) -> RoceReason:
        """Bytes of a WRITE."""
        if step in ("first", "only"):
            length = int(p["length"])
            if length > 2**31 or (length != len(payload) if step == "only" else length <= len(payload)):
                return RoceReason.BAD_LENGTH
            reason, self.at = self.place(p, length, 1) if length else (RoceReason.NONE, 0)
            if reason is not RoceReason.NONE:
                return reason
            self.left = length
        elif len(payload) != self.left if step == "last" else len(payload) >= self.left:
            return RoceReason.BAD_LENGTH
        self.memory[self.at : self.at + len(payload)] = payload
        self.at += len(payload)
        return RoceReason.NONE

    def atomic(self, p: dict[str, int | bytes], operation: int, payload: bytes) -> RoceReason:
        """FETCH_ADD or CMP_SWAP."""
        if payload:
            return RoceReason.BAD_LENGTH
        reason, at = self.place(p, 8, 2)
        if reason is not RoceReason.NONE:
            return reason
        if at % 8:
            return RoceReason.MISALIGNED
        before = int.from_bytes(self.memory[at : at + 8], "little")
        after = (before + int(p["value"])) % 2**64
        if operation == 19:
            after = int(p["value"]) if before == p["compare"] else before
        self.memory[at : at + 8] = after.to_bytes(8, "little")
        self.kept.append((int(p["psn"]), before))
        self.message += 1
        self.answer(0x12, 0x1F, int(p["psn"]), before)
        return RoceReason.NONE
