"""Switches with a P4Runtime server, whose program has the tables of `p4/` (P4Runtime 1.3 and later).

finsy implements the protocol, in an event loop that runs only while a method of this driver is called.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable
from typing import Any, TypeVar

import finsy

from ...base.errors import described
from ...settings.label import LabellingSettings
from ...settings.switches import P4RuntimeSwitchSettings
from ...settings.watch import WatchSettings
from ..driver import SouthboundError, StandbyError
from ..state import SwitchState
from .p4tables import (
    CHANCES,
    PORTS,
    TABLES,
    TRACK,
    UNKNOWN_TABLE,
    WATCH,
    Entry,
    Update,
    chance_entries,
    entry,
    labelling_of,
    port_params,
    track_entries,
    tracked_of,
    updates,
    watch_entries,
    watch_of,
)

SETTLE_SECONDS = 0.002
"""How long waiting messages of the switch are processed before a request: they may name another primary
controller.
"""
Answer = TypeVar("Answer")


class _Problems(logging.Handler):
    """Errors of finsy's tasks: finsy only logs them, and cancels the tasks that wait."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._of_thread = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the error of a record, for its thread."""
        if record.exc_info and record.exc_info[1]:
            self._of_thread.last = described(record.exc_info[1])

    def take(self) -> str:
        """The newest error of this thread, once."""
        found = getattr(self._of_thread, "last", "")
        self._of_thread.last = ""
        return found


_PROBLEMS = _Problems()
_LOG = logging.getLogger("finsy")
_LOG.addHandler(_PROBLEMS)
_LOG.propagate = False


class P4RuntimeDriver:
    """One session with a switch."""

    def __init__(self, name: str, settings: P4RuntimeSwitchSettings) -> None:
        self._name, self._settings = name, settings
        self._runner: asyncio.Runner | None = None
        self._switch: finsy.Switch | None = None
        self._tables: frozenset[str] = frozenset()
        self._labelling = LabellingSettings()
        """Label function as last written: ports' entries lack MAX_hop and protocol, which the program has."""
        self._entries: list[Entry] = []
        """Entries as last read, with the changes written since."""

    def connect(self) -> None:
        """Open a session; if the settings name a program and the switch runs another one, load it. Raises
        SouthboundError.
        """
        settings = self._settings
        options = finsy.SwitchOptions(
            p4info=settings.p4info,
            p4blob=settings.program,
            device_id=settings.device_id,
            initial_election_id=settings.election_id,
            channel_credentials=self._credentials(),
        )
        try:
            switch = finsy.Switch(self._name, settings.address, options)
        except (OSError, ValueError) as error:
            raise SouthboundError(f"{settings.p4info}: {described(error)}") from None
        self._runner = asyncio.Runner()
        self._run(switch.__aenter__())
        self._switch = switch
        if not switch.p4info.exists:
            raise SouthboundError("the switch runs no program, and the settings do not name one")
        known = {table.alias for table in switch.p4info.tables}
        self._tables = frozenset(known & set(TABLES))

    def read(self) -> SwitchState:
        """The state that the entries of its tables express. Raises SouthboundError."""
        switch = self._open()

        async def work() -> list[Entry]:
            entries = [finsy.P4TableEntry(table) for table in sorted(self._tables)]
            if not entries:
                return []
            return [_decoded(switch, found) async for found in switch.read(entries)]  # type: ignore[attr-defined]

        self._entries = self._run(work())
        return self._state(self._entries)

    def apply(self, change: SwitchState) -> None:
        """Change the entries that were last read, in a single Write. Raises SouthboundError, StandbyError,
        RefusedError.
        """
        switch = self._open()
        if not switch.is_primary:
            raise StandbyError(f"the controller with election id {switch.primary_id} is in charge")
        wanted = self._changed(self._entries, change)
        changes = [_update(kind, each) for kind, each in updates(self._entries, wanted)]
        if changes:
            self._run(switch.write(changes))
        self._entries = wanted
        if change.labelling is not None:
            self._labelling = change.labelling

    def _changed(self, entries: list[Entry], change: SwitchState) -> list[Entry]:
        """The entries after a change. Raises RefusedError for a change that the program does not support."""

        def without(*tables: str) -> list[Entry]:
            return [each for each in entries if each.table not in tables]

        if change.watch is not None:
            rules = watch_entries(change.watch, self._settings.instructions, self._settings.hop_limit)
            entries = [*without(*WATCH.values()), *rules]
        if change.track is not None:
            entries = [*without(*TRACK.values()), *track_entries(change.track, entries)]
        if change.labelling is not None:
            params = port_params(change.labelling)
            entries = [each.with_params(**params) if each.table == PORTS else each for each in entries]
            if CHANCES in self._tables:
                entries = [*without(CHANCES), *chance_entries(change.labelling)]
        if change.reg2 is not None:
            entries = [_shifted(each, change.reg2) for each in entries]
        return entries

    def ports(self) -> None:
        """None: P4Runtime does not describe ports."""

    def close(self) -> None:
        """End the session."""
        switch, self._switch = self._switch, None
        if self._runner is None:
            return
        try:
            if switch is not None:
                self._run(switch.__aexit__(None, None, None))
        except SouthboundError:
            pass
        finally:
            self._runner.close()
            self._runner = None

    def _state(self, entries: list[Entry]) -> SwitchState:
        ports = [each for each in entries if each.table == PORTS and dict(each.params).keys() >= _PARAMS]
        watch: tuple[WatchSettings, ...] | None = None
        if self._tables >= set(WATCH.values()):
            watch = watch_of(each for each in entries if each.table in WATCH.values())
        track = None
        if self._tables >= set(TRACK.values()):
            track = tracked_of(each for each in entries if each.table in TRACK.values())
        return SwitchState.model_construct(
            watch=watch,
            track=track,
            labelling=self._labelling_of(entries, ports) if ports else None,
            reg2={_port(each): dict(each.params)["shift"] for each in ports}
            if PORTS in self._tables
            else None,
        )

    def _labelling_of(self, entries: list[Entry], ports: list[Entry]) -> LabellingSettings:
        """The label function as last written, if all entries match it; else one read from the entries."""
        written = self._labelling
        wanted = port_params(written).items()
        for each in ports:
            if not dict(each.params).items() >= wanted:
                return labelling_of(dict(each.params), written)
        chances = {each for each in entries if each.table == CHANCES}
        if written.chance_table and chances != set(chance_entries(written)):
            return written.model_copy(update={"chance_table": UNKNOWN_TABLE})
        return written

    def _credentials(self) -> finsy.GRPCCredentialsTLS | None:
        settings = self._settings
        if not settings.tls:
            return None
        try:
            return finsy.GRPCCredentialsTLS(
                cacert=settings.ca_file and settings.ca_file.read_bytes(),
                cert=settings.cert_file and settings.cert_file.read_bytes(),
                private_key=settings.cert_file and (settings.key_file or settings.cert_file).read_bytes(),
            )
        except OSError as error:
            raise SouthboundError(f"{error.filename}: {error.strerror}") from None

    def _open(self) -> finsy.Switch:
        """The session, after processing waiting messages. Raises SouthboundError if it has ended."""
        assert self._switch is not None
        self._run(asyncio.sleep(SETTLE_SECONDS))
        if not self._switch.is_up:
            raise SouthboundError("the switch has ended the session")
        return self._switch

    def _run(self, work: Awaitable[Answer]) -> Answer:
        """Run `work` in the event loop, within the time that the settings allow. Raises SouthboundError."""

        async def bounded() -> Answer:
            async with asyncio.timeout(self._settings.timeout_seconds):
                return await work

        assert self._runner is not None
        try:
            return self._runner.run(bounded())
        except TimeoutError:
            raise SouthboundError(
                f"the switch does not answer within {self._settings.timeout_seconds:g} s"
            ) from None
        except finsy.P4ClientError as error:
            raise _rejected(error) from None
        except asyncio.CancelledError:
            raise SouthboundError(_PROBLEMS.take() or "the session has ended") from None
        except (AssertionError, OSError, RuntimeError, ValueError) as error:
            raise SouthboundError(described(error)) from None


