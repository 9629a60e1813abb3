"""Settings as pydantic models; `config_file` says where their values come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import AfterValidator, Field, model_validator

from .direct import DirectSettings
from .export import AlertSettings, RedisSettings
from .label import LabelSettings
from .section import (
    Dscp,
    Limit,
    Number8,
    Number16,
    Port,
    PowerOfTwo,
    Seconds,
    Section,
    hexadecimal,
    is_loopback,
)
from .sink import DistributionSettings, SinkSettings


class ListenSettings(Section):
    """One listener: where reports arrive and how they are read (`udp://127.0.0.1:32766?workers=2`, or
    `mirror://eth1`).
    """

    kind: Literal["udp", "mirror"] = "udp"
    """`udp`: reports are sent to a port of this machine; `mirror`: all frames of an interface are read, as
    from a switch's mirror port (Linux, CAP_NET_RAW)."""
    interface: str = ""
    """Mirror: name of the interface."""
    promiscuous: bool = True
    """Mirror: take frames to other machines too."""
    output: str = ""
    """Sink: interface on which the frames go on, without their INT; empty: they end here."""
    keep_offloads: bool = False
    """Mirror: leave the offloads on that merge frames (GRO, LRO) or leave them uncut; without, they are
    switched off while the interface is read."""
    host: str = "127.0.0.1"
    """Address to listen on; anything but loopback opens the collector to the network."""
    port: int = Field(default=32766, ge=0, le=65535)
    """UDP port; 0 lets the kernel choose one."""
    workers: int = Field(default=1, ge=1, le=64)
    """Processes that share this port or interface; a source's reports, a flow's packets always reach the
    same one."""
    dialect: str = "spec"
    """How the reports are read; `hopscope config dialects` lists the names."""
    receive_buffer_bytes: int = Field(default=32 * 1024 * 1024, ge=4096)
    """UDP: socket buffer asked for; the kernel may grant less, and the start says so."""
    ring_bytes: int = Field(default=32 * 1024 * 1024, ge=1024 * 1024, le=2**34)
    """Mirror: ring into which the kernel puts frames, of each worker; a small frame takes 200 bytes."""
    filter: str = ""
    """Mirror: only frames that this program takes, as `tcpdump -ddd` prints it, with commas for new lines;
    empty: all."""
    gro: bool = True
    """Take trains of datagrams merged by the kernel (UDP_GRO)."""
    allow: tuple[str, ...] = ()
    """Networks whose datagrams are taken, as in `192.0.2.0/24`; empty: all."""
    rate_limit: int = Field(default=0, ge=0)
    """Datagrams a second and source that are taken; 0: no limit. What is held back is counted."""
    rate_burst: int = Field(default=0, ge=0)
    """Datagrams that a source may send at once above its rate; 0: a tenth of a second's worth."""

    @model_validator(mode="after")
    def _mirror(self) -> ListenSettings:
        if self.kind == "udp":
            if self.interface or self.filter:
                found = f"interface {self.interface!r}" if self.interface else "filter"
                raise ValueError(f"found {found} with kind udp, expected kind mirror")
            return self
        if not 1 <= len(self.interface) <= 15 or set(self.interface) & set("/: \t\n"):
            raise ValueError(f"found interface {self.interface!r}, expected a name as eth1")
        if self.output == self.interface:
            raise ValueError(f"found output {self.output!r}, the interface itself, expected another one")
        if self.allow or self.rate_limit:
            raise ValueError("found allow or rate_limit with kind mirror, which has none of them")
        return self


class ClockSettings(Section):
    """What the times of a source mean; what is not given is as in the dialect that it is based on."""

    unit_ns: int | None = Field(default=None, ge=1, le=10**9)
    """Nanoseconds that one unit of a timestamp and of a latency stands for."""
    bits: int | None = Field(default=None, ge=0, le=64)
    """Bits after which timestamps wrap; 0: the width of their field."""
    epoch: Literal["none", "unix"] | None = None
    """What timestamps count from: the node's start, or 1970."""
    latency: Literal["reported", "timestamps"] | None = None
    """Whether hop latency is a field, or egress minus ingress time."""
    comparable: bool | None = None
    """Whether the clocks of different nodes are synchronous."""
    ioam: Literal["ptp", "ntp", "posix"] | None = None
    """Format of IOAM timestamps."""


