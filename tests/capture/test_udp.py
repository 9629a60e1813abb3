"""UDP in and out over loopback: what is sent arrives, and what does not is counted."""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hopscope.capture import sockets
from hopscope.capture.errors import CaptureError
from hopscope.capture.udp.listener import SLOT_BYTES, UdpListener, UdpSender, bind_share
from hopscope.settings.listen import ListenSettings
from hopscope.wire.records import FRAME, FrameBatch, Link, Records
from support.waiting import HANG_SECONDS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.kernel,
    pytest.mark.skipif(
        not hasattr(socket, "SO_REUSEPORT") or not hasattr(socket, "SOCK_NONBLOCK"), reason="needs Linux"
    ),
]
Listeners = Iterator["ListenerMaker"]


class ListenerMaker:
    """Opens listeners and closes them after the test."""

    def __init__(self) -> None:
        self.opened: list[UdpListener] = []

    def __call__(self, worker: int = 0, sock: socket.socket | None = None, **fields: Any) -> UdpListener:
        settings = ListenSettings.model_validate({"port": 0, **fields})
        listener = UdpListener(settings, worker, settings.workers, sock)
        listener.open()
        self.opened.append(listener)
        return listener


@pytest.fixture
def listen() -> Listeners:
    maker = ListenerMaker()
    yield maker
    for listener in maker.opened:
        listener.close()


def payloads(batch: FrameBatch) -> list[bytes]:
    frames = batch.frames[["offset", "length"]].tolist()
    return [batch.arena[offset : offset + length].tobytes() for offset, length in frames]


def drain(listener: UdpListener, expected: int, seconds: float = HANG_SECONDS) -> tuple[list[bytes], Records]:
    """Payloads and frames until `expected` have come, or for so long."""
    found: list[bytes] = []
    blocks = []
    until = time.monotonic() + seconds
    while len(found) < expected and time.monotonic() < until:
        if (batch := listener.receive()) is None:
            time.sleep(0.001)
            continue
        found.extend(payloads(batch))
        blocks.append(batch.frames.copy())
    return found, np.concatenate(blocks) if blocks else np.zeros(0, FRAME)


def batch_of(bodies: list[bytes], sources: list[str] | None = None) -> FrameBatch:
    frames = np.zeros(len(bodies), FRAME)
    frames["length"] = [len(body) for body in bodies]
    frames["offset"] = np.cumsum(frames["length"]) - frames["length"]
    frames["link"] = Link.UDP_PAYLOAD
    if sources:
        numbers = [int(ipaddress.ip_address(source)) for source in sources]
        v4 = [0xFFFF << 32 if ":" not in source else 0 for source in sources]
        frames["source_hi"] = [number >> 64 for number in numbers]
        frames["source_lo"] = [
            (number & (1 << 64) - 1) | mapped for number, mapped in zip(numbers, v4, strict=True)
        ]
    return FrameBatch(np.frombuffer(b"".join(bodies), np.uint8), frames)


def address(frame: np.void) -> str:
    found = ipaddress.IPv6Address(int(frame["source_hi"]) << 64 | int(frame["source_lo"]))
    return str(found.ipv4_mapped or found)


@pytest.mark.parametrize("gro", [True, False])
def test_single_datagrams(listen: ListenerMaker, gro: bool) -> None:
    """Bytes, source, both ports, link type and time of each, empty and large ones too; then nothing."""
    listener = listen(gro=gro)
    assert listener.receive() is None
    bodies = [b"", b"a", b"report" * 100, bytes(8972)]
    before = time.time_ns()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.7", 0))
        source_port = sender.getsockname()[1]
        for body in bodies:
            sender.sendto(body, ("127.0.0.1", listener.port))
    found, frames = drain(listener, len(bodies))
    assert found == bodies
    assert set(frames["source_port"].tolist()) == {source_port}
    assert {address(frame) for frame in frames} == {"127.0.0.7"}
    assert set(frames["port"].tolist()) == {listener.port}
    assert set(frames["link"].tolist()) == {Link.UDP_PAYLOAD}
    assert (frames["wire_length"] == frames["length"]).all()
    assert (frames["time_ns"] >= before).all()
    assert (frames["time_ns"] <= time.time_ns()).all()
    assert listener.receive() is None


