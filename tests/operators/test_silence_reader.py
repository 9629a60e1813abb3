"""Silences as alerts read them: a file that cannot be used stops none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from hopscope.operators.audit import Audit, Author
from hopscope.operators.database import Database
from hopscope.operators.silences import Matcher, SilenceReader, Silences

EVENT: dict[str, Any] = {"kind": "raised", "metric": "queue_occupancy", "node": {"id": 1}, "port": None}


def test_damaged_silences_stop_no_alerts(tmp_path: Path) -> None:
    """Rows of the wrong type or of everything, or no database: those of before count, the rest is heard."""
    clock = [0.0]
    database = Database(tmp_path)
    silences = Silences(database, Audit(database))
    reader = SilenceReader(tmp_path, lambda: clock[0])
    assert reader.match(EVENT, 0) is None
    silences.add(Matcher(metric="queue_occupancy"), time.time_ns() + 10**12, "", Author("ada"))
    for damage in (
        "UPDATE silences SET until_ns = 'soon'",
        f"UPDATE silences SET until_ns = {time.time_ns() + 10**12}, metric = ''",
        "UPDATE silences SET prefix = x'00ff'",
    ):
        fresh = SilenceReader(tmp_path, lambda: clock[0])
        clock[0] += 10
        assert reader.match(EVENT, 0) is not None
        with database.transaction() as connection:
            connection.execute(damage)
        clock[0] += 10
        assert reader.match(EVENT, 0) is not None, damage
        assert reader.problem
        assert fresh.match(EVENT, 0) is None
        assert fresh.problem
        with database.transaction() as connection:
            connection.execute(
                "UPDATE silences SET until_ns = ?, metric = 'queue_occupancy', prefix = ''",
                (time.time_ns() + 10**12,),
            )
    database.close()
    database.path.write_bytes(b"nothing of SQLite" * 1000)
    assert (fresh := SilenceReader(tmp_path)).match(EVENT, 0) is None
    assert fresh.problem