class DomainField(Section):
    """One bit of a domain-specific bitmap."""

    bit: int = Field(ge=0, le=15)
    """Bit of the bitmap, 0 the most significant."""
    name: str = Field(min_length=1, max_length=64)
    """Name under which `decode` prints the value."""
    bytes: int = Field(ge=1, le=124)
    """Bytes that it takes in a hop."""


class DomainSettings(Section):
    """Domain-specific metadata of INT 2.x whose sizes are known."""

    id: Number16
    """Domain id, as it is in the INT header."""
    fields: tuple[DomainField, ...] = ()
    """What the bits of DS Instruction stand for."""
    source_only: tuple[DomainField, ...] = ()
    """The same for DS Flags: what the source alone adds, at the bottom of the stack."""


class DialectSettings(Section):
    """A dialect of your own; what is not given is as in `base`."""

    base: str = "spec"
    """Dialect that it is based on: one that Hopscope has, or another of your own."""
    about: str = ""
    """One line for `hopscope config dialects`."""
    report_version: Literal["auto", "0.5", "1.0", "2.0"] | None = None
    """Layout of the report header; auto decides by the first byte."""
    ports: tuple[Port, ...] | None = None
    """UDP ports that reports are sent to (captures only: a listener has its own)."""
    any_report_length: bool | None = None
    """Lengths in the report headers of 1.0 and 2.0 are not believed."""
    packets: bool | None = None
    """Packets that are no reports are searched for INT."""
    assume_int: bool | None = None
    """Every TCP and UDP packet in a report carries INT, though nothing says so."""
    int_dscp: tuple[Dscp, ...] | None = None
    """DSCP values of packets that carry INT behind TCP or UDP."""
    int_dscp_bit: Dscp | None = None
    """… or a bit (1, 2, 4, 8, 16 or 32) that is set in the DSCP of all of them; 0: none."""
    int_ports: tuple[Port, ...] | None = None
    """UDP destination ports of packets that carry INT."""
    tcp_ports: bool | None = None
    """These are TCP ports too."""
    fixed_tcp: bool | None = None
    """INT follows the first 20 bytes of a TCP header, in front of its options."""
    marker: Annotated[str, AfterValidator(hexadecimal)] | None = None
    """Probe marker between the TCP or UDP header and INT: 1 to 8 bytes, hexadecimal."""
    inserted_udp_ports: tuple[Port, ...] | None = None
    """UDP ports behind which INT and then the packet's own TCP header follow."""
    gre_protocol: Number16 | None = None
    """GRE protocol type of INT; 0: none."""
    vxlan_ports: tuple[Port, ...] | None = None
    """UDP ports of VXLAN."""
    gpe_ports: tuple[Port, ...] | None = None
    """UDP ports of VXLAN-GPE."""
    gpe_protocols: tuple[Number8, ...] | None = None
    """Next protocols of VXLAN-GPE that are INT."""
    geneve_ports: tuple[Port, ...] | None = None
    """UDP ports of Geneve."""
    geneve_classes: tuple[Number16, ...] | None = Field(default=None, max_length=4)
    """Geneve option classes of INT."""
    gtpu_ports: tuple[Port, ...] | None = None
    """UDP ports of GTP-U."""
    any_shim_length: bool | None = None
    """A shim's Length of 0 means that the header's hop counts tell the size of the stack."""
    length_with_shim: bool | None = None
    """Length of a 2.x shim counts the shim itself."""
    swapped: bool | None = None
    """The two bytes of the instruction bitmap are swapped."""
    reversed: bool | None = None
    """Bit 0 of the instruction bitmap is the least significant one."""
    mx_record: bool | None = None
    """The node's metadata follow the INT-MX header."""
    domains: tuple[DomainSettings, ...] | None = None
    """Domain-specific metadata whose sizes are known."""
    clock: ClockSettings = ClockSettings()
    """What times mean."""

    @model_validator(mode="after")
    def _one_bit(self) -> DialectSettings:
        bit = self.int_dscp_bit or 0
        if bit & (bit - 1):
            raise ValueError(f"found int_dscp_bit = {bit}, expected a power of two, 1 to 32, or 0")
        return self


