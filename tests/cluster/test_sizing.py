"""`hopscope plan cluster`: the plan beside a closed form by hand, and its bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hopscope.cluster.planning.sizing import COSTS, ClusterDemand, SizingError, plan_cluster

BIG = ClusterDemand(50e6, 200e3)


def test_fifty_million_reports_by_hand() -> None:
    """Single datagrams of 3 hops, 16 cores, half of them free, one member down: every figure by hand.

    A report: 1,088 + 158 + 600 = 1,846 ns. 50 M of them take 92.3 cores, 200,000 events (400 + 3,201 + 3,771
    ns) 1.4744 cores: 93.77 / 8 = 11.7 members. The detector: 50 M x 249 ns / 0.5 = 24.9 members, so 25, and
    one more. Each has 40,000 of a million flows.
    """
    plan = plan_cluster(BIG)
    assert plan.report_ns == pytest.approx(1846)
    assert plan.report_bytes == 20 + 18 + 20 + 8 + 80 + 3 * 44 == 278
    assert {bound.what: round(bound.members, 3) for bound in plan.bounds} == {
        "processors": 11.722, "detector": 24.9, "network card": 8.896, "lake process": 1.508,
    }  # fmt: skip
    assert (plan.members, plan.up) == (26, 25)
    assert plan.load == pytest.approx(93.7744 / (25 * 16))
    assert plan.member_in == pytest.approx(2e6 * 278 * 8)
    assert plan.commits == pytest.approx(26 / 30)
    assert plan.s3_day == pytest.approx(200e3 * 86_400 * 24.1)
    assert plan.s3_total == pytest.approx(90 * 200e3 * 86_400 * 24.1)
    assert plan.member_disk == pytest.approx(8000 * (7 * 86_400 * 24.1 + 3600 * 136))
    assert plan.member_memory == pytest.approx(285 * 2**20 + 2 * 40_000 * 645.3)
    assert plan.nats_bytes == pytest.approx(26 * 700 / 3 + 2 * 26 * 4096)
    assert plan.nats_servers == 3


def test_a_small_cluster_with_a_stream_by_hand() -> None:
    """XDP, 100,000 flows, 1 hop, 2 cores, nothing free, none down: 158.6 ns a report, 9,687 ns an event.

    10 M reports/s: 1.586 cores; 100,000 events/s: 0.9687 cores; 2.5547 / 2 = 1.28, so 2 members. A million
    events in ten seconds a member is not reached: 2 commits in 30 s.
    """
    plan = plan_cluster(
        ClusterDemand(
            10e6, 100e3, 30, hops=1, flows=1e5, path="xdp", cores=2, headroom=0, down=0, stream=True
        )
    )
    assert plan.report_ns == pytest.approx(158.6)
    assert sum(part.cores for part in plan.parts) == pytest.approx(
        1.586 + 0.1 * (0.4 + 3.201 + 3.771 + 1.08 + 1.235)
    )
    assert (plan.members, plan.up) == (2, 2)
    assert plan.commits == pytest.approx(2 / 20)  # 50,000 events/s reach a million in 20 s, before the 30 s
    assert plan.nats_bytes == pytest.approx(2 * 700 / 3 + 100e3 * 136 + 2 * 2 * 4096)
    assert plan.nats_traffic == pytest.approx(2 * (2 * 700 / 3 + 100e3 * 136))
    assert plan.nats_disk_hour == pytest.approx(100e3 * 136 * 3600)


@pytest.mark.parametrize(("flows", "members", "report_ns"), [
    (7e5, 7, 1846),  # 7.5 x 1.846 / 2 = 6.9 members, with 100,000 flows each
    (8e5, 8, 1846),  # seven would have more than 100,000, and do not suffice then
    (1e6, 9, 2390),  # 7.5 x 2.39 / 2 = 8.96: nine do it with more
])  # fmt: skip
def test_a_report_costs_more_where_flows_are_many(flows: float, members: int, report_ns: float) -> None:
    """1,088 ns x 1.5 above 100,000 flows of a member, by hand; the plan is the smallest cluster."""
    demand = ClusterDemand(7.5e6, 0, 0, flows=flows, cores=2, headroom=0, down=0)
    plan = plan_cluster(demand)
    assert plan.members == members
    assert plan.report_ns == pytest.approx(report_ns)
    assert plan.load <= 1
    assert plan_cluster(replace(demand, members=members - 1)).load > 1


def test_costs_can_be_given_and_members_fixed() -> None:
    """With a cost of one's own the plan follows it; with too few members it says so."""
    faster = plan_cluster(replace(BIG, costs={"udp_3": 0, "several": 0, "interrupt": 0}))
    assert faster.report_ns == 0
    few = plan_cluster(replace(BIG, members=5))
    assert (few.members, few.up) == (5, 4)
    assert few.load == pytest.approx(120.9744 / 64)  # 250,000 flows each: 1,088 ns x 1.5 a report
    assert any("too few: 26 members are needed" in note for note in few.notes)
    many = plan_cluster(replace(BIG, members=500))
    assert any("set lake.every_seconds to 125 or more" in note for note in many.notes)
    assert all(cost.source for cost in COSTS.values())


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"reports": 0.0}, "reports: found 0"),
        ({"reports": float("nan")}, "reports: found nan"),
        ({"headroom": 1.0}, "headroom: found 1"),
        ({"members": 1}, "members: found 1"),
        ({"replicas": 2}, "replicas: found 2"),
        ({"costs": {"none": 1.0}}, "cost none: unknown"),
        ({"hops": 65.0}, "hops: found 65"),
    ],
)
def test_a_demand_without_sense_is_rejected(wrong: dict[str, object], text: str) -> None:
    """One line names the value and what was expected."""
    with pytest.raises(SizingError, match=text):
        plan_cluster(replace(BIG, **wrong))  # type: ignore[arg-type]


def test_a_longer_path_costs_more_between_the_measured_ones() -> None:
    """Two hops cost the mean of one and three; more than twelve go on with the last slope."""
    few = replace(BIG, flows=1000.0)
    cost = {hops: plan_cluster(replace(few, hops=float(hops))).report_ns for hops in (1, 2, 3, 12, 18)}
    assert cost[2] == pytest.approx((cost[1] + cost[3]) / 2)
    assert cost[18] - cost[12] == pytest.approx(1935 - 1298)
