"""Settings as pydantic models; `settings.configuration.file` loads their values."""

from __future__ import annotations

import ipaddress
import re
import socket
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import AfterValidator, Field, model_validator

from ..wire.address import number_of
from .access import OidcSettings, Role
from .cluster import STREAM, ClusterSettings
from .destinations.common import ExportSettings
from .destinations.kinds import NamedExports
from .destinations.metrics.kinds import NamedMetrics
from .direct import DirectSettings
from .label import LabelSettings
from .lake import LakeSettings
from .limits import MAX_SWITCHES, LimitSettings, SwitchLimits, ThresholdSettings, check_sink
from .names_from import NamedDevices, check_devices
from .section import (
    Dscp,
    FreeSpace,
    NodeIds,
    Number8,
    Number16,
    Port,
    PowerOfTwo,
    Seconds,
    Section,
    Token,
    hexadecimal,
    is_loopback,
)
from .sink import DistributionSettings, SinkSettings
from .switches import ControlSettings, NamedSwitches, check_switches
from .top_flows import TopFlowSettings

MEMBER = re.compile(r"(?=.{1,64}$)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
"""Name of a member of a cluster: a key of NATS' buckets."""
PORTS = {"sflow": 6343, "ipfix": 4739}
"""Ports of the kinds of listeners that are not for Telemetry Reports."""


class ListenSettings(Section):
    """One listener: where reports arrive and how they are read (`udp://127.0.0.1:32766?workers=2`,
    `ring://eth1?port=32766`, `xdp://eth1?port=32766`, `mirror://eth1`, `sflow://0.0.0.0:6343`,
    `ipfix://0.0.0.0:4739`).
    """

    kind: Literal["udp", "ring", "xdp", "mirror", "sflow", "ipfix"] = "udp"
    """`udp`: reports are sent to a port of this machine; `ring`: the same, read at an interface, past the
    kernel's UDP (Linux, CAP_NET_RAW); `xdp`: the same, by an XDP program (Linux, root or CAP_BPF with
    CAP_NET_ADMIN and CAP_PERFMON); `mirror`: all frames of an interface are read, as from a switch's
    mirror port (Linux, CAP_NET_RAW); `sflow`: agents send sFlow 5; `ipfix`: exporters send IPFIX or
    NetFlow 9."""
    interface: str = ""
    """Ring, XDP and mirror: name of the interface."""
    promiscuous: bool = True
    """Ring, XDP and mirror: also receive frames that are addressed to other machines; by default only a
    mirror does."""
    output: str = ""
    """Sink: interface that the frames are forwarded to, without their INT; empty: they are not forwarded."""
    keep_offloads: bool = False
    """Mirror: leave on the offloads that merge or segment frames (GRO, LRO, TSO); by default they are
    switched off while the interface is read."""
    host: str = "127.0.0.1"
    """Address to listen on; anything but loopback opens the collector to the network."""
    port: int = Field(default=32766, ge=0, le=65535)
    """UDP port; 0 lets the kernel choose one, except for a ring. sFlow has 6343 by default, IPFIX 4739."""
    workers: int = Field(default=1, ge=1, le=64)
    """Processes that share this port or interface. Reports of one source, and packets of one flow, always
    reach the same process. The reports of several workers meet in one more process, the detector."""
    dialect: str = "spec"
    """Dialect of the reports; `hopscope config dialects` lists the names. `auto`: the first reports choose;
    UDP beyond loopback then needs `allow`, or strangers would choose."""
    receive_buffer_bytes: int = Field(default=32 * 1024 * 1024, ge=4096)
    """UDP: requested socket buffer; a warning at startup says if the kernel grants less."""
    ring_bytes: int = Field(default=32 * 1024 * 1024, ge=1024 * 1024, le=2**34)
    """Ring, XDP (a power of two) and mirror: size of each worker's ring for frames from the kernel. A small
    frame takes 200 bytes; at low rates each takes a block, of 128 KiB in 16 ms, or of 16 KiB in 1 ms if
    frames are forwarded."""
    filter: str = ""
    """Mirror: the frames to receive, as `udp port 4791` (compiled by libpcap), or as `tcpdump -ddd` prints a
    program, with commas instead of line breaks; empty: all frames."""
    gro: bool = True
    """Receive datagrams that the kernel has merged (UDP_GRO)."""
    allow: tuple[str, ...] = ()
    """Networks whose datagrams are accepted, such as `192.0.2.0/24`; empty: all."""
    rate_limit: int = Field(default=0, ge=0)
    """Most reports per second from one source; 0: no limit. A datagram counts as the reports that it groups
    (Report 2.0). Throttled datagrams are counted."""
    rate_burst: int = Field(default=0, ge=0)
    """Reports that a source may send in a burst above its rate; 0: as many as in 0.1 s at that rate."""
    rate_ipv6_prefix: int = Field(default=64, ge=1, le=128)
    """IPv6: addresses with the same first bits are one source for `rate_limit`."""
    nodes: NodeIds = Field(default={})
    """sFlow and IPFIX: node ids of agents and exporters by address, as `{"192.0.2.7" = 7}`, so that a switch
    that sends INT, too, is one node. Others have the last 32 bits of their address."""

    @model_validator(mode="before")
    @staticmethod
    def _usual_values(given: object) -> object:
        if isinstance(given, dict) and given.get("kind") in PORTS:
            return {"port": PORTS[given["kind"]], **given}
        if isinstance(given, dict) and given.get("kind") in ("ring", "xdp"):
            return {"promiscuous": False, **given}
        return given

    @property
    def node_ids(self) -> dict[int, int]:
        """`nodes` by address as a number, IPv4 as ::ffff:a.b.c.d."""
        return {number_of(text): node for text, node in self.nodes.items()}

    @model_validator(mode="after")
    def _mirror(self) -> ListenSettings:
        if self.nodes and self.kind not in PORTS:
            raise ValueError(f"found nodes with kind {self.kind}, expected kind sflow or ipfix")
        if self.kind != "mirror" and self.filter:
            raise ValueError(f"found filter with kind {self.kind}, expected kind mirror")
        if self.kind not in ("mirror", "ring", "xdp"):
            if self.interface:
                raise ValueError(
                    f"found interface {self.interface!r} with kind {self.kind}, expected kind ring, xdp or "
                    "mirror"
                )
            if self.kind in PORTS and self.dialect != "spec":
                raise ValueError(f"found a dialect with kind {self.kind}, expected kind udp, ring or mirror")
            if self.dialect == "auto" and not self.allow and not is_loopback(self.host):
                raise ValueError(
                    f"found dialect auto on {self.host} without allow, so that strangers would choose the "
                    "dialect: name the dialect, or allow the networks of your switches"
                )
            return self
        if not 1 <= len(self.interface) <= 15 or set(self.interface) & set("/: \t\n"):
            raise ValueError(f"found interface {self.interface!r}, expected a name as eth1")
        if self.kind in ("ring", "xdp"):
            return self._reports_of_interface()
        if self.output == self.interface:
            raise ValueError(f"found output {self.output!r}, the interface itself, expected another one")
        if self.allow or self.rate_limit:
            raise ValueError("found allow or rate_limit with kind mirror, expected kind udp or ring")
        return self

    def _reports_of_interface(self) -> ListenSettings:
        if not self.port:
            raise ValueError(f"found port 0 with kind {self.kind}, expected a port from 1 to 65535")
        if self.output:
            raise ValueError(f"found output {self.output!r} with kind {self.kind}, expected kind mirror")
        if self.kind == "xdp" and (self.allow or self.rate_limit or self.workers > 1):
            raise ValueError("found allow, rate_limit or workers with kind xdp, expected kind udp or ring")
        if self.dialect == "auto" and not self.allow:
            raise ValueError(
                "found dialect auto without allow, so that strangers would choose the dialect: name the "
                "dialect, or allow the networks of your switches"
            )
        return self


class ClockSettings(Section):
    """Meaning of the times that a source sends; unset values are those of the base dialect."""

    unit_ns: int | None = Field(default=None, ge=1, le=10**9)
    """Nanoseconds per unit of timestamps and latencies."""
    bits: int | None = Field(default=None, ge=0, le=64)
    """Bits after which timestamps wrap; 0: the width of their field."""
    epoch: Literal["none", "unix"] | None = None
    """Epoch of timestamps: the node's start (`none`), or 1970."""
    latency: Literal["reported", "timestamps"] | None = None
    """Whether the hop latency is reported, or is egress minus ingress timestamp."""
    comparable: bool | None = None
    """Whether the clocks of different nodes are synchronised."""
    ioam: Literal["ptp", "ntp", "posix"] | None = None
    """Format of IOAM timestamps."""


class DomainField(Section):
    """One bit of a domain-specific bitmap."""

    bit: int = Field(ge=0, le=15)
    """Bit of the bitmap, 0 the most significant."""
    name: str = Field(min_length=1, max_length=64)
    """Name under which `decode` prints the value."""
    bytes: int = Field(ge=1, le=124)
    """Bytes per hop."""


class DomainSettings(Section):
    """Domain-specific metadata of INT 2.x, with known sizes."""

    id: Number16
    """Domain id, as it is in the INT header."""
    fields: tuple[DomainField, ...] = ()
    """Meaning of the bits of DS Instruction."""
    source_only: tuple[DomainField, ...] = ()
    """Meaning of the bits of DS Flags: metadata that only the source adds, at the bottom of the stack."""


class DialectSettings(Section):
    """A custom dialect; unset values are those of `base`."""

    base: str = "spec"
    """Base: a built-in dialect, or another custom one."""
    about: str = ""
    """Description that `hopscope config dialects` prints."""
    report_version: Literal["auto", "0.5", "1.0", "2.0"] | None = None
    """Layout of the report header; auto decides by the first byte."""
    ports: tuple[Port, ...] | None = None
    """UDP ports that reports are sent to (captures only: a listener has its own)."""
    any_report_length: bool | None = None
    """Ignore the lengths in report headers of 1.0 and 2.0."""
    packets: bool | None = None
    """Look for INT in packets that are not reports."""
    assume_int: bool | None = None
    """Every TCP and UDP packet in a report carries INT, even without a marking."""
    int_dscp: tuple[Dscp, ...] | None = None
    """DSCP values of packets that carry INT after TCP or UDP."""
    int_dscp_bit: Dscp | None = None
    """… or a bit (1, 2, 4, 8, 16 or 32) that is set in the DSCP of all of them; 0: none."""
    int_ports: tuple[Port, ...] | None = None
    """UDP destination ports of packets that carry INT."""
    tcp_ports: bool | None = None
    """`int_ports` are TCP ports, too."""
    fixed_tcp: bool | None = None
    """INT follows the first 20 bytes of a TCP header, before its options."""
    marker: Annotated[str, AfterValidator(hexadecimal)] | None = None
    """Probe marker between the TCP or UDP header and INT: 1 to 8 bytes, hexadecimal."""
    inserted_udp_ports: tuple[Port, ...] | None = None
    """UDP destination ports of inserted headers, which INT and then the packet's own TCP header follow."""
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
    """If a shim's Length is 0, the header's hop counts give the size of the stack."""
    length_with_shim: bool | None = None
    """The Length of a 2.x shim includes the shim itself."""
    swapped: bool | None = None
    """The two bytes of the instruction bitmap are swapped."""
    reversed: bool | None = None
    """Bit 0 of the instruction bitmap is the least significant one."""
    mx_record: bool | None = None
    """The node's metadata follows the INT-MX header."""
    domains: tuple[DomainSettings, ...] | None = None
    """Domain-specific metadata with known sizes."""
    clock: ClockSettings = ClockSettings()
    """Meaning of times."""

    @model_validator(mode="after")
    def _one_bit(self) -> DialectSettings:
        bit = self.int_dscp_bit or 0
        if bit & (bit - 1):
            raise ValueError(f"found int_dscp_bit = {bit}, expected a power of two, 1 to 32, or 0")
        return self


class DetectSettings(Section):
    """State and events."""

    enabled: bool = True
    """If off, every value of every report becomes an event."""
    flow_rows: PowerOfTwo = Field(default=8192, ge=1, le=2**30)
    """Rows of the flow table, of 12 flows each; a power of two."""
    hop_pool: int = Field(default=1024, ge=0, le=2**30)
    """Flows with more than 8 hops that can be tracked."""
    ports: PowerOfTwo = Field(default=65_536, ge=16, le=2**30)
    """Queues, buffers and egress ports that can be tracked, a power of two."""
    sources: PowerOfTwo = Field(default=4096, ge=16, le=2**30)
    """Sequence spaces (source, node, hw id) that can be tracked, a power of two."""
    push_seconds: Seconds = 10.0
    """How often live values are stored even if they did not change; 0: never."""
    idle_seconds: Seconds = Field(default=60.0, gt=0)
    """A flow, queue or port expires after this time without reports."""
    silent_seconds: Seconds = 5.0
    """A source is silent after this time without reports; 0: never."""
    queue_reports: int = Field(default=65_536, ge=1024, le=2**30)
    """Reports of one of several workers that can wait for the detector, with four hops each on average."""
    queue_key: Literal["switch-port-queue", "switch-queue"] = "switch-port-queue"
    """What a queue is: (switch, egress port, queue id), or (switch, queue id) as in Table I of the
    INTCollector paper."""
    thresholds: ThresholdSettings = ThresholdSettings()
    """Limits by metric, of a collector and of a sink."""
    switches: tuple[SwitchLimits, ...] = Field(default=(), max_length=MAX_SWITCHES)
    """Switches with limits of their own; those of all are `detect.thresholds`."""

    @property
    def limits(self) -> LimitSettings:
        """Limits of all switches, and of single ones."""
        return LimitSettings(general=self.thresholds, switches=self.switches)


class PostcardSettings(Section):
    """Postcards (INT-MX, INT-XD) of one packet, joined into one path."""

    enabled: bool = True
    """If off, postcards are not joined, and flows have no path."""
    window_ms: float = Field(default=20.0, ge=0, le=10_000)
    """Longest time from a packet's first postcard to its last, by the timestamps of the reports."""
    packets: PowerOfTwo = Field(default=16_384, ge=16, le=2**24)
    """Packets whose postcards can wait at once, a power of two; four postcards each on average."""
    links: Path | None = None
    """File (TOML or CSV) of the network's links. It orders the hops of a path, and complete paths are emitted
    immediately."""


class HistorySettings(Section):
    """Journal and segments."""

    journal_file_bytes: int = Field(default=64 * 1024 * 1024, ge=4096)
    """Size at which a journal file is closed and becomes a segment."""
    journal_file_seconds: Seconds = Field(default=30.0, gt=0)
    """… or at this age."""
    fsync_seconds: Seconds = 1.0
    """How often the journal, and reports that are kept of events, are synced to disk; 0: never. A killed
    process loses nothing in either case."""
    keep_days: float = Field(default=7.0, gt=0, le=10_000)
    """Segments older than this are deleted."""
    keep_bytes: int = Field(default=10 * 1024**3, ge=1024**2)
    """Above this total size, the oldest segments are deleted. Journals, 30 s of events at most unless the
    archive stands still, come on top."""
    keep_free: FreeSpace = "1%"
    """Free space of the disk, in bytes or as a percentage: below it, the oldest segments are deleted; at half
    of it, the journal stops, and events wait in memory."""
    ring_events: PowerOfTwo = Field(default=65_536, ge=1024, le=2**30)
    """Events of one worker that stay in memory, for live readers, and for the journal while the disk is full;
    a power of two."""
    evidence_bytes: int = Field(default=16 * 1024**2, ge=0, le=2**34)
    """Memory for the reports that caused notable events, the newest ones; 0: none are kept. Each of several
    workers holds the datagrams of the last `detect.queue_reports` reports beside, at 256 bytes each."""
    evidence_per_second: int = Field(default=100, ge=1, le=100_000)
    """Most reports that are kept in a second of their receive times; further ones are counted."""


_HEADER = r"^[A-Za-z0-9-]*$"


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"found {text!r}, expected an address or a network, as 192.0.2.0/24") from None
    return text


