"""Settings of destinations of metrics, to which they are pushed."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny

from ..section import Seconds, Section
from .shown import shown


class MetricsSettings(Section):
    """One destination of metrics; every kind has more settings."""

    kind: str
    """What it is: `remote_write`."""
    every_seconds: Seconds = Field(default=15.0, ge=1, le=3600)
    """How often metrics are taken and sent."""
    queue_rounds: int = Field(default=240, ge=1, le=10_000)
    """How many rounds wait in memory while the destination is away; older ones are counted as lost."""
    timeout_seconds: Seconds = Field(default=10.0, gt=0)
    """Timeout of one request."""

    @property
    def place(self) -> str:
        """Where it is, as it may be shown: without passwords."""
        return shown(getattr(self, "url", "")) or self.kind


class RemoteWriteSettings(MetricsSettings):
    """Prometheus, VictoriaMetrics, Mimir, Thanos and others, by Prometheus remote write 1.0 or 2.0."""

    url: str = Field(default="http://127.0.0.1:9090/api/v1/write", pattern=r"^https?://[^\s?#]+$")
    """Where samples are posted."""
    version: int = Field(default=1, ge=1, le=2)
    """Version of the protocol; servers that know 2 save names and help texts that repeat."""
    labels: dict[Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")], str] = Field(default={})
    """Labels of all series; `job` is `hopscope` and `instance` the name of the collector unless set here."""
    user: str = ""
    """User, with `password`."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` names where it is."""
    token: str = ""
    """Bearer token; `env:NAME` or `file:PATH` names where it is."""


METRICS_KINDS: dict[str, type[MetricsSettings]] = {"remote_write": RemoteWriteSettings}
"""Settings of the kinds."""


def _of_kind(values: Any) -> Any:
    """The settings of the kind that they name. Raises ValueError for an unknown one."""
    if not isinstance(values, dict) or "kind" not in values:
        return values
    kind = str(values["kind"])
    if kind not in METRICS_KINDS:
        raise ValueError(f"found kind {kind!r}, expected one of {', '.join(METRICS_KINDS)}")
    return METRICS_KINDS[kind].model_validate(values)


NamedMetrics = dict[
    Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")],
    Annotated[SerializeAsAny[MetricsSettings], BeforeValidator(_of_kind)],
]
"""Destinations of metrics by name."""
