"""`hopscope dashboards`: Grafana's dashboards of what was exported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..base.errors import HopscopeError
from ..dashboards.panel import Source
from .options.declare import option


def dashboards(
    kind: Annotated[
        Source, option("--kind KIND", "prometheus (or VictoriaMetrics), influxdb or clickhouse.")
    ],
    to: Annotated[Path, option("--to FOLDER", "Where to write; Grafana reads /etc/grafana/provisioning.")],
    url: str | None = option("--url URL", "Address of the database for Grafana; default: this machine."),
    database: str | None = option("--database NAME", "Database of InfluxDB or ClickHouse."),
    user: str | None = option(
        "--user NAME",
        "User of the database; its password is HOPSCOPE_DATABASE_PASSWORD in Grafana's environment.",
    ),
    every: int = option("--every S", "Seconds between two scrapes or pushes of metrics.", 15, min=1),
    page: str = option("--page URL", "Address of Hopscope's page for browsers.", "http://127.0.0.1:8080"),
) -> None:
    """Write dashboards for Grafana, and its data source.

    Grafana reads both when it starts, and dashboards also when they change. Existing files
    are replaced.
    """
    from ..dashboards.provisioning import URLS, Database, write

    if database is not None and kind is Source.PROMETHEUS:
        raise HopscopeError("--database: found with --kind prometheus, expected influxdb or clickhouse")
    for path in write(to, Database(kind, url or URLS[kind], database or "hopscope", user, every), page):
        print(path)
