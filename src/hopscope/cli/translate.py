"""`hopscope translate`: the translator of direct telemetry access."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base.errors import HopscopeError
from ..wire.address import with_port
from .options.declare import Flag, Options, option
from .options.settings import FolderOptions, LogOptions, StoreOptions

if TYPE_CHECKING:
    from ..cluster.owners.follow import OwnersFollower
    from ..settings.collector import Settings


@dataclass(frozen=True)
class TranslateOptions(Options):
    """Where reports come from and go to."""

    port: int | None = option(
        "--port -p PORT",
        "UDP port of DTA reports; 0: any free port.",
        min=0,
        max=65535,
        show_default="40040",
        sets="direct.translator.port",
    )
    form: str | None = option(
        "--form FORM", "Base header: 2, 3 or sized.", show_default="sized", sets="direct.translator.form"
    )
    workers: int | None = option(
        "--workers N",
        "Threads that receive.",
        min=1,
        max=64,
        show_default="1",
        sets="direct.translator.workers",
    )
    to: list[str] | None = option(
        "--to HOST",
        "NIC of a collector, written to over RoCEv2. Repeatable; cluster: owners of the cluster. Default: "
        "stores on this machine.",
        sets="direct.translator.collectors",
    )

    def flags(self) -> list[Flag]:
        """--to chooses the transport, too."""
        return [*super().flags(), ("--to", "direct.translator.transport", "rocev2" if self.to else None)]


def translate(
    options: TranslateOptions, stores: StoreOptions, log: LogOptions, settings: FolderOptions
) -> None:
    """Run a DTA translator: write reports into memory that is queried by key.

    Without flags it receives `sized` reports on loopback UDP 40040 and writes into stores of the user's data
    folder; `hopscope direct query` reads them. Exit status 2: it could not start.
    """
    from ..base.log import logger
    from ..direct.counters import TRANSLATOR_COUNTERS
    from ..memory.data_folder import owned_stores
    from ..runtime.direct.translator import TranslatorProcess
    from ..runtime.warmup import compile_parts
    from .output.running import run_counted, until_stopped

    loaded = settings.load(options, stores, log)
    log.configure(loaded)
    translator = loaded.direct.translator
    if translator.follows_cluster and not loaded.cluster.enabled:
        raise HopscopeError('direct.translator.collectors is "cluster", but cluster.nats names no servers')
    notify = logger("translator").info
    with until_stopped() as stop, owned_stores(loaded.stores_folder), ExitStack() as opened:
        compile_parts("direct")
        owners = None
        if translator.follows_cluster:
            owners = opened.enter_context(_followed(loaded, notify)).newest
        process = TranslatorProcess(loaded.direct, loaded.stores_folder, notify=notify, owners=owners)
        process.open()
        where = (
            f"stores in {loaded.stores_folder}"
            if translator.transport == "memory"
            else f"collectors {', '.join(dict.fromkeys(translator.collectors))}"
        )
        print(
            f"DTA reports ({translator.form}{'' if translator.form == 'sized' else '-byte header'}) on "
            f"udp://{with_port(translator.host, process.port)} into {where}",
            file=sys.stderr,
        )
        run_counted(process, TRANSLATOR_COUNTERS.counters, "dta_datagrams_total", "reports", stop, notify)


def _followed(settings: Settings, notify: Callable[[str], object]) -> OwnersFollower:
    """The table of owners of the cluster."""
    from ..cluster.owners.follow import OwnersFollower

    return OwnersFollower(settings.cluster, settings.stores_folder, notify)
