"""Plans: they keep what they promise, and reproduce what the papers say of memory and collectors."""

from __future__ import annotations

from typing import Any

import pytest

from hopscope.direct import theory
from hopscope.direct.plan import RATES, Nic, PlanError, plan_network, plan_store
from hopscope.direct.primitives.key_write import KeyWriteLayout


def test_memory_of_dart() -> None:
    """DART: paths of 20 B with 32 bits are found with 99.9 % in about 300 B a flow, with four copies."""
    plan = plan_store(100e6, 20, 0.999)
    assert plan.best.copies == 4
    assert plan.best.checksum_bits == 32
    assert 290 < plan.best.memory_bytes / 100e6 < 330


@pytest.mark.parametrize("oldest", [False, True])
@pytest.mark.parametrize("success", [0.5, 0.9, 0.999999])
def test_a_plan_keeps_what_it_promises(success: float, oldest: bool) -> None:
    """Every alternative finds as many as asked, errs as rarely as asked, and is a store that can be made."""
    plan = plan_store(3e6, 13, success, oldest=oldest, wrong=1e-4, max_copies=6)
    assert len(plan.choices) == 6
    assert plan.best.memory_bytes == min(one.memory_bytes for one in plan.choices)
    for one in plan.choices:
        assert (one.found_oldest if oldest else one.found) >= success - 1e-9
        assert float(theory.average(3e6 / one.slots, one.copies, one.checksum_bits).correct) == one.found
        assert max(one.wrong, one.wrong_stranger) <= 1e-4
        left = theory.outcomes(one.survives / one.slots, one.copies, one.checksum_bits).correct
        assert float(left) == pytest.approx(success, rel=1e-4)
        if one.slots < 1 << 32:
            layout = KeyWriteLayout(slots=one.slots, data_bytes=13, checksum_bits=one.checksum_bits)
            assert layout.stride == one.slot_bytes


def test_a_longer_checksum_where_answers_must_be_right() -> None:
    """The checksum grows with what is asked, by whole bytes; what no checksum gives is rejected."""
    bits = [plan_store(1e6, 4, 0.9, wrong=wrong).best.checksum_bits for wrong in (0.1, 1e-4, 1e-9, 1e-15)]
    assert bits == [8, 16, 32, 56]
    with pytest.raises(PlanError, match="64 bits, the longest"):
        plan_store(1e6, 4, 0.9, wrong=1e-30)


def test_spread_over_stores() -> None:
    """What is larger than a store's 2^32 slots says over how many it has to be spread."""
    assert [one.stores for one in plan_store(100e6, 20, 0.999).choices] == [12, 1, 1, 1]


def test_collectors_of_dta() -> None:
    """1,000 switches with INT postcards: nearly 10,000 cores (Fig. 3), and 17 to 190 collectors."""
    plan = plan_network(1000, RATES["int-postcards"])
    assert plan.cores == 10_000
    loads = {one.primitive: one for one in plan.loads}
    assert loads["key-write"].reports == 100e6  # §6.5, limited by messages
    assert loads["key-write"].limit == "messages"
    assert loads["key-write"].collectors == 190
    assert loads["postcarding"].reports == pytest.approx(
        452.5e6, rel=0.11
    )  # §6.6; the papers' chunks are padded
    assert loads["append"].reports > 1e9  # §6.7
    assert loads["append"].limit == "line rate"
    assert loads["append"].collectors == 17  # the ring's own stamps take 16 of a write's 80 bytes


def test_limits_of_a_card() -> None:
    """Copies cost messages, data costs bytes, atomics have a rate of their own."""
    nic = Nic(messages=1e6, atomics=1e5, bits=1e12)
    plan = plan_network(1, 1e6, nic=nic, copies=4)
    assert [one.collectors for one in plan.loads] == [4, 1, 1, 40]
    slow = plan_network(1, 1e6, nic=Nic(bits=1e6), data_bytes=64, batch=1)
    assert {one.limit for one in slow.loads} == {"line rate"}
    assert slow.loads[0].by_bytes == pytest.approx(1e6 / 8 / (98 + 68))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"flows": 0}, "flows: found 0"),
        ({"flows": float("inf")}, "flows: found inf"),
        ({"data_bytes": 65}, "bytes of data: found 65, expected 1 to 64"),
        ({"success": 1.0}, "success: found 1"),
        ({"success": float("nan")}, "success: found nan"),
        ({"wrong": 0.0}, "more than 0 to 1"),
        ({"max_copies": 0}, "copies: found 0"),
    ],
)
def test_impossible_stores(fields: dict[str, Any], message: str) -> None:
    """A wrong value is named with what is possible."""
    wish: dict[str, Any] = {"flows": 1e6, "data_bytes": 4, "success": 0.9} | fields
    with pytest.raises(PlanError, match=message):
        plan_store(**wish)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"switches": 0}, "switches: found 0"),
        ({"rate": 0}, "rate: found 0"),
        ({"batch": 17}, "batch: found 17"),
        ({"hops": 0}, "hops: found 0"),
        ({"core_rate": -1}, "core rate: found -1"),
        ({"nic": Nic(messages=0)}, "messages: found 0"),
    ],
)
def test_impossible_networks(fields: dict[str, Any], message: str) -> None:
    """The same for networks."""
    wish: dict[str, Any] = {"switches": 1, "rate": 1e6} | fields
    with pytest.raises(PlanError, match=message):
        plan_network(**wish)
