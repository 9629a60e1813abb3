"""The console's forms, as people use them: who logs in and out, and what an operator changes. After each
click the API, the audit or the file says what has really happened.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import httpx
import pytest

from hopscope.operators.audit import Author
from hopscope.operators.database import Database
from hopscope.operators.users import Users
from support.processes.browser import Browser, Chromium
from support.processes.collector_process import Collector
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]
PASSWORD = "analytical-engine"
TWICE = (
    "((e) => { e.click(); e.click(); })([...document.querySelectorAll(%r)].find((e) => e.innerText == %r))"
)
"""A double click: the second comes before an answer to the first."""


class Witness:
    """The API, by the token of the data folder."""

    def __init__(self, collector: Collector) -> None:
        self.url = collector.owner["api"].rstrip("/")
        self.token = (collector.data / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {self.token}"}
        self._client = httpx.Client(
            base_url=f"{self.url}/api/v0", headers=headers, trust_env=False, timeout=HANG_SECONDS
        )

    def get(self, path: str, **query: Any) -> Any:
        """An answer."""
        answer = self._client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def changes(self, kind: str) -> list[dict[str, Any]]:
        """Entries of the audit of this kind, the newest first."""
        return [each for each in self.get("/audit", kind=kind)["items"] if each["kind"] == kind]

    def sessions(self) -> list[str]:
        """Names of those who are logged in."""
        return sorted(each["user"] for each in self.get("/sessions")["items"])

    def close(self) -> None:
        """Let its connection go."""
        self._client.close()


@pytest.fixture(scope="module")
def api(busy: Collector) -> Iterator[Witness]:
    """The API."""
    made = Witness(busy)
    yield made
    made.close()


@pytest.fixture(scope="module")
def users(busy: Collector) -> None:
    """ada, an operator, and vera, a viewer."""
    known = Users(Database(busy.data))
    known.add("ada", "operator", PASSWORD, Author("root"))
    known.add("vera", "viewer", PASSWORD, Author("root"))


@pytest.fixture(scope="module")
def enter(api: Witness, chromium: Chromium, users: None) -> Iterator[Callable[[str], Browser]]:
    """Pages of users who are logged in; each logs in once."""
    pages: dict[str, tuple[Any, Browser]] = {}

    def page(name: str) -> Browser:
        if name not in pages:
            context = chromium.page()
            pages[name] = context, context.__enter__()
            log_in(pages[name][1], f"{api.url}/login", name)
        return pages[name][1]

    yield page
    for context, _ in pages.values():
        context.__exit__(None, None, None)


def log_in(page: Browser, url: str, name: str, password: str = PASSWORD) -> None:
    """Fill the form in with the keyboard alone: the name has the focus."""
    page.open(url)
    enter_login(page, name, password)
    page.see(".account summary", name)


FOCUSED = "document.activeElement?.name === %r"
"""A field has the focus, which a page gives it some time after it is seen."""


def enter_login(page: Browser, name: str, password: str = PASSWORD) -> None:
    """Type a name and a password into the login page, once it has the focus."""
    page.wait(FOCUSED % "user")
    page.type(name)
    page.press("Tab")
    page.type(password)
    page.press("Enter")


def write(page: Browser, field: str, text: str) -> None:
    """Replace what is in a field."""
    page.click(field)
    page.run(f"document.querySelector({field!r}).select()")
    page.type(text)


def test_without_users_the_token_is_the_way_in(api: Witness, browser: Browser) -> None:
    """No user exists: the form of the token is open and has the focus, without JavaScript, too. A wrong one
    is refused with a reason, the right one leads to the page that was asked for, and no script reads the
    cookie.
    """
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(f"{api.url}/login?next=%2Fevents%3Fkind%3Dchange")
    assert "hopscope users add" in browser.see("details[open]")
    browser.wait(FOCUSED % "token")
    browser.type("wrong")
    browser.press("Enter")
    assert browser.see("[role=alert]") == "This token is not known."
    browser.problems.clear()  # the browser notes the answer 401
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    browser.wait(FOCUSED % "token")
    browser.type(api.token)
    browser.press("Enter")
    browser.see(".account summary", "data folder's token · operator")
    assert browser.run("location.pathname + location.search") == "/events?kind=change"
    assert browser.run("document.cookie") == ""
    assert api.sessions() == ["data folder's token"]
    assert not browser.problems


def test_a_password_logs_in_and_the_menu_logs_out(api: Witness, users: None, browser: Browser) -> None:
    """The token's form is folded now. A wrong password keeps the name and moves on to the password; the
    session is in the API until Log out, which keys reach. Then the page offers to log in.
    """
    browser.open(f"{api.url}/login?next=%2Flimits")
    assert not browser.run("document.querySelector('details').open")
    browser.wait(FOCUSED % "user")
    browser.type("vera")
    browser.press("Tab")
    browser.type("a guess of mine")
    browser.press("Enter")
    assert browser.see("[role=alert]") == "Name or password is wrong."
    browser.problems.clear()
    browser.wait(FOCUSED % "password")
    browser.type(PASSWORD)
    browser.press("Enter")
    browser.see(".account summary", "vera · viewer")
    assert browser.run("location.pathname") == "/limits"
    assert "vera" in api.sessions()
    browser.run("document.querySelector('.account summary').focus()")
    browser.press("Enter", "Tab", "Tab", "Enter")
    browser.see(".account a", "Log in")
    assert "vera" not in api.sessions()
    assert not browser.problems


def test_failures_say_how_long_to_wait(api: Witness, users: None, browser: Browser) -> None:
    """After five wrong passwords for one name, the page says when to try again."""
    browser.open(f"{api.url}/login")
    browser.wait(FOCUSED % "user")
    browser.type("eve")
    browser.press("Tab")
    browser.type("guess")
    guess = "fetch('/login', {method: 'POST', body: new URLSearchParams({user: 'eve', password: 'guess'})})"
    pause = "await new Promise(done => setTimeout(done, 100))"  # each wait is twice the one before: 1, 2, 4 s
    browser.run(f"(async () => {{ while (!((await {guess}).headers.get('Retry-After') > 3)) {pause}; }})()")
    browser.press("Enter")
    line = browser.see("[role=alert]")
    assert re.fullmatch(r"Too many failed logins: try again in \d+ s\.", line)


def test_an_alarm_is_acknowledged_once_and_taken_back(api: Witness, enter: Callable[[str], Browser]) -> None:
    """A double click notes it once, with who and why; a viewer sees both, and no button; Unacknowledge,
    clicked twice, takes it back once.
    """
    page, viewer = enter("ada"), enter("vera")
    page.open(f"{api.url}/events?part=alarms&metric=hop_latency")
    page.click("[aria-label='Open alarms'] td button", "Acknowledge")
    page.type("INC-7, optics")
    page.run(TWICE % ("dialog button", "Acknowledge"))
    page.see("[aria-label='Open alarms'] td", "INC-7, optics")
    (noted,) = api.get("/acknowledgements")["items"]
    assert (noted["who"], noted["note"]) == ("ada", "INC-7, optics")
    (entry,) = api.changes("alarms.acknowledge")
    assert (entry["who"], entry["subject"], entry["after"]) == ("ada", noted["key"], "INC-7, optics")
    viewer.open(f"{api.url}/events?part=alarms&metric=hop_latency")
    viewer.see("[aria-label='Open alarms'] td", "INC-7, optics")
    assert viewer.see(".note", "needs the role").startswith(
        "Acknowledging and silencing needs the role operator; vera is a viewer."
    )
    assert not viewer.run("document.querySelectorAll('td button').length")
    page.run(TWICE % ("td button", "Unacknowledge"))
    page.wait("!document.querySelector('[aria-label=\"Open alarms\"]').innerText.includes('INC-7')")
    assert not api.get("/acknowledgements")["items"]
    assert len(api.changes("alarms.unacknowledge")) == 1
    assert not page.problems


def test_a_silence_begins_and_ends(api: Witness, enter: Callable[[str], Browser]) -> None:
    """An error stays in the form, with what was typed; the silence that is then made is the one that was
    filled in, from the keyboard; End, clicked twice, ends it once.
    """
    page = enter("ada")
    page.open(f"{api.url}/events?part=silences")
    page.click("button", "Silence events")
    write(page, "[name=prefix]", "10.0.0.0/33")
    page.press("Enter")
    assert "10.0.0.0/33" in page.see("dialog [role=alert]")
    page.problems.clear()  # the browser notes the answer 400
    write(page, "[name=prefix]", "10.9.0.0/16")
    page.press("Tab", "Tab")
    page.type("maintenance")
    page.press("Enter")
    page.see("[aria-label=Silences] td", "of 10.9.0.0/16")
    (made,) = api.get("/silences")["items"]
    assert (made["prefix"], made["note"], made["who"], made["metric"]) == (
        "10.9.0.0/16",
        "maintenance",
        "ada",
        "",
    )
    page.run(TWICE % ("td button", "End"))
    page.see(".empty", "Nothing is silenced.")
    assert not api.get("/silences")["items"]
    assert len(api.changes("silences.end")) == 1
    assert not page.problems


def test_an_operator_changes_a_limit_and_a_viewer_does_not(
    api: Witness, enter: Callable[[str], Browser]
) -> None:
    """A viewer has no button, and the server refuses the request, too. A mistake is named; the limit is in
    force after Enter, though the page has the token of a server that has restarted since; the audit has both
    values, and the page shows them.
    """
    viewer, page = enter("vera"), enter("ada")
    place = f"{api.url}/limits?metric=buffer_occupancy"
    viewer.open(place)
    viewer.see(".note", "Applying a change needs the role operator; vera is a viewer.")
    assert not viewer.run(
        "[...document.querySelectorAll('button')].some((e) => e.innerText == 'Apply' && !e.hidden)"
    )
    module = "document.querySelector('script[type=module]').src.replace('app.js', 'lib/api.js')"
    attempt = "api.send('PATCH', '/api/v0/limits/buffer_occupancy', {raise_above: 9}).catch((e) => e.message)"
    said = viewer.run(f"import({module}).then((api) => {attempt})")
    assert said == "a change needs the role operator, and vera is a viewer"
    page.open(place)
    write(page, "[name=raise_above]", "many")
    page.press("Tab")
    page.see(".message.bad", "Raise above: expected a whole number, or the word never")
    page.run(f"import({module}).then((api) => api.useCsrf('of the server before'))")
    write(page, "[name=raise_above]", "7000")
    page.press("Tab")
    page.wait("!document.querySelector('[type=submit]').disabled")
    page.click("[name=raise_above]")
    page.press("Enter")
    page.see("[aria-label='Past changes'] td", "7.00k")
    page.problems.clear()  # the browser notes the answer 403
    assert api.get("/limits/buffer_occupancy")["raise_above"] == 7000
    (entry,) = api.changes("limits.change")
    assert entry["who"] == "ada"
    assert entry["before"] == {"general": {"buffer_occupancy": {"raise_above": None}}}
    assert entry["after"] == {"general": {"buffer_occupancy": {"raise_above": 7000}}}
    ((_, who, *change),) = page.rows("Past changes")
    assert (who, change) == (
        "ada from 127.0.0.1", ["buffer occupancy", "all", "Raise above", "never", "7.00k"]
    )  # fmt: skip
    page.open(f"{api.url}/system?part=audit&q=limits")
    page.see("[aria-label=Changes] td", "limits.change")
    assert page.rows("Changes")[0][1:4] == ["ada", "127.0.0.1", "limits.change"]


def test_a_query_is_saved_and_answers_become_files(
    api: Witness, enter: Callable[[str], Browser], tmp_path: Path
) -> None:
    """A saved query is there for all, and deleted once, after a question; CSV and Parquet, read by other
    programs, have the rows.
    """
    page, sql = enter("ada"), "SELECT range AS n, 'a,\"b' AS t FROM range(3)"
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.open(f"{api.url}/ask?q={quote(sql)}")
    page.see(".answer td", "2")
    for button in ("CSV", "Parquet"):
        page.click(".exports button", button)
    found = {name: tmp_path / f"answer.{name}" for name in ("csv", "parquet")}
    eventually(lambda: all(each.exists() and each.stat().st_size for each in found.values()), "no files")
    with found["csv"].open(newline="") as file:
        assert list(csv.reader(file)) == [["n", "t"], *([str(n), 'a,"b'] for n in range(3))]
    assert duckdb.sql(f"FROM '{found['parquet']}'").fetchall() == [(n, 'a,"b') for n in range(3)]
    page.click("button", "Save …")
    page.type("three rows")
    page.press("Enter")
    page.wait("location.search.includes('saved=three')")
    assert api.get("/queries/three rows")["sql"] == sql
    page.click("summary", "Saved queries")
    page.see(".saved-list li", "three rows")
    page.click(".saved-list button", "Delete")
    page.click("dialog button", "Cancel")
    page.see(".saved-list li", "three rows")
    page.click(".saved-list button:enabled", "Delete")
    page.see("dialog", "Delete the query three rows?")
    page.run(TWICE % ("dialog button", "Delete"))
    page.see(".saved-list li", "No query is saved yet.")
    assert [each["subject"] for each in api.changes("queries.delete")] == ["three rows"]
    viewer = enter("vera")
    viewer.open(f"{api.url}/ask")
    viewer.click("summary", "Saved queries")
    viewer.see(".saved .note", "Saving a query needs the role operator; vera is a viewer.")
    assert not page.problems


def test_a_session_that_was_ended_leads_to_the_login(
    api: Witness, enter: Callable[[str], Browser], browser: Browser
) -> None:
    """ada ends a session of hers elsewhere; what she then tries there leads to the login page, which says
    why, and back to where she was.
    """
    page = enter("ada")
    log_in(browser, f"{api.url}/login?next=%2Fevents%3Fpart%3Dsilences", "ada")
    browser.click("button", "Silence events")
    page.open(f"{api.url}/system?part=access")
    page.see("[aria-label=Sessions] td", "Log out")
    before = api.sessions()
    mine = [row for row in page.rows("Sessions") if row[0] == "ada"]
    assert sorted(row[-1] for row in mine) == ["End", "Log out"]
    page.run(
        "[...document.querySelectorAll('td button')].find((e) => e.ariaLabel?.includes('of ada')).click()"
    )
    page.wait("document.querySelectorAll('[aria-label=Sessions] tbody tr').length == " + str(len(before) - 1))
    assert api.sessions() == sorted([*before[1:]])
    assert len(api.changes("sessions.end")) == 1
    write(browser, "[name=prefix]", "10.8.0.0/16")
    browser.press("Enter")
    browser.see("[role=alert]", "Your session has ended: log in again.")
    enter_login(browser, "ada")
    browser.see("button", "Silence events")
    assert browser.run("location.pathname + location.search") == "/events?part=silences"
    assert not api.get("/silences")["items"]
