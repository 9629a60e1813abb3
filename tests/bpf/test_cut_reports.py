"""Single odd reports among usual ones (cut packets, any length, late): read as without the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import numpy as np
import pytest

from hopscope.bpf.layout import MAX_PAYLOAD, Count
from hopscope.bpf.program import XdpProgram
from hopscope.wire import layout
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.encode.encoder import encode_reports, new_hops, new_reports
from hopscope.wire.records import FRAME, Flag, FrameBatch, Link, ReportBatch
from support.packets.xdp_make import Filtering, clear, detected, differences, frames_of, unlike

pytestmark = pytest.mark.kernel
OUTER = "ffffffffffff0200000000010800 4500{:04x}0000000040110000c0000201c0000202 00077ffe{:04x}0000"
"""Ethernet, IPv4 and UDP, with their lengths."""
REPORT_BYTES = {20: 8 + 12, 10: 16, 5: 12}
NUMBER_AT = {20: 0, 10: 8, 5: 4}
NUMBER_BITS = {20: 0x3FFFFF, 10: 0xFFFFFFFF, 5: 0xFFFFFFFF}
BITMAPS = {20: 0xF181, 10: 0xF101, 5: 0xF300}
GROUP_BYTES, LENGTH_AT, TO_THE_END = 8, 1, b"\xff"
ETHERNET_BYTES, UDP_BYTES, TCP_BYTES = 14, 8, 20
REST = bytes(range(12))
"""What of the packet's payload its report still has."""
COMPARED = 160
"""After so many reports of a source, the program compares the next."""


def payload_of(version: int, int_version: int, ip_version: int, protocol: int, flow: int = 0) -> bytes:
    """A report of two hops, whose packet was longer than what is there."""
    reports = new_reports(1, version)
    reports["ip_version"], reports["proto"] = ip_version, protocol
    reports["src_hi"] = reports["dst_hi"] = (0x20010DB8 << 32) * (ip_version == 6)
    reports["src_lo"], reports["dst_lo"] = 0xFFFF0A000000 + flow, 0xFFFF0A010000
    reports["sport"], reports["dport"] = 1000, 2000
    reports["inner_length"] = 1400
    reports["flags"], reports["node_id"] = Flag.TRACKED, 7
    reports["int_version"], reports["instructions"] = int_version, BITMAPS[int_version]
    reports["hop_count"] = 2
    hops = new_hops(2, BITMAPS[int_version])
    hops["node_id"], hops["egress_port"] = [10, 11], 1
    hops["hop_latency"], hops["queue_occupancy"], hops["queue_congestion"] = 1000, 50, 20
    hops["tx_utilization"], hops["buffer_occupancy"] = 500, 70
    (payload,) = frames_of(encode_reports(ReportBatch(reports, hops), link=Link.UDP_PAYLOAD))
    return payload + REST if version != 20 else stated(payload + REST, GROUP_BYTES, TO_THE_END)


def stated(payload: bytes, at: int, words: bytes) -> bytes:
    """The Report 2.0 at `at` with another length."""
    return payload[: at + LENGTH_AT] + words + payload[at + LENGTH_AT + 1 :]


def l4_of(version: int, ip_version: int) -> int:
    """Where the TCP or UDP header of the packet is."""
    return REPORT_BYTES[version] + ETHERNET_BYTES + (20 if ip_version == 4 else 40)


