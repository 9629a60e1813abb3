"""The software NIC over loopback sockets: our own requester, a foreign one, epochs, strangers."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest

from hopscope.capture.udp.datagram import DatagramSocket
from hopscope.direct.stores.folder import read_store
from hopscope.direct.stores.spec import parse_store
from hopscope.memory.ring import RingReader, attach_ring
from hopscope.rdma.advertisement import SERVICE_PORT, decode_published
from hopscope.rdma.connection import service_of
from hopscope.rdma.counters import NIC_COUNTERS
from hopscope.rdma.endpoint import Endpoint, Session
from hopscope.rdma.notices import NOTICES_FILE
from hopscope.rdma.records import NOTICE_VERSION, VERB, Verb, VerbBlock, VerbFlag
from hopscope.rdma.requester import LossMode
from hopscope.runtime.direct.nic import PUBLISHED_PORTS, NicProcess
from hopscope.settings.direct import DirectSettings, NicSettings
from hopscope.wire.address import number_of
from hopscope.wire.records import Records
from hopscope.wire.roce.cm import Addresses, Ready, Reply, Request, pull_message, push_addresses, push_message
from support.network.loopback import own_host
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kernel
STORES = ("kw=key-write,bytes=64KiB", "lists=append,bytes=64KiB")


class Loop:
    """A NIC process and a peer of ours, turned by turns; addresses of their own for each test."""

    def __init__(self, folder: Path, number: int, nics: int = 1, **direct: object) -> None:
        self.host, self.own = own_host(10 * number + 1), own_host(10 * number + 2)
        hosts = (self.host, own_host(10 * number + 3))[:nics]
        settings = DirectSettings(nic=NicSettings(hosts=hosts, any_ip_id=False), **direct)  # type: ignore[arg-type]
        self.folder = folder
        self.nic = NicProcess(settings, folder, [parse_store(text) for text in STORES])
        self.nic.open()
        self.endpoint, self.socket = Endpoint(self.own), DatagramSocket(self.own, 4791)
        self.socket.open()

    def turn(self) -> None:
        """Both once."""
        batch, now = self.socket.receive(), time.monotonic_ns()
        if batch is not None:
            self.endpoint.receive(batch, now, 0)
        for frames in self.endpoint.frames(now):
            self.socket.send(frames)
        self.nic.turn()

    def until(self, done: object) -> None:
        """Turn until something is so."""
        assert callable(done)
        for _ in range(100_000):
            self.turn()
            if done():
                return
        raise AssertionError("it did not come about")

    def connect(self, host: str | None = None, **settings: object) -> Session:
        """A session that takes verbs."""
        session = self.endpoint.connect(host or self.host, SERVICE_PORT, time.monotonic_ns(), **settings)  # type: ignore[arg-type]
        self.until(lambda: session.ready or session.lost)
        assert session.ready, session.lost
        return session

    def __enter__(self) -> Loop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in list(self.endpoint.sessions.values()):
            self.endpoint.disconnect(session, time.monotonic_ns())
        if error is None and self.nic.ports.peers:
            self.until(lambda: not self.nic.ports.peers)
        self.nic.close()
        self.socket.close()


def increments(count: int) -> VerbBlock:
    """Additions of 1 to the first 8 words, and at the end a write with immediate data."""
    verbs: Records = np.zeros(count + 1, VERB)
    verbs["kind"], verbs["value"], verbs["address"] = Verb.FETCH_ADD, 1, np.arange(count + 1) % 8 * 8
    last = verbs[-1:]
    last["kind"], last["address"], last["length"], last["flags"] = Verb.WRITE, 64, 5, VerbFlag.IMMEDIATE
    last["immediate"] = 77
    return VerbBlock(verbs, np.frombuffer(b"hello", np.uint8), np.array([count + 1, 5], np.uint64))


@pytest.mark.parametrize("mtu", [512, 1024, 4096])
def test_verbs_over_sockets(tmp_path: Path, mtu: int) -> None:
    """Connected, told of both stores, 20,000 atomics executed once, a notice, counters, a clean end."""
    with Loop(tmp_path, 1) as loop:
        session = loop.connect(path_mtu=mtu)
        told = session.advertisement
        assert [told.regions[i].name for i in range(2)] == ["kw", "lists"]
        assert told.named("kw").array().tolist() == loop.nic.stores["kw"].params.tolist()
        session.submit(increments(20_000))
        loop.until(lambda: session.idle)
        assert read_store(tmp_path, "kw").memory[:64].view("<u8").tolist() == [2500] * 8
        assert read_store(tmp_path, "kw").memory[64:69].tobytes() == b"hello"
        notices, _ = RingReader(attach_ring(tmp_path / NOTICES_FILE, NOTICE_VERSION), "oldest").read()
        assert notices[["address", "length", "immediate", "target"]].tolist() == [(64, 5, 77, 0)]
        assert abs(int(notices["time_ns"][0]) - time.time_ns()) < 600e9
        loop.nic.tick(time.time_ns())
        counters = NIC_COUNTERS.read(tmp_path)
        assert counters["nic_verbs_total"] == 20_001
        assert counters["nic_queue_pairs"] == 1
        assert int(read_store(tmp_path, "kw").state[1]) == 20_001
        loop.endpoint.disconnect(session, time.monotonic_ns())
        loop.until(lambda: not loop.nic.ports.peers)


def test_a_notice_names_the_store_in_every_epoch(tmp_path: Path) -> None:
    """Each store has two regions, in turn those of the current epoch: notices have the store's number."""
    with Loop(tmp_path, 10) as loop:
        session = loop.connect()
        for epoch in range(3):
            verbs = np.zeros(2, VERB)
            verbs["kind"], verbs["length"], verbs["flags"] = Verb.WRITE, 5, VerbFlag.IMMEDIATE
            verbs["target"] = 0, 1
            session.submit(VerbBlock(verbs, np.frombuffer(b"hello", np.uint8), np.array([2, 5], np.uint64)))
            loop.until(lambda: session.idle)
            for keeper in loop.nic._stores.keepers:
                keeper.swap(time.time_ns())
            loop.until(lambda: not any(regions.moving for regions in loop.nic._regions.values()))
            notices, _ = RingReader(attach_ring(tmp_path / NOTICES_FILE, NOTICE_VERSION), "oldest").read()
            assert notices["target"].tolist() == [0, 1] * (epoch + 1)


