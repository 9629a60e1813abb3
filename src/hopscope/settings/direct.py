"""Settings of direct telemetry access: stores, the translator, the software NIC."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from ..wire.address import is_address, network
from .section import Network, Port, Seconds, Section, is_loopback

CLUSTER = "cluster"
"""Instead of addresses: the owners of the cluster."""


class StoreSettings(Section):
    """One store: the memory of one primitive."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,31}$")
    """Name of its file, and in queries."""
    primitive: str
    """`key-write`, `postcarding`, `append`, `key-increment` or `cardinality`."""
    options: dict[str, int | str | bool] = Field(default={})
    """Options of its layout, such as `{bytes = "64MiB", data_bytes = 20, copies = 2}`; default size: 32 MiB.
    """


class PathSumSettings(Section):
    """Finds flows and paths with a high sum of latencies as postcards pass (DTA 7).

    Results are entries of an Append list: key, sum (4 bytes), hops (1), values (4 each); the key takes the
    rest of the entry.
    """

    threshold: int = Field(ge=0)
    """Paths with a higher sum are reported; in the unit of the latencies."""
    hops: int = Field(default=5, ge=1, le=16)
    """Hops of a path if no postcard states its length."""
    latency_bits: int = Field(default=32, ge=1, le=32)
    """Low bits of a postcard's value that hold the latency; the higher bits may hold the node."""
    list: int = Field(default=0, ge=0, le=2**32 - 1)
    """Number of the list to append to."""


class HeavyHitterSettings(Section):
    """Finds keys whose counters grow by much, over all reporters, as Key-Increment reports pass (DTA 4).

    Results are entries of an Append list: the key, which takes the rest of the entry, and the estimated sum
    (8 bytes) when it reached the threshold. It is never too low.
    """

    threshold: int = Field(ge=1, le=2**64 - 1)
    """Keys whose reports add up to this much within a period are reported, once."""
    seconds: Seconds = Field(default=10.0, gt=0)
    """Length of a period, after which sums begin at 0 again."""
    list: int = Field(default=0, ge=0, le=2**32 - 1)
    """Number of the list to append to."""


class RuleSettings(Section):
    """Reports that go to a store; all given conditions must hold. Several rules of a store add up."""

    store: str
    """Name of the store."""
    lists: str = Field(default="", pattern=r"^(\d{1,10}(-\d{1,10})?)?$")
    """Append: numbers of lists in reports, such as `100-107`; the first is the store's list 0."""
    port: Port = 0
    """UDP port on which the reports arrive; the translator listens on it, too. 0: any."""
    source: str = ""
    """Network of the reporters, such as `10.1.0.0/16`; empty: any."""
    key_bytes: int = Field(default=0, ge=0, le=255)
    """Bytes of the key; 0: any."""
    data_bytes: int = Field(default=0, ge=0, le=255)
    """Bytes of the data; 0: those of the store, if there are several of its primitive."""

    @property
    def list_range(self) -> tuple[int, int] | None:
        """First and last list."""
        if not self.lists:
            return None
        first, _, last = self.lists.partition("-")
        return int(first), int(last or first)

    @model_validator(mode="after")
    def _ranges(self) -> RuleSettings:
        if self.source:
            network(self.source)
        if self.list_range and not self.list_range[0] <= self.list_range[1] < 1 << 32:
            raise ValueError(f"found lists {self.lists!r}, expected FIRST-LAST of 32 bits, such as 100-107")
        return self


class TranslatorSettings(Section):
    """`hopscope translate`: Turns DTA reports into memory operations."""

    host: str = "127.0.0.1"
    """Address to receive DTA reports on; anything but loopback opens it to the network."""
    port: int = Field(default=40040, ge=0, le=65535)
    """UDP port; 0 lets the kernel choose one."""
    workers: int = Field(default=1, ge=1, le=64)
    """Threads that receive, each with its own socket; all reports of one address are taken by one of them."""
    form: Literal["2", "3", "sized"] = "sized"
    """Base header of the reports: `sized` is Hopscope's with lengths, `2` and `3` are the published ones of 2
    and 3 bytes (4-byte keys)."""
    allow: tuple[Network, ...] = ()
    """Networks whose reports are accepted, such as `192.0.2.0/24`; empty: all."""
    unnumbered: tuple[Network, ...] = ()
    """Networks whose reports have no meaningful sequence numbers; `0.0.0.0/0` and `::/0` are all networks."""
    rate_limit: int = Field(default=0, ge=0)
    """Most reports per second; 0: no limit. Throttled reports are counted, and answered with a NACK if the
    header has a sequence number."""
    transport: Literal["memory", "rocev2"] = "memory"
    """`memory`: writes to stores of this data folder; `rocev2`: writes to stores of collectors."""
    collectors: tuple[str, ...] = ("127.0.0.1",)
    """With `rocev2`, addresses of the collectors' NICs (UDP port 4791), one for each share of the keys: an
    address that is listed several times has several shares. `["cluster"]`: the owners of the cluster
    (`hopscope cluster owners`), also after they change.
    """
    address: str = "127.0.0.2"
    """Our own address towards the collectors: RoCEv2 has one UDP port for both sides."""
    reliable: bool = True
    """Operations are sent again until a collector acknowledges them; false: as in DTA 5.2, the sequence
    number is set to the one that the collector expects, and reports are dropped meanwhile.
    """
    flush_ms: int = Field(default=100, ge=1, le=60_000)
    """Postcards and batches that are not full are written after this time."""
    adaptive_copies: bool = False
    """Key-Write makes fewer copies than a report requests if the store's load requires it (DART 5.1)."""
    combine_increments: bool = False
    """Key-Increment sums the increments of one counter within `flush_ms`, and writes the sum (DTA 4)."""
    rules: tuple[RuleSettings, ...] = ()
    """Which reports go to which store, if there are several of a primitive. A store without rules takes all
    reports of its primitive with data of its length. Stores that would take the same report are rejected."""
    path_sum: PathSumSettings | None = None
    """Report paths with a high sum of latencies as their postcards pass."""
    heavy_hitters: HeavyHitterSettings | None = None
    """Report keys whose counters grow fast, as their Key-Increment reports pass."""

    @model_validator(mode="after")
    def _one_collector(self) -> TranslatorSettings:
        if self.transport == "rocev2" and not self.collectors:
            raise ValueError("found no collectors, expected the address of at least one")
        if self.transport == "memory" and self.collectors != type(self).model_fields["collectors"].default:
            raise ValueError(
                'found collectors with transport = "memory", which writes to this machine; expected '
                'transport = "rocev2"'
            )
        if CLUSTER in self.collectors and len(self.collectors) > 1:
            raise ValueError(f'found collectors beside "{CLUSTER}", expected it alone, or addresses')
        for text in self.collectors:
            if text != CLUSTER and not is_address(text):
                raise ValueError(f"found collector {text!r}, expected an IPv4 or IPv6 address without a port")
        return self

    @property
    def follows_cluster(self) -> bool:
        """Whether the collectors are the owners of the cluster."""
        return self.transport == "rocev2" and CLUSTER in self.collectors