class Source:
    """Sends reports with consecutive numbers, to a filter and, once all were sent, to a detector without
    the kernel.
    """

    def __init__(self, filtering: Filtering, version: int) -> None:
        self._filtering, self._version = filtering, version
        self._frames = list[bytes]()

    def send(self, payload: bytes, number: int | None = None) -> Count:
        """Send a report, with the next number or this one; what the program did with it."""
        at, bits = NUMBER_AT[self._version], NUMBER_BITS[self._version]
        word = int.from_bytes(payload[at : at + 4], "big") & ~bits | (number or len(self._frames) + 1)
        payload = payload[:at] + word.to_bytes(4, "big") + payload[at + 4 :]
        before = self._filtering.program.counts()
        self._frames.append(bytes.fromhex(OUTER.format(28 + len(payload), 8 + len(payload))) + payload)
        self._filtering.give(self._frames[-1:])
        after = self._filtering.program.counts()
        self._filtering.turn()
        (what,) = (count for count in Count if after[count] != before[count])
        return what

    def repeat(self, payloads: list[bytes], times: int) -> None:
        """Send these usual reports so often; the program compares them from then on."""
        for _ in range(times):
            last = [self.send(payload) for payload in payloads]
        assert last == [Count.FILTERED] * len(payloads)

    def accepted(self) -> bool:
        """Whether the decoder finds nothing wrong in the last report, and a path in each part of it."""
        one = np.zeros(1, FRAME)
        one["length"] = len(self._frames[-1])
        one["link"] = Link.ETHERNET
        reports = Decoder(DEFAULT).decode(FrameBatch(np.frombuffer(self._frames[-1], np.uint8), one)).reports
        return bool(((reports["reason"] == 0) & (reports["hop_count"] > 0)).all())

    def compare(self) -> str:
        """How events and tables differ from those without the kernel; empty: they do not."""
        self._filtering.drain()
        plain, events = detected(self._frames)
        found = unlike(self._filtering.events, events)
        return found or "\n".join(differences(plain, self._filtering.detector))


def combinations() -> Iterator[tuple[int, int]]:
    """IP versions, and protocols over them."""
    return product((4, 6), (layout.PROTOCOL_TCP, layout.PROTOCOL_UDP))


@pytest.mark.parametrize("version", [20, 10, 5])
@pytest.mark.parametrize("int_version", [20, 10, 5])
def test_cut_at_every_byte(program: XdpProgram, version: int, int_version: int) -> None:
    """A report about a packet that is cut anywhere behind its IP header ends in the kernel if and only if its
    whole INT is there, as the decoder has it; events and tables are those without the kernel.
    """
    for ip_version, protocol in combinations():
        clear(program)
        source = Source(Filtering(program), version)
        usual = payload_of(version, int_version, ip_version, protocol)
        source.repeat([usual], COMPARED)
        filtered = 0
        for end in range(l4_of(version, ip_version), len(usual) + 1):
            what = source.send(usual[:end])
            assert what == (Count.FILTERED if source.accepted() else Count.UNUSUAL), end
            filtered += what == Count.FILTERED
            source.repeat([usual], 3)
        assert filtered > len(REST)
        assert source.compare() == ""


