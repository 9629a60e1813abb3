"""`hopscope dashboards`: Grafana's dashboards of what was exported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..dashboards.panel import Source
from .options.declare import option


def dashboards(
    kind: Annotated[
        Source,
        option("--kind", metavar="KIND", help="prometheus (VictoriaMetrics, too), influxdb or clickhouse."),
    ],
    to: Annotated[
        Path,
        option("--to", metavar="FOLDER", help="Grafana's folder /etc/grafana/provisioning, or another one."),
    ],
    url: Annotated[
        str | None,
        option("--url", metavar="URL", help="Database, as Grafana reaches it; default: on this machine."),
    ] = None,
    database: Annotated[
        str, option("--database", metavar="NAME", help="Database of InfluxDB or ClickHouse.")
    ] = "hopscope",
    user: Annotated[
        str | None,
        option(
            "--user",
            metavar="NAME",
            help="Its user; Grafana reads HOPSCOPE_DATABASE_PASSWORD from its environment.",
        ),
    ] = None,
    every: Annotated[
        int,
        option("--every", metavar="S", min=1, help="Seconds between two rounds of metrics."),
    ] = 15,
    page: Annotated[
        str, option("--page", metavar="URL", help="Hopscope's page, as a browser reaches it.")
    ] = "http://127.0.0.1:8080",
) -> None:  # fmt: skip
    """Write Grafana's dashboards and its data source.

    Grafana reads both when it starts, and dashboards again when they change. Existing files
    are replaced.
    """
    from ..dashboards.provisioning import URLS, Database, write

    for path in write(to, Database(kind, url or URLS[kind], database, user, every), page):
        print(path)
