"""The programs of INT-label: decisions and packets of the software switch; all else leaves as it came."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.bpf.ring import BpfRing
from hopscope.bpf.tc import Direction
from hopscope.capture.errors import CaptureError
from hopscope.labels.registers import Registers
from hopscope.labels.rule_kernel import is_below
from hopscope.settings.label import LabellingSettings, TrackedFlowSettings
from hopscope.switch.labels.layout import RING_BYTES, LabelCount, LabelRole
from hopscope.switch.labels.maps import EVERY
from hopscope.switch.labels.program import LabelProgram
from hopscope.switch.labels.sender import STALE_NS, LabelSender
from hopscope.switch.settings import SwitchSettings
from hopscope.testbed.forwarder import Forwarder, RoutingTables
from hopscope.testbed.records import SwitchAt
from hopscope.testbed.route_kernel import GOLDEN
from hopscope.wire.label.codec import push_label, read_blocks, read_labels, restore
from hopscope.wire.label.layout import LabelItem
from support.network.switch_cases import NOW, T, move, with_ip
from support.packets.packet_cases import V4, V6, Packet
from support.packets.xdp_make import built
from support.waiting import HANG_SECONDS

NEXT, SHOT = 0xFFFFFFFF, 2
"""Verdicts: the packet goes on (TC_ACT_UNSPEC), or is dropped."""
LO = 1
INNER, HOST, MAX_HOP = LabelRole.INNER, LabelRole.HOST, 3
CONTEXT, INGRESS_AT, INDEX_AT, GSO_AT = 192, 36, 40, 176
"""Bytes of struct __sk_buff, and where it has interfaces and the size of segments."""
FROM_SWITCH, FROM_HOST = 21, 22
"""Numbers of interfaces."""
LABEL = {"interval": T / 1e9, "max_hop": MAX_HOP}
pytestmark = pytest.mark.kernel


class Port:
    """The programs, and the port at which they are tried: that of the loopback interface."""

    def __init__(self, node: int = 7, pins: Path | None = None, **label: object) -> None:
        settings = {"node_id": node, "interfaces": ["lo"], "label": {**LABEL, **label}}
        self.program = LabelProgram(SwitchSettings.model_validate(settings), 0, pins=pins, given=True)
        self.maps, self.inputs = self.program.maps, self.program.inputs
        self.ring = BpfRing()
        self.ring.map(self.maps.ring, RING_BYTES)
        for index, role in ((FROM_SWITCH, INNER), (FROM_HOST, HOST)):
            self.program.place(index, role, 1500)
        self.is_port(INNER)
        self.at(NOW)

    def is_port(self, role: LabelRole, mtu: int = 1600, *, partial: bool = True) -> None:
        """Where it leads."""
        self.program.place(LO, role, mtu, partial=partial)

    def at(self, now: int, random: int = 0) -> None:
        """The time, 500 ns after packets came in, and the random number, 64 bits."""
        self.inputs["now"], self.inputs["received"], self.inputs["random"] = now, now - 500, random

    @property
    def last(self) -> int:
        """Reg1."""
        ports = self.maps.ports()
        return int(ports["last"][ports["index"] == LO][0])

    def set_last(self, last: int) -> None:
        """Reg1."""
        self.maps._ports["last"][self.maps._ports["index"] == LO] = last

    def leave(self, frame: bytes, ingress: int = FROM_SWITCH, gso: int = 0) -> bytes:
        """A frame as it leaves; b"" if it is dropped."""
        verdict, out = self.program.changed(Direction.EGRESS, frame, context(ingress, LO, gso))
        assert verdict in (NEXT, SHOT)
        return b"" if verdict == SHOT else out

    def counts(self) -> dict[LabelCount, int]:
        """Those that are not 0."""
        return {count: number for count, number in self.maps.counts().items() if number}

    def blocks(self) -> list[bytes]:
        """What went to the collector's process."""
        batch = self.ring.receive()
        if batch is None:
            return []
        rows = batch.frames
        return [
            batch.arena[at : at + size].tobytes()
            for at, size in zip(rows["offset"], rows["length"], strict=True)
        ]