class NicSettings(Section):
    """`hopscope direct serve`: a software NIC that RoCEv2 requesters write to."""

    hosts: tuple[str, ...] = Field(default=("127.0.0.1",), min_length=1)
    """Addresses on which RoCEv2 is accepted (UDP port 4791), one for each NIC; all write to the same stores.
    Anything but loopback needs `allow`.
    """
    allow: tuple[Network, ...] = ()
    """Networks from which connections are accepted; empty: loopback only."""
    any_ip_id: bool = True
    """Accept packets with any IP identification and DF, which a socket does not show. The ICRC then detects
    damage with only 15 of its 32 bits.
    """
    any_icrc: bool = False
    """Accept packets with any ICRC, since the published translator leaves it out. Then only UDP's checksum
    detects damage.
    """

    @model_validator(mode="after")
    def _safe(self) -> NicSettings:
        if len(set(self.hosts)) < len(self.hosts):
            raise ValueError(f"found hosts {', '.join(self.hosts)}, expected each once")
        open_hosts = [host for host in self.hosts if not is_loopback(host)]
        if open_hosts and not self.allow:
            raise ValueError(
                f"found host {open_hosts[0]!r} without allow, expected the networks that may connect, "
                "or a loopback address"
            )
        return self


def _collector(text: str) -> str:
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
        plain = parts.hostname and not (
            parts.username or parts.password or parts.query or parts.path.strip("/")
        )
        parts.port  # noqa: B018 - raises ValueError for a port that is not a number
    except ValueError:
        plain = False
    if not plain or parts.scheme not in ("http", "https"):
        raise ValueError("found an invalid address, expected http://HOST:PORT, https://… or a folder")
    return text


CollectorPlace = Annotated[str, AfterValidator(_collector)]
"""Whom queries ask: the address of a collector's API, or a data folder."""


class QuerySettings(Section):
    """Whom queries ask: `hopscope direct query`, `direct list`, and the API."""

    collectors: tuple[CollectorPlace, ...] = ()
    """Collectors in the order in which keys are spread over them: the address of a collector's API, such as
    `http://192.0.2.7:8080`, or a data folder. Each key is queried at its collector; a collector that is
    listed several times has several shares. Empty: the owners of the cluster, if it has a table of owners,
    else only the stores of this data folder.
    """
    token: str | None = None
    """Bearer token of these APIs; `env:NAME` or `file:PATH` says where to find it."""
    ca_file: Path | None = None
    """CA certificates (PEM) to verify these APIs with; default: those of the system."""
    timeout_seconds: Seconds = Field(default=5.0, gt=0)
    """Longest wait for another collector."""


class DirectSettings(Section):
    """Direct telemetry access (DTA, DART)."""

    folder: Path | None = None
    """Folder of the stores; default: `direct` in the data folder. A folder in /dev/shm is memory only."""
    stores: tuple[StoreSettings, ...] = ()
    """Stores of the data folder; if none are set: one of each primitive."""
    huge_pages: bool = False
    """Stores must lie in huge pages (2 MiB), all resident from the start: `folder` has to be in a tmpfs that
    is mounted with `huge=always`, or in hugetlbfs. The start fails otherwise."""
    epoch_seconds: Seconds = 0.0
    """After this time a store is put aside and an empty one takes its place; 0: never."""
    keep_epochs: int = Field(default=24, ge=1)
    """Past epochs of each store that are kept."""
    translator: TranslatorSettings = TranslatorSettings()
    """Turns DTA reports into memory operations."""
    nic: NicSettings = NicSettings()
    """A software NIC that RoCEv2 requesters write to."""
    query: QuerySettings = QuerySettings()
    """Where queries are sent."""
