"""LLDP frames: those of scapy, of a capture by hand, and damaged ones."""

from __future__ import annotations

import numpy as np
import pytest
from scapy.contrib.lldp import (
    LLDPDUChassisID,
    LLDPDUEndOfLLDPDU,
    LLDPDUGenericOrganisationSpecific,
    LLDPDUPortDescription,
    LLDPDUPortID,
    LLDPDUSystemName,
    LLDPDUTimeToLive,
)
from scapy.layers.l2 import Ether

from hopscope.wire.lldp import LldpError, Neighbour, read_lldp

HEAD = Ether(src="02:00:00:00:00:01", dst="01:80:c2:00:00:0e", type=0x88CC)
BY_HAND = bytes.fromhex(
    "0180c200000e 020000000001 88cc"
    "0207 04 020000000001"  # chassis id, MAC
    "0406 05 65746831 32"  # port id, interface name: eth12
    "0602 0078"  # 120 s
    "0a06 6c6561662d31"  # system name: leaf-1
    "fe08 0080c2 01 00000001"  # organisation specific
    "0000"
)


def test_a_frame_by_hand() -> None:
    """Every byte from the standard's tables."""
    assert read_lldp(BY_HAND) == Neighbour("02:00:00:00:00:01", "eth12", "leaf-1", 120)


def test_frames_of_scapy() -> None:
    """Ids by address and by name, with other TLVs in between."""
    by_mac, by_name = LLDPDUPortID(subtype=3, id="02:00:00:00:00:09"), LLDPDUPortID(subtype=7, id=b"7")
    for chassis, port, wanted in (
        (LLDPDUChassisID(subtype=7, id=b"machine"), by_mac, "02:00:00:00:00:09"),
        (LLDPDUChassisID(subtype=4, id="02:00:00:00:00:07"), by_name, "7"),
    ):
        frame = HEAD / chassis / port / LLDPDUTimeToLive(ttl=20)
        frame /= LLDPDUPortDescription(description=b"to core")
        frame /= LLDPDUSystemName(system_name=b"spine-2")
        frame /= LLDPDUGenericOrganisationSpecific(org_code=0x80C2, subtype=1, data=b"\0\0\0\1")
        found = read_lldp(bytes(frame / LLDPDUEndOfLLDPDU()))
        assert (found.port, found.system, found.seconds) == (wanted, "spine-2", 20)
    assert found.chassis == "02:00:00:00:00:07"


def test_a_cut_frame_is_discarded() -> None:
    """At every byte: an error, or the same neighbour without what was cut off."""
    for size in range(len(BY_HAND)):
        with pytest.raises(LldpError, match="ends within"):
            read_lldp(BY_HAND[:size])


def test_damaged_frames_end_in_an_error_or_a_neighbour() -> None:
    """Nothing else, whatever is in them; texts are printable."""
    random = np.random.default_rng(1)
    for _ in range(3000):
        frame = bytearray(BY_HAND)
        for at in random.integers(14, len(frame), 3):
            frame[at] = random.integers(256)
        try:
            found = read_lldp(bytes(frame))
        except LldpError:
            continue
        assert (found.chassis + found.port + found.system).isprintable()


@pytest.mark.parametrize(
    ("tlvs", "line"),
    [
        ("0406 05 6574683132 0207 04 020000000001 0602 0078 0000", "expected chassis id, port id"),
        ("0207 04 020000000001 0406 05 6574683132 0000", "expected chassis id, port id"),
        ("0207 04 020000000001 0406 05 6574683132 0602 0078 0602 0078 0000", "once"),
        ("0201 04 0406 05 6574683132 0602 0078 0000", "id of 0 bytes"),
        ("0207 04 020000000001 0406 05 6574683132 0601 78 0000", "time to live of 1"),
    ],
)
def test_what_the_standard_discards(tlvs: str, line: str) -> None:
    """The three mandatory TLVs come first, once, and are whole (9.2.7.7)."""
    with pytest.raises(LldpError, match=line):
        read_lldp(BY_HAND[:14] + bytes.fromhex(tlvs))
