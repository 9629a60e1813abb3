"""A Linux switch that writes directly to collectors' memory over RoCEv2, with a translator of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from ...base.process.loop import Timer
from ...direct.monitors.monitor import Reports
from ...settings.direct import DirectSettings
from ..direct.output import TranslatorOptions
from ..direct.remote import RemoteStores
from ..direct.stores import store_specs
from ..direct.translator import BATCH_TIMEOUT_NS, FLUSH_SECONDS, TICK_NS, WAIT_SECONDS
from ..direct.warm import warm_translator


class RoceOutlet:
    """Reports of monitors as RoCEv2 writes to the stores that `hopscope direct serve` announces."""

    def __init__(self, collectors: Sequence[str], address: str, notify: Callable[[str], object]) -> None:
        """`address`: the local address, for UDP port 4791; `notify` gets a line about every connection.
        Raises CaptureError, and ValueError for a bad address.
        """
        given = {"transport": "rocev2", "collectors": list(collectors), "address": address}
        settings = DirectSettings.model_validate({"translator": given})
        options = TranslatorOptions.of(settings, self._make_room)
        warm_translator([spec.layout for spec in store_specs(DirectSettings())], options.form)
        self._remote = RemoteStores(settings, options, notify)
        self._tick, self._flush = Timer(TICK_NS), Timer(options.flush_ns // 2)
        self._wait_until_ns = 0

    def take(self, reports: Reports) -> int:
        """Write reports; returns how many, 0 while no collector is connected."""
        if not self._remote.ready:
            return 0
        translator = self._remote.translator
        before = int(translator.translated.sum())
        self._wait_until_ns = time.monotonic_ns() + BATCH_TIMEOUT_NS
        translator.translate(reports.records, reports.arena)
        return int(translator.translated.sum()) - before

    def turn(self) -> int:
        """Send and receive what is due; returns how much."""
        now, moved = time.monotonic_ns(), self._remote.turn()
        if self._flush(now):
            self._remote.translator.flush(now)
        if self._tick(now):
            self._remote.tick(time.time_ns())
        return moved

    def close(self) -> None:
        """Write buffered reports, wait for acknowledgements, and end the connections."""
        until = time.monotonic() + FLUSH_SECONDS
        while not self._remote.translator.flush() and time.monotonic() < until:
            self._remote.turn()
        while not self._remote.idle() and time.monotonic() < until:
            if not self._remote.turn():
                time.sleep(WAIT_SECONDS)
        self._remote.close()

    @property
    def connected(self) -> int:
        """Collectors that are connected."""
        return int(np.count_nonzero(self._remote.translator.fanout.down == 0)) if self._remote.ready else 0

    def _make_room(self) -> bool:
        """Send and receive while a collector is busy; False once the batch has waited for too long."""
        if not self._remote.turn():
            time.sleep(WAIT_SECONDS)
        return time.monotonic_ns() < self._wait_until_ns
