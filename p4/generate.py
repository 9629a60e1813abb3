"""Writes `include/wire.p4`, the headers and constants of the P4 programs, from the declarations in `wire/`.

`python p4/generate.py` after a change of a declaration; a test compares the file with what this makes.
"""

from __future__ import annotations

from pathlib import Path

from hopscope.wire import layout
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.fields import RESERVED, Header
from hopscope.wire.label import layout as label

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
}
"""(bits, value)."""
SETTINGS: dict[str, tuple[int, int, str]] = {
    "INT_DSCP": (6, DEFAULT.int_dscp[0], "announces INT"),
    "LABEL_PROTOCOL": (8, label.PROTOCOL_LABEL, "IP protocol that announces labels"),
    "MAX_HOP": (8, 5, "labels of a packet"),
}
"""(bits, value, meaning) of what -D may change when a program is compiled: parsers depend on it."""


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


def wire() -> str:
    """The file of headers and constants."""
    parts = [HEAD]
    for name, (bits, value, meaning) in SETTINGS.items():
        parts.append(f"#ifndef {name}\n#define {name} {bits}w{value} // {meaning}\n#endif")
    parts.append("\n".join(f"#define {name} {bits}w{value:#x}" for name, (bits, value) in CONSTANTS.items()))
    parts += [header(name, source) for name, source in HEADERS.items()]
    return "\n\n".join(parts) + "\n"


FILES = {"wire.p4": wire}

if __name__ == "__main__":
    for name, made in FILES.items():
        (INCLUDE / name).write_text(made(), "utf-8")
