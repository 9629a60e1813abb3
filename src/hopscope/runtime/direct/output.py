"""Outputs of a translator: their protocol, and the options that all translators of a process share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ...direct.primitives.append import AppendWriter
from ...direct.primitives.key_increment import KeyIncrementWriter
from ...direct.primitives.key_write import KeyWriteWriter
from ...direct.primitives.key_write_adaptive import AdaptiveCopies
from ...direct.primitives.postcarding import PostcardingWriter
from ...direct.stores.store import Layout
from ...direct.translation.acknowledge import Acknowledger
from ...direct.translation.findings import Findings
from ...direct.translation.heavy_hitters import HeavyHitters
from ...direct.translation.path_sum import SlowPaths
from ...direct.translation.rate import TokenBucket
from ...direct.translation.routes import Route, StoreRule
from ...direct.translation.sequence import SequenceTracker
from ...direct.translation.translator import Translator
from ...direct.transport import Transport
from ...settings.direct import DirectSettings, RuleSettings
from ...wire.address import network
from ...wire.dta.forms import Form

FORMS = {"2": Form.TWO, "3": Form.THREE, "sized": Form.SIZED}


@dataclass(frozen=True, slots=True)
class TranslatorOptions:
    """Options for every translator of a process, independent of the stores that it writes to."""

    flush_ns: int
    """Batches and paths that wait longer are written."""
    adaptive_copies: bool
    combine_increments: bool
    limit: TokenBucket | None
    form: Form
    """Form of the reports' base header."""
    unnumbered: tuple[tuple[int, int], ...]
    """Networks whose sequence numbers are not checked."""
    slow_paths: SlowPaths | None
    heavy_hitters: HeavyHitters | None
    rules: tuple[StoreRule, ...]
    """Which reports go to which store."""
    make_room: Callable[[], bool]
    """See `Translator.make_room`."""

    @classmethod
    def of(cls, settings: DirectSettings, make_room: Callable[[], bool]) -> TranslatorOptions:
        """The options from settings. Raises ValueError."""
        translator = settings.translator
        form = FORMS[translator.form]
        path_sum, heavy = translator.path_sum, translator.heavy_hitters
        return cls(
            flush_ns=translator.flush_ms * 1_000_000,
            adaptive_copies=translator.adaptive_copies,
            combine_increments=translator.combine_increments,
            limit=TokenBucket(translator.rate_limit) if translator.rate_limit else None,
            form=form,
            unnumbered=tuple(map(network, translator.unnumbered)),
            slow_paths=None
            if path_sum is None
            else SlowPaths(
                path_sum.threshold,
                hops=path_sum.hops,
                latency_bits=path_sum.latency_bits,
                list_number=path_sum.list,
            ),
            heavy_hitters=None
            if heavy is None
            else HeavyHitters(heavy.threshold, period_ns=int(heavy.seconds * 1e9), list_number=heavy.list),
            rules=tuple(map(_rule, translator.rules)),
            make_room=make_room,
        )

    def acknowledgers(self, folder: Path, workers: int) -> list[Acknowledger | None]:
        """An acknowledger for each worker; None: this form of report has no sequence numbers.

        Numbers of 32 bits are continued from files in `folder` if the number of workers is the same, since it
        decides which worker gets which reporter. Numbers of 8 bits start again: they may have wrapped
        meanwhile. Raises RegionError.
        """
        paths: list[Path | None] = [None] * workers
        if self.form == Form.SIZED:
            paths = [folder / f"reporters.{worker + 1}-of-{workers}" for worker in range(workers)]
        for path in set(folder.glob("reporters.*")).difference(paths):
            path.unlink()
        if not self.form.sequence_bits:
            return [None] * workers
        return [Acknowledger(SequenceTracker(self.form, path=path), self.unnumbered) for path in paths]

    def translator(
        self,
        layouts: Sequence[Layout],
        transport: Transport | Sequence[Transport | None],
        routes: Sequence[Route] | None = None,
    ) -> Translator:
        """A translator for these stores. Raises RouteError, and StoreError if findings lack a store."""
        made = Translator(
            layouts,
            transport,
            routes=routes,
            limit=self.limit,
        )
        made.make_room = self.make_room
        for route, writer in zip(made.routes, made.writers, strict=True):
            if isinstance(writer, AppendWriter | PostcardingWriter):
                writer.idle_ns = self.flush_ns
            elif isinstance(writer, KeyWriteWriter) and self.adaptive_copies:
                layout, collectors = writer.layout, {collector for collector, _ in route.at}
                writer.adaptive = AdaptiveCopies(layout.slots, layout.copies, len(collectors))
            elif isinstance(writer, KeyIncrementWriter) and self.combine_increments:
                writer.idle_ns = self.flush_ns
                writer.combine()
        for each in self.findings if made.routes else ():
            each.watch(made)
        return made

    @property
    def findings(self) -> list[Findings]:
        """What to look for in passing reports."""
        return [each for each in (self.slow_paths, self.heavy_hitters) if each is not None]


def _rule(settings: RuleSettings) -> StoreRule:
    rule = StoreRule(
        store=settings.store,
        lists=settings.list_range,
        port=settings.port,
        key_bytes=settings.key_bytes,
        data_bytes=settings.data_bytes,
    )
    return replace(rule, sources=network(settings.source)) if settings.source else rule


class Output(Protocol):
    """The stores that a translator writes to. The counters of an output are declared in `direct.counters`."""

    @property
    def translator(self) -> Translator:
        """The translator for the stores known now; it is replaced if collectors announce different ones."""

    @property
    def ready(self) -> bool:
        """Whether the stores are known."""

    def turn(self) -> int:
        """Send and receive what is ready; returns the amount."""

    def tick(self, now_ns: int) -> None:
        """Called ten times per second, ns since 1970: epochs, connections."""

    def idle(self) -> bool:
        """Whether everything submitted has been completed."""

    def close(self) -> None:
        """Free resources."""
