"""One event by the API: what is around it, and the report that caused it, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hopscope.detect.evidence.region import evidence_path
from hopscope.detect.evidence.saver import store_evidence

pytestmark = pytest.mark.kernel


def ask(api: Any, folder: Path, *paths: str) -> list[Any]:
    """Status and answer of each path."""

    async def use() -> list[Any]:
        async with api(folder) as client:
            found: list[httpx.Response] = [await client.get(f"/api/v0/{path}") for path in paths]
            return [(answer.status_code, answer.json()) for answer in found]

    return asyncio.run(use())


def event_of(api: Any, folder: Path, query: str) -> dict[str, Any]:
    """The newest event."""
    ((_, page),) = ask(api, folder, f"events?limit=1&{query}")
    return page["items"][0]


def leaves(fields: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Fields that have no fields."""
    for field in fields:
        if field["fields"]:
            yield from leaves(field["fields"])
        else:
            yield field


def test_an_event_has_its_place_alarm_and_neighbours(api: Any, collector: Any) -> None:
    """Raised, then changed twice: the event before it and those after it at its port, and its open alarm."""
    collector.report(occupancy=800)
    raised = event_of(api, collector.folder, "kind=raised")
    collector.report(occupancy=900)
    ((status, found),) = ask(api, collector.folder, f"events/{raised['id']}")
    assert status == 200
    assert {name: found[name] for name in raised} == raised
    assert (found["evidence"], found["live"]) == (True, True)
    assert (found["alarm"]["key"], found["alarm"]["id"]) == ("queue_occupancy/13/3/2", raised["id"])
    assert [(one["kind"], one["metric"], one["value"]) for one in found["after"]][-1] == (
        "change", "queue_occupancy", 900,
    )  # fmt: skip
    ids = [int(one["id"].split("-")[1]) for one in reversed(found["before"])]
    ids += [int(raised["id"].split("-")[1])] + [int(one["id"].split("-")[1]) for one in found["after"]]
    assert ids == sorted(set(ids))
    assert {one["node"]["id"] for one in (*found["before"], *found["after"])} == {13}


def test_evidence_has_the_report_and_its_bytes(api: Any, collector: Any) -> None:
    """The bytes are those of the first flow's report of the batch; each value stands where the specification
    has it: 8 bytes of the group, 4 of the report, Ethernet 14, IPv4 20, TCP 20, the shim 4, INT-MD 12, then
    hops, the newest first.
    """
    collector.report(occupancy=800, latency=777)
    raised = event_of(api, collector.folder, "kind=raised")
    ((status, found),) = ask(api, collector.folder, f"events/{raised['id']}/evidence")
    (datagram,) = found["datagrams"]
    assert (status, found["note"], datagram["note"], datagram["hop"]) == (200, None, None, None)
    assert (datagram["dialect"], datagram["source"], found["source"]) == ("spec", "192.0.2.1", "192.0.2.1")
    raw = bytes.fromhex(datagram["bytes"])
    assert found["report"]["time_ns"] == str(int(found["report"]["time_ns"]))  # a double would round it
    assert found["report"]["flow"]["dst"] == raised["flow"]["dst"] == "10.1.0.0"
    assert [hop["queue_occupancy"] for hop in found["report"]["hops"]] == [0, 1, 800]
    assert [hop["hop_latency"] for hop in found["report"]["hops"]] == [777] * 3
    names = [field["name"] for field in datagram["fields"]]
    assert names[:2] == ["Telemetry Report 2.0 group", "Telemetry Report 2.0"]
    hops = [field for field in datagram["fields"] if field["name"].startswith("hop ")]
    assert [hop["name"] for hop in hops] == [f"hop {number} of the path" for number in (2, 1, 0)]
    by_name = {field["name"]: field for field in hops[0]["fields"]}
    assert int.from_bytes(raw[hops[0]["offset"] :][:4], "big") == 13 == by_name["node id"]["value"]
    place = by_name["queue occupancy"]
    assert (place["value"], place["length"]) == (800, 3)
    assert int.from_bytes(raw[place["offset"] :][:3], "big") == 800
    covered = sorted((field["offset"], field["length"]) for field in leaves(datagram["fields"]))
    assert {at for start, size in covered for at in range(start, start + size)} == set(range(len(raw)))


def test_routine_and_unknown_events_have_no_evidence(api: Any, collector: Any) -> None:
    """Each is answered with 404 and the reason; a number that is none with 400."""
    collector.report(occupancy=60)
    change = event_of(api, collector.folder, "kind=change")
    routine, unknown, foreign, wrong = ask(
        api, collector.folder, f"events/{change['id']}/evidence", "events/0-99999", "events/7-0", "events/x"
    )
    assert (routine[0], routine[1]["error"]) == (404, "reports of routine events (change) are not kept")
    assert (unknown[0], foreign[0], wrong[0]) == (404, 404, 400)


def test_evidence_outlives_the_collector(api: Any, collector: Any) -> None:
    """What a stopped collector leaves in its data folder is read when its regions are gone."""
    collector.report(occupancy=800)
    raised = event_of(api, collector.folder, "kind=raised")
    store_evidence(collector.folder / "regions", collector.folder)
    before = ask(api, collector.folder, f"events/{raised['id']}/evidence")
    evidence_path(collector.folder / "regions", 0).unlink()
    assert ask(api, collector.folder, f"events/{raised['id']}/evidence") == before
    assert before[0][0] == 200
