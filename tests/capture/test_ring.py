"""Frames of an interface: a veth pair in a network namespace of the test's own."""

from __future__ import annotations

import socket
import time

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from hopscope.capture.errors import CaptureError
from hopscope.capture.ring.listener import RingListener
from hopscope.capture.sockets import bind_share
from hopscope.settings.listen import ListenSettings
from support.network.veth import BROADCAST, FOREIGN, Namespace, received, unfinished
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kernel


def test_frames_to_anybody(namespace: Namespace) -> None:
    """Frames to everybody and, promiscuous, to other machines come whole and in order; one's own do not."""
    listener = namespace.listener()
    sent = [head + bytes([i]) * (46 + i * 90) for i, head in enumerate([BROADCAST, FOREIGN] * 8)]
    with namespace.raw("near") as own, namespace.raw() as far:
        own.send(BROADCAST + b"own" * 20)
        for frame in sent:
            far.send(frame)
        assert received(listener, len(sent)) == sent
        assert listener.receive() is None
    assert listener.counts()["kernel_drops_total"] == 0
    listener.close()


def test_tags_are_put_back(namespace: Namespace) -> None:
    """VLAN tags that the kernel takes off are in the frame again, be they 802.1Q or 802.1ad, up to three."""
    listener = namespace.listener()
    tags = ["81000064", "88a80064", "88a8006481000007", "88a80fff8100ffff81000001"]
    frames = [BROADCAST[:12] + bytes.fromhex(tag) + BROADCAST[12:] + b"x" * 60 for tag in tags]
    with namespace.raw() as far:
        for frame in frames:
            far.send(frame)
        assert received(listener, len(frames)) == frames
    listener.close()


def test_long_frames(namespace: Namespace) -> None:
    """Frames of 9000 bytes are whole, with a tag too."""
    for end in ("near", "far"):
        namespace.ip("link", "set", end, "mtu", "9000")
    listener = namespace.listener()
    tags = (b"", b"\x81\x00\x00\x07")
    frames = [BROADCAST[:12] + tag + b"\xab\xcd" + bytes(range(250)) * 36 for tag in tags]
    with namespace.raw() as far:
        for frame in frames:
            far.send(frame)
        assert received(listener, 2) == frames
    listener.close()


def test_checksums_are_completed(namespace: Namespace) -> None:
    """Checksums of TCP and UDP over IPv4 and IPv6 that were left to a card, of even and odd lengths, with a
    tag, and one that is zero, are those that scapy computes; a frame of 60,000 bytes that the card is to cut
    comes in one piece. A frame whose checksum is not left to the card is not touched.
    """
    plain = Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:00:0a")
    four, six = IP(src="192.0.2.1", dst="192.0.2.2"), IPv6(src="2001:db8::1", dst="2001:db8::2")
    cases = [
        unfinished(head / ip / layer / Raw(bytes(range(length))), field)
        for head in (plain, plain / Dot1Q(vlan=7))
        for ip in (four, six)
        for layer, field in ((UDP(sport=1, dport=2), 6), (TCP(sport=1, dport=2), 16))
        for length in (0, 1, 6, 7, 8, 63, 64)
    ]
    zero = bytes(plain / four / UDP(sport=1, dport=2) / Raw(b"\0\0"))[40:42]
    cases.append(unfinished(plain / four / UDP(sport=1, dport=2) / Raw(zero), 6))
    assert cases[-1][1][40:42] == b"\xff\xff"
    cases.append(unfinished(plain / four / TCP(flags="A") / Raw(bytes(range(200)) * 300), 16, 1448))
    listener = namespace.listener()
    with namespace.offloading() as far:
        for partial, _ in cases:
            far.send(partial)
        far.send(bytes(10) + cases[0][0][10:])
    expected = [*(whole for _, whole in cases), cases[0][0][10:]]
    got = received(listener, len(expected))
    assert [frame.hex() for frame in got] == [frame.hex() for frame in expected]
    assert listener.counts()["completed_checksums_total"] == len(cases)
    listener.close()


def test_flows_are_shared(namespace: Namespace) -> None:
    """Two workers share an interface by flow: a flow's frames reach the same one, in order, none is lost or
    doubled; nothing is let in before a worker is there.
    """
    settings = ListenSettings(kind="mirror", interface="near", workers=2)
    first = namespace.inside(lambda: bind_share(settings, 0))
    second = namespace.inside(lambda: bind_share(settings, 1, first))
    workers = [RingListener(settings, i, 2, sock) for i, sock in enumerate((first, second))]
    flows = [
        bytes(
            Ether(dst="02:aa:bb:cc:dd:ee")
            / IP(src="192.0.2.1", dst="192.0.2.2")
            / UDP(sport=port, dport=9)
            / b"xx"
        )
        for port in range(1000, 1040)
    ]
    with namespace.raw() as far:
        far.send(flows[0])
        for worker in workers:
            worker.open()
        for turn in range(3):
            for flow in flows:
                far.send(flow[:-1] + bytes([turn]))
    got = [received(worker, 120, seconds=0.3) for worker in workers]
    assert sorted(got[0] + got[1]) == sorted(flow[:-1] + bytes([turn]) for flow in flows for turn in range(3))
    keys = [{frame[:-1] for frame in frames} for frames in got]
    assert keys[0]
    assert keys[1]
    assert not keys[0] & keys[1]
    for frames in got:
        assert [frame[-1] for frame in frames] == sorted(frame[-1] for frame in frames)
    for worker in workers:
        worker.close()


