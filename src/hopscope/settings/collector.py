"""All settings of a collector; `settings.configuration.file` loads their values."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ..base.errors import HopscopeError
from ..base.user_folder import user_folder
from ..wire.dialect import DEFAULT
from .cluster import MEMBER, STREAM, ClusterSettings
from .custom_dialect import DialectSettings
from .destinations.common import ExportSettings
from .destinations.kinds import NamedExports, NamedMetrics
from .detect import DetectSettings
from .direct import DirectSettings
from .history import HistorySettings
from .label import LabelSettings
from .lake import LakeSettings
from .limits import LimitSettings, check_sink
from .listen import BY_KIND, ListenSettings
from .names_from import NamedDevices, check_devices
from .postcards import PostcardSettings
from .section import Section
from .serve import ServeSettings
from .sink import DistributionSettings, SinkSettings
from .switches import ControlSettings, NamedSwitches, check_switches


class LogSettings(Section):
    """The log, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of messages that are logged; `debug` also shows messages of libraries."""
    format: Literal["auto", "text", "json"] = "auto"
    """`auto`: text on a terminal, else JSON, an object per line."""


class Settings(Section):
    """The whole configuration."""

    data: Path = Field(default_factory=lambda: user_folder("data"))
    """Data folder for journals, segments and regions; one collector owns it."""
    regions: Path | None = None
    """Folder for shared memory; default: /dev/shm if it exists."""
    names: Path | None = None
    """File (TOML or CSV) with the names of nodes and ports."""
    names_from: NamedDevices = Field(default={})
    """Devices that Hopscope queries for names and counters over SNMP or gNMI, by name, such as
    `[names_from.edge]`. A name in the file `names` takes precedence.
    """
    listen: tuple[ListenSettings, ...] = (ListenSettings(),)
    """Listeners."""
    pause_ms: float = Field(default=10.0, ge=0.5, le=100)
    """Longest time that reports wait in a socket so that a worker takes about 2000 at once, which costs less
    per report; it delays events by as much. While few reports arrive, the pause is 2.5 ms. It is at most 1 ms
    per MiB of the receive buffer, 0.5 ms with less than 4 MiB, and 1 ms with several workers or in a sink
    that forwards. With an XDP program it is not shortened while few reports arrive, but is 0.5 ms while the
    program waits for the worker.
    """
    processors: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Processors for the workers, in their order, and then for the detector, if there are several workers:
    one each, which no other process of Hopscope uses. Empty: the system chooses.
    """
    detect: DetectSettings = DetectSettings()
    """State and events."""
    postcards: PostcardSettings = PostcardSettings()
    """Postcards (INT-MX, INT-XD) of one packet, joined into one path."""
    history: HistorySettings = HistorySettings()
    """Journal and segments."""
    serve: ServeSettings = ServeSettings()
    """HTTP API and console."""
    member: str = Field(default="", max_length=64, pattern=r"^[A-Za-z0-9._-]*$")
    """Name of this collector in a cluster, in the lake and in its exports; empty: the name of the machine. A
    name belongs to one data folder; never use it again for another.
    """
    cluster: ClusterSettings = ClusterSettings()
    """Other collectors: members of one cluster."""
    lake: LakeSettings = LakeSettings()
    """Shared history of all members."""
    export: NamedExports = Field(default={})
    """Destinations of events, by name, such as `[export.lab]`: databases, buses, receivers of alerts, and
    Redis.
    """
    metrics: NamedMetrics = Field(default={})
    """Servers to push metrics to, by name, such as `[metrics.lab]`."""
    log: LogSettings = LogSettings()
    """The log."""
    sink: SinkSettings = SinkSettings()
    """The INT sink (`hopscope sink`)."""
    distributions: DistributionSettings = DistributionSettings()
    """Distributions of the metrics."""
    label: LabelSettings = LabelSettings()
    """INT-label: labels from last hops, and the controller."""
    switches: NamedSwitches = Field(default={})
    """Switches that the controller reaches, by name, such as `[switches.leaf1]`."""
    control: ControlSettings = ControlSettings()
    """What the controller sets on its switches."""
    direct: DirectSettings = DirectSettings()
    """Direct telemetry access (DTA, DART): stores, translator, software NIC."""
    dialects: dict[str, DialectSettings] = Field(default={})
    """Custom dialects by name, such as `[dialects.mine]`."""

    @model_validator(mode="after")
    def _named(self) -> Settings:
        check_devices(self.names_from)
        check_switches(self.switches, self.control.watch)
        return self

    @model_validator(mode="after")
    def _apart(self) -> Settings:
        """No two listeners receive the same: it would be counted twice, or one could not start."""
        seen: dict[tuple[object, ...], int] = {}
        for at, listen in enumerate(self.listen):
            place = (listen.interface or listen.host, listen.port, listen.over_tcp)
            if listen.kind == "mirror" or not listen.port:
                continue
            if place in seen:
                raise ValueError(
                    f"listen: found listeners {seen[place]} and {at} at one address, expected two"
                )
            seen[place] = at
        return self

    @model_validator(mode="after")
    def _member(self) -> Settings:
        if (self.cluster.enabled or self.lake.enabled) and not MEMBER.fullmatch(self.member_name):
            raise ValueError(
                f"member: found {self.member_name!r}, expected at most 64 letters, digits, `_`, `-`, and "
                "dots between them"
            )
        return self

    @model_validator(mode="after")
    def _exchanged(self) -> Settings:
        if self.cluster.exchanges and (self.sink.enabled or not self.postcards.enabled):
            raise ValueError(
                'cluster.postcards: found "exchange" '
                + ("in a sink" if self.sink.enabled else "with postcards.enabled = false")
                + ", expected it in a collector that joins postcards"
            )
        return self

    @model_validator(mode="after")
    def _limited(self) -> Settings:
        limits = self.limits
        if self.sink.enabled:
            check_sink(limits)
            if not self.detect.enabled:
                raise ValueError(
                    "detect.enabled: found false, expected true in a sink: it writes events only"
                )
            other = next((listen.kind for listen in self.listen if listen.kind != "mirror"), "mirror")
            if other != "mirror" and self.listen != (ListenSettings(),):
                raise ValueError(f"listen: found kind {other} in a sink, expected kind mirror")
        return self

    @property
    def limits(self) -> LimitSettings:
        """Limits of all switches, and of single ones."""
        return self.detect.limits

    @property
    def destinations(self) -> dict[str, ExportSettings]:
        """Destinations of events by name: `export`, and the stream of the cluster."""
        stream = self.cluster.stream
        return dict(self.export) if stream is None else {**self.export, STREAM: stream}

    @property
    def member_name(self) -> str:
        """Name of this collector: `member`, or the name of the machine."""
        return self.member or socket.gethostname()

    def node_ids(self, kind: str) -> dict[int, int]:
        """`nodes` of all listeners of a kind, over UDP and TCP, by address as a number."""
        found = (listen.node_ids for listen in self.listen if listen.kind.removesuffix("+tcp") == kind)
        return {address: node for nodes in found for address, node in nodes.items()}

    @property
    def dialect(self) -> str:
        """Name of the listeners' dialect. Raises HopscopeError if they have several."""
        names = sorted({listen.dialect for listen in self.listen if "dialect" in BY_KIND[listen.kind]})
        if len(names) > 1:
            raise HopscopeError(
                f"listen: found dialects {', '.join(names)}, expected one for all reports of a file: choose "
                "it with --dialect"
            )
        return names[0] if names else DEFAULT.name

    @property
    def workers(self) -> int:
        """Worker processes: none without a listener."""
        return max((listen.workers for listen in self.listen), default=0)

    @property
    def stores_folder(self) -> Path:
        """Folder of the stores that switches write to."""
        return self.direct.folder or self.data / "direct"
