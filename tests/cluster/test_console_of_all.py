"""The overview of all members, by the API and in the console of one: three collectors, NATS, a browser."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster.three_members import NAMES, Three
from support.processes.browser import Browser
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def test_the_overview_is_of_all_members(three: Three) -> None:
    """Totals are those of the summary; kinds and events are those of the members' own overviews, added
    or side by side. Two reports reached no member, and their source is one. Without NATS it is that of one
    member, whose rows say so.
    """
    found, each = settled(three)
    summed = three.of_all("/summary")
    totals = found["totals"]
    assert (totals["received"], totals["lost"], totals["flows"], totals["sources"]) == (60, 2, 30, 1)
    assert {name: totals[name] for name in ("switches", "workers", "events")} == {
        name: summed[name] for name in ("switches", "workers", "events")
    }
    (source,) = found["lost_sources"]
    assert (source["lost"], source["received"], source["members"]) == (2, 60, list(NAMES))
    counted: dict[str, int] = {}
    for kind in (kind for body in each.values() for kind in body["kinds"]):
        counted[kind["kind"]] = counted.get(kind["kind"], 0) + kind["total"]
    assert {kind["kind"]: kind["total"] for kind in found["kinds"]} == counted
    flows = sorted((row["latency_ns"] for row in three.of_all("/flows", limit=1000)["items"]), reverse=True)
    assert [row["latency_ns"] for row in found["slow_flows"]] == flows[:12]
    assert {row["member"] for row in found["slow_flows"]} <= set(NAMES)
    assert found["slowest"]["latency_ns"] == flows[0]
    lengths = {name: len(values) for name, values in found["points"].items()}
    assert len(set(lengths.values())) == 1
    three.nats.kill()
    try:
        alone = three.ask("c1", "/overview", scope="cluster").json()
        assert "NATS" in alone["cluster"]["local_only"]
        assert alone["totals"]["received"] == 30
        assert {row["event"]["member"] for row in alone["notable"]} == {"c1"}
        assert alone["slowest"]["member"] == "c1"
        assert {name for row in alone["slow_hops"] for name in row["members"]} == {"c1"}
    finally:
        three.nats.start()
    eventually(lambda: three.ask("c1", "/flows", scope="cluster").json()["cluster"]["complete"], every=0.2)


def settled(three: Three) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The overview of all and those of the members, once they have the same notable events: what a member
    learns from others is an event, too, and its own overview is of a moment before.
    """
    found: dict[str, Any] = {}
    each: dict[str, dict[str, Any]] = {}

    def agree() -> bool:
        found.update(three.of_all("/overview"))
        each.update(three.of_each("/overview"))
        notable = [(one["event"]["time"], m, one["event"]["id"]) for m in NAMES for one in each[m]["notable"]]
        newest = sorted(notable, key=lambda one: one[0], reverse=True)[:40]
        shown = {(one["event"]["member"], one["event"]["id"]) for one in found["notable"]}
        return shown == {one[1:] for one in newest}

    eventually(agree, lambda: f"{found['notable']}, of each {each}", 0.2)
    return found, each


def console(three: Three, path: str = "", **query: str) -> str:
    """Address of a page of c2's console, which asks all members."""
    more = "".join(f"&{name}={value}" for name, value in query.items())
    return f"{three.collectors['c2'].owner['api']}{path}?scope=cluster{more}"


def figure(browser: Browser, title: str) -> str:
    """What a figure of the overview shows."""
    texts = "[...document.querySelectorAll('.figure')].map((e) => e.innerText)"
    return next((text for text in browser.run(texts) or [] if title.lower() in text.lower()), "")


def test_one_console_shows_all_members_and_names_the_one_that_was_killed(three: Three, browser: Any) -> None:
    """At c2: the overview adds up what three received, the alarms of c1 are listed, an event of c1 and a flow
    that c3 alone has are opened. Then c3 is killed: the page names it, and shows what the other two have.
    """
    browser.open(console(three))
    browser.see(".chip", "Cluster: 3 members")
    eventually(lambda: "60 total" in figure(browser, "Reports"), lambda: figure(browser, "Reports"))
    assert "30" in figure(browser, "Live flows")
    assert "2 total" in figure(browser, "Reports lost")
    assert not browser.run("document.querySelector('.banner.note')")  # nothing of it is of one member alone
    flows = eventually(lambda: browser.rows("Slowest flows"))
    assert len(flows) == 12
    assert {row[-1] for row in flows} <= set(NAMES)

    alarms = eventually(lambda: browser.rows("Open alarms"))
    assert len(alarms) == 14
    assert all("c1" in row for row in alarms)
    browser.click("[aria-label='Open alarms'] tbody a", "queue")
    browser.wait("location.pathname.startsWith('/events/') && location.search.includes('member=c1')")
    browser.wait("location.search.includes('scope=cluster')")
    browser.see("main", "c1")
    browser.see("main", "raised")

    own = three.get("c3", "/flows", limit=100)["items"][0]
    assert three.ask("c2", f"/flows/{own['flow']['id']}").status_code == 404
    browser.open(console(three, f"flows/{own['flow']['id']}"))
    browser.see("main", own["flow"]["src"])

    three.collectors["c3"].kill_all()
    browser.open(console(three))
    browser.see(".banner", "Not included: c3 (no answer within 3 s")
    browser.see(".chip", "Cluster: 2 of 3 members")
    eventually(lambda: "50 total" in figure(browser, "Reports"), lambda: figure(browser, "Reports"))
    eventually(lambda: "20" in figure(browser, "Live flows"), lambda: figure(browser, "Live flows"))

    browser.open(console(three, "ask"))  # a file of an answer says nothing of who is missing: the page does
    browser.click("textarea")
    browser.type("SELECT count(*) FROM events")
    assert not browser.run("document.querySelector('.banner')")

    def is_told() -> bool:
        """On a busy machine, a member that lives may be late, too."""
        browser.click(".exports button", "CSV")
        browser.see(".banner")
        return "Not included: c3 (no answer within 3 s" in browser.run(
            "document.querySelector('.banner')?.innerText ?? ''"
        )

    eventually(is_told)
    assert not [each for each in browser.problems if "session" not in each and "404" not in each]
