"""The DuckDB that reads history: its settings."""

from __future__ import annotations

import subprocess
import sys

ASK = """
from hopscope.history.columns import connect
with connect(2**28, 1, quick=True) as connection:
    for asked in (connection, connection.cursor()):
        print(*asked.execute(
            "SELECT current_setting('TimeZone'), current_setting('prefetch_all_parquet_files'),"
            "now()::TIMESTAMP = now() AT TIME ZONE 'UTC'"
        ).fetchone())
"""


def test_cursors_have_the_settings_of_their_connection() -> None:
    """DuckDB gives them only global settings: times are in UTC wherever the machine is, and files are read
    ahead.
    """
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env={"TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["UTC True True"] * 2