def test_flows_that_go_on_are_shared_by_addresses(namespace: Namespace) -> None:
    """Where frames go on, all frames of two hosts reach the same worker, whatever INT makes of their protocol
    and ports, fragments as they are, tagged or not, in both directions; other pairs reach the other one.
    """
    settings = ListenSettings(kind="mirror", interface="near", workers=2, output="far")
    first = namespace.inside(lambda: bind_share(settings, 0))
    second = namespace.inside(lambda: bind_share(settings, 1, first))
    workers = [RingListener(settings, i, 2, sock) for i, sock in enumerate((first, second))]
    head = Ether(dst="02:aa:bb:cc:dd:ee")
    pairs: list[tuple[type[Packet], str, str]] = [(IP, f"192.0.2.{i}", "192.0.2.99") for i in range(8)]
    pairs += [(IPv6, f"2001:db8::{i}", "2001:db8::99") for i in range(8)]
    frames: dict[bytes, str] = {}
    for ip, one, other in pairs:
        there, back = ip(src=one, dst=other), ip(src=other, dst=one)
        several = [
            head / there / TCP(sport=5),
            head / there / UDP(sport=7, dport=4096),
            head / back / TCP(dport=5),
        ]
        several.append(head / Dot1Q(vlan=7) / there / TCP(sport=9))
        if ip is IP:
            several += [head / there.copy() / UDP() / bytes(64), head / there.copy() / bytes(64)]
            several[-2][IP].flags, several[-1][IP].frag = "MF", 9
        frames |= {bytes(packet): one for packet in several}
    with namespace.raw() as far:
        for worker in workers:
            worker.open()
        for frame in frames:
            far.send(frame)
    got = [received(worker, len(frames), seconds=0.3) for worker in workers]
    assert sorted(got[0] + got[1]) == sorted(frames)
    keys = [{frames[frame] for frame in some} for some in got]
    assert keys[0]
    assert keys[1]
    assert not keys[0] & keys[1]
    for worker in workers:
        worker.close()


