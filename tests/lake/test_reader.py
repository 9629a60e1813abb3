"""Readers of a lake that does not answer."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hopscope.base.deadline import Deadline
from hopscope.lake import reader
from hopscope.lake.database import LakeError
from hopscope.settings.lake import LakeSettings
from support.waiting import eventually

SETTINGS = LakeSettings(catalog="postgresql://u@127.0.0.1:1/db", data="/nowhere")


def test_questions_wait_for_one_attempt_and_closing_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that hangs: of eight questions one tries to reach it, and all have its reason; a stop does
    not wait for it. Later it is tried again.
    """
    attempts: list[int] = []
    answer = threading.Event()

    class Hanging:
        def __init__(self, *_: object, **__: object) -> None:
            attempts.append(1)
            answer.wait(30)
            raise LakeError("no answer")

    monkeypatch.setattr(reader, "Lake", Hanging)
    monkeypatch.setattr(reader, "AWAY_SECONDS", 60.0)
    monkeypatch.setattr(reader, "CLOSE_SECONDS", 0.05)
    asked = reader.LakeReader(SETTINGS)

    def ask(_: int) -> str:
        with pytest.raises(LakeError) as caught:
            asked.ask(lambda *_: None)
        return str(caught.value)

    with ThreadPoolExecutor(8) as pool:
        found = pool.map(ask, range(8))
        eventually(lambda: bool(attempts))
        asked.close()
        assert len(attempts) == 1
        answer.set()
        assert list(found) == ["no answer"] * 8
    assert len(attempts) == 1
    asked._retry_at = 0.0
    ask(0)
    assert len(attempts) == 2


def test_a_database_that_hangs_costs_a_question_its_share_and_later_ones_nothing() -> None:
    """A server that takes connections and never answers, as one that is stopped: the first question waits for
    its share of the deadline, later ones do not wait, and closing does not. When the call has come back, the
    lake is tried again.
    """
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        asked = reader.LakeReader(
            LakeSettings(catalog=f"postgresql://u@127.0.0.1:{server.getsockname()[1]}/db", data="/nowhere")
        )
        asked.prepare()
        for reason, least, most in (("no answer within 0.3 s", 0.25, 5), ("an earlier question", 0, 0.25)):
            begin = time.monotonic()
            with pytest.raises(LakeError, match=reason):
                asked.ask(lambda *_: None, Deadline(0.5))
            assert least <= time.monotonic() - begin < most
        begin = time.monotonic()
        asked.close()
        assert time.monotonic() - begin < 0.25
    eventually(lambda: not asked._hanging)  # the connection was refused, or ended
    asked._retry_at = 0.0
    with pytest.raises(LakeError, match="refused"):
        asked.ask(lambda *_: None, Deadline(60))
