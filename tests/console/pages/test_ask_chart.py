"""Ask's charts and JSON file in a real browser: bars as high as the values of the query, lines that keys read
out, files that other programs read.
"""

from __future__ import annotations

import csv
import json
import struct
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]
BARS = "SELECT * FROM (VALUES ('leaf', 300), ('spine', 100), ('core', 200)) t(layer, ports)"
REPEATED = (
    "SELECT * FROM (VALUES ('leaf', 'up', 200), ('spine', 'up', 100), ('leaf', 'down', 100))"
    " t(layer, state, ports)"
)
CHOOSE = """(title, value) => {
  const label = [...document.querySelectorAll(".filters label")].find((e) => e.innerText.startsWith(title));
  label.querySelector("select").value = value;
  label.querySelector("select").dispatchEvent(new Event("change"));
}"""
LINES = (
    "SELECT TIMESTAMP '2026-01-02 03:04:00' + INTERVAL (n) MINUTE AS time, ['up', 'down'][1 + n % 2] AS way,"
    " n * 100 AS packets FROM range(6) t(n)"
)
TOGETHER = (
    "SELECT TIMESTAMP '2026-01-02 03:04:00' + INTERVAL (n) MINUTE AS time, node, 100 * n + node AS packets,"
    " 'ab' AS flow_id FROM range(3) a(n), range(1, 4) b(node)"
)
LARGE = f"SELECT {2**62 + 1} AS n, 'a \"b\"' AS t, NULL AS none FROM range(2)"
HEIGHTS = """(() => {
  const canvas = document.querySelector(".answer-chart canvas");
  if (!canvas?.width) return null;
  const one = document.createElement("canvas").getContext("2d");
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = "var(--s1)";
  one.fillStyle = getComputedStyle(probe).color;
  probe.remove();
  one.fillRect(0, 0, 1, 1);
  const wanted = String(one.getImageData(0, 0, 1, 1).data);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const found = [0];
  for (let x = 0; x < canvas.width; x++) {
    let high = 0;
    for (let y = 0; y < canvas.height; y++) {
      const at = 4 * (y * canvas.width + x);
      high += String(data.slice(at, at + 4)) === wanted;
    }
    if (high > found.at(-1)) found[found.length - 1] = high;
    if (!high && found.at(-1)) found.push(0);
  }
  return found.filter(Boolean);
})()"""
"""Heights of bars of the first colour, in pixels, from left to right."""
BARS_ARE = """((found, wanted) => found?.length === wanted.length
  && wanted.every((high, at) => Math.abs(found[at] / found[1] / high - 1) < 0.05))"""
"""Whether these heights are as wanted, relative to the second bar's, which is 1."""


def saved(page: Any, button: str, file: Path) -> bytes:
    """What a button downloads into this file."""
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(file.parent))
    page.click(button)
    eventually(lambda: file.exists() and file.stat().st_size, f"no {file.name}")
    return file.read_bytes()


def test_bars_are_as_high_as_the_values(open_page: Any, tmp_path: Path) -> None:
    """Three bars, whose CSV has the rows of the query, and whose PNG has their width."""
    page = open_page(f"/ask?show=chart&q={quote(BARS)}")
    page.wait(f"{BARS_ARE}({HEIGHTS}, [3, 1, 2])")
    rows = saved(page, "[aria-label='Download answer-chart as CSV']", tmp_path / "answer-chart.csv").decode()
    assert list(csv.reader(rows.splitlines()))[1:] == [["leaf", "300"], ["spine", "100"], ["core", "200"]]
    png = saved(page, "[aria-label='Download answer-chart as PNG']", tmp_path / "answer-chart.png")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, _ = struct.unpack(">II", png[16:24])
    assert width == page.run("document.querySelector('.answer-chart canvas').width")


def test_repeated_categories_are_series_or_sums(open_page: Any) -> None:
    """Two rows of a category: bars of two series, by the column that tells them apart. Without a series, one
    bar as high as both together, and the chart says so; the choice is in the address.
    """
    page = open_page(f"/ask?show=chart&q={quote(REPEATED)}")
    page.see(".answer-chart .legend", "down")
    page.wait(f"{BARS_ARE}({HEIGHTS}, [2, 1])")
    page.run(f"({CHOOSE})('series', '')")
    page.see(".note", "Several rows have the same layer: the chart adds up their ports.")
    page.wait(f"{BARS_ARE}({HEIGHTS}, [3, 1])")  # the chart is drawn after the note
    page = open_page(page.run("location.pathname + location.search"))
    page.see(".note", "Several rows")


def test_lines_are_read_out_by_keys(open_page: Any) -> None:
    """Two series over time, chosen by themselves: arrow keys say time and value; other columns are a link."""
    page = open_page(f"/ask?show=chart&q={quote(LINES)}")
    page.see(".answer-chart", "down")
    page.run("document.querySelector('.answer-chart canvas').focus()")
    page.press("ArrowLeft")
    said = page.see(".answer-chart .tip").split("\n")
    assert said[0].startswith("2026-01-02 03:0")
    n = int(said[0][15]) - 4
    assert said[1 + n % 2] == f"{['up', 'down'][n % 2]} {100 * n}"
    page.run(f"({CHOOSE})('series', '')")
    page.wait("!document.querySelector('.answer-chart').innerText.includes('down')")
    assert "cx=time" in page.run("location.search")


def test_lines_add_rows_of_one_time(open_page: Any) -> None:
    """Three switches at each time, which no text tells apart: a line of their sums, and the chart says so."""
    page = open_page(f"/ask?show=chart&cy=packets&cs=-&q={quote(TOGETHER)}")
    page.see(".note", "Several rows have the same time: the chart adds up their packets.")
    page.run("document.querySelector('.answer-chart canvas').focus()")
    page.press("ArrowLeft")
    said = page.see(".answer-chart .tip").split("\n")
    assert said[1] == f"packets {300 * (int(said[0][15]) - 4) + 6}"


def test_a_json_file_has_large_numbers_digit_by_digit(open_page: Any, tmp_path: Path) -> None:
    """Another reader finds the columns, their types, and values that a JavaScript number cannot hold."""
    page = open_page(f"/ask?q={quote(LARGE)}")
    page.see(".answer td", str(2**62 + 1))
    answer = json.loads(saved(page, ".exports button[title='Download as JSON']", tmp_path / "answer.json"))
    assert answer["columns"] == ["n", "t", "none"]
    assert [int(row[0]) for row in answer["rows"]] == [2**62 + 1] * 2
    assert [row[1:] for row in answer["rows"]] == [['a "b"', None]] * 2
    assert answer["types"][:2] == ["BIGINT", "VARCHAR"]
    assert answer["truncated"] is False
