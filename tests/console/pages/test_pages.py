"""Ask, Direct memory, Labels, Sink and System in a real browser, over one collector that is no sink."""

from __future__ import annotations

import json
import re
import socket
import time
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from hopscope.settings.collector import Settings
from hopscope.wire.label.batch import encode_blocks
from hopscope.wire.label.records import LABEL, LABEL_FLOW
from support.processes.collector_process import Collector
from support.processes.console_collector import KEYS

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]
VIEWS = Path(__file__).resolve().parents[3] / "src/hopscope/serve/console/views"


def log_in(page: Any, collector: Collector) -> None:
    """Be an operator, by the token of the data folder; the page is loaded again."""
    body = json.dumps({"token": (collector.data / "token").read_text().strip()})
    options = f"{{method: 'POST', headers: {{'content-type': 'application/json'}}, body: {json.dumps(body)}}}"
    assert page.run(f"fetch('/api/v0/login', {options}).then((answer) => answer.status)") == 200
    page.run("window.isOld = true; location.reload()")
    page.wait("!window.isOld && document.querySelectorAll('.answer tbody tr').length > 10")


def test_ask_runs_marks_errors_and_draws(open_page: Any) -> None:
    """The query of the address runs; a wrong name is marked in its line with DuckDB's hint; a click on a
    column writes it; the chart and its columns are in the address; a long answer has few rows in the page.
    """
    page = open_page(
        f"/ask?q={quote('SELECT kind, count(*) AS events FROM events GROUP BY kind ORDER BY 1')}"
    )
    page.see(".answer td", "new_key")
    assert "rows" in page.see(".note", "rows, ")
    page.click(".tabs button", "Chart")
    page.wait("Boolean(document.querySelector('.answer-chart canvas'))")
    assert "show=chart" in page.run("location.search")
    page.click(".tabs button", "Table")
    page.run("document.querySelector('textarea').focus(); document.querySelector('textarea').select()")
    page.type("SELECT time,\n  valeu\nFROM events")
    page.run(
        "document.querySelector('textarea').dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'Enter', ctrlKey: true, bubbles: true, cancelable: true}))"
    )
    assert '"value"' in page.see(".message.bad")
    assert page.see(".sql-lines .wrong") == "2"
    assert page.run("getSelection().toString()") == "valeu"
    page.click(".columns .name", "value")
    page.wait("document.querySelector('textarea').value.includes('  value\\n')")
    page.click("button", "Run")
    page.wait("document.querySelectorAll('.answer th').length === 2")
    page.problems.clear()  # the browser notes the answer 400


def test_ask_shows_long_answers_and_saves_queries(open_page: Any, busy: Collector) -> None:
    """Of 5,000 rows the page has some; scrolling shows the last; a saved query is a link that answers."""
    page = open_page(f"/ask?rows=10000&q={quote('SELECT range AS n, hash(range) AS h FROM range(5000)')}")
    page.wait("document.querySelectorAll('.answer tbody tr').length > 10")
    assert page.run("document.querySelectorAll('.answer tbody tr').length") < 200
    page.run("document.querySelector('.answer-wrap').scrollTop = 1e9")
    page.see(".answer td", "4999")
    log_in(page, busy)
    page.click("button", "Save")
    page.run(
        "document.querySelector('dialog input').value = ''; document.querySelector('dialog input').focus()"
    )
    page.type("long one")
    page.click("dialog button", "Save")
    page.wait("location.search.includes('saved=')")
    page = open_page("/ask?saved=long%20one")
    page.wait("document.querySelectorAll('.answer tbody tr').length > 10")
    page.wait("document.querySelector('textarea').value.includes('range(5000)')")


def test_a_store_answers_by_key_and_shows_what_theory_expects(open_page: Any) -> None:
    """A key that was written is found with its value; the load is about 1 key per slot; a list has its
    entries, and no button for more after the last; a counter store its highest counters.
    """
    page = open_page("/direct")
    page.click(".table a", "paths")
    page.see(".figure", "Load")
    load = float(page.see(".figure", "Load").split()[1])
    assert load == pytest.approx(1, abs=0.15)
    page.see(".panel", "Half are found up to")
    half = KEYS * -np.log(1 - np.sqrt(0.5)) / 2  # (1 - exp(-2 a))^2 = 1/2
    said = re.search(r"Half are found up to (\S+) keys", page.see(".panel", "Half are found up to"))
    assert said is not None
    assert float(said[1].replace("k", "")) * (1000 if "k" in said[1] else 1) == pytest.approx(half, rel=0.1)
    page = open_page(f"/direct/paths?key={KEYS}&key=999999")
    page.see(".answer-card", "found")
    assert "000003e8" in page.see(".answer-card", "found")
    page.see(".answer-card", "empty")
    page = open_page("/direct/events?list=1")
    page.see("[aria-label=Entries] td", "00000047")
    assert page.see("section[aria-label=Entries] .body > .button") == "Check for new entries"
    page = open_page("/direct/packets")
    page.see("[aria-label=Counters] td", f"{2**60:,}")


