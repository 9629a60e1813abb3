"""Options that set settings."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ...base.errors import HopscopeError
from .declare import Flag, Key, Options, option

if TYPE_CHECKING:
    from ...direct.monitors.monitor import Monitor
    from ...direct.stores.store import Layout
    from ...settings.collector import Settings
    from ...settings.configuration.file import Loaded

NamesOption = Annotated[
    Path | None, option("--names FILE", "Names of nodes and ports, TOML or CSV.", sets="names")
]
EXPECTED_KEYS = 65_536
"""Default number of keys of a monitor's store."""


@dataclass(frozen=True)
class SettingsOptions(Options):
    """A file with settings, and single settings."""

    title: ClassVar = "Settings"

    config: Path | None = option("--config -c FILE", "TOML file with settings.")
    overrides: list[str] | None = option(
        "--set KEY=VALUE", "Any setting, such as detect.flow_rows=1024. Repeatable."
    )

    @property
    def given(self) -> bool:
        """Whether a settings file, a flag, or an environment variable sets anything; loads nothing."""
        from ...settings.configuration.places import LOCAL_FILE, default_file, file_exists, variables

        set_ = "HOPSCOPE_CONFIG" in os.environ or any(variables(os.environ))
        return set_ or self != SettingsOptions() or file_exists(LOCAL_FILE) or file_exists(default_file())

    def load(self, *groups: Options, flags: list[Flag] | None = None) -> Settings:
        """Settings from these options, other groups and `flags`. Raises ConfigError."""
        return self.loaded(*groups, flags=flags).settings

    def loaded(self, *groups: Options, flags: list[Flag] | None = None) -> Loaded:
        """Like `load`, with the origin of every value."""
        from ...base.process.title import hide_arguments
        from ...settings.configuration.file import load, parse_set
        from ...settings.section import is_secret

        every: list[Options] = [self, *groups]
        given = [flag for group in every for flag in group.flags()]
        single = list(map(parse_set, self.overrides or ()))
        texts = [(key, value) for _, key, value in [*single, *given] if isinstance(value, str)]
        hide_arguments(value for key, value in texts if is_secret(key) or "@" in value or "{" in value)
        return load(self.config, [*single, *given, *(flags or ())])


@dataclass(frozen=True)
class NamedOptions(SettingsOptions):
    """Settings, and the names of nodes and ports."""

    names: NamesOption = None


@dataclass(frozen=True)
class FolderOptions(SettingsOptions):
    """Settings, and the data folder."""

    # each command says itself what to do about a folder that it may not read
    data: Path | None = option("--data -d FOLDER", "Data folder.", sets="data", readable=False)


@dataclass(frozen=True)
class NamedFolderOptions(FolderOptions):
    """Settings, the data folder, and the names of nodes and ports."""

    names: NamesOption = None


@dataclass(frozen=True)
class CollectorOptions(NamedFolderOptions):
    """The collector to ask: the one that runs on this machine, unless a data folder is given.

    Names of nodes and ports are those that the collector uses, unless others are given.
    """

    def loaded(self, *groups: Options, flags: list[Flag] | None = None) -> Loaded:
        """Like `load`, with the data folder of the running collector and the origin of every value. Raises
        HopscopeError if several collectors run.
        """
        from ...memory.data_folder import read_owner

        loaded = super().loaded(*groups, flags=flags)
        found: list[Flag] = []
        folder = loaded.settings.data
        if "data" not in loaded.origins and (running := _running(folder)) != folder:
            folder = running
            found.append(("running collector", "data", folder))
            print(f"hopscope: asking the collector of {folder}", file=sys.stderr)
        names = read_owner(folder).get("names")
        if "names" not in loaded.origins and names and Path(names).exists():
            found.append(("running collector", "names", Path(names)))
        return super().loaded(*groups, flags=[*(flags or ()), *found]) if found else loaded


def _running(default: Path) -> Path:
    """Data folder of the running collector; `default` if a collector runs there, or none runs. Raises
    HopscopeError if there are several others.
    """
    from ...memory.running import running_folders

    running = running_folders()
    if not running or default.absolute() in running:
        return default
    if len(running) > 1:
        raise HopscopeError(
            f"{len(running)} collectors run here: choose one with --data: {', '.join(map(str, running))}"
        )
    return running[0]


@dataclass(frozen=True)
class StoresOptions(FolderOptions):
    """The stores to ask: unless a folder or collectors are given, those that a translator or software NIC
    writes on this machine, otherwise those of the collector that runs here.
    """

    def loaded(self, *groups: Options, flags: list[Flag] | None = None) -> Loaded:
        """Like `load`, with the folder of the stores and the origin of every value. Raises HopscopeError if
        stores are written in several folders.
        """
        loaded = super().loaded(*groups, flags=flags)
        settings = loaded.settings
        if (
            settings.direct.query.collectors
            or settings.cluster.enabled
            or not {"data", "direct.folder"}.isdisjoint(loaded.origins)
        ):
            return loaded
        folder = _running_stores(loaded.settings.stores_folder)
        if folder == loaded.settings.stores_folder:
            return loaded
        print(f"hopscope: asking the stores in {folder}", file=sys.stderr)
        found: Flag = ("running translator", "direct.folder", folder)
        return super().loaded(*groups, flags=[*(flags or ()), found])


