"""Writes `include/wire.p4`, the headers and constants of the P4 programs, from the declarations in `wire/`,
and `include/hashes.p4`, the hash functions of stores, from the polynomials of `direct/hashing`.

`python p4/generate.py` after a change of a declaration; a test compares the files with what this makes.
"""

from __future__ import annotations

from pathlib import Path

from hopscope.direct.hashing import POLYNOMIALS
from hopscope.wire import layout
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.dta import layout as dta
from hopscope.wire.dta.forms import Form, Opcode
from hopscope.wire.fields import RESERVED, Header
from hopscope.wire.label import layout as label
from hopscope.wire.roce import layout as roce
from hopscope.wire.roce.records import Opcode as RoceOpcode

INCLUDE = Path(__file__).parent / "include"
HEAD = "// Made by p4/generate.py from src/hopscope: change that, not this.\n#pragma once"
HEADERS: dict[str, Header] = {
    "ethernet": layout.ETHERNET,
    "vlan": layout.VLAN,
    "ipv4": layout.IPV4,
    "ipv6": layout.IPV6,
    "udp": layout.UDP,
    "tcp": layout.TCP,
    "ports": layout.PORTS,
    "int_shim": layout.SHIM_2_0,
    "int_md": layout.MD_2_0,
    "hop_node": layout.NODE.fields,
    "hop_ports": layout.PORT_PAIR.fields,
    "hop_latency": layout.LATENCY.fields,
    "hop_queue": layout.QUEUE.fields,
    "hop_ingress_time": layout.INGRESS_64.fields,
    "hop_egress_time": layout.EGRESS_64.fields,
    "hop_wide_ports": layout.L2_PORTS.fields,
    "hop_utilization": layout.UTILIZATION.fields,
    "hop_buffer": layout.BUFFER.fields,
    "hop_drop": layout.DROP.fields,
    "hop_filler": layout.FILLER.fields,
    "hop_checksum": layout.CHECKSUM.fields,
    "report_group": layout.GROUP_2_0,
    "report": layout.REPORT_2_0,
    "report_main": layout.MAIN_2_0,
    "label_option": label.LABEL_OPTION,
    "label_item": label.LABEL_STATE,
    "label_flow": label.LABEL_FLOW,
    "dta_two": dta.DTA_2,
    "dta_three": dta.DTA_3,
    "dta_sized": dta.DTA_SIZED,
    "dta_key_write": dta.DTA_KEY_WRITE,
    "dta_append": dta.DTA_APPEND,
    "dta_key_increment": dta.DTA_KEY_INCREMENT,
    "dta_postcard": dta.DTA_POSTCARD,
    "bth": roce.BTH,
    "reth": roce.RETH,
    "atomic_eth": roce.ATOMIC_ETH,
    "aeth": roce.AETH,
}
"""By the name of the header in P4; its type is this name with `_t`."""
CONSTANTS: dict[str, tuple[int, int]] = {
    "ETHERTYPE_IPV4": (16, layout.ETHERTYPE_IPV4),
    "ETHERTYPE_IPV6": (16, layout.ETHERTYPE_IPV6),
    "ETHERTYPE_VLAN": (16, layout.ETHERTYPES_VLAN[0]),
    "PROTOCOL_TCP": (8, layout.PROTOCOL_TCP),
    "PROTOCOL_UDP": (8, layout.PROTOCOL_UDP),
    "LABEL_FLOW_VERSION": (8, label.LABEL_FLOW_VERSION),
    "LABEL_PORT": (16, label.LABEL_PORT),
    "DTA_PORT": (16, dta.DTA_PORT),
    "FORM_TWO": (8, Form.TWO),
    "FORM_THREE": (8, Form.THREE),
    "FORM_SIZED": (8, Form.SIZED),
    **{opcode.name: (8, opcode) for opcode in Opcode},
    "ROCE_PORT": (16, roce.ROCE_PORT),
    "ROCE_WRITE_ONLY": (8, RoceOpcode.RC_WRITE_ONLY),
    "ROCE_ACK": (8, RoceOpcode.RC_ACK),
    "ROCE_ATOMIC_ACK": (8, RoceOpcode.RC_ATOMIC_ACK),
    "ROCE_FETCH_ADD": (8, RoceOpcode.RC_FETCH_ADD),
}
"""(bits, value)."""
SETTINGS: dict[str, tuple[int, int, str]] = {
    "INT_DSCP": (6, DEFAULT.int_dscp[0], "announces INT"),
    "LABEL_PROTOCOL": (8, label.PROTOCOL_LABEL, "IP protocol that announces labels"),
    "MAX_HOP": (8, 5, "labels of a packet"),
}
"""(bits, value, meaning) of what -D may change when a program is compiled: parsers depend on it."""