def test_labels_show_silent_ports(open_page: Any) -> None:
    """Four ports label, one has fallen silent: the figure, the filter and the table say so."""
    page = open_page("/labels")
    page.wait("document.querySelectorAll('[aria-label=\"Ports that label\"] tbody tr').length === 4")
    page.wait("[...document.querySelectorAll('.figure')].some((e) => /Silent ports\\s*1/.test(e.innerText))")
    page.click(".tabs button", "Silent")
    page.wait("document.querySelectorAll('[aria-label=\"Ports that label\"] tbody tr').length === 1")
    ((place, state, *_),) = page.rows("Ports that label")
    assert place.endswith("port 4")
    assert state == "silent"
    assert "ports=silent" in page.run("location.search")


def test_a_tracked_flow_has_both_of_its_paths(open_page: Any, busy: Collector) -> None:
    """Ten packets over one path, then five over another: all are counted, with one change and both paths."""
    host, _, port = busy.owner["labels"].rpartition("//")[2].rpartition(":")
    flows = np.zeros(1, LABEL_FLOW)
    flows["src_lo"], flows["dst_lo"] = 0xFFFF0A090001, 0xFFFF0A090002
    flows["sport"], flows["dport"], flows["proto"] = 5001, 53, 17
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for way in [(21, 23, 22)] * 10 + [(21, 24, 22)] * 5:
            labels = np.zeros(len(way), LABEL)
            labels["node_id"], labels["egress_port"], labels["tracked"] = way, 2, 1
            labels["position"], labels["count"] = range(len(way)), len(way)
            labels["latency_ns"], labels["time_ns"] = 700, time.time_ns() + np.arange(len(way))
            sender.sendto(encode_blocks(labels, flows=flows), (host, int(port)))
    page = open_page("/labels")
    page.see("[aria-label='Tracked flows'] tr", "previously: ")
    page.wait("document.querySelector('[aria-label=\"Tracked flows\"] td:nth-child(4)').innerText === '15'")
    ((flow, latency, _, packets, _, changes, paths),) = page.rows("Tracked flows")
    assert "10.9.0.1:5001" in flow
    assert "10.9.0.2:53" in flow
    assert (latency, packets, changes.split(",")[0]) == ("2.10 µs", "15", "1")
    now, _, before = paths.partition("previously: ")
    assert [re.findall(r"2[1-4]", each) for each in (now, before)] == [["21", "24", "22"], ["21", "23", "22"]]


def test_a_collector_without_a_sink_says_how_to_start_one(open_page: Any) -> None:
    """The empty state has the command."""
    assert "hopscope sink" in open_page("/sink").see(".empty", "This collector is not a sink.")


def test_system_says_what_is_wrong_and_what_to_do(open_page: Any, busy: Collector) -> None:
    """Processes, the port that reports go to, a destination that fails, in the viewer's time; sources without
    losses, and a counter found by its meaning.
    """
    page = open_page("/system")
    page.see("[aria-label=Processes] td", "worker-0")
    assert page.see("[aria-label=Listening] code") == f"udp://127.0.0.1:{busy.port}"
    assert re.search(r"\d GiB free", page.see("[aria-label=Health] tr", "history"))
    banner = page.see(".banner", "dead")
    assert re.search(r"failing since \d\d:\d\d:\d\d: ", banner), banner
    dead = page.see("[aria-label=Health] tr", "dead")
    assert "needs attention" in dead
    assert "check its address" in dead
    page.click(".tabs button", "Destinations")
    page.see("[aria-label=Destinations] tr", "Connection refused")
    page.click(".tabs button", "Sources")
    page.see("[aria-label=Sources] tr", "complete")
    page.click(".tabs button", "History")
    page.see(".figure", "writing")
    page.click(".tabs button", "Counters")
    page.run("document.querySelector('input[type=search]').focus()")
    page.type("decoded, including")
    page.wait("document.querySelectorAll('[aria-label=Counters] tbody tr').length === 1")
    assert page.rows("Counters")[0][0].startswith("hopscope_reports_total")
    page.wait("Boolean(document.querySelector('.spark polyline'))")
    assert "part=counters" in page.run("location.search")
    page.click(".tabs button", "Cluster")
    page.see(".empty", "This collector is not in a cluster.")


def test_settings_in_empty_states_are_valid() -> None:
    """What a page offers to copy is a configuration that the collector takes."""
    snippets = [
        json.loads(f'"{text}"')
        for view in VIEWS.rglob("*.js")
        for text in re.findall(r'"(\[[a-z_.]+\]\\n(?:[^"\\]|\\.)*)"', view.read_text())
    ]
    assert len(snippets) >= 4
    for snippet in snippets:
        Settings.model_validate(tomllib.loads(snippet))
