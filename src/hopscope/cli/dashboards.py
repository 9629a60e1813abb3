"""`hopscope dashboards`: Grafana's dashboards of what was exported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..base.errors import HopscopeError
from ..dashboards.panel import Source
from .options.declare import option


def dashboards(
    kind: Annotated[
        Source,
        option("--kind", metavar="KIND", help="prometheus (or VictoriaMetrics), influxdb or clickhouse."),
    ],
    to: Annotated[
        Path,
        option("--to", metavar="FOLDER", help="Where to write; Grafana reads /etc/grafana/provisioning."),
    ],
    url: Annotated[
        str | None,
        option("--url", metavar="URL", help="Address of the database for Grafana; default: this machine."),
    ] = None,
    database: Annotated[
        str | None, option("--database", metavar="NAME", help="Database of InfluxDB or ClickHouse.")
    ] = None,
    user: Annotated[
        str | None,
        option(
            "--user",
            metavar="NAME",
            help="User of the database; its password is HOPSCOPE_DATABASE_PASSWORD in Grafana's environment.",
        ),
    ] = None,
    every: Annotated[
        int,
        option("--every", metavar="S", min=1, help="Seconds between two scrapes or pushes of metrics."),
    ] = 15,
    page: Annotated[
        str, option("--page", metavar="URL", help="Address of Hopscope's page for browsers.")
    ] = "http://127.0.0.1:8080",
) -> None:  # fmt: skip
    """Write dashboards for Grafana, and its data source.

    Grafana reads both when it starts, and dashboards also when they change. Existing files
    are replaced.
    """
    from ..dashboards.provisioning import URLS, Database, write

    if database is not None and kind is Source.PROMETHEUS:
        raise HopscopeError("--database: found with --kind prometheus, expected influxdb or clickhouse")
    for path in write(to, Database(kind, url or URLS[kind], database or "hopscope", user, every), page):
        print(path)
