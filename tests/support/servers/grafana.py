"""Asks databases what a dashboard would, with variables and macros as Grafana replaces them.

Written after Grafana's documentation of its data sources and of the ClickHouse plugin (4.x); no Grafana runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from ..waiting import HANG_SECONDS

Row = dict[str, Any]
"""A point or a row of a table: labels, tags or columns, and values."""


@dataclass(frozen=True)
class View:
    """What a user looks at: an interval, and what is chosen."""

    start_s: float
    end_s: float
    step_s: int = 1
    chosen: Mapping[str, list[str]] = field(default_factory=dict)
    """Values by variable; missing: All, or an empty text."""


class Asked(NamedTuple):
    """A query of a panel."""

    dashboard: str
    panel: str
    plot: str
    target: dict[str, Any]


def targets(folder: Path) -> Iterator[Asked]:
    """All queries of the dashboards in a folder."""
    for path in sorted(folder.glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield Asked(path.stem, panel["title"], panel["type"], target)


def variable_queries(folder: Path) -> Iterator[tuple[str, Any]]:
    """Name and query of the dashboards' variables with queries."""
    for path in sorted(folder.glob("*.json")):
        for variable in json.loads(path.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                yield variable["name"], variable


class Database:
    """A server with what Hopscope has exported."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=HANG_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def ask(self, asked: Asked, view: View) -> list[Row]:
        """Rows of a panel's query."""
        raise NotImplementedError

    def values(self, variable: dict[str, Any], view: View) -> dict[str, str]:
        """Values of a variable, with the text that is shown."""
        raise NotImplementedError


class Prometheus(Database):
    """Prometheus' HTTP API, which VictoriaMetrics has, too."""

    def ask(self, asked: Asked, view: View) -> list[Row]:
        """A row for each sample of a range, or of an instant query."""
        target = asked.target
        query = self.expanded(target["expr"], view)
        if target.get("instant"):
            found = self._get("query", query=query, time=view.end_s)["result"]
            pairs = [(series["metric"], [series["value"]]) for series in found]
        else:
            assert target["range"]
            found = self._get(
                "query_range", query=query, start=view.start_s, end=view.end_s, step=view.step_s
            )["result"]
            pairs = [(series["metric"], series["values"]) for series in found]
        return [
            {**labels, "time": at, "value": float(text)}
            for labels, samples in pairs for at, text in samples if text != "NaN"
        ]  # fmt: skip

    def values(self, variable: dict[str, Any], view: View) -> dict[str, str]:
        """`query_result(…)` with a regular expression, or `label_values(…, label)`."""
        query = self.expanded(variable["query"]["query"], view)
        function, _, inside = query.removesuffix(")").partition("(")
        if function == "label_values":
            match, _, label = inside.rpartition(", ")
            answer = self._get(
                f"label/{label}/values", **{"match[]": match}, start=view.start_s, end=view.end_s
            )
            return {value: value for value in answer}
        assert function == "query_result"
        pattern = re.compile(variable["regex"].strip("/").replace("(?<", "(?P<"))
        found = {}
        for series in self._get("query", query=inside, time=view.end_s)["result"]:
            text = "{" + ",".join(f'{name}="{value}"' for name, value in series["metric"].items()) + "} 1 1"
            groups = pattern.search(text)
            assert groups is not None, text
            found[groups["value"]] = groups["text"] or groups["value"]
        return found

    def expanded(self, text: str, view: View) -> str:
        """PromQL: chosen values become a regular expression."""
        text = text.replace("$__rate_interval", f"{4 * view.step_s}s")
        text = text.replace("$__range", f"{round(view.end_s - view.start_s)}s")
        for name in ("node", "port"):
            text = text.replace(f"${name}", pattern_of(view.chosen.get(name)))
        assert "$" not in text, text
        return text

    def _get(self, path: str, **parameters: Any) -> Any:
        answer = self._client.get(f"/api/v1/{path}", params=parameters).json()
        assert answer["status"] == "success", f"{answer}: {parameters}"
        return answer["data"]


class InfluxDB(Database):
    """InfluxQL over HTTP."""

    def ask(self, asked: Asked, view: View) -> list[Row]:
        """A row for each point."""
        assert asked.target["rawQuery"]
        assert asked.target["resultFormat"] == ("table" if asked.plot == "table" else "time_series")
        return self._rows(self.expanded(asked.target["query"], view))

    def values(self, variable: dict[str, Any], view: View) -> dict[str, str]:
        """SHOW TAG VALUES."""
        rows = self._rows(self.expanded(variable["query"], view))
        return {row["value"]: row["value"] for row in rows}

    def expanded(self, text: str, view: View) -> str:
        """InfluxQL: chosen values become a regular expression."""
        between = f"time >= {round(view.start_s * 1000)}ms and time <= {round(view.end_s * 1000)}ms"
        text = text.replace("$timeFilter", between).replace("$__interval", f"{view.step_s}s")
        for name in ("node", "port"):
            text = text.replace(f"${name}", pattern_of(view.chosen.get(name)))
        text = text.replace("$flow", (view.chosen.get("flow") or [""])[0])
        assert "$__" not in text, text
        return text

    def _rows(self, query: str) -> list[Row]:
        parameters = {"q": query, "db": "hopscope", "epoch": "ms"}
        answer = self._client.post("/query", data=parameters).json()
        (result,) = answer["results"]
        assert "error" not in result, f"{result}: {query}"
        return [
            {**series.get("tags", {}), **dict(zip(series["columns"], values, strict=True))}
            for series in result.get("series", []) for values in series["values"]
        ]  # fmt: skip


class ClickHouse(Database):
    """SQL over HTTP."""

    def ask(self, asked: Asked, view: View) -> list[Row]:
        """A row for each row."""
        assert asked.target["format"] == (asked.plot in ("table", "stat"))
        return self._rows(self.expanded(asked.target["rawSql"], view))

    def values(self, variable: dict[str, Any], view: View) -> dict[str, str]:
        """The first column; the last one is the text."""
        rows = [list(row.values()) for row in self._rows(self.expanded(variable["query"], view))]
        return {row[0]: row[-1] for row in rows}

    def expanded(self, text: str, view: View) -> str:
        """SQL: macros of the plugin, chosen values in quotes."""
        for name in ("node", "port"):
            chosen = view.chosen.get(name)
            condition = rf"\$__conditionalAll\(((?:[^()$]|\([^()]*\)|\$\{{{name}:)*?), \${name}\)"
            text = re.sub(condition, "1=1" if chosen is None else r"\1", text)
            quoted = ",".join("'" + value.replace("'", "''") + "'" for value in chosen or [])
            text = text.replace(f"${{{name}:singlequote}}", quoted)
        text = text.replace("$flow", (view.chosen.get("flow") or [""])[0])
        start, end = int(view.start_s), int(view.end_s)
        text = re.sub(
            r"\$__timeFilter\((\w+)\)", rf"(\1 >= toDateTime({start}) AND \1 <= toDateTime({end}))", text
        )
        interval = rf"toStartOfInterval(toDateTime(\1), INTERVAL {view.step_s} second)"
        text = re.sub(r"\$__timeInterval\((\w+)\)", interval, text)
        text = text.replace("$__interval_s", str(view.step_s))
        assert "$" not in text, text
        return text

    def _rows(self, query: str) -> list[Row]:
        answer = self._client.post("/", content=f"{query} FORMAT JSONEachRow".encode())
        assert answer.status_code == 200, f"{answer.text}: {query}"
        return [json.loads(line) for line in answer.text.splitlines()]


def pattern_of(chosen: list[str] | None) -> str:
    """What Grafana writes for a variable in a regular expression; None: `allValue`."""
    if chosen is None:
        return ".*"
    escaped = [re.escape(value).replace(r"\-", "-").replace(r"\ ", " ") for value in chosen]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
