"""Flows and a flow's page in a real browser; the reports are those that the tests send."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest

from hopscope.capture.udp.listener import UdpSender
from hopscope.wire.address import number_of
from hopscope.wire.encode.encoder import encode_reports, new_hops, new_reports
from hopscope.wire.records import Carried, Link, ReportBatch
from support.processes.collector_process import Collector
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]
NEAR, FAR = "192.0.2.10", "192.0.2.11"
SERVER = "198.51.100.20"
BEFORE = [(11, 10_000), (12, 20_000), (13, 30_000)]
"""Switches of the path and their latencies in ns; the port of each is its place."""
AFTER = [(11, 10_000), (14, 90_000), (13, 30_000)]
OTHER = [(11, 10_000), (12, 25_000), (13, 30_000)]
REPORTS = 20
"""Of each flow before, and of the first after its path has changed."""
KEEP = """window.kept = []; const make = URL.createObjectURL;
URL.createObjectURL = (blob) => { window.kept.push(blob); return make.call(URL, blob); }"""


def reports(src: str, path: Sequence[tuple[int, int]], first: int, count: int) -> ReportBatch:
    """Reports of a TCP flow over a path, numbered from `first`, of a source of its own."""
    made, hops = new_reports(count), new_hops(len(path) * count, 0xF000)
    made["src_hi"], made["src_lo"] = divmod(number_of(src), 1 << 64)
    made["dst_hi"], made["dst_lo"] = divmod(number_of(SERVER), 1 << 64)
    made["sport"], made["dport"], made["proto"], made["ip_version"] = 40_000, 443, 6, 4
    made["int_version"], made["instructions"] = 20, 0xF000
    made["carried"], made["node_id"] = Carried.FLOW | Carried.PORTS | Carried.NODE_ID, 13
    made["first_hop"], made["hop_count"] = np.arange(count) * len(path), len(path)
    made["sequence"] = first + np.arange(count)
    hops["node_id"], hops["hop_latency"] = np.tile(np.array(path), (count, 1)).T
    hops["egress_port"], hops["ingress_port"] = np.tile(np.arange(1, len(path) + 1), count), 9
    hops["queue_occupancy"] = 700
    return ReportBatch(made, hops)


@pytest.fixture(scope="module")
def api(busy: Collector) -> Iterator[httpx.Client]:
    """What the pages are compared with."""
    with httpx.Client(base_url=f"{busy.owner['api']}api/v0", trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def flow(busy: Collector, api: httpx.Client) -> str:
    """Id of the flow of NEAR, which takes another path after a while; that of FAR stays. Both end."""
    sender = UdpSender("127.0.0.1", busy.port)
    sender.send(encode_reports(reports(NEAR, BEFORE, 0, REPORTS), link=Link.UDP_PAYLOAD))
    sender.send(encode_reports(reports(FAR, OTHER, REPORTS, REPORTS), link=Link.UDP_PAYLOAD))
    found = eventually(lambda: api.get("/flows", params={"q": f"src:{NEAR}"}).json()["items"], "no flow")
    time.sleep(0.5)  # the path lasts for a while
    sender.send(encode_reports(reports(NEAR, AFTER, 2 * REPORTS, REPORTS), link=Link.UDP_PAYLOAD))
    sender.close()
    name = str(found[0]["flow"]["id"])
    eventually(lambda: len(api.get(f"/flows/{name}/paths").json()["items"]) == 2, "no second path")
    return name


def search(page: Any, text: str) -> None:
    """Type into the search, in place of what is there, and press Enter."""
    page.run("document.querySelector('.flow-search input').focus()")
    page.run("document.activeElement.select()")
    page.type(text)
    page.press("Enter")
    page.wait(f"new URLSearchParams(location.search).get('q') === {text!r}")


def cells(page: Any, label: str, count: int) -> list[list[str]]:
    """Rows of a table, once there are as many."""
    page.wait(f"document.querySelectorAll(`[aria-label='{label}'] tbody tr`).length === {count}")
    return page.rows(label)


def test_flows_are_found_by_parts_of_their_5_tuple(open_page: Any, flow: str, api: httpx.Client) -> None:
    """From the overview by keys. Prefixes, ports, a direction and a switch find exactly the flows that were
    sent; what cannot be understood is named; what is not there says where else to look.
    """
    page = open_page("/")
    page.see(".figure")
    page.press("g", "f")
    page.wait("location.pathname === '/flows'")
    page.see("[aria-label=Flows] tbody tr")
    for text, ends in {
        "192.0.2.0/24 > 198.51.100.0/24 dport:443 tcp": {NEAR, FAR},
        f"{SERVER}:443 src:{NEAR}": {NEAR},
        "node:14": {NEAR},
        "node:12 egress:2": {FAR},
    }.items():
        search(page, text)
        expected = {f"{end}:40000 → {SERVER}:443" for end in ends}
        eventually(lambda e=expected: {row[0] for row in page.rows("Flows")} == e, text)
    search(page, f"{SERVER} > {NEAR}")
    page.see(".empty", "No flow matches.")
    search(page, "192.0.2.0/40")
    assert "192.0.2.0/40" in page.see(".message.bad")
    search(page, "192.0.2.0/24")
    both = {row[0].partition(":")[0]: row for row in cells(page, "Flows", 2)}
    assert both[NEAR][1:7] == ["130 µs", "95.0 µs", "TCP", "● live", "3", str(2 * REPORTS)]
    assert both[FAR][1:3] == ["65.0 µs", "65.0 µs"]


def test_flows_are_sorted_and_grouped(open_page: Any, flow: str, api: httpx.Client) -> None:
    """Sorting is the server's and in the address; groups count the flows and reports that were sent, and lead
    to them.
    """
    page = open_page(f"/flows?q={quote('192.0.2.0/24')}")
    assert cells(page, "Flows", 2)[0][0].startswith(NEAR)
    page.click("[aria-label=Flows] th button", "Reports")
    page.wait("location.search.includes('sort=-packets')")
    page.click("[aria-label=Flows] th button", "Reports")
    page.wait("location.search.includes('sort=packets')")
    page.wait(f"document.querySelector('[aria-label=Flows] tbody td').innerText.startsWith({FAR!r})")
    page.click("[aria-label='Grouped by'] button", "Destination /24")
    (row,) = cells(page, "Groups of flows", 1)
    assert row[:3] == ["198.51.100.0/24", "2", str(3 * REPORTS)]
    assert row[4:] == ["130 µs", "85.0 µs"]
    page.click("[aria-label='Grouped by'] button", "Path")
    rows = cells(page, "Groups of flows", 2)
    assert {row[0] for row in rows} == {"11 › 14 › 13", "11 › 12 › 13"}
    page.click("[aria-label='Groups of flows'] a", "11 › 14 › 13")
    page.wait("!location.search.includes('by=')")
    assert cells(page, "Flows", 1)[0][0].startswith(NEAR)


def test_a_flow_shows_where_its_latency_is(open_page: Any, flow: str, api: httpx.Client) -> None:
    """Opened by keys from the list: the hops with the latencies that were sent, the sum, and the switch that
    takes most of it; T round the stored values.
    """
    page = open_page(f"/flows?q={quote(NEAR)}")
    cells(page, "Flows", 1)
    page.run("document.querySelector('[aria-label=Flows] tbody tr').focus()")
    page.press("Enter")
    page.wait(f"location.pathname === '/flows/{flow}'")
    page.see(".flow-name", f"{NEAR}:40000 → {SERVER}:443 TCP")
    assert page.see(".verdict") == "130 µs over 3 hops. 14 port 2 takes 69.2 % of it."
    rows = cells(page, "Hops", 3)
    assert [row[:4] for row in rows] == [
        ["1", "11 · port 1", "10.0 µs", "10.0 µs ± 100 ns"],
        ["2", "14 · port 2", "90.0 µs", "90.0 µs ± 100 ns"],
        ["3", "13 · port 3", "30.0 µs", "30.0 µs ± 100 ns"],
    ]
    assert [row[7] for row in rows] == ["700"] * 3
    page.wait("[...document.querySelectorAll('.figure')].some((e) => /Path changes\\s+1/.test(e.innerText))")


def test_a_link_to_no_flow(open_page: Any) -> None:
    """Of an id that was copied in part: the page says so, and waits for nothing."""
    page = open_page("/flows/00aa")
    page.see("main", "No live or past flow has this id")
    page.wait("!document.querySelector('main').innerText.includes('loading')")


def test_a_path_change_is_compared_with_before(open_page: Any, flow: str) -> None:
    """Both paths with the switch that differs; before and after, with the difference that was sent."""
    page = open_page(f"/flows/{flow}")
    page.see(".path-list li", "≠ 12")
    page.wait("!document.querySelector('.view .waits:not([hidden])')")
    assert page.run("document.querySelectorAll('.path-list li').length") == 2
    page.click(".path-list button", "Compare with the current path")
    page.see("[aria-label='Two paths'] td", "≠ 14")
    assert [row[1:] for row in page.rows("Two paths")] == [
        ["11", "11"], ["≠ 12", "–"], ["–", "≠ 14"], ["13", "13"],
    ]  # fmt: skip
    page.click(".path-list a", "Before and after")
    page.wait("location.search.includes('with_at=')")
    page.see(".compare ~ .soft", "Compared: +70.0 µs, without 12, with 14.")
    assert page.see("section[aria-label='Latency by hop'] .verdict").startswith("60.0 µs over 3 hops.")
    page.click("button", "Stop comparing")
    page.wait("!location.search.includes('with_at=')")


def test_two_flows_are_compared(open_page: Any, flow: str) -> None:
    """Found by its address in the form, which a key reaches: the difference is that of what was sent."""
    page = open_page(f"/flows/{flow}")
    page.see(".verdict", "130 µs")
    page.press("c")
    page.type(FAR)
    page.press("Enter")
    page.see("[aria-label='Flows found'] button", FAR)
    page.press("Enter")
    page.wait("location.search.includes('with=')")
    page.see(".compare ~ .soft", "Compared: −65.0 µs, without 14, with 12.")
    page.see("section[aria-label='Compared with'] .verdict", "65.0 µs over 3 hops.")


def test_lines_end_when_values_do(open_page: Any, flow: str, api: httpx.Client) -> None:
    """The chart of a flow that reports no more ends at its last report, and that of a hop that is not on the
    path any more when the path changed: in the file that the chart downloads.
    """
    page = open_page(f"/flows/{flow}?part=hops")
    page.wait("document.querySelectorAll('.legend span').length >= 4")
    page.run(KEEP)
    page.click("[aria-label='Download flow-latency as CSV']")
    rows = list(csv.reader(io.StringIO(page.wait("window.kept.length && window.kept[0].text()"))))
    last = api.get(f"/flows/{flow}/hops").json()["last_seen"]
    assert rows[-1][0][:23] == last[:23]
    assert set(rows[-1][1:]) == {""}
    (_, change) = api.get(f"/flows/{flow}/paths").json()["items"]
    gone = [row[0] for row in rows[1:] if row[1 + rows[0][1:].index("12 port 2")]]
    assert max(gone)[:23] <= change["since"][:23]
    assert re.match(r"\d{4}-\d\d-\d\dT", gone[0])