KEY_BITS = 32
KEY_ROWS = (0, 1, 2, 3, 8, 9, 10, 11, 12, 16, 17, 18)
"""Rows for slots of four copies, five hops, both halves of the checksum, and the collector."""


def header(name: str, source: Header) -> str:
    """A header in P4."""
    lines, reserved = [], 0
    for field in source.fields:
        own = field.name
        if own == RESERVED:
            reserved += 1
            own = f"{RESERVED}_{reserved}"
        lines.append(f"    bit<{field.bits}> {own};")
    return "\n".join([f"// {source.name} ({source.spec})", f"header {name}_t {{", *lines, "}"])


def crc(message: bytes, polynomial: int) -> int:
    """CRC-32 by a reflected polynomial, start and end inverted."""
    state = 0xFFFFFFFF
    for octet in message:
        state ^= octet
        for _ in range(8):
            state = state >> 1 ^ (polynomial if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def hash_function(name: str, words: dict[str, int], polynomial: int) -> str:
    """A CRC-32 in P4, of words of so many bits.

    A CRC is linear: the CRC of zeros, and for each bit that is 1 a number more, all joined by XOR. Divided
    bit by bit, it would take a compiler minutes.
    """
    size = sum(words.values())
    zeros = crc(bytes(size // 8), polynomial)
    terms, at = [f"32w{zeros:#010x}"], size
    for word, bits in words.items():
        for bit in range(bits - 1, -1, -1):
            at -= 1
            number = crc((1 << at).to_bytes(size // 8, "big"), polynomial) ^ zeros
            terms.append(f"(bit<32>){word}[{bit}:{bit}] * {number:#x}")
    lines = [" ^ ".join(terms[first : first + 3]) for first in range(0, len(terms), 3)]
    arguments = ", ".join(f"in bit<{bits}> {word}" for word, bits in words.items())
    total = " ^\n        ".join(lines)
    return f"bit<32> {name}({arguments}) {{\n    return {total};\n}}"


def hashes() -> str:
    """The file of hash functions."""
    parts = [
        HEAD,
        "// CRC-32 by row of the polynomials of stores (`direct/hashing`), "
        f"of keys of {KEY_BITS // 8} bytes.",
    ]
    parts += [hash_function(f"key_hash_{row}", {"key": KEY_BITS}, POLYNOMIALS[row]) for row in KEY_ROWS]
    return "\n\n".join(parts) + "\n"


def wire() -> str:
    """The file of headers and constants."""
    parts = [HEAD]
    for name, (bits, value, meaning) in SETTINGS.items():
        parts.append(f"#ifndef {name}\n#define {name} {bits}w{value} // {meaning}\n#endif")
    parts.append("\n".join(f"#define {name} {bits}w{value:#x}" for name, (bits, value) in CONSTANTS.items()))
    parts += [header(name, source) for name, source in HEADERS.items()]
    return "\n\n".join(parts) + "\n"


FILES = {"wire.p4": wire, "hashes.p4": hashes}

if __name__ == "__main__":
    for name, made in FILES.items():
        (INCLUDE / name).write_text(made(), "utf-8")