@pytest.mark.parametrize("gro", [True, False])
def test_datagrams_longer_than_a_slot(listen: ListenerMaker, gro: bool) -> None:
    """A datagram that continues outside of its slot is whole, next to others that do not, in each place."""
    listener = listen(gro=gro)
    octets = np.random.default_rng(1)
    lengths = [SLOT_BYTES - 1, SLOT_BYTES, SLOT_BYTES + 1, 2 * SLOT_BYTES, 9216, 5] * 3
    bodies = [octets.bytes(length) for length in lengths]
    sender = UdpSender("127.0.0.1", listener.port, trains=False)
    assert sender.send(batch_of(bodies)) == len(bodies)
    assert drain(listener, len(bodies))[0] == bodies
    sender.close()


def test_ipv6(listen: ListenerMaker) -> None:
    """An IPv6 listener gives whole addresses; one on `::` takes IPv4 too, as mapped addresses."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        listener = listen(host="::1")
        both = listen(host="::")
    except CaptureError as error:
        pytest.skip(f"no IPv6 here: {error}")
    for host, port in (("::1", listener.port), ("::1", both.port), ("127.0.0.1", both.port)):
        sender = UdpSender(host, port)
        assert sender.send(batch_of([b"x"])) == 1
        sender.close()
    assert [address(frame) for frame in drain(listener, 1)[1]] == ["::1"]
    assert sorted(address(frame) for frame in drain(both, 2)[1]) == ["127.0.0.1", "::1"]


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("gro", [True, False])
def test_trains(listen: ListenerMaker, trains: bool, gro: bool) -> None:
    """Thousands of frames of changing lengths arrive whole and in order, merged by the kernel or not."""
    listener = listen(gro=gro)
    sender = UdpSender("127.0.0.1", listener.port, trains=trains)
    lengths = (
        [60] * 700 + [1] * 300 + [1400] * 100 + [0, 0, 5] + [100, 90, 100, 100, 40, 200] * 50 + [33] * 5000
    )
    bodies = [
        struct.pack(">I", i)[-min(4, n) :] * (n // min(4, n)) if n else b"" for i, n in enumerate(lengths)
    ]
    bodies = [body.ljust(n, b"#") for body, n in zip(bodies, lengths, strict=True)]
    assert sender.send(batch_of(bodies)) == len(bodies)
    found, frames = drain(listener, len(bodies))
    assert listener.counts()["kernel_drops_total"] == 0
    assert found == bodies
    assert len(frames) == len(bodies)
    assert sender.sent == len(bodies)
    sender.close()


def test_batches_are_bounded_and_numbered(listen: ListenerMaker) -> None:
    """Trains with more frames than a batch holds go on in the next batch, and `first_packet` counts on."""
    listener = listen()
    sender = UdpSender("127.0.0.1", listener.port)
    sender.send(batch_of([b"%05d" % i for i in range(10_000)]))
    seen = 0
    while (batch := listener.receive()) is not None:
        assert len(batch) <= 4096
        assert batch.first_packet == seen
        assert payloads(batch)[0] == b"%05d" % seen
        seen += len(batch)
    assert seen == 10_000
    sender.close()


def test_sources_of_frames(listen: ListenerMaker) -> None:
    """A sender may give each datagram its frame's own source address, also within trains."""
    listener = listen()
    sender = UdpSender("127.0.0.1", listener.port, by_source=True)
    sources = [f"127.0.{i // 7 % 3}.{i // 7 % 5 + 1}" for i in range(500)]
    sender.send(batch_of([b"%03d" % i for i in range(500)], sources))
    found, frames = drain(listener, 500)
    assert dict(zip(found, map(address, frames), strict=True)) == {
        b"%03d" % i: s for i, s in enumerate(sources)
    }
    sender.close()


def test_allowed_sources(listen: ListenerMaker) -> None:
    """Datagrams of other networks are held back and counted, singly and in trains."""
    listener = listen(allow=("127.0.0.16/28", "127.9.0.1", "2001:db8::/32"))
    sender = UdpSender("127.0.0.1", listener.port, by_source=True)
    sources = ["127.0.0.15", "127.0.0.16", "127.0.0.31", "127.0.0.32", "127.9.0.1", "127.9.0.2"]
    sender.send(batch_of([b"x"] * 60, [s for s in sources for _ in range(10)]))
    _, frames = drain(listener, 30)
    assert Counter(map(address, frames)) == dict.fromkeys(("127.0.0.16", "127.0.0.31", "127.9.0.1"), 10)
    assert listener.counts()["denied_frames_total"] == 30
    assert listener.receive() is None
    sender.close()


