"""Options that several commands share, and settings from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from ..settings.collector import Settings
    from ..settings.dialects import Changes
    from ..settings.file import Loaded
    from ..wire.dialect import Dialect

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="TOML file with settings.", show_default=False),
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", "-d", metavar="FOLDER", help="Data folder.", show_default=False),
]
HttpPortOption = Annotated[
    int | None,
    typer.Option(
        "--http-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Port of API and page; 0: any free one.",
        show_default=False,
    ),
]
NamesOption = Annotated[
    Path | None,
    typer.Option(
        "--names", metavar="FILE", help="Names of nodes and ports, TOML or CSV.", show_default=False
    ),
]
CaptureArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="pcap or pcapng, may be gzipped; - is standard input.")
]
PortOption = Annotated[
    list[int] | None,
    typer.Option(
        "--port",
        "-p",
        metavar="PORT",
        min=0,
        max=65535,
        help="UDP port of the reports. Repeatable; default: all known ports.",
        show_default=False,
    ),
]
AutoDialectOption = Annotated[
    str,
    typer.Option(
        "--dialect",
        metavar="NAME",
        help="Dialect of the reports: see `hopscope config dialects`; auto: choose by the first reports.",
    ),
]
PacketsOption = Annotated[
    bool, typer.Option("--packets", help="Also decode packets that carry INT or IOAM themselves.")
]
IntDscpOption = Annotated[
    list[str] | None,
    typer.Option(
        "--int-dscp",
        metavar="DSCP",
        help="DSCP of packets with INT over TCP or UDP, as 0x17; default: the dialect's. Repeatable.",
        show_default=False,
    ),
]
IntPortOption = Annotated[
    list[str] | None,
    typer.Option(
        "--int-port",
        metavar="PORT",
        help="UDP destination port of packets with INT; default: the dialect's. Repeatable.",
        show_default=False,
    ),
]
MarkerOption = Annotated[
    str | None,
    typer.Option(
        "--marker",
        metavar="HEX",
        help="Probe marker before INT, 1 to 8 bytes, as aaaaaaaabbbbbbbb.",
        show_default=False,
    ),
]
EXPECTED_KEYS = 65_536
MonitorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--monitor",
        metavar="NAME[:KEYS]",
        help="A store for this monitor (see `direct monitors`) and this many keys or events, 65,536 by "
        "default. Repeatable.",
        show_default=False,
    ),
]
StoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--store",
        metavar="STORE",
        help="A store, as paths=key-write,bytes=64MiB,data_bytes=20. Repeatable; default: one of each "
        "primitive, 32 MiB.",
        show_default=False,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any setting, as detect.flow_rows=1024. Repeatable.",
        show_default=False,
    ),
]


def stores(texts: list[str] | None, monitors: list[str] | None) -> list[dict[str, Any]] | None:
    """Stores of the flags as the settings have them; None: neither was given. Raises HopscopeError."""
    from ..direct.stores.spec import options_of, split_store

    if not texts and not monitors:
        return None
    described = [split_store(text) for text in texts or ()]
    if monitors:
        from ..direct.monitors.registry import make_monitors

        for text in monitors:
            name, _, expected = text.partition(":")
            (monitor,) = make_monitors([name]).values()
            layout = monitor.layout(_expected(text, expected))
            described.append((name, layout.name, options_of(layout)))
    return [{"name": name, "primitive": kind, "options": options} for name, kind, options in described]


def _expected(text: str, count: str) -> int:
    from ..base.errors import HopscopeError

    if not count:
        return EXPECTED_KEYS
    if not count.isdecimal() or not 1 <= int(count) <= 1 << 28:
        raise HopscopeError(f"--monitor {text}: found {count!r}, expected a number of keys")
    return int(count)


def load(
    config: Path | None, overrides: list[str] | None, flags: list[tuple[str, str, Any]] | None = None
) -> Loaded:
    """Settings from flags over environment over file over defaults."""
    from ..settings.file import load as load_settings
    from ..settings.file import parse_set

    return load_settings(config, [*map(parse_set, overrides or ()), *(flags or ())])


def changes(
    ports: list[int] | None,
    packets: bool,
    int_dscp: list[str] | None,
    int_port: list[str] | None,
    marker: str | None,
) -> Changes:
    """What the flags change in a dialect. HopscopeError names the flag."""
    from ..settings.dialects import Changes

    return Changes(
        tuple(ports) if ports else None,
        packets,
        _numbers("--int-dscp", int_dscp, 63),
        _numbers("--int-port", int_port, 65535),
        _marker(marker),
    )


def candidates(name: str, config: Path | None) -> tuple[Dialect, ...]:
    """The dialect of that name, or all of them for `auto`; the configuration is read where it may matter."""
    from ..wire.dialect import DIALECTS

    if config is None and name in DIALECTS:
        return (DIALECTS[name],)
    return find_dialects(name, load(config, None).settings)


def find_dialects(name: str, settings: Settings) -> tuple[Dialect, ...]:
    """The same with settings that are known. HopscopeError names the flag."""
    from ..base.errors import HopscopeError
    from ..settings.dialects import named

    try:
        return named(name, settings.dialects, auto=True)
    except HopscopeError as error:
        raise HopscopeError(f"--dialect {name}: {error}") from error


def _numbers(flag: str, texts: list[str] | None, most: int) -> tuple[int, ...] | None:
    if not texts:
        return None
    found = []
    for text in texts:
        try:
            number = int(text, 0)
        except ValueError:
            number = -1
        if not 0 <= number <= most:
            _wrong(flag, text, f"a number from 0 to {most}, as {most // 3} or {most // 3:#x}")
        found.append(number)
    return tuple(found)


def _marker(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        marker = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        marker = b""
    if not 1 <= len(marker) <= 8:
        _wrong("--marker", text, "1 to 8 bytes in hexadecimal, as aaaaaaaabbbbbbbb")
    return marker


def _wrong(flag: str, found: str, expected: str) -> NoReturn:
    from ..base.errors import HopscopeError

    raise HopscopeError(f"{flag} {found}: expected {expected}")