Network = Annotated[str, AfterValidator(_network)]


class ServeSettings(Section):
    """HTTP API and console."""

    enabled: bool = True
    """Whether to serve the API and the console."""
    host: str = "127.0.0.1"
    """Address to serve on; anything but loopback needs a login: a token, users, a proxy that names them, or
    OpenID Connect."""
    port: int = Field(default=8080, ge=0, le=65535)
    """TCP port; 0 lets the kernel choose one."""
    token: Token | None = None
    """Bearer token that requests must carry, 16 characters or more; `env:NAME` or `file:PATH` names where it
    is."""
    public_url: str = Field(default="", pattern=r"^(https?://[^/?#@\s]+)?$")
    """Address that browsers use, if it is another than that of `host`, as `https://hopscope.example`; it
    needs a login, too.
    """
    viewer_token: Token | None = None
    """Bearer token of programs that only read, such as Prometheus; as `token`."""
    cert_file: Path | None = None
    """TLS: certificate (PEM). A renewed file is in use within seconds."""
    key_file: Path | None = None
    """TLS: key of the certificate (PEM), if it is in another file."""
    session_idle_seconds: Seconds = Field(default=43_200, ge=60)
    """A browser's login ends after this long without use."""
    session_seconds: Seconds = Field(default=604_800, ge=60)
    """A browser's login ends this long after it began."""
    proxy_addresses: tuple[Network, ...] = ()
    """Networks of trusted proxies in front, such as `127.0.0.1`: the client's address is what they say in
    `X-Forwarded-For`."""
    proxy_user_header: str = Field(default="", pattern=_HEADER)
    """Header in which a trusted proxy names the user whom it has authenticated, as `X-Forwarded-User`."""
    proxy_role: Role = "viewer"
    """Role of users that a proxy names, without `proxy_role_header`."""
    proxy_role_header: str = Field(default="", pattern=_HEADER)
    """Header in which a trusted proxy lists the user's groups, as `X-Forwarded-Groups`."""
    proxy_operators: tuple[str, ...] = ()
    """Groups of `proxy_role_header` that make an operator; all others make a viewer."""
    oidc: OidcSettings = OidcSettings()
    """Login by OpenID Connect."""
    sql_seconds: Seconds = Field(default=10.0, gt=0)
    """Time limit of one SQL query."""
    sql_memory_bytes: int = Field(default=512 * 1024**2, ge=64 * 1024**2)
    """Memory limit of one SQL query."""
    sql_rows: int = Field(default=10_000, ge=1)
    """Most rows that an SQL query returns."""
    top_flows: TopFlowSettings = TopFlowSettings()
    """Flows in `/metrics`, and in metrics that are pushed."""

    @model_validator(mode="after")
    def _safe(self) -> ServeSettings:
        if self.key_file and self.cert_file is None:
            raise ValueError("found key_file without cert_file, expected both")
        if self.proxy_user_header and not self.proxy_addresses:
            raise ValueError(
                "found proxy_user_header without proxy_addresses: anyone could claim to be anyone"
            )
        return self


