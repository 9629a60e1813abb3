"""The `int` and `hops` of an object as an IPv6 option with IOAM: traces and direct export."""

from __future__ import annotations

from .. import layout
from ..records import Mode
from ..telemetry import ioam
from ..telemetry.ioam import Dex, Node, Trace
from .keys import CraftError, Keys

MODES = {"preallocated": Mode.IOAM_PREALLOCATED, "incremental": Mode.IOAM_INCREMENTAL, "dex": Mode.IOAM_DEX}
_UNNEEDED = ("queue_id", "buffer_id")
"""Keys of a hop that IOAM's queue and buffer do not have."""
_USUAL = 0xF00000


def option_of(head: Keys, hops: list[Keys]) -> bytes:
    """The option, from its type byte to its end; nodes are in path order.

    Raises CraftError, and ValueError if a value is wider than its field or the option gets too long.
    """
    mode = MODES[head.word("mode", MODES, "preallocated")]
    namespace = head.number("namespace", 0xFFFF, 0)
    usual = trace_type_of(hops) if hops else _USUAL
    trace_type = head.number("trace_type", 0xFFFFFF, usual)
    out = bytearray()
    if mode == Mode.IOAM_DEX:
        if hops:
            raise CraftError("hops", "a packet of direct export holds none")
        dex = Dex(namespace, 0, trace_type)
        dex.flow_id, dex.sequence = _optional(head, "flow_id"), _optional(head, "sequence")
        head.close("IOAM's direct export")
        ioam.push_dex(out, dex)
        return bytes(out)
    words = ioam.node_words(trace_type)
    if head.number("hop_words", 31, words) != words:
        raise head.wrong("hop_words", f"{words}, as the trace type 0x{trace_type:06x} implies")
    trace = Trace(mode, namespace, words, head.flag("hops_exceeded"), trace_type=trace_type)
    trace.remaining_words = words * head.number("remaining_hops", 127, 0)
    head.close("an IOAM trace")
    ioam.push_trace(out, trace, [node_of(hop, trace_type) for hop in hops])
    return bytes(out)


def _optional(head: Keys, name: str) -> int | None:
    """A number that may be absent; null means present with all bits set."""
    if not head.has(name):
        return None
    value = head.value(name, 0xFFFFFFFF)
    return 0xFFFFFFFF if value is None else value


def trace_type_of(hops: list[Keys]) -> int:
    """The trace type that covers all keys of these hops."""
    names = {name for hop in hops for name in (*hop.names(), *hop.part("extras").names())}
    if "ingress_time" in names:
        names |= {"seconds", "fraction"}
    if "wide_node_id" in names and "hop_limit" not in names:
        names.discard("node_id")
    trace_type = layout.IOAM_SNAPSHOT_BIT if names & {"schema", "snapshot"} else 0
    for bit, item in enumerate(layout.IOAM_NODE):
        if any(name in names for name, _, _ in item.fields.shifts):
            trace_type |= 1 << (23 - bit)
    return trace_type


def node_of(hop: Keys, trace_type: int) -> Node:
    """The data that a node writes for this hop. Missing or null values become all ones."""
    extras = hop.part("extras")
    node = Node()
    for name, most in ioam.fields_of(trace_type).items():
        value = _value(hop, extras, name, most)
        node.values[name] = most if value is None else value
    if "hop_latency" in node.values:
        missing = hop.raw("hop_latency") is None
        beyond = node.values["hop_latency"] == ioam.SATURATED and not missing  # RFC 9197 4.4.2.4: 0x80000000
        node.values["latency_overflow"] = int(missing or beyond)
        node.values["hop_latency"] *= not beyond
    if trace_type & layout.IOAM_SNAPSHOT_BIT:
        node.schema = extras.value("schema", (1 << 24) - 1)
        node.snapshot = extras.hexadecimal("snapshot")
        if len(node.snapshot) % 4 or len(node.snapshot) > 1020:
            raise extras.wrong("snapshot", "whole words, 255 at most")
    for name in _UNNEEDED:
        hop.value(name, 0xFF)
    hop.close(f"a hop of trace type 0x{trace_type:06x}")
    extras.close(f"a hop of trace type 0x{trace_type:06x}")
    return node


def _value(hop: Keys, extras: Keys, name: str, most: int) -> int | None:
    if name in ("seconds", "fraction"):
        time = hop.value("ingress_time", (1 << 64) - 1)
        return None if time is None else (time >> 32 if name == "seconds" else time & 0xFFFFFFFF)
    if name == "latency_overflow":
        return 0
    if name == "wide_node_id":
        node = hop.value("node_id", (1 << 32) - 1)
        return extras.value(name, most, node)
    return extras.value(name, most) if name in ioam.EXTRAS else hop.value(name, most)