class MetricLimits(Section):
    """Limits of one metric; times in ns, occupancies and utilisation in the unit that the source sends."""

    change: Limit = None
    """T: a value is stored when it differs by more than this from the stored one; `never`: not at all."""
    raise_above: Limit = None
    """Above it there is an event; `never`: not at all."""
    clear_below: Limit = None
    """With it, an alarm is raised once above `raise_above`, cleared below this; else every report counts."""

    @model_validator(mode="after")
    def _ordered(self) -> MetricLimits:
        if self.clear_below is not None and (self.raise_above is None or self.clear_below > self.raise_above):
            raise ValueError(
                f"found clear_below = {self.clear_below} with raise_above = {self.raise_above}, "
                "expected clear_below to be at most raise_above"
            )
        return self


class ThresholdSettings(Section):
    """Limits by metric."""

    flow_latency: MetricLimits = MetricLimits(change=50_000)
    """Sum of the hop latencies of a flow."""
    hop_latency: MetricLimits = MetricLimits(change=20_000)
    """Latency of one hop of a flow."""
    queue_occupancy: MetricLimits = MetricLimits(change=500)
    """Occupancy of a queue."""
    queue_congestion: MetricLimits = MetricLimits(change=500)
    """Congestion status of a queue (INT 0.5)."""
    link_utilization: MetricLimits = MetricLimits(change=100)
    """Utilisation of an egress port's link."""
    buffer_occupancy: MetricLimits = MetricLimits(change=500)
    """Occupancy of a buffer (INT 2.x)."""


class DetectSettings(Section):
    """State and events."""

    enabled: bool = True
    """Off: every value of every report becomes an event."""
    flow_rows: PowerOfTwo = Field(default=8192, ge=1, le=2**30)
    """Rows of the flow table, a power of two; each holds 12 flows."""
    hop_pool: int = Field(default=1024, ge=0, le=2**30)
    """Flows with more than 8 hops whose state can be kept."""
    ports: PowerOfTwo = Field(default=65_536, ge=16, le=2**30)
    """Queues, buffers and egress ports that can be kept, a power of two."""
    sources: PowerOfTwo = Field(default=4096, ge=16, le=2**30)
    """Sequence spaces (source, node, hw id) that can be kept, a power of two."""
    push_seconds: Seconds = 10.0
    """Period in which live values are stored again; 0: never."""
    idle_seconds: Seconds = Field(default=60.0, gt=0)
    """A flow, queue or port without reports for so long is expired."""
    silent_seconds: Seconds = 5.0
    """A source without reports for so long is silent; 0: never."""
    queue_key: Literal["switch-queue", "switch-port-queue"] = "switch-queue"
    """Whether queue ids are unique in a switch, or in a port of a switch."""
    thresholds: ThresholdSettings = ThresholdSettings()
    """Limits by metric."""


class PostcardSettings(Section):
    """Postcards (INT-MX, INT-XD) of one packet, joined into one path."""

    enabled: bool = True
    """Off: every postcard is taken by itself, and flows have no path."""
    window_ms: float = Field(default=20.0, ge=0, le=10_000)
    """Longest time from a packet's first postcard to its last, by the time of the reports."""
    packets: PowerOfTwo = Field(default=16_384, ge=16, le=2**24)
    """Packets whose postcards can wait at a time, a power of two; four postcards each on average."""
    links: Path | None = None
    """File (TOML or CSV) of the network's links: orders the hops of a path, and tells a whole one at once."""


