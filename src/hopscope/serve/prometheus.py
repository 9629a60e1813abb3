"""`/metrics`: the families of metrics as Prometheus reads them, collected when it asks."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from ..base.names import Names
from ..export.metrics.families import Families
from ..present.collector_state import CollectorState
from ..settings.top_flows import TopFlowSettings

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(
    state: CollectorState, names: Names, folder: Path, stores: Path, top: TopFlowSettings | None = None
) -> bytes:
    """The whole exposition, text format 0.0.4; the parameters are those of `Families`."""
    registry = CollectorRegistry()
    registry.register(Families(state, names, folder, stores, top))
    return generate_latest(registry)
