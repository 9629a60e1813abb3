"""Routes of one event: earlier and later events at its place, and the report that caused it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Annotated

from fastapi import HTTPException, Path, Query, Request

from ....base.errors import HopscopeError
from ....detect.alarms import place_key
from ....detect.evidence.reader import StoredReport
from ....detect.flows.reading.state import queues_by_port
from ....detect.places import UNKNOWN, ports_of_events
from ....detect.records import NO_NODE, OF_SOURCE
from ....present import evidence
from ....present.events import all_wide, when
from ....present.history import SharedHistory
from ....present.select import EventFilter
from ....settings.dialects import named
from ....wire.address import address
from ....wire.dialect import Dialect
from ....wire.records import Records
from ...context import Context, Ctx
from ...models import common as m
from ...models import evidence as e
from ..alarms import shown as alarms_shown
from ..router import api_router

router = api_router("events")
EventId = Annotated[str, Path(pattern=r"^\d{1,5}-\d{1,20}$", description="SHARD-SEQUENCE")]
Member = Annotated[str | None, Query(max_length=100, description="With `scope=cluster`: member of the event")]


def _event(context: Context, name: str) -> Records:
    """The records of an event; 404 if history has no event with this number."""
    shard, sequence = map(int, name.split("-"))
    found = evidence.find_event(context.folder, shard, sequence) if sequence < 1 << 63 else None
    if found is None or not len(found):
        raise HTTPException(404, f"history has no event {name}")
    return found


@router.get("/events/{id}", summary="One event", responses={404: {"model": m.Error}})
async def event(context: Ctx, request: Request, id: EventId, member: Member = None) -> e.EventDetail:
    """An event with earlier and later events at its place (or of its flow, if it has no place), and its alarm
    if that is open.
    """

    def work(past: SharedHistory, _: threading.Event) -> e.EventDetail:
        found = _event(context, id)
        one = found[0]
        before, after = _around(past, found)
        key = place_key(one, queues_by_port(context.state.ports()))
        opened = [each for each in context.alarms.read() if each.key == key]
        return e.EventDetail.model_validate(
            {
                **evidence.event_shown(found, context.names),
                "before": before,
                "after": after,
                "alarm": next(iter(alarms_shown(context, opened)), None),
                "live": bool(one["flow_id"] and one["flow_id"] in context.state.flows()["flow_id"]),
                "evidence": evidence.evidence_of(context.folder, found) is not None,
            }
        )

    return await context.query(request, work)


def _around(past: SharedHistory, event: Records) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Events before one (newest first) and after it, at its switch and port, or else of its flow."""
    one, node = event[0], int(event["node_id"][0])
    if node != NO_NODE and int(one["kind"]) not in OF_SOURCE:
        port = int(ports_of_events(one))
        chosen = EventFilter(nodes=(node,), ports=() if port == UNKNOWN else (port,))
    elif int(one["flow_id"]):
        chosen = EventFilter(flow_id=int(one["flow_id"]))
    else:
        return [], []
    time_ns = int(one["time_ns"])
    position = f"{time_ns}-{int(one['shard'])}-{int(one['sequence'])}"
    before, _ = past.events(replace(chosen, end_ns=time_ns + 1), evidence.AROUND, False, position)
    after, _ = past.events(replace(chosen, start_ns=time_ns), evidence.AROUND, True, position)
    return before, after


@router.get(
    "/events/{id}/evidence", summary="The report that caused an event", responses={404: {"model": m.Error}}
)
async def event_evidence(context: Ctx, id: EventId, member: Member = None) -> e.Evidence:
    """The report, decoded as by `hopscope decode`, and the bytes of its datagram, field by field; for a path
    joined from postcards, those of each postcard. Reports of routine events, and reports above the limits of
    `[history]`, are not kept.
    """

    def work() -> e.Evidence:
        found = _event(context, id)
        kept = evidence.evidence_of(context.folder, found)
        if kept is None:
            raise HTTPException(404, evidence.why_not_kept(found))
        row, joined = kept.batch.reports[0], evidence.is_joined(kept)
        own = kept.datagrams.get(0)
        dialect = None if own is None else _dialect(context, own.dialect)[0]
        return e.Evidence.model_validate(
            {
                "id": id,
                "received": when(int(row["time_ns"])),
                "source": None if joined else address(int(row["source_hi"]), int(row["source_lo"])),
                "report": all_wide(evidence.decoded(kept, dialect)),
                "datagrams": [_datagram(context, kept, hop) for hop in sorted(kept.datagrams)],
                "note": evidence.why_no_bytes(kept),
            }
        )

    return await context.run(work)


def _datagram(context: Context, kept: StoredReport, hop: int) -> dict[str, object]:
    one = kept.datagrams[hop]
    dialect, why = _dialect(context, one.dialect)
    row = None if dialect is None else evidence.report_in(kept, hop, dialect)
    from_ = one.frame[0] if row is None else row
    if row is None and why is None:
        why = "its dialect, as it is configured now, finds no postcard in it"
    return {
        "hop": hop if evidence.is_joined(kept) else None,
        "received": when(int(one.frame[0]["time_ns"])),
        "source": address(int(from_["source_hi"]), int(from_["source_lo"])),
        "dialect": one.dialect or None,
        "bytes": one.raw.hex(),
        "fields": [] if row is None or dialect is None else evidence.byte_fields(one, row, dialect),
        "note": why,
    }


def _dialect(context: Context, name: str) -> tuple[Dialect | None, str | None]:
    """The dialect of this name; None, with the reason, if it is no longer configured."""
    try:
        return named(name, context.dialects)[0], None
    except HopscopeError as error:
        return None, f"it was decoded by a dialect that is no longer configured: {error}"