def test_the_next_worker_goes_on(namespace: Namespace) -> None:
    """What a worker has not read when it dies, the next one gets; what it was reading is not given again."""
    settings = ListenSettings(kind="mirror", interface="near", ring_bytes=2**21)
    handle = namespace.inside(lambda: bind_share(settings))
    frames = [BROADCAST + bytes([i % 256, i // 256]) + b"x" * 1000 for i in range(500)]

    def start() -> RingListener:
        worker = RingListener(settings, sock=handle.dup())
        worker.open()
        return worker

    with namespace.raw() as far:
        for waiting in (0, 150, 300, 450, 5, 490, 1, 400):  # 16 blocks of 120 frames: it goes round
            worker = start()
            for frame in frames[:10]:
                far.send(frame)
            assert received(worker, 10) == frames[:10]
            worker.close()  # with the block in its hands
            for frame in frames[10 : 10 + waiting]:
                far.send(frame)
            heir = start()
            assert received(heir, waiting) == frames[10 : 10 + waiting]
            assert heir.receive() is None  # hands back
            assert heir.counts()["kernel_drops_total"] == 0
            heir.close()
    handle.close()


def test_a_finished_listener_leaves_the_rest(namespace: Namespace) -> None:
    """What it has begun to take it returns to the end; the next listener of the socket gets all else."""
    settings = ListenSettings(kind="mirror", interface="near", ring_bytes=2**21)
    handle = namespace.inside(lambda: bind_share(settings))
    frames = [BROADCAST + bytes([i % 256, i // 256]) + b"x" * 1000 for i in range(1200)]  # 10 of 16 blocks
    first, second = (RingListener(settings, sock=handle.dup()) for _ in range(2))
    first.open()
    with namespace.raw() as far:
        for frame in frames:
            far.send(frame)
    begun = received(first, 1)  # a quarter of the ring
    assert len(begun) < len(frames)
    first.finish()
    assert first.receive() is None  # hands back
    second.open()
    assert begun + received(second, len(frames) - len(begun)) == frames
    assert second.counts()["abandoned_frames_total"] == second.counts()["kernel_drops_total"] == 0
    for listener in (first, second):
        listener.close()
    handle.close()


def test_only_what_the_filter_takes(namespace: Namespace) -> None:
    """A program as of `tcpdump -ddd` chooses frames; a damaged one, and one that is refused, is told."""
    listener = namespace.listener(filter="4\n40 0 0 12\n21 0 1 43981\n6 0 0 262144\n6 0 0 0\n")
    other = BROADCAST[:12] + b"\xab\xce" + b"y" * 60
    with namespace.raw() as far:
        for frame in (other, BROADCAST + b"x" * 60, other):
            far.send(frame)
    assert received(listener, 2, seconds=0.2) == [BROADCAST + b"x" * 60]
    listener.close()
    for text in ("2,6 0 0 0", "1,6 0 0", "1,6 0 0 -1", "0", "1,6 0 0 99999999999"):
        with pytest.raises(CaptureError, match=r"found filter .*, expected the number of its lines"):
            namespace.listener(filter=text)
    with pytest.raises(CaptureError, match="mirror://near: the kernel refuses the filter"):
        namespace.listener(filter="1,21 9 9 0")


def test_frames_that_a_filter_cuts_are_counted(namespace: Namespace) -> None:
    """A frame that is not whole is counted as oversized, and left out."""
    listener = namespace.listener(filter="1,6 0 0 64")
    with namespace.raw() as far:
        for length in (50, 51, 50):
            far.send(BROADCAST + b"x" * length)
    assert received(listener, 3, seconds=0.2) == [BROADCAST + b"x" * 50] * 2
    assert listener.counts()["oversized_frames_total"] == 1
    listener.close()


def test_drops_are_counted(namespace: Namespace) -> None:
    """What the ring had no room for is counted as dropped by the kernel; with room again frames come again,
    and the next worker goes on counting.
    """
    listener = namespace.listener(ring_bytes=1024 * 1024)
    frames = [BROADCAST + bytes([i % 256, i // 256]) + b"x" * 1000 for i in range(1500)]
    with namespace.raw() as far:
        for frame in frames:
            far.send(frame)
        got = received(listener, len(frames), seconds=0.3)
        drops = listener.counts()["kernel_drops_total"]
        assert drops > 0
        assert got == frames[: len(got)]
        assert len(got) + drops == len(frames)
        far.send(frames[0])
        assert received(listener, 1) == frames[:1]
    again = RingListener(listener.settings, sock=listener._socket)
    again.open()
    assert again.counts()["kernel_drops_total"] == drops
    listener.close()


def test_an_interface_that_goes_down_comes_back(namespace: Namespace) -> None:
    """Going down is no failure; an interface that is gone is one, told in a line."""
    listener = namespace.listener()
    namespace.ip("link", "set", "near", "down")
    assert namespace.inside(listener.receive) is None
    namespace.ip("link", "set", "near", "up")
    with namespace.raw() as far:
        until = time.monotonic() + HANG_SECONDS
        while not (got := received_now(namespace, listener)) and time.monotonic() < until:
            far.send(BROADCAST + b"x" * 60)
            time.sleep(0.01)
        assert got
    namespace.ip("link", "del", "near")
    with pytest.raises(CaptureError, match="mirror://near: the interface is gone"):
        namespace.inside(lambda: [listener.receive() for _ in range(3)])
    listener.close()


def received_now(namespace: Namespace, listener: RingListener) -> int:
    """Frames that are there."""
    batch = namespace.inside(listener.receive)
    return 0 if batch is None else len(batch)


def test_interfaces_that_cannot_be_read(namespace: Namespace) -> None:
    """No such interface is one line."""
    with pytest.raises(CaptureError, match="mirror://nowhere: this machine has no such interface"):
        bind_share(ListenSettings(kind="mirror", interface="nowhere"))


def test_without_permission_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root or the capability the start says what is needed."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(CaptureError, match="mirror://lo: reading an interface needs root or the capability"):
        bind_share(ListenSettings(kind="mirror", interface="lo"))


def test_a_ring_of_forwarded_frames_holds_time(namespace: Namespace) -> None:
    """Frames that come one by one, each in a block of its own: 1 MiB holds 60 of them while nobody reads."""
    namespace.ip("link", "add", "out", "type", "veth", "peer", "name", "beyond")
    listener = namespace.listener(ring_bytes=1024 * 1024, output="out")
    sent = [BROADCAST + bytes([number]) * 60 for number in range(60)]
    with namespace.raw() as far:
        for frame in sent:
            far.send(frame)
            time.sleep(0.003)  # longer than the kernel holds a block back
        assert received(listener, len(sent)) == sent
    assert listener.counts()["kernel_drops_total"] == 0
    listener.close()
