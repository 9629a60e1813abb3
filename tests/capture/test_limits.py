"""Allowed sources and rate limit: the kernel against plain Python."""

from __future__ import annotations

import ipaddress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.capture.errors import CaptureError
from hopscope.capture.layout import SETUP_SLOTS
from hopscope.capture.limits import RateLimit, source_ranges

pytestmark = pytest.mark.kernel
_LOW = (1 << 64) - 1
ONE = np.uint64(1)


def mapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    return int(address) + (0xFFFF << 32 if address.version == 4 else 0)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.ip_addresses(v=4), st.integers(0, 32))
        | st.tuples(st.ip_addresses(v=6), st.integers(0, 128)),
        min_size=1,
        max_size=12,
    ),
    st.ip_addresses(),
)
def test_allowed_is_what_ipaddress_says(
    networks: list[tuple[ipaddress.IPv4Address, int]], other: ipaddress.IPv4Address
) -> None:
    """The ends of every network, their neighbours and any other address are allowed as `ipaddress` says."""
    from hopscope.capture.limits_kernel import allowed

    texts = [f"{address}/{length}" for address, length in networks]
    parsed = [ipaddress.ip_network(text, strict=False) for text in texts]
    ends = [(mapped(net.network_address), mapped(net.broadcast_address)) for net in parsed]
    ranges = source_ranges(texts)
    probes = {mapped(other)} | {end + step for pair in ends for end in pair for step in (-1, 0, 1)}
    for probe in probes:
        if 0 <= probe < 1 << 128:
            expected = any(first <= probe <= last for first, last in ends)
            assert allowed(ranges, np.uint64(probe >> 64), np.uint64(probe & _LOW)) == expected


def test_without_a_list_all_are_allowed() -> None:
    """No networks: everybody."""
    from hopscope.capture.limits_kernel import allowed

    assert allowed(source_ranges(()), np.uint64(0), np.uint64(1))


def test_ranges_are_sorted_and_merged() -> None:
    """Networks that touch or overlap become one range."""
    ranges = source_ranges(["10.0.1.0/24", "10.0.0.0/24", "10.0.0.128/25", "9.9.9.9"]).reshape(-1, 4)
    assert [(int(row[1]) & 0xFFFFFFFF, int(row[3]) & 0xFFFFFFFF) for row in ranges] == [
        (0x09090909, 0x09090909),
        (0x0A000000, 0x0A0001FF),
    ]


def test_a_network_that_is_none() -> None:
    """The line says what was found and what was expected."""
    with pytest.raises(
        CaptureError, match=r"found '10\.0\.0/24', expected a network, such as 192\.0\.2\.0/24"
    ):
        source_ranges(["10.0.0/24"])


def setup_of(limit: RateLimit) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    setup = np.zeros(SETUP_SLOTS, np.uint64)
    limit.write_setup(setup)
    return setup


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 1000),
    st.integers(0, 50),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**8)), max_size=80),
)
def test_buckets_are_what_they_should_be(
    per_second: int, burst: int, arrivals: list[tuple[int, int]]
) -> None:
    """A bucket per source in exact arithmetic lets the same datagrams pass."""
    from hopscope.capture.limits_kernel import take

    limit = RateLimit(per_second, burst, ipv6_prefix=128)
    setup, now = setup_of(limit), 10**12
    size = burst or max(1, per_second // 10)
    tokens: dict[int, tuple[int, int]] = {}  # nanotokens * interval, and when
    for source, later in arrivals:
        now += later
        level, when = tokens.get(source, (size * limit.interval_ns, now))
        level = min(size * limit.interval_ns, level + now - when)
        passes = level >= limit.interval_ns
        tokens[source] = (level - limit.interval_ns if passes else level, now)
        assert take(limit.buckets, setup, np.uint64(0), np.uint64(source + 1), now, ONE) == passes


def test_the_table_is_bounded_and_forgets_the_quietest() -> None:
    """Many more sources than rows: each gets no more than its burst at once, and the table stays small."""
    from hopscope.capture.limits_kernel import take

    limit = RateLimit(10, 1, sources=64, ipv6_prefix=128)
    setup = setup_of(limit)
    assert len(limit.buckets) == 64
    for source in range(1, 1000):
        assert take(limit.buckets, setup, np.uint64(1), np.uint64(source), 10**12, ONE)
    assert not take(limit.buckets, setup, np.uint64(1), np.uint64(999), 10**12, ONE)
    assert take(limit.buckets, setup, np.uint64(1), np.uint64(999), 10**12 + 10**8, ONE)


@pytest.mark.parametrize(("prefix", "passed"), [(64, 5), (48, 5), (128, 200)])
def test_an_ipv6_network_is_one_source(prefix: int, passed: int) -> None:
    """A host that sends from many addresses of its /64 has one bucket; IPv4 addresses keep their own."""
    from hopscope.capture.limits_kernel import take

    limit = RateLimit(10, 5, ipv6_prefix=prefix)
    setup = setup_of(limit)
    hosts = [int(ipaddress.ip_address("2001:db8::1")) + host for host in range(200)]
    taken = [
        take(limit.buckets, setup, np.uint64(host >> 64), np.uint64(host & _LOW), 10**12, ONE)
        for host in hosts
    ]
    assert sum(taken) == passed
    for host in range(100):
        assert take(limit.buckets, setup, np.uint64(0), np.uint64(0xFFFF0A000000 + host), 10**12, ONE)


def test_a_datagram_counts_as_its_reports() -> None:
    """One of 50 reports passes while there is room for one, and then the source waits for all of them."""
    from hopscope.capture.limits_kernel import take

    limit = RateLimit(100, 10)  # 10 ms each
    setup, lo = setup_of(limit), np.uint64(0xFFFF0A000001)
    assert take(limit.buckets, setup, np.uint64(0), lo, 10**12, np.uint64(50))
    assert not take(limit.buckets, setup, np.uint64(0), lo, 10**12 + 400_000_000, ONE)
    assert take(limit.buckets, setup, np.uint64(0), lo, 10**12 + 411_000_000, ONE)


def test_no_limit() -> None:
    """0 reports a second means no limit."""
    assert RateLimit(0).interval_ns == 0
