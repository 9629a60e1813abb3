"""DTA and DART switches on bmv2 write into the stores of `hopscope direct serve`, which checks every ICRC.

packets ── switch ── NIC             a controller, in a namespace of its own as the NIC, connects to the
             └── controller          NIC by RDMA-CM from the switch's address, through the switch
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from hopscope.capture.udp.datagram import DatagramSocket
from hopscope.direct.primitives import key_increment, key_write, postcarding
from hopscope.direct.primitives.append import ListReader
from hopscope.direct.stores.folder import read_store
from hopscope.rdma.advertisement import SERVICE_PORT
from hopscope.rdma.endpoint import Endpoint, Session
from hopscope.rdma.requester import LossMode
from hopscope.testbed.namespaces import delete, inside, run
from hopscope.wire.dta.forms import Form
from hopscope.wire.observation import flow_bytes
from hopscope.wire.roce.layout import ROCE_PORT
from hopscope.wire.roce.records import Opcode
from support.network.bmv2 import PREFIX, Bmv2, taken
from support.network.namespaces import Program
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel]
IN, NIC, CONTROLLER, OUT = 1, 2, 3, 4
"""Ports: of packets and reports that come in, and where they leave."""
SWITCH_IP, NIC_IP = "10.9.0.2", "10.9.0.1"
SLOTS, SPORT, GENERATION, NODE = 1000, 49152, 77, 7
PACKETS = 40
SOURCES = Path(__file__).parents[2] / "src"


def number(text: str) -> int:
    """An IPv4 address."""
    return int.from_bytes(bytes(map(int, text.split("."))))


def station(port: int) -> int:
    """Ethernet address that leads to a port."""
    return 0x020000000000 + port


def mac(port: int) -> str:
    """The same, as ip(8) has it."""
    return station(port).to_bytes(6, "big").hex(":")


def packet(sport: int, port: int, ttl: int = 64) -> bytes:
    """A frame of a flow, of 40 + `sport` bytes of IP."""
    ip = IP(src="10.0.0.1", dst="192.0.2.1", ttl=ttl)
    ethernet = Ether(src="02:00:00:00:01:00", dst=mac(OUT))
    return bytes(ethernet / ip / TCP(sport=sport, dport=port) / Raw(b"x" * sport))


def flows(port: int) -> Any:
    """The 5-tuples of all flows to a port, uint8 [flows, 13]."""
    return flow_bytes(number("10.0.0.1"), number("192.0.2.1"), 6, np.arange(PACKETS), port)


def codes(port: int) -> list[bytes]:
    """The same as keys of a DTA reporter."""
    return [zlib.crc32(flow.tobytes()).to_bytes(4, "big") for flow in flows(port)]


def keys(port: int) -> Any:
    """The same as a query takes them, uint8 [flows, 4]."""
    return np.frombuffer(b"".join(codes(port)), np.uint8).reshape(-1, 4)


class Controller:
    """Connects to the NIC from the switch's address."""

    def __init__(self, namespace: str, mode: LossMode) -> None:
        self.endpoint = Endpoint(SWITCH_IP)
        self.socket = DatagramSocket(SWITCH_IP, ROCE_PORT)
        inside(namespace, self.socket.open)
        self.session = self.endpoint.connect(NIC_IP, SERVICE_PORT, time.monotonic_ns(), mode=mode)

    def turn(self) -> Session:
        """Packets in and out."""
        now = time.monotonic_ns()
        while (batch := self.socket.receive()) is not None:
            self.endpoint.receive(batch, now, time.time_ns())
        for out in self.endpoint.frames(now):
            self.socket.send(out)
        assert not self.session.lost, self.session.lost
        return self.session


