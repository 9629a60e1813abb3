"""Wireshark's InfiniBand dissector reads every packet of a connection's life, and means the same."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hopscope.capture.pcap.writer import PcapWriter
from hopscope.capture.udp.headers import udp_frames
from hopscope.rdma.endpoint import Endpoint
from hopscope.rdma.records import VERB, Verb, VerbBlock, VerbFlag
from hopscope.wire.address import number_of
from hopscope.wire.records import FrameBatch
from hopscope.wire.roce.records import Opcode
from support.direct.rdma_ends import NIC, TRANSLATOR, Ends

pytestmark = pytest.mark.kernel


def recorded(ends: Ends, folder: Path) -> Path:
    """A capture of: connection, advertisement, verbs of every kind, a loss, the end."""
    path = folder / "rdma.pcap"
    with PcapWriter(path) as writer:
        for own, end in ((NIC, ends.nic), (TRANSLATOR, ends.translator)):
            frames = end.frames

            def noted(
                now_ns: int, own: str = own, frames: Callable[[int], list[FrameBatch]] = frames
            ) -> list[FrameBatch]:
                out = frames(now_ns)
                for batch in out:
                    copy = FrameBatch(batch.arena, batch.frames.copy())
                    copy.frames["source_hi"], copy.frames["source_lo"] = 0, number_of(own)
                    writer.write(udp_frames(copy))
                return out

            end.frames = noted  # type: ignore[method-assign]
        session = ends.connect()
        verbs = np.zeros(4, VERB)
        verbs["kind"] = Verb.WRITE, Verb.WRITE, Verb.FETCH_ADD, Verb.CMP_SWAP
        verbs["length"], verbs["flags"] = (8, 3000, 0, 0), (VerbFlag.IMMEDIATE, 0, VerbFlag.IMMEDIATE, 0)
        verbs["address"], verbs["value"] = (0, 64, 4096, 4104), 7
        verbs["immediate"] = 0xCAFE
        block = VerbBlock(verbs, np.arange(3000, dtype=np.uint8), np.array([4, 3000], np.uint64))
        for lost in (False, True, False):
            ends.lost = lambda batch, lost=lost: lost  # type: ignore[misc]
            session.submit(block)
            ends.turn()
            ends.turn()
        for _ in range(30):
            ends.turn()
        ends.translator.disconnect(session, ends.now)
        for _ in range(5):
            ends.turn()
    assert session.lost == "disconnected"
    assert ends.memory[4096:4104].view("<u8")[0] == 21
    return path


def test_tshark_reads_what_is_sent(tool: Callable[..., str], tmp_path: Path) -> None:
    """No packet is malformed; opcodes are those that were meant; immediate data and lengths are read back."""
    path = recorded(Ends(), tmp_path)
    names = ("bth.opcode", "immdt", "reth.dmalen", "atomiceth.swapdt", "aeth.syndrome")
    fields = [argument for name in names for argument in ("-e", f"infiniband.{name}")]
    command = [tool("tshark"), "-r", str(path), "-T", "fields", *fields, "-e", "_ws.malformed"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    opcodes = Counter(int(row[0]) for row in rows)
    # the payload of a SEND is guessed at, as that of other protocols
    assert not [row for row in rows if row[5] and int(row[0]) != Opcode.RC_SEND_ONLY]
    assert set(opcodes) == {
        Opcode.UD_SEND_ONLY, Opcode.RC_SEND_ONLY, Opcode.RC_ACK, Opcode.RC_WRITE_ONLY_IMMEDIATE,
        Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_MIDDLE, Opcode.RC_WRITE_LAST, Opcode.RC_FETCH_ADD,
        Opcode.RC_CMP_SWAP, Opcode.RC_ATOMIC_ACK,
    }  # fmt: skip
    assert opcodes[Opcode.UD_SEND_ONLY] == 5  # REQ, REP, RTU, DREQ, DREP
    assert {int(row[1].split(",")[0], 16) for row in rows if row[1]} == {0xCAFE}
    assert {int(row[2]) for row in rows if row[2]} == {0, 8, 3000}
    assert {int(row[3]) for row in rows if row[3]} == {7}


def test_an_endpoint_needs_a_single_address() -> None:
    """The invariant CRC covers it."""
    with pytest.raises(ValueError, match="not a single address"):
        Endpoint("0.0.0.0")