def test_nics_share_their_stores(tmp_path: Path) -> None:
    """Two NICs of one collector: peers of either write to the same memory, both are counted, and both move to
    a new epoch.
    """
    with Loop(tmp_path, 9, nics=2) as loop:
        peers = [loop.connect(), loop.connect(own_host(93))]
        for session in peers:
            session.submit(increments(800))
        loop.until(lambda: all(session.idle for session in peers))
        assert read_store(tmp_path, "kw").memory[:64].view("<u8").tolist() == [200] * 8
        loop.nic.tick(time.time_ns())
        counters = NIC_COUNTERS.read(tmp_path)
        assert counters["nic_verbs_total"] == 1602
        assert counters["nic_queue_pairs"] == 2
        assert int(read_store(tmp_path, "kw").state[1]) == 1602
        notices, _ = RingReader(attach_ring(tmp_path / NOTICES_FILE, NOTICE_VERSION), "oldest").read()
        assert len(notices) == 2
        loop.nic._stores.keepers[0].swap(time.time_ns())
        loop.until(lambda: not any(regions.moving for regions in loop.nic._regions.values()))
        for session in peers:
            session.submit(increments(8))
        loop.until(lambda: all(session.idle for session in peers))
        assert read_store(tmp_path, "kw").memory[:64].view("<u8").tolist() == [2] * 8


def test_an_epoch_takes_what_comes_after_it(tmp_path: Path) -> None:
    """The same connection, before and after: what was written is in the past epoch's file, and so is what was
    submitted before the peer knew of the epoch.
    """
    with Loop(tmp_path, 2) as loop:
        session = loop.connect()
        session.submit(increments(80))
        loop.until(lambda: session.idle)
        session.submit(increments(80))
        keeper = loop.nic._stores.keepers[0]
        keeper.swap(time.time_ns())
        loop.until(lambda: session.renewed == [0])
        session.submit(increments(8))
        loop.until(lambda: session.idle)
        loop.nic.tick(time.time_ns())
        assert read_store(tmp_path, "kw").memory[:64].view("<u8").tolist() == [1] * 8
        assert int(read_store(tmp_path, "kw").state[1]) == 9
        keeper.close()
        past = read_store(tmp_path / "history", "kw-0")
        assert past.memory[:64].view("<u8").tolist() == [20] * 8
        assert int(past.state[1]) == 162


def test_a_peer_that_does_not_move_is_disconnected(tmp_path: Path) -> None:
    """It does not answer: the epoch is not saved for ten seconds, then the peer is let go, and both keys are
    those of the new memory.
    """
    with Loop(tmp_path, 5) as loop:
        session = loop.connect()
        loop.nic._stores.keepers[0].swap(time.time_ns())
        now = time.monotonic_ns()
        loop.nic._check_moves(now + 9 * 10**9)
        assert loop.nic._is_moving(0)
        loop.nic._check_moves(now + 11 * 10**9)
        assert not loop.nic._is_moving(0)
        assert loop.nic.ports.table.memories[0] is loop.nic.stores["kw"].memory
        assert loop.nic.ports.table.memories[1] is loop.nic.stores["kw"].memory
        loop.until(lambda: session.lost)


