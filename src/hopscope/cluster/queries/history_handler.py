"""Queries to history: a member answers from its own data folder."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...base.errors import HopscopeError
from .history_query import HistoryQuery
from .parts import Answer
from .tables import encode

THREADS = 2
"""How many queries run at a time; the others wait, and are dropped at their deadline."""
MEMORY_BYTES = 256 * 1024**2


class HistoryHandler:
    """Answers from the data folder of the member `name`, which is opened for the first query."""

    def __init__(self, folder: Path, name: str, sql_memory_bytes: int) -> None:
        """`sql_memory_bytes`: maximum memory of a SELECT, whatever the query asks for."""
        from ...history.query import History  # DuckDB is not needed before

        self._name, self._sql_memory_bytes = name, sql_memory_bytes
        self._history = History(folder, memory_bytes=MEMORY_BYTES, threads=1, member=name)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="history")

    def close(self) -> None:
        """Close the folder; pending queries fail."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._history.close()

    async def __call__(self, query: Mapping[str, Any]) -> Answer:
        """The table or the distributions. HopscopeError: malformed, or from a newer version."""
        try:
            asked = HistoryQuery.model_validate_json(json.dumps(query.get("ask")))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise HopscopeError(f"found no query of this version: {place}: {first['msg']}") from None
        allowed = min(asked.memory_bytes, self._sql_memory_bytes)
        asked = asked.model_copy(update={"memory_bytes": allowed})
        stop = threading.Event()

        def work() -> Answer:
            from ...history.sandbox.query import SqlError

            if stop.is_set():
                return Answer(503, b"its deadline has passed")
            try:
                found = asked.ask(self._history, self._name, stop)
            except SqlError as error:
                return Answer(400, str(error).encode())
            return Answer(200, encode(found, self._history.problems))

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            stop.set()
