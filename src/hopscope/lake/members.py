"""Which data folder may write as a member, and how it gives up that right."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from ..history.columns import quoted
from ..settings.lake import LakeSettings
from .catalog import Lake, alone
from .database import Database, LakeError


class RefusedError(LakeError):
    """The lake must not take this member's events until an operator has decided. It
    is retried, but slowly.
    """


@dataclass(frozen=True, slots=True)
class RetireResult:
    """A member that was retired."""

    incarnation: str
    lost: int
    """Number of events that the lake was still waiting for."""


def claim(database: Database, member: str, incarnation: str) -> None:
    """Become the only process that writes as a member, for as long as this connection lives. Raises
    RefusedError.
    """
    if not database.try_lock(f"member {member}"):
        raise RefusedError(f"{database.place}: another process writes as member {member}")
    database.run(
        "INSERT INTO hopscope_member (member, incarnation) VALUES (:member, :own) ON CONFLICT DO NOTHING",
        member=member,
        own=incarnation,
    )
    ((other,),) = database.run(
        "SELECT incarnation FROM hopscope_member WHERE member = :member", member=member
    )
    if other != incarnation:
        raise RefusedError(
            f"{database.place}: the lake has a member {member} with another data folder; give this one"
            f" another name (member), or retire that one: hopscope lake retire {member}"
        )


def retire(settings: LakeSettings, member: str) -> RetireResult:
    """Allow another data folder to be this member. The old folder's events stay in the lake; events that the
    lake was still waiting for are lost.

    LakeError: there is no such member, or it is writing.
    """
    with Database(settings) as database, Lake(settings, memory_bytes=256 * 1024**2, threads=1) as lake:
        if not database.try_lock(f"member {member}"):
            raise LakeError(f"{database.place}: member {member} is writing; stop its collector first")
        rows = database.run("SELECT incarnation FROM hopscope_member WHERE member = :member", member=member)
        if not rows:
            raise LakeError(f"{database.place}: the lake has no member {member}")
        incarnation = str(rows[0][0])
        where = f"member = {quoted(member)} AND incarnation = {quoted(incarnation)} AND reason = 'missing'"
        run = lake.connection.execute
        try:
            row = run(f"SELECT coalesce(sum(events), 0)::UBIGINT FROM {lake.gaps} WHERE {where}").fetchone()
            if row and row[0]:
                with alone(lake, database):
                    run(f"UPDATE {lake.gaps} SET reason = 'history' WHERE {where}")
        except duckdb.Error as error:
            raise lake.named(error) from None
        database.run("DELETE FROM hopscope_member WHERE member = :member", member=member)
        return RetireResult(incarnation, int(row[0]) if row else 0)
