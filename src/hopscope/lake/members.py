"""Which data folder writes as a member, and how that is given up."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from ..history.columns import quoted
from ..settings.lake import LakeSettings
from .catalog import Lake, alone
from .database import Database, LakeError


class RefusedError(LakeError):
    """The lake must not take this member's events until somebody has decided: retried, but slowly."""


@dataclass(frozen=True, slots=True)
class Retired:
    """What a member left."""

    incarnation: str
    lost: int
    """Events that the lake waited for."""


def claim(database: Database, member: str, incarnation: str) -> None:
    """Be the one process that writes as a member, while this connection lives. Raises RefusedError."""
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
        database.unlock(f"member {member}")  # as in `retire`
        raise RefusedError(
            f"{database.place}: the lake has a member {member} with another data folder; give this one"
            f" another name (member), or retire that one: hopscope lake retire {member}"
        )


def retire(settings: LakeSettings, member: str) -> Retired:
    """Let another data folder be this member; what the lake still waits for from the old one is lost.

    Its events stay. LakeError: there is none, or it is writing.
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
        database.unlock(f"member {member}")  # the server notices the end of a session later
        return Retired(incarnation, int(row[0]) if row else 0)