@contextmanager
def connected(
    program: str, made: Path, folder: Path, stores: tuple[str, ...], mode: LossMode
) -> Iterator[tuple[Bmv2, Controller]]:
    """(switch, controller): a switch, and a NIC with these stores to which the controller is connected."""
    with ExitStack() as stack:
        spaces = {port: f"{PREFIX}-{os.getpid()}-end{port}" for port in (NIC, CONTROLLER)}
        for name in spaces.values():
            run("ip", "netns", "add", name)
            stack.callback(delete, name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        switch = stack.enter_context(Bmv2(program, made, ports=4, number=3, far=spaces))
        for port, own, peer, other in (
            (NIC, NIC_IP, CONTROLLER, SWITCH_IP), (CONTROLLER, SWITCH_IP, NIC, NIC_IP),
        ):  # fmt: skip
            name, end = spaces[port], f"e{port}"
            run("ip", "-n", name, "link", "set", end, "address", mac(port))
            run("ip", "-n", name, "address", "add", f"{own}/24", "dev", end)
            run("ip", "-n", name, "neigh", "add", other, "lladdr", mac(peer), "dev", end)
        for port in (NIC, CONTROLLER, OUT):
            switch.control.insert("station", {"destination": station(port)}, "to_port", port=port)
        words = [
            sys.executable, "-m", "hopscope", "direct", "serve", "--data", str(folder), "--host", NIC_IP,
            "--set", f'direct.nic.allow=["{SWITCH_IP}/32"]', "--set", "direct.nic.any_ip_id=false",
        ]  # fmt: skip
        for store in stores:
            words += ["--store", store]
        nic = Program(
            ("ip", "netns", "exec", spaces[NIC], *words), folder / "nic.log", {"PYTHONPATH": str(SOURCES)}
        )
        stack.callback(nic.kill)
        nic.wait_for("RoCEv2 on")
        controller = Controller(spaces[CONTROLLER], mode)
        stack.callback(controller.socket.close)
        eventually(lambda: controller.turn().ready, "the NIC announces its stores")
        yield switch, controller


def to_nic(session: Session) -> dict[str, Any]:
    """Parameters of the connection in the switch's table."""
    return {
        "source_mac": station(CONTROLLER), "destination_mac": station(NIC), "source": number(SWITCH_IP),
        "destination": number(NIC_IP), "source_port": SPORT,
        "queue_pair": session.connection.remote_queue_pair,
    }  # fmt: skip


def translate(control: Any, session: Session) -> None:
    """Put the connection and the stores of the NIC into the translator's tables."""
    connection = session.connection
    for copies in range(1, 5):
        control.multicast_group(copies, [(NIC, instance) for instance in range(copies, 0, -1)])
    counts = {"kw": (1, SLOTS, 4), "lists": (2, 16, 8), "sums": (3, SLOTS, 4), "paths": (4, SLOTS, 1)}
    for region in session.advertisement.regions.values():
        opcode, count, most = counts[region.name]
        control.insert(
            "store", {"opcode": opcode}, "to_store", connection=1, groups=0, first_psn=connection.psn,
            address=region.address, memory_key=region.key, count=count, most=most, epoch=GENERATION,
        )  # fmt: skip
    control.insert(
        "answers", {"destination": number(SWITCH_IP), "queue_pair": connection.queue_pair}, "from_nic",
        connection=1, first_psn=connection.psn,
    )  # fmt: skip
    control.insert("connections", {"connection": 1}, "to_nic", **to_nic(session))


def report(control: Any) -> None:
    """Let a DTA reporter report packets by their destination port, each with another primitive."""
    control.insert("station", {"destination": station(OUT)}, "to_port", port=3)
    control.default("node", "set_node", id=NODE, epoch_ns=0, queue_unit=1)
    control.clone_session(3, 2)
    control.default("translator", "to_translator", base=Form.SIZED, source_mac=1, destination_mac=2,
                    source=number("10.8.0.1"), destination=number(SWITCH_IP), source_port=0xC0DE)  # fmt: skip

    def watch(port: int, action: str, **params: int) -> None:
        control.insert("report_ipv4", {"destination_port": port}, action, sample=0xFFFFFFFF, **params)

    watch(1, "key_write", redundancy=2, value=0)
    watch(2, "append", number=5, value=7)
    watch(3, "key_increment", redundancy=3, value=3)
    watch(4, "postcard", ttl=64, length=3, value=0)


def test_dta_reports_reach_the_stores(made: Path, tmp_path: Path) -> None:
    """Each primitive, from a packet at a reporter through a translator to a query's answer; none is lost."""
    stores = (
        f"kw=key-write,slots={SLOTS},hashing=crc", "lists=append,lists=8,batches=16,batch=4",
        f"sums=key-increment,slots={SLOTS},copies=4,hashing=crc",
        f"paths=postcarding,chunks={SLOTS},hashing=crc",
    )  # fmt: skip
    with (
        connected("dta_translator", made, tmp_path, stores, LossMode.RELIABLE) as (translator, controller),
        Bmv2("dta_reporter", made, number=4) as reporter,
    ):
        translate(translator.control, controller.session)
        report(reporter.control)
        with reporter.raw(1) as at, reporter.raw(3) as out, reporter.raw(2) as made_reports, \
             translator.raw(IN) as into:  # fmt: skip
            for index in range(PACKETS):
                for port, ttl in ((1, 64), (2, 64), (3, 64), (4, 64), (4, 63), (4, 62)):
                    frame = packet(index, port, ttl)
                    at.send(frame)
                    assert taken(out) == frame
                    into.send(taken(made_reports))
                    controller.turn()
        folder = tmp_path / "direct"
        paths = read_store(folder, "paths")
        assert isinstance(paths.layout, postcarding.PostcardingLayout)
        values = postcarding.Values([NODE], paths.layout)

        def last_written() -> bool:
            controller.turn()
            return bool(postcarding.query(paths, keys(4)[-1:], values=values).found[0])

        eventually(last_written, "the last packet's path is written")
        written = key_write.query(read_store(folder, "kw"), keys(1), copies=2)
        assert written.found.all()
        assert (written.data == np.frombuffer(NODE.to_bytes(4, "big"), np.uint8)).all()
        entries, lost = ListReader(read_store(folder, "lists"), 5, "oldest").read()
        assert ([bytes(entry) for entry in entries], lost) == (codes(2), 0)
        sums = key_increment.query(read_store(folder, "sums"), keys(3), copies=3)
        assert sums.counter.tolist() == [40 + index for index in range(PACKETS)]
        # of 40 keys, two share one of 1,000 chunks now and then; none gets a wrong path
        found = postcarding.query(paths, keys(4), values=values)
        assert found.found.sum() >= PACKETS - 4
        assert (found.length[found.found] == 3).all()
        assert [translator.control.counter("rejected", index) for index in range(5)] == [0] * 5
        assert controller.turn().ready


def test_dart_writes_reach_the_store(made: Path, tmp_path: Path) -> None:
    """A switch without a translator writes into the store: a query answers with the values of its packets."""
    store = f"flows=key-write,slots={SLOTS},copies=2,data_bytes=20,hashing=crc,drawn=true"
    with connected("dart_reporter", made, tmp_path, (store,), LossMode.UNRELIABLE) as (switch, controller):
        control, session = switch.control, controller.session
        (region,) = session.advertisement.regions.values()
        control.default("node", "set_node", id=NODE, epoch_ns=0, queue_unit=1)
        control.default("stores", "set_stores", slot_count=SLOTS, copy_count=2, collector_count=1)
        control.insert("report_ipv4", {"protocol": 6}, "report", sample=0xFFFFFFFF)
        control.clone_session(16, NIC)
        control.insert(
            "collector", {"collector": 0}, "to_nic", operation=Opcode.UC_WRITE_ONLY, address=region.address,
            first_psn=session.connection.psn, memory_key=region.key, **to_nic(session),
        )  # fmt: skip
        with switch.raw(IN) as at, switch.raw(OUT) as out:
            for index in range(PACKETS):
                at.send(packet(index, 443))
                assert taken(out) == packet(index, 443)
                controller.turn()
        written = read_store(tmp_path / "direct", "flows")

        def last_written() -> bool:
            controller.turn()
            return bool(key_write.query(written, keys(443)[-1:]).found[0])

        eventually(last_written, "the last packet's report is written")
        answers = key_write.query(written, keys(443))
        # 40 flows share a slot of 1,000 now and then
        assert answers.found.sum() >= PACKETS - 4
        data = answers.data[answers.found]
        assert (data[:, :4] == np.frombuffer(NODE.to_bytes(4, "big"), np.uint8)).all()
        assert (data[:, 12:16] == np.frombuffer((IN << 16 | OUT).to_bytes(4, "big"), np.uint8)).all()
        assert controller.turn().ready
