"""Times, prefixes and filters as users write them."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.detect.records import FLOW
from hopscope.present.events import all_wide, port_object, when, wide
from hopscope.present.select import FlowFilter, highest_flows, order_of
from hopscope.present.text import UnreadableError, network, parse_when, protocol
from hopscope.wire.address import address

NOW = 1_700_000_000_123_456_789


def test_times_go_both_ways() -> None:
    """Text with nanoseconds is read back as the same number."""
    assert when(NOW) == "2023-11-14T22:13:20.123456789Z"
    assert parse_when(when(NOW), 0) == NOW
    assert parse_when("2023-11-14T23:13:20.5 01:00", 0) == 1_700_000_000_500_000_000
    assert parse_when("-90s", NOW) == parse_when("90s", NOW) == NOW - 90 * 10**9
    assert parse_when(str(NOW), 0) == NOW


def test_times_after_2261() -> None:
    """They are as late as NumPy's and DuckDB's times in ns, and one more, can be."""
    late = {parse_when(text, 0) for text in (str(2**63 - 2), "9" * 19, "9999-12-31", "2262-01-01")}
    assert len(late) == 1
    assert str(np.datetime64(late.pop() + 1, "ns")).startswith("2261-07-")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "-5y",
        "2023-13-01",
        "1e9",
        "1700000000",
        "2023",
        "9" * 40,
        "2023-01-01T00:00:00+99:99",
    ],
)
def test_no_time_is_one_line(text: str) -> None:
    """The line says what is expected."""
    with pytest.raises(UnreadableError, match="expected a time"):
        parse_when(text, NOW)


def test_addresses_and_networks() -> None:
    """IPv4 is held as ::ffff:a.b.c.d and written as IPv4."""
    high, low, mask_high, mask_low = network("192.0.2.77/24")
    assert address(high, low) == "192.0.2.0"
    assert (mask_high, mask_low) == (2**64 - 1, 2**64 - 256)
    assert address(*network("2001:db8::1")[:2]) == "2001:db8::1"
    for text in ("", "192.0.2", "10.0.0.0/33", "host"):
        with pytest.raises(UnreadableError, match="prefix"):
            network(text)


def test_large_numbers_are_text() -> None:
    """Up to 2^53 - 1 a number, above it text; in lists and objects too."""
    assert wide(2**53 - 1) == 2**53 - 1
    assert wide(2**53) == str(2**53)
    assert all_wide({"a": [2**53, None, True, 1.5]}) == {"a": [str(2**53), None, True, 1.5]}


def test_unknown_values_are_null() -> None:
    """A time, a number or a port that is unknown, or whose switch is, stays None; other ports have a name."""
    assert when(None) is None
    assert wide(None) is None
    names = Names({7: "leaf7"}, {(7, 3): "swp3"})
    assert port_object(names, 7, None) is None
    assert port_object(names, None, 3) is None
    assert port_object(names, 7, 3) == {"id": 3, "name": "swp3"}


def test_a_network_holds_no_flow_of_the_other_ip() -> None:
    """0.0.0.0/0 is every IPv4 address and no other, ::/0 every IPv6 address."""
    rows = np.zeros(2, FLOW)
    rows["src_lo"] = rows["dst_lo"] = 0xFFFF_0A00_0001, 1
    rows["src_hi"] = rows["dst_hi"] = 0, 0x2001_0DB8 << 32
    assert FlowFilter(prefixes=("0.0.0.0/0",)).mask(rows).tolist() == [True, False]
    assert FlowFilter(prefixes=("::/0",)).mask(rows).tolist() == [False, True]
    assert FlowFilter(prefixes=("::/0", "0.0.0.0/0")).mask(rows).all()
    assert FlowFilter(src="2001:db8::/64").mask(rows).tolist() == [False, True]


@pytest.mark.parametrize("count", [0, 1, 5, 200])
def test_pages_of_an_order_join(count: int) -> None:
    """Pages cover every flow once, in the order of all, however large the table is."""
    rng = np.random.default_rng(1)
    rows = np.zeros(count, FLOW)
    rows["flow_id"], rows["latency_latest"] = rng.permutation(count), rng.integers(0, 9, count)
    rows["state"] = rng.choice([0, 2], count)
    whole = highest_flows(rows, "latency", 1000)
    paged = [row for at in range(0, count, 7) for row in order_of(rows, "latency", True, at, 7).tolist()]
    assert rows["flow_id"][paged].tolist() == whole["flow_id"].tolist()
    known = whole["latency_latest"][whole["state"] == 2]
    assert (np.diff(known.astype(int)) <= 0).all()
    assert (whole["state"][: len(known)] == 2).all()


def test_protocols() -> None:
    """By number or name."""
    assert (protocol("TCP"), protocol("17")) == (6, 17)
    for text in ("256", "-1", "sixth", "٣"):
        with pytest.raises(UnreadableError, match="proto"):
            protocol(text)
