"""`/metrics`: families of metrics for Prometheus, collected on each scrape."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from ..base.names import Names
from ..cluster.counters import CLUSTER_COUNTERS
from ..export.metrics.families import Families
from ..lake.counters import LAKE_COUNTERS
from ..operators.counters import ACCESS_COUNTERS
from ..present.collector_state import CollectorState
from ..settings.serve import TopFlowSettings

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MORE_FILES = (CLUSTER_COUNTERS, LAKE_COUNTERS, ACCESS_COUNTERS)
"""Counters of processes that `export` does not include."""
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def accepts_openmetrics(accept: str) -> bool:
    """Whether a client accepts OpenMetrics, by its Accept header."""
    return any(
        part.partition(";")[0].strip().lower() == "application/openmetrics-text" for part in accept.split(",")
    )


def render(state: CollectorState, names: Names, folder: Path, stores: Path, top: TopFlowSettings) -> bytes:
    """The whole exposition, text format 0.0.4; the parameters are those of `Families`."""
    return generate_latest(Families(state, names, folder, stores, top, MORE_FILES))


def render_openmetrics(
    state: CollectorState, names: Names, folder: Path, stores: Path, top: TopFlowSettings
) -> bytes:
    """The same as OpenMetrics 1.0, which has exemplars."""
    families = Families(state, names, folder, stores, top, MORE_FILES)
    text: bytes = openmetrics.generate_latest(families)  # type: ignore[no-untyped-call]
    return text
