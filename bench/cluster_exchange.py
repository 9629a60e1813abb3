"""What the exchange of postcards between members of a cluster costs, of one core.

`worker`: a worker decodes postcards and hands them to its detector, with the exchange off, and on with two of
three postcards owned by others; the share is of the latter against the former. `send`, `take`: the `cluster`
process encodes them, and reads and queues what comes, in blocks as after 3 ms at 300,000 a second.
`core NATS`, `JetStream`: blocks through one real server on this machine, and acknowledged by its stream.

It hides the network, and what three copies of a stream cost.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from harness.common import Bench, median, seconds_of
from hopscope.cluster.postcards.blocks import BlockWriter, read_block
from hopscope.cluster.postcards.slots import SlotTable, slot_owners
from hopscope.detect.counters import counters_of
from hopscope.detect.postcards.share import Share, create_slots
from hopscope.detect.report_queue import QueueReader, QueueWriter, create_queue
from hopscope.runtime.pipeline.steps import HandOver
from hopscope.wire.dialect import DEFAULT, Clock
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import Carried, FrameBatch, Link, Records, ReportBatch
from support.servers.server_process import NatsServer

POSTCARDS, BLOCK = 2048, 900
MEMBERS = ("c1", "c2", "c3")


def postcards() -> FrameBatch:
    """Datagrams with a postcard each, of 1000 flows."""
    rows, hops = new_reports(POSTCARDS), new_hops(POSTCARDS, 0xB000)
    flows = np.arange(POSTCARDS, dtype=np.uint32) % 1000
    rows["carried"] |= np.uint8(Carried.OWN_HOP | Carried.NODE_ID)
    rows["source_lo"] = mapped_v4(np.full(POSTCARDS, 0x7F000001, np.uint32))
    rows["src_lo"], rows["dst_lo"] = mapped_v4(0x0A000000 + flows), mapped_v4(0x0B000000 + flows)
    rows["sport"], rows["dport"] = 1000, 53
    rows["packet_id"], rows["sequence"] = 1 + np.arange(POSTCARDS), np.arange(POSTCARDS)
    rows["first_hop"], rows["node_id"] = np.arange(POSTCARDS), 7
    hops["node_id"], hops["hop_latency"] = 7, 100
    return encode_reports(ReportBatch(rows, hops), link=Link.UDP_PAYLOAD)


def empty(region: QueueReader) -> None:
    """Free what waits."""
    while len(region):
        block = region.block()
        region.free(block, block.reports)


def worker(exchange: bool, rounds: int) -> float:
    """Postcards a second that one worker decodes and hands over."""
    frames = postcards()
    queue, given = create_queue(None, 4 * POSTCARDS), create_queue(None, 4 * POSTCARDS)
    share = None
    if exchange:
        slots = create_slots(None)
        slots["mine"][:] = SlotTable(1, MEMBERS, slot_owners(MEMBERS)).mine("c1")
        slots["alive"][0] = time.monotonic_ns() + 10**12
        share = Share(slots, QueueWriter(given))
        share.look(time.monotonic_ns())
    steps = HandOver(counters_of("worker-0").open(None), QueueWriter(queue), share)
    readers = QueueReader(queue), QueueReader(given)

    def turn() -> None:
        steps.step(frames, DEFAULT)
        for reader in readers:
            empty(reader)

    turn()
    return POSTCARDS / median(seconds_of(turn, rounds))


def given_rows() -> tuple[Records, Records]:
    """A block of postcards, as a worker gives it away."""
    rows, hops = new_reports(BLOCK), new_hops(BLOCK, 0xB000)
    rows["time_ns"] = time.time_ns()
    return rows, hops


def sending(rounds: int) -> float:
    """Postcards a second that are encoded."""
    rows, hops = given_rows()
    writer = BlockWriter(1)
    return BLOCK / median(seconds_of(lambda: list(writer.blocks(rows, hops, Clock(), 1)), rounds))


def taking(rounds: int) -> float:
    """Postcards a second that are read and queued."""
    ((body, _),) = BlockWriter(1).blocks(*given_rows(), Clock(), 1)
    queue = create_queue(None, 4 * BLOCK)
    put, reader = QueueWriter(queue), QueueReader(queue)

    def turn() -> None:
        put.put(read_block(body).batch, Clock(), 1)
        empty(reader)

    return BLOCK / median(seconds_of(turn, rounds))


async def through(url: str, stored: bool, seconds: float) -> float:
    """Postcards a second that reach a subscriber in the same process."""
    import nats

    ((body, _),) = BlockWriter(1).blocks(*given_rows(), Clock(), 1)
    client = await nats.connect(url)
    arrived = 0

    async def take(_: object) -> None:
        nonlocal arrived
        arrived += 1

    subject = "stored.x" if stored else "plain.x"
    await client.subscribe(subject, cb=take)
    stream = client.jetstream(publish_async_max_pending=32)
    if stored:
        await stream.add_stream(name="stored", subjects=["stored.>"], max_bytes=256 * 1024**2)
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        if stored:
            await asyncio.gather(*[await stream.publish_async(subject, body) for _ in range(8)])
        else:
            for _ in range(8):
                await client.publish(subject, body)
            await client.flush()
    rate = arrived * BLOCK / (time.perf_counter() - begin)
    await client.close()
    return rate


def main() -> None:
    bench, _ = Bench.start(
        "cluster_exchange",
        "the share of one core that the exchange of postcards between members takes.",
        "the network, copies of a stream, and the detector, which costs the same without the exchange.",
    )
    rounds = 100 if bench.quick else 1000
    off, on = worker(False, rounds), worker(True, rounds)
    unit = "postcards/s"
    bench.row({"part": "worker", "exchange": "off"}, off, unit, f"{1e9 / off:.0f} ns")
    bench.row({"part": "worker", "exchange": "on"}, on, unit, f"{1e9 / on:.0f} ns, {off / on:.2f} times")
    bench.row({"part": "send"}, sending(rounds), unit)
    bench.row({"part": "take"}, taking(rounds), unit)
    program = shutil.which("nats-server") or "/usr/sbin/nats-server"
    with tempfile.TemporaryDirectory() as folder:
        server = NatsServer(program, Path(folder))
        server.start()
        try:
            for name, stored in (("core NATS", False), ("JetStream", True)):
                rate = asyncio.run(through(server.url, stored, 1.0 if bench.quick else 5.0))
                bench.row({"part": name}, rate, unit)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
