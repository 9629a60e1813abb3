"""A custom dialect: what a source does otherwise than the specification."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from .section import Dscp, Number8, Number16, Port, Section, hexadecimal

PROTOCOLS = {4: "IP in IP", 6: "TCP", 17: "UDP", 41: "IPv6", 47: "GRE", 137: "MPLS in IP"}
"""IP protocols that the decoder reads itself."""


def _free(protocol: int) -> int:
    if protocol in PROTOCOLS:
        raise ValueError(f"found {protocol}, which is {PROTOCOLS[protocol]}, expected another IP protocol")
    return protocol


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
    sflow_ports: tuple[Port, ...] | None = None
    """UDP ports that sFlow is sent to (captures only)."""
    ipfix_ports: tuple[Port, ...] | None = None
    """UDP ports that IPFIX and NetFlow 9 are sent to (captures only)."""
    any_report_length: bool | None = None
    """Ignore the lengths in report headers of 1.0 and 2.0."""
    packets: bool | None = None
    """Look for INT, IOAM and IFA in packets that are not reports."""
    assume_int: bool | None = None
    """Every TCP and UDP packet in a report carries INT, even without a marking."""
    int_dscp: tuple[Dscp, ...] | None = None
    """DSCP values of packets that carry INT after TCP or UDP."""
    int_dscp_bit: Dscp | None = None
    """A bit (1, 2, 4, 8, 16 or 32) of the DSCP that also marks packets that carry INT; 0: none."""
    int_ports: tuple[Port, ...] | None = None
    """UDP destination ports of packets that carry INT."""
    tcp_ports: bool | None = None
    """`int_ports` are also TCP ports."""
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
    ifa_protocol: Annotated[Number8, AfterValidator(_free)] | None = None
    """IP protocol of IFA; 0: none."""
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