def test_rate_limit(listen: ListenerMaker) -> None:
    """Each source gets its burst; what is above is held back and counted; other sources are not affected."""
    listener = listen(rate_limit=1, rate_burst=25)
    sender = UdpSender("127.0.0.1", listener.port, by_source=True)
    sender.send(batch_of([b"x"] * 130, ["127.0.0.1"] * 100 + ["127.0.0.2"] * 20 + ["127.0.0.3"] * 10))
    begin = time.monotonic()
    _, frames = drain(listener, 55)
    came = Counter(map(address, frames))
    refilled = int(time.monotonic() - begin) + 1
    assert 25 <= came["127.0.0.1"] <= 25 + refilled
    assert came["127.0.0.2"] == 20
    assert came["127.0.0.3"] == 10
    assert listener.receive() is None
    assert listener.counts()["rate_limited_frames_total"] + len(frames) == 130
    sender.close()


def test_kernel_drops_are_counted(listen: ListenerMaker) -> None:
    """Received and dropped by the kernel are together what was sent, also after a second overflow."""
    listener = listen(receive_buffer_bytes=16_384, gro=False)
    sender = UdpSender("127.0.0.1", listener.port, trains=False)
    sent = received = 0
    for _ in range(2):
        sent += sender.send(batch_of([b"x" * 200] * 2000))
        received += len(drain(listener, 2000, seconds=0.3)[0])
        dropped = listener.counts()["kernel_drops_total"]
        assert dropped > 0
        assert received + dropped == sent
    sent += sender.send(batch_of([b"x"]))
    received += len(drain(listener, 1)[0])
    assert listener.counts()["kernel_drops_total"] == dropped
    assert received + dropped == sent
    sender.close()


def test_trains_that_the_kernel_drops(listen: ListenerMaker) -> None:
    """A train without room counts once: received datagrams and those of dropped trains are what was sent."""
    listener = listen(receive_buffer_bytes=65_536)
    if not sockets.enable_gro(listener._socket):  # type: ignore[arg-type]
        pytest.skip("this kernel has no UDP_GRO")
    sender = UdpSender("127.0.0.1", listener.port)
    sent = sender.send(batch_of([b"x" * 200] * 64 * 50))
    received = len(drain(listener, sent, seconds=0.3)[0])
    dropped = listener.counts()["kernel_drops_total"]
    assert dropped > 0
    assert received + 64 * dropped == sent == 3200
    sender.close()