def context(ingress: int, index: int, gso: int = 0) -> bytes:
    """What the kernel knows of a packet."""
    out = bytearray(CONTEXT)
    for at, value in ((INGRESS_AT, ingress), (INDEX_AT, index), (GSO_AT, gso)):
        out[at : at + 4] = value.to_bytes(4, "little")
    return bytes(out)


@pytest.fixture
def port(tool: Callable[..., str]) -> Iterator[Callable[..., Port]]:
    """Loads the programs with settings."""
    built(tool)
    loaded: list[Port] = []

    def make(**more: Any) -> Port:
        try:
            loaded.append(Port(**more))
        except CaptureError as error:
            pytest.skip(str(error))
        return loaded[-1]

    yield make
    for each in loaded:
        each.program.close()


def packets() -> list[bytes]:
    """IPv4 and IPv6 with 0 to 4 labels, tracked and not, with options, and with padding."""
    random, found = np.random.default_rng(1), []
    for version, protocol, options, labels, tracked in product(
        (4, 6), (6, 17), (False, True), range(MAX_HOP + 2), (False, True)
    ):
        frame = Packet(
            version, protocol, random.bytes(20 + labels), options=options, trailer=b"pad" * (labels & 1)
        ).frame()
        for each in range(labels):
            if tracked or each < MAX_HOP:
                item = LabelItem(9 + each, 1, 2, 10**9, 7, 8)
                frame = push_label(frame, item, max_hop=MAX_HOP, tracked=tracked)
        found.append(frame)
    return found