def test_cut_in_a_group(program: XdpProgram) -> None:
    """So does a group, whichever of its packets is cut; if the length of the last report is more than what is
    there, the decoder takes none of it.
    """
    for ip_version, protocol in combinations():
        clear(program)
        source = Source(Filtering(program), 20)
        one, two = (payload_of(20, 20, ip_version, protocol, flow) for flow in (0, 1))
        group, first, last = one[:GROUP_BYTES], one[GROUP_BYTES:], two[GROUP_BYTES:]
        words = bytes([len(first) // 4 - 1])
        whole = group + stated(first, 0, words) + last
        source.repeat([whole, one, two], COMPARED)
        begin = l4_of(20, ip_version) - GROUP_BYTES
        cut = [whole[: len(whole) - left] for left in range(len(last) - begin)]
        for end in range(begin + -begin % 4, len(first), 4):
            cut.append(group + stated(first[:end], 0, bytes([end // 4 - 1])) + last)
            cut.append(group + stated(first, 0, words) + stated(last[:end], 0, bytes([end // 4])))
        filtered = 0
        for payload in cut:
            what = source.send(payload)
            assert what == (Count.FILTERED if source.accepted() else Count.UNUSUAL), payload.hex()
            filtered += what == Count.FILTERED
            source.repeat([whole, one, two], 3)
        assert filtered > len(REST) + len(REST) // 4
        assert source.compare() == ""


@pytest.mark.parametrize("version", [20, 10, 5])
def test_damaged(program: XdpProgram, version: int) -> None:
    """Events and tables are also the same of cut packets whose headers have wrong bytes, or any length."""
    chance = Random(version)
    for int_version, (ip_version, protocol) in product((20, 10, 5), combinations()):
        clear(program)
        source = Source(Filtering(program), version)
        usual = payload_of(version, int_version, ip_version, protocol)
        source.repeat([usual], COMPARED)
        l4 = l4_of(version, ip_version)
        length = l4 - (18 if ip_version == 4 else 36)
        stack = l4 + (TCP_BYTES if protocol == layout.PROTOCOL_TCP else UDP_BYTES) + 16
        for _ in range(60):
            wrong = bytearray(usual[: len(usual) - chance.choice([0, 0, 1, 8, len(REST), 20])])
            for _ in range(chance.randrange(3)):
                wrong[chance.randrange(stack)] ^= 1 << chance.randrange(8)
            if chance.random() < 0.5:
                wrong[length : length + 2] = chance.randrange(len(usual)).to_bytes(2, "big")
            source.send(bytes(wrong))
            source.send(usual)
            source.send(usual)
        assert source.compare() == ""


@pytest.mark.parametrize("version", [20, 10, 5])
def test_any_length(filtering: Filtering, version: int) -> None:
    """Sequence numbers are compared whatever the length of a report: what only has a header, or is longer
    than what the program compares, is neither a gap nor counted twice.
    """
    source = Source(filtering, version)
    usual = payload_of(version, 20, 4, layout.PROTOCOL_TCP)
    source.repeat([usual], COMPARED)
    for size in (12, 15, 16, 4096, 4097, MAX_PAYLOAD):
        source.send((usual + bytes(MAX_PAYLOAD))[:size])
        source.repeat([usual], 5)
    assert source.compare() == ""


def test_drops_among_reports_0_5(filtering: Filtering) -> None:
    """Reports 0.5 with the header of a drop or of a queue, which name the switch, share the numbers of those
    without.
    """
    source = Source(filtering, 5)
    usual = payload_of(5, 5, 4, layout.PROTOCOL_TCP)
    source.repeat([usual], COMPARED)
    for form, size in ((1, 12), (2, 20)):
        source.send(bytes([form]) + usual[1:12] + bytes([0, 0, 0, 9]).ljust(size, b"\0") + usual[12:])
        source.repeat([usual], 5)
    assert source.compare() == ""


@pytest.mark.parametrize("before", [COMPARED, 70, 90, 120, 133])
@pytest.mark.parametrize("overtaken", [2, 5, 40])
def test_overtaken_by_one_that_is_not_compared(filtering: Filtering, before: int, overtaken: int) -> None:
    """Reports that come after a later one of their source, which the program does not compare, are late, and
    neither lost nor double, also before the program compares reports of their source.
    """
    source = Source(filtering, 20)
    usual = payload_of(20, 20, 4, layout.PROTOCOL_TCP)
    for _ in range(before):
        source.send(usual)
    assert source.send(usual[:100], before + 1 + overtaken) == Count.UNUSUAL
    for number in range(before + 1, before + 1 + overtaken):
        source.send(usual, number)
    source.repeat([usual], COMPARED)
    assert source.compare() == ""


def test_another_queue_for_a_while(filtering: Filtering) -> None:
    """A flow that was in another queue is in its usual one again, also once its reports end in the kernel."""
    source = Source(filtering, 20)
    usual = payload_of(20, 20, 4, layout.PROTOCOL_TCP)
    source.repeat([usual], COMPARED)
    queue = l4_of(20, 4) + TCP_BYTES + 16 + 3 * 4
    for _ in range(3):
        source.send(usual[:queue] + b"\1" + usual[queue + 1 :])
    source.repeat([usual], 5)
    assert source.compare() == ""