def _running_stores(default: Path) -> Path:
    """Folder of the stores that are written on this machine, otherwise of the running collector's stores;
    `default` if it is one of these folders, or there are none. Raises HopscopeError if there are several.
    """
    from ...direct.stores.folder import store_names
    from ...memory.data_folder import STORES
    from ...memory.running import running_folders, running_stores

    for folders in (running_stores(), [folder / STORES for folder in running_folders()]):
        found = [folder for folder in folders if store_names(folder)]
        if len(found) > 1 and default.absolute() not in found:
            raise HopscopeError(
                f"stores are written in {len(found)} folders: choose one with --set direct.folder=FOLDER: "
                f"{', '.join(map(str, found))}"
            )
        if found:
            return default if default.absolute() in found else found[0]
    return default


@dataclass(frozen=True)
class ServingOptions(Options):
    """Address and port of the API and the console."""

    title: ClassVar = "API and console"

    http_host: str | None = option("--http-host HOST", "Address to listen on.", sets="serve.host")
    http_port: int | None = option(
        "--http-port PORT", "Port; 0: any free port.", min=0, max=65535, sets="serve.port"
    )
    no_serve: bool = option(
        "--no-serve",
        "Do not serve the API and the console.",
        False,
        sets=Key("serve.enabled", lambda *_: False),
    )


@dataclass(frozen=True)
class LogOptions(Options):
    """The log, on stderr."""

    title: ClassVar = "Log"

    log_level: str | None = option(
        "--log-level LEVEL",
        "Lowest level of messages: debug, info, warning or error.",
        show_default="info",
        sets="log.level",
    )
    log_format: str | None = option(
        "--log-format LOG-FORMAT",
        "text, json, or auto: text on a terminal.",
        show_default="auto",
        sets="log.format",
    )

    @staticmethod
    def configure(settings: Settings) -> None:
        """Configure this process's log from its settings."""
        from ...base import log

        log.configure(level=settings.log.level, form=settings.log.format)


@dataclass(frozen=True)
class StoreOptions(Options):
    """Stores that DTA reports are written to."""

    title: ClassVar = "Stores"

    store: list[str] | None = option(
        "--store STORE",
        "A store, such as paths=key-write,bytes=64MiB,data_bytes=20. Repeatable; default: one of each "
        "primitive, 32 MiB.",
    )
    monitor: list[str] | None = option(
        "--monitor MONITOR[:KEYS]",
        "A store for this monitor (see `direct monitors`) and this many keys or events, 65,536 by default; "
        "options of the store may follow, such as MONITOR,collectors=2. Repeatable.",
    )

    def flags(self) -> list[Flag]:
        """Both options set `direct.stores`; monitors also set the rules that tell their reports apart."""
        if not self.store and not self.monitor:
            return []
        from ...direct.stores.spec import options_of, split_store

        described = [split_store(text) for text in self.store or ()]
        monitors = self._monitors()
        described += [(monitor.name, layout.name, options_of(layout)) for monitor, layout in monitors]
        stores = [{"name": name, "primitive": kind, "options": options} for name, kind, options in described]
        kinds = [kind for _, kind, _ in described]
        rules = [
            _rule_of(monitor, layout)
            for monitor, layout in monitors
            if monitor.first_list or kinds.count(monitor.primitive) > 1
        ]
        flags: list[Flag] = [("--store", "direct.stores", stores)]
        return [*flags, ("--monitor", "direct.translator.rules", rules)] if rules else flags

    def _monitors(self) -> list[tuple[Monitor, Layout]]:
        """The chosen monitors and the layouts of their stores."""
        if not self.monitor:
            return []
        from ...direct.monitors.registry import make_monitors
        from ...direct.stores.spec import StoreSpec, options_of, split_store

        found = []
        for text in self.monitor:
            _, chosen, options = split_store(text)
            name, _, expected = chosen.partition(":")
            (monitor,) = make_monitors([name]).values()
            layout = monitor.layout(_expected(text, expected))
            spec = StoreSpec.of(monitor.name, layout.name, options_of(layout) | options)
            found.append((monitor, spec.layout))
        return found


def _rule_of(monitor: Monitor, layout: Layout) -> dict[str, Any]:
    """The rule that tells a monitor's reports from those of other monitors with the same primitive."""
    rule: dict[str, Any] = {"store": monitor.name, "key_bytes": monitor.key_bytes}
    if monitor.primitive == "append":
        last = monitor.first_list + layout.count - 1
        rule = {"store": monitor.name, "lists": f"{monitor.first_list}-{last}"}
    return rule


def _expected(text: str, count: str) -> int:
    if not count:
        return EXPECTED_KEYS
    if not count.isdecimal() or not 1 <= int(count) <= 1 << 28:
        raise HopscopeError(f"--monitor {text}: found {count!r}, expected a number of keys")
    return int(count)
