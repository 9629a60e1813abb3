"""The folder from which Grafana reads data sources and dashboards when it starts.

FOLDER/datasources/hopscope-SOURCE.yaml    the database
FOLDER/dashboards/hopscope-SOURCE.yaml     where the dashboards are
FOLDER/dashboards/hopscope-SOURCE/*.json   the dashboards
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..base.output import write_output
from .fabric import FABRIC
from .flows import FLOWS
from .health import HEALTH
from .panel import Source
from .queues import QUEUES

DASHBOARDS = (FABRIC, FLOWS, QUEUES, HEALTH)
URLS = {
    Source.PROMETHEUS: "http://127.0.0.1:9090",
    Source.INFLUXDB: "http://127.0.0.1:8086",
    Source.CLICKHOUSE: "http://127.0.0.1:8123",
}
PASSWORD = "HOPSCOPE_DATABASE_PASSWORD"
"""Variable of Grafana's environment that holds the password, for a database that requires a user."""


@dataclass(frozen=True)
class Database:
    """The database in which Grafana finds the exported data."""

    source: Source
    url: str
    name: str = "hopscope"
    """Name of the database in InfluxDB or ClickHouse."""
    user: str | None = None
    every_seconds: int = 15
    """Interval at which metrics are scraped or pushed."""


def write(folder: Path, database: Database, page: str) -> Iterator[Path]:
    """Write all files, and yield them; `page` is the address of Hopscope's page."""
    from .grafana import dashboard_json

    name = f"hopscope-{database.source}"
    files = {
        folder / "datasources" / f"{name}.yaml": _yaml(data_source(database)),
        folder / "dashboards" / f"{name}.yaml": _yaml(
            _provider(name, (folder / "dashboards" / name).absolute())
        ),
    }
    for dashboard in DASHBOARDS:
        text = dashboard_json(dashboard, database.source, page.rstrip("/"))
        files[folder / "dashboards" / name / f"{dashboard.name}.json"] = text
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, text)
        yield path


def data_source(database: Database) -> dict[str, Any]:
    """Grafana's description of the database."""
    from .grafana import PLUGINS

    source = database.source
    parts = urlsplit(database.url)
    found: dict[str, Any] = {
        "name": f"Hopscope ({source})",
        "uid": f"hopscope-{source}",
        "type": PLUGINS[source],
        "access": "proxy",
        "url": database.url,
    }
    if source is Source.PROMETHEUS:
        details: dict[str, Any] = {"timeInterval": f"{database.every_seconds}s", "httpMethod": "POST"}
    elif source is Source.INFLUXDB:
        details = {"dbName": database.name, "timeInterval": f"{database.every_seconds}s", "httpMode": "POST"}
    else:
        details = {
            "host": parts.hostname,
            "port": parts.port or (8443 if parts.scheme == "https" else 8123),
            "protocol": "http",
            "secure": parts.scheme == "https",
            "defaultDatabase": database.name,
        }
    if database.user is not None:
        if source is Source.CLICKHOUSE:
            details["username"] = database.user
        elif source is Source.INFLUXDB:
            found["user"] = database.user
        else:
            found |= {"basicAuth": True, "basicAuthUser": database.user}
        secret = "basicAuthPassword" if source is Source.PROMETHEUS else "password"
        found["secureJsonData"] = {secret: f"${PASSWORD}"}
    found["jsonData"] = details
    return {"apiVersion": 1, "datasources": [found]}


def _provider(name: str, folder: Path) -> dict[str, Any]:
    return {
        "apiVersion": 1,
        "providers": [
            {
                "name": name,
                "folder": "Hopscope",
                "type": "file",
                "allowUiUpdates": True,
                "options": {"path": str(folder)},
            }
        ],
    }


def _yaml(tree: dict[str, Any]) -> str:
    """YAML, written as JSON, which is valid YAML."""
    return json.dumps(tree, indent=2) + "\n"
