"""Options that choose how reports and packets are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NoReturn

from ...base.errors import HopscopeError
from .declare import Options, argument, option
from .settings import SettingsOptions

if TYPE_CHECKING:
    from ...settings.collector import Settings
    from ...settings.dialects import Changes
    from ...wire.dialect import Dialect

CaptureArgument = Annotated[str, argument("FILE", "pcap or pcapng, may be gzipped; - is standard input.")]


@dataclass(frozen=True)
class DialectOptions(Options):
    """A dialect, and how its packets mark INT."""

    title: ClassVar = "Dialect"

    dialect: str | None = option(
        "--dialect DIALECT",
        "Dialect of the reports: see `hopscope config dialects`; auto: choose by the first reports; "
        "default: that of the listeners in the settings.",
    )
    int_dscp: list[str] | None = option(
        "--int-dscp DSCP",
        "DSCP of packets with INT over TCP or UDP, such as 0x17; default: the dialect's. Repeatable.",
    )
    int_port: list[str] | None = option(
        "--int-port PORT", "UDP destination port of packets with INT; default: the dialect's. Repeatable."
    )
    marker: str | None = option(
        "--marker HEX", "Probe marker before INT, 1 to 8 bytes, such as aaaaaaaabbbbbbbb."
    )

    def changes(self) -> Changes:
        """The fields of a dialect that the options change. Raises HopscopeError that names the option."""
        from ...settings.dialects import Changes

        return Changes(
            None,
            False,
            _numbers("--int-dscp", self.int_dscp, 63),
            _numbers("--int-port", self.int_port, 65535),
            _marker(self.marker),
        )

    def dialects(self, settings: Settings | SettingsOptions) -> tuple[Dialect, ...]:
        """The named dialect, otherwise that of the listeners; all of them for `auto`. Options are loaded only
        if they may matter.

        Raises HopscopeError that names the option.
        """
        from ...wire.dialect import DEFAULT, DIALECTS

        changes = self.changes()
        if isinstance(settings, SettingsOptions):
            if settings == SettingsOptions() and (self.dialect is None or self.dialect in DIALECTS):
                return (changes.of(DEFAULT if self.dialect is None else DIALECTS[self.dialect]),)
            settings = settings.load()
        from ...settings.dialects import named, with_listeners

        name = settings.dialect if self.dialect is None else self.dialect
        try:
            possible = named(name, settings.dialects, auto=True)
        except HopscopeError as error:
            raise HopscopeError(f"--dialect {name}: {error}") from error
        return tuple(changes.of(with_listeners(dialect, settings.listen)) for dialect in possible)


@dataclass(frozen=True)
class ReadingOptions(DialectOptions):
    """A dialect, and which packets are read."""

    port: list[int] | None = option(
        "--port -p PORT", "UDP port of the reports. Repeatable; default: all known ports.", min=0, max=65535
    )
    sflow_port: list[int] | None = option(
        "--sflow-port PORT", "UDP port of sFlow; 0: none. Repeatable; default: 6343.", min=0, max=65535
    )
    ipfix_port: list[int] | None = option(
        "--ipfix-port PORT",
        "UDP port of IPFIX and NetFlow 9; 0: none. Repeatable; default: 4739, 2055, 9995, 9996.",
        min=0,
        max=65535,
    )
    packets: bool = option("--packets", "Also decode packets that carry INT, IOAM or IFA themselves.", False)

    def changes(self) -> Changes:
        """Also ports, and which packets are read. Raises HopscopeError that names the option."""
        from dataclasses import replace

        return replace(
            super().changes(),
            ports=_ports(self.port),
            packets=self.packets,
            sflow_ports=_ports(self.sflow_port),
            ipfix_ports=_ports(self.ipfix_port),
        )


def _ports(given: list[int] | None) -> tuple[int, ...] | None:
    return tuple(given) if given else None


def _numbers(flag: str, texts: list[str] | None, largest: int) -> tuple[int, ...] | None:
    if not texts:
        return None
    found = []
    for text in texts:
        try:
            number = int(text, 0)
        except ValueError:
            number = -1
        if not 0 <= number <= largest:
            _reject(flag, text, f"a number from 0 to {largest}, such as {largest // 3} or {largest // 3:#x}")
        found.append(number)
    return tuple(found)


def _marker(text: str | None) -> bytes | None:
    if text is None:
        return None
    from ...settings.section import hexadecimal

    try:
        return bytes.fromhex(hexadecimal(text))
    except ValueError as error:
        raise HopscopeError(f"--marker {text}: {str(error).partition(', ')[2]}") from None


def _reject(flag: str, found: str, expected: str) -> NoReturn:
    raise HopscopeError(f"{flag} {found}: expected {expected}")