def test_drops_from_the_datagrams_themselves(listen: ListenerMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel does not tell drops on request, SO_RXQ_OVFL on the next datagram does."""
    for module in ("udp.listener", "sockets"):
        monkeypatch.setattr(f"hopscope.capture.{module}.kernel_drops", lambda handle: None)
    listener = listen(receive_buffer_bytes=16_384, gro=False)
    sender = UdpSender("127.0.0.1", listener.port, trains=False)
    sent = sender.send(batch_of([b"x" * 200] * 2000))
    received = len(drain(listener, 2000, seconds=0.3)[0])
    assert listener.counts()["kernel_drops_total"] == 0
    sent += sender.send(batch_of([b"x"]))
    received += len(drain(listener, 1)[0])
    assert listener.counts()["kernel_drops_total"] + received == sent
    sender.close()


def test_oversized_datagrams(listen: ListenerMaker) -> None:
    """Without room for 64 KiB, a datagram of more than 9216 bytes is refused and counted; others pass."""
    listener = listen(gro=False)
    sender = UdpSender("127.0.0.1", listener.port, trains=False)
    sender.send(batch_of([b"a", bytes(9216), bytes(9217), bytes(65_507), b"b"]))
    found, _ = drain(listener, 3)
    assert [len(body) for body in found] == [1, 9216, 1]
    assert listener.receive() is None
    assert listener.counts()["oversized_frames_total"] == 2
    sender.close()
    large = listen()
    sender = UdpSender("127.0.0.1", large.port)
    sender.send(batch_of([b"a", bytes(65_507), b"b"]))
    assert [len(body) for body in drain(large, 3)[0]] == [1, 65_507, 1]
    sender.close()


@pytest.mark.parametrize(("host", "networks"), [("127.0.0.1", 60), ("::1", 1)])
def test_workers_share_by_source(listen: ListenerMaker, host: str, networks: int) -> None:
    """All datagrams of one source address reach one worker, whatever their ports; both get sources."""
    settings = ListenSettings(host=host, port=0, workers=2)
    try:
        first = bind_share(settings, 0)
    except CaptureError as error:
        pytest.skip(f"no IPv6 here: {error}")
    port = first.getsockname()[1]
    settings = settings.model_copy(update={"port": port})
    workers = [
        listen(worker=i, sock=sock, host=host, port=port, workers=2)
        for i, sock in enumerate((first, bind_share(settings, 1)))
    ]
    for _ in range(4):  # another source port each time
        sender = UdpSender(host, port, by_source=host != "::1")
        sources = [f"127.0.0.{i + 1}" for i in range(networks)] if host != "::1" else None
        sender.send(batch_of([b"x"] * networks, sources))
        sender.close()
    came = [Counter(map(address, drain(worker, 4 * networks, seconds=0.3)[1])) for worker in workers]
    assert sum(map(Counter.total, came)) == 4 * networks
    assert not came[0].keys() & came[1].keys()
    assert set((came[0] + came[1]).values()) == {4}
    if networks > 1:
        assert all(len(sources) > networks // 5 for sources in came)
    with pytest.raises(CaptureError, match="the port is in use by another program"):
        bind_share(settings, 0)  # also where another collector shares its port


def test_a_worker_that_dies_keeps_its_sources(listen: ListenerMaker) -> None:
    """A worker that is restarted on the same socket finds what was sent meanwhile, in order."""
    sock = bind_share(ListenSettings(port=0))
    port = sock.getsockname()[1]
    again = sock.dup()
    worker = listen(sock=sock)
    sender = UdpSender("127.0.0.1", port)
    sender.send(batch_of([b"1"]))
    assert drain(worker, 1)[0] == [b"1"]
    worker.close()
    sender.send(batch_of([b"2", b"3"]))
    assert drain(listen(sock=again), 2)[0] == [b"2", b"3"]
    sender.close()


def test_ports_that_cannot_be_had(listen: ListenerMaker) -> None:
    """A port in use, an address of another machine and a name that is none are one clear line each."""
    port = listen().port
    lines = {
        ("127.0.0.1", port): f"udp://127.0.0.1:{port}: the port is in use by another program; stop it or",
        ("192.0.2.1", 0): "udp://192.0.2.1:0: the address is none of this machine",
        ("no such host", 0): "udp://no such host:0: 'no such host' is not known (",
    }
    for (host, number), line in lines.items():
        with pytest.raises(CaptureError) as caught:
            bind_share(ListenSettings(host=host, port=number))
        assert str(caught.value).startswith(line)
        assert "\n" not in str(caught.value)
    assert "CAP_NET_BIND_SERVICE" in sockets._refusal("udp://127.0.0.1:1", PermissionError(13, "x"))


def test_a_kernel_without_trains(listen: ListenerMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without UDP_GRO and UDP_SEGMENT in the kernel, datagrams go one by one, and the start says so."""
    monkeypatch.setattr(sockets, "UDP_GRO", 9999)
    monkeypatch.setattr("hopscope.capture.udp.sender.UDP_SEGMENT", 9999)
    listener = listen()
    assert any("no UDP_GRO" in line for line in listener.notes())
    sender = UdpSender("127.0.0.1", listener.port)
    sender.send(batch_of([b"%d" % i for i in range(300)]))
    assert drain(listener, 300)[0] == [b"%d" % i for i in range(300)]
    sender.close()


def test_less_buffer_than_asked_is_told(listen: ListenerMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start with less buffer than asked says how much there is, and how to get more."""
    monkeypatch.setattr(sockets, "_SO_RCVBUFFORCE", 9999)  # as without CAP_NET_ADMIN
    listener = listen(receive_buffer_bytes=2**30)
    (line,) = (line for line in listener.notes() if "receive buffer" in line)
    assert "1,073,741,824 requested" in line
    assert "net.core.rmem_max=1073741824" in line


def test_sender_to_nobody_goes_on(listen: ListenerMaker) -> None:
    """Nobody listens: the sender notes it and neither stops nor loops."""
    listener = listen()
    port = listener.port
    listener.close()
    sender = UdpSender("127.0.0.1", port, trains=False)
    for _ in range(3):
        assert sender.send(batch_of([b"x"] * 200)) == 200
    assert sender.unreachable > 0
    sender.close()


def test_sender_keeps_its_rate(listen: ListenerMaker) -> None:
    """A rate is never exceeded: 400 datagrams at 2000 a second take a fifth of a second or longer."""
    listener = listen()
    sender = UdpSender("127.0.0.1", listener.port, rate=2000)
    begin = time.monotonic()
    assert sender.send(batch_of([b"x"] * 400)) == 400
    assert time.monotonic() - begin >= 0.19
    assert len(drain(listener, 400)[0]) == 400
    sender.close()


def test_only_payloads_are_sent() -> None:
    """A frame with headers of its own is refused, not sent as a payload."""
    sender = UdpSender("127.0.0.1", 9)
    batch = batch_of([b"x"])
    batch.frames["link"] = Link.ETHERNET
    with pytest.raises(CaptureError, match="only payloads"):
        sender.send(batch)
    sender.close()