FUNCTIONS: tuple[dict[str, object], ...] = (
    {"algorithm": "base-a"},
    {"chance": "f1"},
    {"chance": "f2"},
    {"chance": "f2-listing", "rest": 0.25},
    {"chance": "f3"},
    {"chance_table": [[0, 0.3], [0.2, 0.4], [0.9, 1]]},
)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: "-".join(map(str, each.values())))
@pytest.mark.parametrize(("ingress", "role"), [(FROM_HOST, INNER), (FROM_SWITCH, INNER), (FROM_SWITCH, HOST)])
def test_as_the_software_switch(
    port: Callable[..., Port], function: dict[str, object], ingress: int, role: LabelRole
) -> None:
    """Given the same packets, times and random numbers, the program and the software switch label the same
    ones, with the same bytes, report the same blocks, and have the same Reg1 after each, whatever Reg2 is.
    """
    tried = port(node=1, **function)
    tried.is_port(role)
    registers = Registers.create(None, [(1, LO), (1, FROM_SWITCH), (1, FROM_HOST)], T)
    routes = RoutingTables([(V4[1], 0), (V6[1], 0)], {(1, 0): [0]})
    settings = LabellingSettings.model_validate({**LABEL, **function})
    switch = Forwarder(registers, routes, [role == HOST, False, True], settings)
    registers.track(V4[0], V4[1], 3)
    tried.maps.replace_tracked([TrackedFlowSettings(src="192.0.2.1", dst="192.0.2.2", every=3)])
    random, now = np.random.default_rng(5), NOW
    frames = [frame for frame in packets() if ingress != FROM_HOST or not is_labelled(frame)]
    changed = 0
    for number in range(400):
        frame = frames[random.integers(len(frames))]
        now += int(random.integers(0, T // 2))
        registers.shift[0], registers.flag[0] = int(random.integers(0, 3)), number % 17 == 0
        tried.maps.set_reg2(LO, EVERY if registers.flag[0] else int(registers.shift[0]))
        tried.at(now, word(switch))
        moved = move(switch, 1 + (ingress == FROM_HOST), [frame], now, free=2)
        assert [tried.leave(frame, ingress).hex()] == [out.hex() for out in moved.frames[0]]
        assert b"".join(tried.blocks()) == b"".join(moved.blocks)
        assert tried.last == registers.last[0]
        changed += moved.frames[0] != [frame] or bool(moved.blocks)
    assert 100 < changed < 400


def is_labelled(frame: bytes) -> bool:
    """Whether a packet carries labels."""
    return read_labels(frame, max_hop=MAX_HOP) is not None


def word(switch: Forwarder) -> int:
    """The random number of 64 bits that the software switch draws next (the finaliser of MurmurHash3)."""
    state = switch._at
    x = (int(state[SwitchAt.SEED]) + (int(state[SwitchAt.DRAWN]) + 1) * int(GOLDEN)) % 2**64
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
        x = (x ^ x >> 33) * factor % 2**64
    return x


def test_chances_are_exact(port: Callable[..., Port]) -> None:
    """A packet gets a label exactly if its random number is below the probability as a fraction: tried with
    the numbers next to it, for all functions and for elapsed times from 1 ns to T.
    """
    random = np.random.default_rng(3)
    frames = {0: Packet().frame()}
    for count in (1, 2):
        frames[count] = push_label(frames[count - 1], LabelItem(9, 1, 2, 10**9), max_hop=MAX_HOP)
    for function in FUNCTIONS[1:]:
        tried = port(**function)
        interval = int(tried.maps._control["interval"])
        rest = int(tried.maps._control["rest"])
        for count, elapsed in product((0, 1, 2), (1, T // 3, T - 1, T, *random.integers(1, T, 40).tolist())):
            chance = probability(function, count, elapsed, interval)
            border = -(-chance.numerator * 2**53 // chance.denominator)
            for bits in {max(border - 1, 0), min(border, 2**53 - 1)}:
                tried.at(NOW, bits << 11 | 0x7FF)
                tried.set_last(NOW - elapsed)
                labelled = tried.leave(frames[count]) != frames[count]
                wanted = elapsed >= rest and Fraction(bits, 2**53) < chance
                assert labelled == wanted, (function, count, elapsed, bits)
                if function == {"chance": "f3"}:
                    assert is_below(bits / 2**53, count * elapsed, (MAX_HOP - 1) * interval) == wanted


def probability(function: dict[str, Any], count: int, elapsed: int, interval: int) -> Fraction:
    """By the paper (3.1, 6), and of a table."""
    if "chance_table" in function:
        row = function["chance_table"][count]
        return Fraction(row[min(elapsed * len(row) // interval, len(row) - 1)])
    share = {
        "f1": Fraction(count > 0),
        "f2": Fraction(count / (MAX_HOP - 1)),
        "f2-listing": Fraction(count / MAX_HOP),
        "f3": Fraction(count * elapsed, (MAX_HOP - 1) * interval),
    }
    return share[function["chance"]]


def test_what_must_not_be_labelled_leaves_as_it_came(port: Callable[..., Port]) -> None:
    """Each reason has its counter; with or without INT-label, these leave as they came."""
    v4, v6 = Packet().frame(), Packet(version=6).frame()
    full = v4
    for _ in range(MAX_HOP):
        full = push_label(full, LabelItem(9, 1, 2, 10**9), max_hop=MAX_HOP)
    cut = bytearray(full)
    cut[35] = 200
    short = bytearray(v4)
    short[17] += 9
    group, router = bytearray(v4), bytearray(v6)
    group[0] = 1
    router[20] = 0
    near = bytearray(v6)
    near[22:24] = b"\xfe\x80"
    fragment6 = bytearray(v6)
    fragment6[20] = 44
    cases: tuple[tuple[LabelCount, bytes, dict[str, int]], ...] = (
        (LabelCount.OTHER, bytes(12) + b"\x08\x06" + bytes(46), {}),
        (LabelCount.OTHER, Packet(tags=1).frame(), {}),
        (LabelCount.OWN, v4, {"ingress": 0}),
        (LabelCount.LOCAL, bytes(group), {}),
        (LabelCount.LOCAL, bytes(near), {}),
        (LabelCount.LOCAL, v4[:30] + bytes([224, 0, 0, 5]) + v4[34:], {}),
        (LabelCount.LOCAL, v4[:30] + bytes([169, 254, 0, 5]) + v4[34:], {}),
        (LabelCount.FULL, full, {}),
        (LabelCount.GSO, v4, {"gso": 500}),
        (LabelCount.FRAGMENT, with_ip(v4, flags=0x2000), {}),
        (LabelCount.FRAGMENT, bytes(fragment6), {}),
        (LabelCount.OPTIONS, bytes(router), {}),
        (LabelCount.LENGTH, bytes(short), {}),
        (LabelCount.DAMAGED, bytes(cut), {}),
        (LabelCount.CHECKSUM, with_ip(v4, checksum=0xFFFF), {}),
    )
    tried = port(node=1)
    for counted, given, more in cases:
        before = tried.maps.counts()
        assert tried.leave(given, **more) == given, counted
        after = tried.maps.counts()
        assert {count for count in LabelCount if after[count] > before[count]} == {counted}
    for mtu, counted in ((len(v4) - 14 + 33, LabelCount.LONG), (len(v4) - 14 + 34, LabelCount.WRITTEN)):
        tried.is_port(INNER, mtu)
        number = tried.counts().get(counted, 0)
        assert (tried.leave(v4) == v4) == (counted == LabelCount.LONG)
        assert tried.counts()[counted] == number + 1


def test_a_checksum_that_is_left_to_a_card(port: Callable[..., Port]) -> None:
    """Where the card knows TCP and UDP only, a packet whose checksum is the sum of its pseudo header alone
    gets no label; any other one does.
    """
    tried = port()
    tried.is_port(INNER, partial=False)
    for version, protocol in product((4, 6), (6, 17)):
        whole = Packet(version, protocol, b"12345").frame()
        l4 = 34 if version == 4 else 54
        at = l4 + (16 if protocol == 6 else 6)
        words = np.frombuffer(whole[26:34] if version == 4 else whole[22:54], ">u2")
        pseudo = (int(words.sum()) + protocol + len(whole) - l4) % 0xFFFF
        left = whole[:at] + pseudo.to_bytes(2, "big") + whole[at + 2 :]
        tried.set_last(0)
        assert tried.leave(left) == left
        assert restore(tried.leave(whole), max_hop=MAX_HOP) == whole
    assert tried.counts() == {LabelCount.CHECKSUM: 4, LabelCount.WRITTEN: 4}


def test_labels_from_hosts_are_dropped(port: Callable[..., Port]) -> None:
    """A host that sends labels might report what it likes."""
    tried = port()
    labelled = push_label(Packet().frame(), LabelItem(9, 1, 2, 10**9), max_hop=MAX_HOP)
    for role, verdict in ((HOST, SHOT), (INNER, NEXT)):
        tried.is_port(role)
        assert tried.program.changed(Direction.INGRESS, labelled, context(0, LO))[0] == verdict
    assert tried.counts() == {LabelCount.FORGED: 1}


def test_long_paths_of_tracked_flows(port: Callable[..., Port]) -> None:
    """More labels than MAX_hop are taken off, and reported with its flow."""
    frame = Packet(payload=b"x" * 9).frame()
    labelled = frame
    for node in range(90):
        labelled = push_label(labelled, LabelItem(node, 1, 2, 10**9), max_hop=MAX_HOP, tracked=True)
    tried = port()
    tried.is_port(HOST)
    assert tried.leave(labelled) == frame
    ((block,), error) = read_blocks(b"".join(tried.blocks()), max_hop=MAX_HOP)
    assert error is None
    assert [item.node_id for item in block.path()] == [*range(90), 7]
    assert block.flow is not None
    assert (block.flow.source_port, block.flow.destination_port) == (40_000, 53_000)


def test_mutants_leave_as_they_came_or_can_be_restored(port: Callable[..., Port]) -> None:
    """Of damaged packets with and without labels, each leaves unchanged, with a label that the codec takes
    off again, or, to a host, as the codec restores it.
    """
    random, seeds = np.random.default_rng(7), packets()
    inner, last = port(node=1, chance="f1"), port(node=2)
    last.is_port(HOST)
    changed = 0
    for number in range(4000):
        mutant = bytearray(seeds[number % len(seeds)])
        for _ in range(1 + number % 3):
            value = (0, 253, 255, int(random.integers(256)))[random.integers(4)]
            mutant[random.integers(12, min(len(mutant), 90))] = value
        if number % 5 == 0 and len(mutant) > 54:
            del mutant[random.integers(54, len(mutant)) :]
        given = bytes(mutant)
        inner.set_last(0)
        out = inner.leave(given)
        if out != given:
            changed += 1
            labels = read_labels(out, max_hop=MAX_HOP)
            assert labels is not None
            assert restore(out, max_hop=MAX_HOP) == (restore(given, max_hop=MAX_HOP))
            assert labels.items[0].node_id == 1  # type: ignore[union-attr]
        out = last.leave(given)
        if out != given:
            assert out == restore(given, max_hop=MAX_HOP)
        last.blocks()
    assert changed > 500


def test_registers_and_functions_change_while_programs_run(port: Callable[..., Port]) -> None:
    """Label functions, tracked flows and Reg2 are read as they were written."""
    tried = port()
    tried.is_port(INNER)
    for settings in ({"algorithm": "base-a", "interval": 2}, *FUNCTIONS[1:], {"chance": "f3", "max_hop": 9}):
        labelling = LabellingSettings.model_validate({**LABEL, **settings})
        tried.maps.set_labelling(labelling)
        found = tried.maps.labelling()
        table = found.chance_table
        assert found.model_copy(update={"chance_table": labelling.chance_table}) == labelling
        assert table == tuple(map(pytest.approx, labelling.chance_table))
    flows = [
        TrackedFlowSettings(src=f"2001:db8::2:{n + 1:x}", dst="2001:db8::1", every=1 + n) for n in range(1024)
    ]
    for wanted in (flows, flows[5:8], [TrackedFlowSettings(src="10.0.0.1", dst="10.0.0.2", every=7)], []):
        tried.maps.replace_tracked(wanted)
        assert sorted(tried.maps.tracked(), key=str) == sorted(wanted, key=str)
    with pytest.raises(CaptureError):
        tried.maps.replace_tracked([*flows, TrackedFlowSettings(src="10.0.0.1", dst="10.0.0.2")])
    with pytest.raises(CaptureError, match="fragment"):
        tried.maps.set_labelling(LabellingSettings(too_long="fragment"))
    for value in (0, 3, EVERY):
        assert tried.maps.set_reg2(LO, value)
        assert tried.maps.reg2()[LO] == value
    assert not tried.maps.set_reg2(99, 1)
    with pytest.raises(CaptureError, match="S = 41"):
        tried.maps.set_reg2(LO, 41)


def test_labels_that_waited_too_long_are_counted(port: Callable[..., Port], pins: Path) -> None:
    """Of two packets with labels, the process sends those of the one that did not wait longer than 10 s."""
    there, now = port(pins=pins), time.monotonic_ns()
    there.is_port(HOST)
    for time_ns in (now - STALE_NS - 10**9, now):
        there.at(time_ns)
        there.leave(Packet(4, 17, b"0123", 10).frame())
    assert there.counts() == {LabelCount.LAST: 2, LabelCount.REPORTED: 2}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        collector.settimeout(HANG_SECONDS)
        collector.bind(("127.0.0.1", 0))
        with closing(LabelSender(pins, *collector.getsockname())) as sender:
            assert sender.turn() == 2
        found, _ = read_blocks(collector.recv(2000))
    assert len(found) == 1
    assert there.counts()[LabelCount.STALE] == there.counts()[LabelCount.SENT] == 1