def test_who_is_not_allowed_is_not_heard(tmp_path: Path) -> None:
    """A peer outside of the list gets no answer at all, and is counted."""
    with Loop(tmp_path, 3) as loop:
        loop.nic.ports.close()
        loop.nic.ports.sockets = [DatagramSocket(loop.host, 4791, allow=("10.0.0.0/8",))]
        loop.nic.open()
        session = loop.endpoint.connect(loop.host, SERVICE_PORT, time.monotonic_ns())
        loop.until(lambda: loop.nic.ports.counts["denied"])
        assert not session.ready
        assert loop.nic.ports.counts["packets"] == 0


def test_a_path_mtu_that_is_too_small_is_refused(tmp_path: Path) -> None:
    """Our advertisement needs 512 bytes: a request with 256 gets a REJ, and nothing breaks."""
    with Loop(tmp_path, 4) as loop:
        session = loop.endpoint.connect(loop.host, SERVICE_PORT, time.monotonic_ns(), path_mtu=256)
        loop.until(lambda: session.lost)
        assert session.lost.startswith("rejected")
        assert loop.connect(mode=LossMode.UNRELIABLE).room() > 0


SCRIPT = """
import sys, threading, signal
from pathlib import Path
from hopscope.settings.direct import DirectSettings, NicSettings
from hopscope.direct.stores.spec import parse_store
from hopscope.runtime.direct.nic import NicProcess
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
settings = DirectSettings(nic=NicSettings(hosts=(sys.argv[2],), any_ip_id=False))
nic = NicProcess(settings, Path(sys.argv[1]), [parse_store("kw=key-write,bytes=64KiB")])
nic.open()
print("ready", flush=True)
nic.run(stop)
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A NIC in a process of its own, at an address of its own."""
    host = own_host(91)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield host, child
        child.kill()


def test_any_requester_can_write(tmp_path: Path, process: tuple[str, subprocess.Popen[str]]) -> None:
    """Packets built by scapy, with its ICRC: connected, told as published, written, ended cleanly."""
    roce = pytest.importorskip("scapy.contrib.roce")
    inet = pytest.importorskip("scapy.layers.inet")
    raw = pytest.importorskip("scapy.packet").Raw
    host, child = process
    own = own_host(92)
    handle = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    handle.setsockopt(socket.IPPROTO_IP, 10, 2)
    handle.bind((own, 4791))
    handle.settimeout(HANG_SECONDS)

    def send(opcode: int, queue_pair: int, psn: int, rest: bytes, ack: int = 0) -> None:
        bth = roce.BTH(
            opcode=opcode, dqpn=queue_pair, psn=psn, ackreq=ack, pkey=0xFFFF, padcount=-len(rest) % 4
        )
        packet = inet.IP(src=own, dst=host, id=0, flags="DF") / inet.UDP(sport=4791, dport=4791) / bth
        payload = bytes(packet / raw(rest + bytes(-len(rest) % 4)))[28:]
        handle.sendto(payload, (host, 4791))

    def manage(message: object) -> None:
        deth = (0x80010000).to_bytes(4, "big") + (1).to_bytes(4, "big")
        send(0x64, 1, 0, deth + push_message(message))  # type: ignore[arg-type]

    addresses = Addresses(
        ip_version=4, source_port=40000, source=number_of(own) & 0xFFFFFFFF,
        destination=number_of(host) & 0xFFFFFFFF,
    )  # fmt: skip
    manage(
        Request(
            transaction=1, local_id=2, service=service_of(PUBLISHED_PORTS["key-write"]), queue_pair=0x99,
            psn=500, path_mtu=3, responder_resources=8, initiator_depth=8, primary_local_gid=number_of(own),
            primary_remote_gid=number_of(host), private=push_addresses(addresses, b""),
        )
    )  # fmt: skip
    reply = pull_message(handle.recv(4096)[20:-4])
    assert isinstance(reply, Reply)
    manage(Ready(transaction=1, local_id=2, remote_id=reply.local_id))
    while (told := handle.recv(4096))[0] == 0x64:
        pass  # the REP again, while the RTU was under way
    assert told[0] == 0x04
    region = decode_published(told[12:28])
    send(0x11, reply.queue_pair, int.from_bytes(told[9:12], "big"), (0x1F000001).to_bytes(4, "big"))
    reth = (region.address + 40).to_bytes(8, "big") + region.key.to_bytes(4, "big") + (5).to_bytes(4, "big")
    send(0x0A, reply.queue_pair, 500, reth + b"scapy", ack=1)
    while (answer := handle.recv(4096))[0] == 0x04:
        pass  # the advertisement again, while its acknowledgment was under way
    assert (answer[0], answer[12]) == (0x11, 0x1F)
    assert int.from_bytes(answer[9:12], "big") == 500
    assert int.from_bytes(answer[5:8], "big") == 0x99
    assert read_store(tmp_path, "kw").memory[40:45].tobytes() == b"scapy"
    child.terminate()
    while (ended := handle.recv(4096))[0] in (0x04, 0x11):
        pass
    assert ended[0] == 0x64
    assert child.wait(HANG_SECONDS) == 0
    handle.close()
