"""Reports of an interface: datagrams in a ring, at one end of a veth pair in the test's own namespace."""

from __future__ import annotations

import ipaddress
import struct
import time
from dataclasses import dataclass
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP, IPOption
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw

from hopscope.capture.ring.report_listener import ReportListener
from hopscope.capture.sockets import bind_share
from hopscope.settings.listen import ListenSettings
from hopscope.wire.records import Link
from support.network.veth import Namespace
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kernel

PORT = 32766
FOUR, SIX = IP(src="192.0.2.1", dst="192.0.2.2"), IPv6(src="2001:db8::1", dst="2001:db8::2")
TO_PORT = UDP(sport=7000, dport=PORT)
_LOOKS, _PAUSE = 10, 0.02
_LAST = b"the last one"


@dataclass(frozen=True)
class Got:
    """A frame as a listener hands it over."""

    octets: bytes
    source: str = ""
    source_port: int = 0
    link: int = int(Link.UDP_PAYLOAD)


def listening(namespace: Namespace, **settings: Any) -> ReportListener:
    """What listens at the near end."""
    listener = ReportListener(ListenSettings.model_validate({"kind": "ring", "interface": "near"} | settings))
    namespace.inside(listener.open)
    return listener


def mac(namespace: Namespace, end: str = "near") -> str:
    """Address of an end."""
    return namespace.ip("-o", "link", "show", end).split("link/ether ")[1].split()[0]


def received(listener: ReportListener, last: bytes = _LAST, looks: int = 0) -> list[Got]:
    """All until the payload `last`, which is left out; or all of so many looks without a frame."""
    found: list[Got] = []
    until, empty = time.monotonic() + HANG_SECONDS, 0
    while time.monotonic() < until and not (looks and empty >= looks):
        batch = listener.receive()
        if batch is None:
            empty += 1
            time.sleep(_PAUSE)
            continue
        for frame in batch.frames:
            start = int(frame["offset"])
            octets = batch.arena[start : start + int(frame["length"])].tobytes()
            if octets == last:
                return found
            if frame["link"] == Link.ETHERNET:
                found.append(Got(octets, link=int(Link.ETHERNET)))
                continue
            assert frame["port"] == PORT
            number = int(frame["source_hi"]) << 64 | int(frame["source_lo"])
            address = ipaddress.IPv6Address(number)
            found.append(Got(octets, str(address.ipv4_mapped or address), int(frame["source_port"])))
    return found


def send(namespace: Namespace, listener: ReportListener, frames: list[Packet]) -> list[Got]:
    """Send frames from the far end, and what came of them."""
    end = Ether(dst=mac(namespace)) / FOUR / UDP(sport=7000, dport=listener.settings.port) / Raw(_LAST)
    with namespace.raw() as far:
        for frame in [*frames, end]:
            far.send(bytes(frame))
    return received(listener)


def test_datagrams_to_the_port(namespace: Namespace) -> None:
    """Over IPv4 and IPv6, with options and up to three VLAN tags, padded, empty: payload
    and source are those that were sent.
    """
    listener = listening(namespace)
    head = Ether(dst=mac(namespace))
    heads = [
        head,
        head / Dot1Q(vlan=7),
        head / Dot1AD(vlan=5) / Dot1Q(vlan=7),
        head / Dot1AD(vlan=5) / Dot1Q(vlan=7) / Dot1Q(vlan=9),
    ]
    options = IP(src="192.0.2.3", dst="192.0.2.2", options=[IPOption(b"\x83\x03\x10")])
    packets: list[Packet] = []
    expected: list[Got] = []
    for number, link in enumerate(heads):
        for ip, source in ((FOUR, "192.0.2.1"), (SIX, "2001:db8::1"), (options, "192.0.2.3")):
            for length in (0, 1, 5, 300):
                payload = bytes([number + 1]) * length
                whole = bytes(link / ip / TO_PORT / Raw(payload))
                packets.append(Raw(whole.ljust(60, b"\xee")))
                expected.append(Got(payload, source, 7000))
    assert send(namespace, listener, packets) == expected
    assert listener.counts()["kernel_drops_total"] == 0
    listener.close()


def test_only_reports_enter_the_ring(namespace: Namespace) -> None:
    """Other ports and protocols, later fragments and frames to other machines stay outside; a promiscuous
    ring reads the last.
    """
    own, foreign = Ether(dst=mac(namespace)), Ether(dst="02:aa:bb:cc:dd:ee")
    payload = Raw(b"r" * 40)
    later = IP(src="192.0.2.1", dst="192.0.2.2", frag=3, proto=17)
    others = [
        own / FOUR / UDP(sport=PORT, dport=PORT + 1) / payload,
        own / SIX / UDP(sport=PORT, dport=PORT - 1) / payload,
        own / Dot1Q(vlan=7) / FOUR / UDP(dport=9) / payload,
        own / FOUR / TCP(dport=PORT) / payload,
        own / later / TO_PORT / payload,
        Ether(dst=own.dst, type=0x88CC) / payload,
    ]
    to_others = [foreign / FOUR / TO_PORT / payload]
    listener = listening(namespace)
    assert send(namespace, listener, others + to_others) == []
    listener.close()
    listener = listening(namespace, promiscuous=True)
    assert send(namespace, listener, others + to_others) == [Got(b"r" * 40, "192.0.2.1", 7000)]
    listener.close()


