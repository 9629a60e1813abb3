"""The text that chooses flows: each word against a plain reading of it, and what it cannot read."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.detect.records import FLOW
from hopscope.history.reading.filters import Flow
from hopscope.present.collector_state import CollectorState
from hopscope.present.flows.search import FlowSearch, parse_search
from hopscope.present.text import UnreadableError
from hopscope.wire.address import number_of

NAMES = Names({7: "leaf-1", 8: "spine 2", 9: "1234567890abcdef"})
ADDRESSES = ("10.1.2.3", "10.1.9.9", "10.2.0.1", "192.0.2.1", "2001:db8::1", "2001:db8:1::1")
FLOWS = [
    (src, dst, sport, dport, proto)
    for src, dst in itertools.permutations(ADDRESSES, 2)
    for sport, dport, proto in ((443, 5000, 6), (5000, 443, 17), (53, 53, 17))
]


def search(text: str) -> FlowSearch:
    """What a text means here."""
    return parse_search(text, NAMES.find_node, NAMES.nodes.values())


def records() -> Any:
    """FLOWS as FLOW records."""
    rows = np.zeros(len(FLOWS), FLOW)
    for row, (src, dst, *rest) in zip(rows, FLOWS, strict=True):
        for side, text in (("src", src), ("dst", dst)):
            number = number_of(text)
            row[f"{side}_hi"], row[f"{side}_lo"] = number >> 64, number & (1 << 64) - 1
        row["sport"], row["dport"], row["proto"] = rest
    rows["flow_id"] = np.arange(len(rows)) + 1
    return rows


def inside(text: str, network: str) -> bool:
    """By the standard library."""
    return ipaddress.ip_address(text) in ipaddress.ip_network(network)


Plain = Callable[[str, str, int, int, int], bool]
CASES: dict[str, Plain] = {
    "": lambda *_: True,
    "10.1.2.3": lambda s, d, *_: "10.1.2.3" in (s, d),
    "10.0.0.0/8": lambda s, d, *_: inside(s, "10.0.0.0/8") or inside(d, "10.0.0.0/8"),
    "2001:db8::/48": lambda s, d, *_: inside(s, "2001:db8::/48") or inside(d, "2001:db8::/48"),
    "443": lambda s, d, p, q, t: 443 in (p, q),
    ":53 UDP": lambda s, d, p, q, t: 53 in (p, q) and t == 17,
    "10.1.2.3:443": lambda s, d, p, q, t: (s, p) == ("10.1.2.3", 443) or (d, q) == ("10.1.2.3", 443),
    "[2001:db8::1]:443": lambda s, d, p, q, t: ("2001:db8::1", 443) in ((s, p), (d, q)),
    "10.1.0.0/16 > 10.2.0.0/16": lambda s, d, *_: inside(s, "10.1.0.0/16") and inside(d, "10.2.0.0/16"),
    "10.1.0.0/16->10.2.0.1": lambda s, d, *_: inside(s, "10.1.0.0/16") and d == "10.2.0.1",
    "10.1.0.0/16 >": lambda s, d, *_: inside(s, "10.1.0.0/16"),
    "> :443 tcp": lambda s, d, p, q, t: q == 443 and t == 6,
    "src:10.0.0.0/8 dst:[2001:db8::1]:53": lambda s, d, p, q, t: (
        inside(s, "10.0.0.0/8") and (d, q) == ("2001:db8::1", 53)
    ),
    "sport:443 proto:6": lambda s, d, p, q, t: p == 443 and t == 6,
    "10.0.0.0/8 10.1.2.3": lambda s, d, *_: (
        "10.1.2.3" in (s, d) and (inside(s, "10.0.0.0/8") or inside(d, "10.0.0.0/8"))
    ),
    "10.1.2.3 192.0.2.1": lambda s, d, *_: {s, d} == {"10.1.2.3", "192.0.2.1"},
    "10.1.2.3 443": lambda s, d, p, q, t: "10.1.2.3" in (s, d) and 443 in (p, q),
    "tcp udp": lambda *_: False,
    "src:10.1.2.3 src:10.2.0.0/16": lambda *_: False,
    "id:0000000000000003": lambda *flow: flow == FLOWS[2],
    "0000000000000003": lambda *flow: flow == FLOWS[2],
}


@pytest.mark.parametrize("text", CASES)
def test_words_choose_what_a_plain_reading_chooses(text: str) -> None:
    """Of all flows between six addresses; the same 5-tuples as filters of history."""
    found = search(text)
    mask = found.mask(records(), cast(CollectorState, None))
    assert [bool(each) for each in mask] == [CASES[text](*flow) for flow in FLOWS]
    if found.of_past:
        filters = found.of_history(5, None)
        choices = [flow] if (flow := filters.get("flow")) else list(filters["flows"])
        assert [
            any(_matches(each, number, flow) for each in choices) for number, flow in enumerate(FLOWS, 1)
        ] == [bool(each) for each in mask]
        assert filters["start"] == 5


def _matches(chosen: Flow, number: int, flow: tuple[Any, ...]) -> bool:
    parts = dict(zip(("src", "dst", "sport", "dport", "proto"), flow, strict=True))
    networks = {side: getattr(chosen, side) for side in ("src", "dst")}
    if any(network is not None and not inside(parts[side], network) for side, network in networks.items()):
        return False
    numbers = {name: getattr(chosen, name) for name in ("sport", "dport", "proto")}
    if any(value is not None and value != parts[name] for name, value in numbers.items()):
        return False
    return chosen.flow_id in (None, number)


def test_switches_by_name_and_number() -> None:
    """A name, one with spaces in quotes, one that looks like an id; a port of a switch."""
    assert (search("leaf-1").node, search('node:"spine 2"').node, search("node:12").node) == (7, 8, 12)
    assert search("1234567890abcdef").node == 9
    found = search("leaf-1 egress:3 tcp")
    assert (found.node, found.egress, [each.proto for each in found.choices]) == (7, 3, [6])
    assert found.of_history(None, None)["ports"] == (3,)
    assert not search("path:00000000000000ff").of_past


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("leaf-2", "q: found 'leaf-2', expected an address, a network, ADDRESS:PORT, a port, a protocol or "
         "the name of a switch; did you mean leaf-1?"),
        ("10.1.2.3/33", "q: found '10.1.2.3/33', expected an address"),
        ("10.1.2.3:70000", "q: expected a port from 0 to 65535, found '70000'"),
        ("70000", "q: expected a port from 0 to 65535, found '70000'"),
        ("dscp:46", "q: dscp: flows are known by their 5-tuple, dscp is not stored"),
        ("tcp > 10.0.0.1", "q: found 'tcp', expected an address"),
        ("10.0.0.1 > 10.0.0.2 > 10.0.0.3", "q: expected one > between"),
        (">", "q: expected one > between"),
        ("node:", "q: node: expected a value right after the colon"),
        ("node:leaf-9", "q: node: found 'leaf-9', expected a node id or a name; did you mean leaf-1?"),
        ("leaf-1 node:8", "q: 8: expected one switch, found two"),
        ("egress:3", "q: egress: expected the switch, too"),
        ("proto:tpc", "q: proto: expected 0 to 255 or icmp"),
        ("id:12", "q: id: expected 16 hexadecimal digits, found '12'"),
        ('node:"leaf', 'q: found a single "'),
        ("1 2 3 4 5", "q: 5: expected at most 4 words for either end"),
        ("tcp " * 17, "q: expected at most 16 words, found 17"),
        ("<script>alert(1)</script>", "q: expected one > between"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said(text: str, message: str) -> None:
    """One line that names the word and what was expected."""
    with pytest.raises(UnreadableError) as error:
        search(text)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