_PARAMS = {"interval", "shift", "rest", "chance"}


def _port(port: Entry) -> int:
    return int(dict(port.match)["egress_port"])


def _update(kind: Update, each: Entry) -> finsy.P4TableEntry:
    """A change of an entry in finsy's form."""
    made = finsy.P4TableEntry(
        each.table,
        match=finsy.Match(dict(each.match)),
        action=finsy.Action(each.action, **dict(each.params)),
        priority=each.priority,
    )
    return +made if kind == "+" else ~made if kind == "~" else -made


def _shifted(each: Entry, reg2: dict[int, int]) -> Entry:
    """A port's entry with its new Reg2, if `reg2` has one."""
    if each.table != PORTS or _port(each) not in reg2 or "shift" not in dict(each.params):
        return each
    return each.with_params(shift=reg2[_port(each)])


def _decoded(switch: finsy.Switch, found: Any) -> Entry:
    """An entry from finsy's form."""
    table = switch.p4info.tables[found.table_id].alias
    action = found.action if isinstance(found.action, finsy.Action) else finsy.Action("")
    return entry(table, dict(found.match or {}), action.name, dict(action.args), found.priority)


def _rejected(error: finsy.P4ClientError) -> SouthboundError:
    """An error as one line; if several updates were refused, the first one."""
    code, message = error.code, error.message
    for number, each in error.details.items():
        code, message = each.canonical_code, f"update {number}: {each.message}"
        break
    text = f"{code.name.lower().replace('_', ' ')}: {message}".rstrip(": ")
    if error.code == finsy.GRPCStatusCode.PERMISSION_DENIED:
        return StandbyError(text)
    return SouthboundError(text)