class LogSettings(Section):
    """The log, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level of messages; `debug` also shows what libraries report."""
    format: Literal["auto", "text", "json"] = "auto"
    """`auto`: text on a terminal, else JSON, an object per line."""


class Settings(Section):
    """The whole configuration."""

    data: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("hopscope")))
    """Data folder for journals, segments and regions; one collector owns it."""
    regions: Path | None = None
    """Folder for shared memory; default: /dev/shm if it exists."""
    names: Path | None = None
    """File (TOML or CSV) with the names of nodes and ports."""
    names_from: NamedDevices = Field(default={})
    """Devices that are asked for names and counters by SNMP or gNMI, by name, as `[names_from.edge]`. A
    name in the file `names` comes first."""
    listen: tuple[ListenSettings, ...] = (ListenSettings(),)
    """Listeners."""
    pause_ms: float = Field(default=10.0, ge=0.5, le=100)
    """Longest time that reports wait in a socket so that a worker takes about 2000 at once, which costs less
    for each; events come at most that much later. While few arrive, the pause is 2.5 ms. It is at most 1 ms
    for each MiB of the receive buffer, and 0.5 ms with less than 4 MiB; 1 ms with several workers and in a
    sink that forwards. With an XDP program it is not shortened while few arrive, but is 0.5 ms while the
    program waits for the worker."""
    processors: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Processors of the workers, in their order, and then of the detector, if there are several: one each,
    which nothing else of Hopscope uses. Empty: the system chooses."""
    detect: DetectSettings = DetectSettings()
    """State and events."""
    postcards: PostcardSettings = PostcardSettings()
    """Postcards (INT-MX, INT-XD) of one packet, joined into one path."""
    history: HistorySettings = HistorySettings()
    """Journal and segments."""
    serve: ServeSettings = ServeSettings()
    """HTTP API and console."""
    member: str = Field(default="", max_length=64, pattern=r"^[A-Za-z0-9._-]*$")
    """Name of this collector in a cluster, in the lake and in what it exports; empty: the name of the
    machine. It is never used again for another data folder."""
    cluster: ClusterSettings = ClusterSettings()
    """Other collectors: members of one cluster."""
    lake: LakeSettings = LakeSettings()
    """Shared history of all members."""
    export: NamedExports = Field(default={})
    """Databases, buses and receivers of alerts that events go to, and Redis, by name, as `[export.lab]`."""
    metrics: NamedMetrics = Field(default={})
    """Servers to push metrics to, by name, as `[metrics.lab]`."""
    log: LogSettings = LogSettings()
    """The log."""
    sink: SinkSettings = SinkSettings()
    """The INT sink (`hopscope sink`)."""
    distributions: DistributionSettings = DistributionSettings()
    """Distributions of the metrics."""
    label: LabelSettings = LabelSettings()
    """INT-label: labels from last hops, and the controller."""
    switches: NamedSwitches = Field(default={})
    """Switches that the controller reaches, by name, as `[switches.leaf1]`."""
    control: ControlSettings = ControlSettings()
    """What the controller asks of its switches."""
    direct: DirectSettings = DirectSettings()
    """Direct telemetry access (DTA, DART): stores, translator, software NIC."""
    dialects: dict[str, DialectSettings] = Field(default={})
    """Custom dialects by name, as `[dialects.mine]`."""

    @model_validator(mode="after")
    def _named(self) -> Settings:
        check_devices(self.names_from)
        check_switches(self.switches, self.control.watch)
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
            if any(listen.kind in PORTS for listen in self.listen):
                raise ValueError("listen: found sFlow or IPFIX in a sink, expected them in a collector")
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

    @property
    def workers(self) -> int:
        """Worker processes: none without a listener."""
        return max((listen.workers for listen in self.listen), default=0)

    @property
    def stores_folder(self) -> Path:
        """Folder of the stores that switches write to."""
        return self.direct.folder or self.data / "direct"