class HistorySettings(Section):
    """Journal and segments."""

    journal_file_bytes: int = Field(default=64 * 1024 * 1024, ge=4096)
    """A journal file is closed at this size and becomes a segment."""
    journal_file_seconds: Seconds = Field(default=30.0, gt=0)
    """… or at this age."""
    fsync_seconds: Seconds = 1.0
    """How often the journal is forced to disk; 0: never (a killed process loses nothing either way)."""
    keep_days: float = Field(default=7.0, gt=0, le=10_000)
    """Segments older than this are deleted."""
    keep_bytes: int = Field(default=10 * 1024**3, ge=1024**2)
    """Segments are deleted, oldest first, above this size."""
    ring_events: PowerOfTwo = Field(default=65_536, ge=1024, le=2**30)
    """Events of one worker that live readers find in memory, a power of two."""


class ServeSettings(Section):
    """HTTP API and live page."""

    enabled: bool = True
    """Whether the API and the page are served."""
    host: str = "127.0.0.1"
    """Address to serve on; anything but loopback needs a token."""
    port: int = Field(default=8080, ge=0, le=65535)
    """TCP port; 0 lets the kernel choose one."""
    token: str | None = Field(default=None, min_length=16)
    """Bearer token that requests must carry."""
    sql_seconds: Seconds = Field(default=10.0, gt=0)
    """Longest time of one SQL query."""
    sql_memory_bytes: int = Field(default=512 * 1024**2, ge=64 * 1024**2)
    """Most memory of one SQL query."""
    sql_rows: int = Field(default=10_000, ge=1)
    """Most rows that one SQL query returns."""

    @model_validator(mode="after")
    def _safe(self) -> ServeSettings:
        if self.enabled and self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"found host {self.host!r} without a token, expected serve.token (16 characters or more) "
                "or a loopback address"
            )
        return self


class Settings(Section):
    """The whole configuration."""

    data: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("hopscope")))
    """Data folder: journals, segments, regions. One collector owns it."""
    regions: Path | None = None
    """Folder of the shared memory; none: /dev/shm where there is one."""
    names: Path | None = None
    """File (TOML or CSV) with the names of nodes and ports."""
    listen: tuple[ListenSettings, ...] = (ListenSettings(),)
    """Listeners."""
    detect: DetectSettings = DetectSettings()
    """State and events."""
    postcards: PostcardSettings = PostcardSettings()
    """Postcards (INT-MX, INT-XD) of one packet, joined into one path."""
    history: HistorySettings = HistorySettings()
    """Journal and segments."""
    serve: ServeSettings = ServeSettings()
    """HTTP API and live page."""
    alerts: tuple[AlertSettings, ...] = ()
    """Webhooks."""
    redis: tuple[RedisSettings, ...] = ()
    """Redis servers that are kept up to date."""
    sink: SinkSettings = SinkSettings()
    """The INT sink (`hopscope sink`)."""
    distributions: DistributionSettings = DistributionSettings()
    """Distributions of the metrics."""
    label: LabelSettings = LabelSettings()
    """INT-label: labels that last hops send, and the controller."""
    direct: DirectSettings = DirectSettings()
    """Direct telemetry access (DTA, DART): stores, translator, software NIC."""
    dialects: dict[str, DialectSettings] = Field(default={})
    """Dialects of your own, by name: `[dialects.mine]`."""

    @property
    def workers(self) -> int:
        """Worker processes: none without a listener."""
        return max((listen.workers for listen in self.listen), default=0)

    @property
    def counts_distributions(self) -> bool:
        """Whether workers count distributions."""
        chosen = self.distributions.enabled
        return self.sink.enabled if chosen is None else chosen

    @property
    def stores_folder(self) -> Path:
        """Folder of the stores that switches write to."""
        return self.direct.folder or self.data / "direct"