def test_what_is_not_plain_is_left_to_the_decoder(namespace: Namespace) -> None:
    """A first fragment, an IPv6 header with extensions, and lengths that lie are whole frames."""
    listener = listening(namespace)
    own, payload = Ether(dst=mac(namespace), src="02:00:00:00:00:0a"), Raw(b"r" * 40)
    first = IP(src="192.0.2.1", dst="192.0.2.2", flags="MF")
    longer = UDP(sport=7000, dport=PORT, len=200)
    packets = [
        own / first / TO_PORT / payload,
        own / SIX / IPv6ExtHdrDestOpt() / TO_PORT / payload,
        own / SIX / IPv6ExtHdrFragment(m=1) / TO_PORT / payload,
        own / FOUR / longer / payload,
        own / IP(src="192.0.2.1", dst="192.0.2.2", len=400) / TO_PORT / payload,
        own / SIX / longer / payload,
    ]
    expected = [Got(bytes(packet), link=int(Link.ETHERNET)) for packet in packets]
    assert send(namespace, listener, packets) == expected
    listener.close()


def test_sources_are_allowed_and_limited(namespace: Namespace) -> None:
    """As at a UDP port: what is not let in is counted, and frames without a plain datagram count, too."""
    own, payload = Ether(dst=mac(namespace)), Raw(b"r" * 40)
    stranger = IP(src="198.51.100.1", dst="192.0.2.2")
    fragment = IP(src="198.51.100.1", dst="192.0.2.2", flags="MF")
    packets = [own / stranger / TO_PORT / payload, own / fragment / TO_PORT / payload]
    listener = listening(namespace, allow=("192.0.2.0/24", "2001:db8::/32"))
    allowed = [own / FOUR / TO_PORT / payload, own / SIX / TO_PORT / payload]
    got = send(namespace, listener, packets + allowed)
    assert [each.source for each in got] == ["192.0.2.1", "2001:db8::1"]
    assert listener.counts()["denied_frames_total"] == len(packets)
    listener.close()
    listener = listening(namespace, rate_limit=1, rate_burst=3)
    got = send(namespace, listener, [packets[0]] * 10)
    assert len(got) == 3
    assert listener.counts()["rate_limited_frames_total"] == 7
    listener.close()


def test_trains_are_taken_apart(namespace: Namespace) -> None:
    """Datagrams that a sender left to its card to cut, over IPv4 and IPv6, tagged or not, are single again,
    also those that do not fit in one batch.
    """
    listener = listening(namespace)
    own = Ether(dst=mac(namespace))
    parts = [bytes([number]) * 30 for number in range(64)]
    parts[-1] = b"short"
    with namespace.offloading() as far:
        for link in (own, own / Dot1Q(vlan=7)):
            for ip in (FOUR, SIX):
                for _ in range(70):
                    whole = bytes(link / ip / UDP(sport=7000, dport=PORT, chksum=0) / Raw(b"".join(parts)))
                    at = len(whole) - sum(map(len, parts)) - 8
                    # flags NEEDS_CSUM, gso_type UDP_L4, header bytes, gso_size, where the checksum is
                    far.send(struct.pack("<BBHHHH", 1, 5, at + 8, 30, at, 6) + whole)
    got = received(listener, looks=_LOOKS)
    assert len(got) == 4 * 70 * len(parts)
    assert [each.octets for each in got] == parts * 280
    listener.close()


def test_workers_share_reports_by_source(namespace: Namespace) -> None:
    """All reports of a source reach the same of two workers, tagged or not, over IPv4 and IPv6."""
    settings = ListenSettings.model_validate({"kind": "ring", "interface": "near", "workers": 2})
    first = namespace.inside(lambda: bind_share(settings, 0))
    second = namespace.inside(lambda: bind_share(settings, 1, first))
    workers = [ReportListener(settings, i, 2, sock) for i, sock in enumerate((first, second))]
    own = Ether(dst=mac(namespace))
    tags = [own, own / Dot1Q(vlan=7, prio=2), own / Dot1AD(vlan=5) / Dot1Q(vlan=7, prio=2)]
    sources: list[Packet] = [IP(src=f"192.0.2.{i}", dst="192.0.2.99") for i in range(1, 17)]
    sources += [IPv6(src=f"2001:db8::{i:x}", dst="2001:db8::99") for i in range(1, 17)]
    with namespace.raw() as far:
        for worker in workers:
            worker.open()
        for turn in range(3):
            for link in tags:
                for ip in sources:
                    far.send(bytes(link / ip / UDP(sport=7000 + turn, dport=PORT) / Raw(b"r" * 40)))
    got = [received(worker, looks=_LOOKS) for worker in workers]
    assert len(got[0]) + len(got[1]) == 3 * len(tags) * len(sources)
    seen = [{each.source for each in some} for some in got]
    assert seen[0]
    assert seen[1]
    assert not seen[0] & seen[1]
    for worker in workers:
        worker.close()


def test_overload_is_counted(namespace: Namespace) -> None:
    """Of more than fits, what was sent is what was received and what the kernel dropped."""
    listener = listening(namespace, ring_bytes=2**20)
    frame = bytes(Ether(dst=mac(namespace)) / FOUR / TO_PORT / Raw(b"r" * 1000))
    with namespace.raw() as far:
        for _ in range(2000):
            far.send(frame)
    got = received(listener, looks=_LOOKS)
    drops = listener.counts()["kernel_drops_total"]
    assert drops > 0
    assert len(got) + drops == 2000
    listener.close()
