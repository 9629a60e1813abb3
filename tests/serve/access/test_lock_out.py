"""Guessing passwords: slower with each failure, by client and by user, and nobody can lock a user out."""

from __future__ import annotations

from typing import Any

import pytest

from hopscope.operators import passwords, users
from hopscope.operators.passwords import PasswordError, hash_password, matches
from hopscope.serve.access import lock_out as module
from hopscope.serve.access.lock_out import CLIENT, CLIENT_AND_USER, USER, LockOut, network_of

from .conftest import PASSWORDS, Server, run


class Clock:
    """Seconds, moved on by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def failures(lock: LockOut, count: int, address: str, user: str | None, **more: bool) -> list[float]:
    """The waits of this many wrong logins in a row, without waiting."""
    return [lock.begin(address, user, **more) for _ in range(count)]


def test_waits_grow_from_one_client_to_one_user() -> None:
    """Five are free; then 1 s, doubled by each further one, up to 15 minutes, by a clock moved on by hand;
    nothing is counted while it waits, and another user or client is not affected.
    """
    clock = Clock()
    lock = LockOut(clock)
    assert failures(lock, 5, "192.0.2.1", "ada") == [0.0] * 5
    expected = [min(900.0, 2.0**n) for n in range(14)]
    for wait in expected:
        assert lock.begin("192.0.2.1", "Ada") == pytest.approx(wait)
        assert lock.begin("192.0.2.1", "ada") == pytest.approx(wait)
        clock.now += wait + 0.001
        assert lock.begin("192.0.2.1", "ada") == 0.0
    assert lock.begin("192.0.2.1", "bob") == 0.0
    assert lock.begin("192.0.2.2", "ada") == 0.0
    clock.now += module.FORGET_SECONDS + 1
    assert failures(lock, 5, "192.0.2.1", "ada") == [0.0] * 5


def test_a_client_that_tries_many_names_is_stopped() -> None:
    """Whatever the names are, also from other addresses of its /64."""
    lock = LockOut(Clock())
    waits = [lock.begin(f"2001:db8::{n:x}", f"user{n}") for n in range(CLIENT.free + 1)]
    assert waits[: CLIENT.free] == [0.0] * CLIENT.free
    assert waits[CLIENT.free] == 1.0
    assert lock.begin("2001:db8:0:1::1", "ada") == 0.0, "another /64"
    assert network_of("::ffff:192.0.2.7") == network_of("192.0.2.7")


def test_no_one_locks_a_user_out_for_good() -> None:
    """Failures from everywhere delay a login by seconds, and not where the user has logged in before."""
    clock = Clock()
    lock = LockOut(clock)
    for n in range(500):
        lock.begin(f"198.51.{n // 250}.{n % 250}", "ada")
        clock.now += 1
    assert 0 < lock.begin("203.0.113.1", "ada") <= USER.most_seconds
    assert lock.begin("203.0.113.1", "ada", known=True) == 0.0
    clock.now += USER.most_seconds
    assert lock.begin("203.0.113.2", "ada") == 0.0


def test_one_right_login_does_not_excuse_guesses_at_others() -> None:
    """A client that has one password cannot clear its count by logging in between guesses."""
    lock = LockOut(Clock())
    for n in range(CLIENT.free):
        assert lock.begin("192.0.2.1", f"user{n}") == 0.0
        if n < CLIENT.free - 1:
            assert lock.begin("192.0.2.1", "mallory") == 0.0
            lock.succeeded("192.0.2.1", "mallory")
    assert lock.begin("192.0.2.1", "mallory") == 1.0


def test_counts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are made up take no more memory than the most."""
    monkeypatch.setattr(module, "MAX_COUNTS", 10)
    lock = LockOut(Clock())
    for n in range(100):
        lock.begin(f"192.0.2.{n}", f"user{n}")
    assert {len(counts) for counts in lock._counts.values()} == {10}


def test_a_locked_out_login_is_answered_without_work(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """429 with Retry-After, the same for a user that there is and one that there is not; the right password
    is not even looked at; another client is not affected.
    """
    clock = Clock()

    async def talk() -> None:
        server: Server = made()
        server.access.lock_out = LockOut(clock)
        looked: list[str] = []
        real = server.access.users.verified

        def counted(name: str, password: str) -> Any:
            looked.append(name)
            return real(name, password)

        monkeypatch.setattr(server.access.users, "verified", counted)
        answers: dict[str, list[Any]] = {}
        for name in ("ada", "nobody"):
            async with server.browser(client=f"192.0.2.{len(name)}") as browser:
                for _ in range(CLIENT_AND_USER.free):
                    given = {"user": name, "password": "not the password"}
                    answers.setdefault(name, []).append(await browser.post("/api/v0/login", json=given))
                count = len(looked)
                locked = await browser.post("/login", data={"user": name, "password": PASSWORDS["ada"]})
                assert len(looked) == count
                assert (locked.status_code, locked.headers["retry-after"]) == (429, "2")
                assert "set-cookie" not in locked.headers
        assert [each.status_code for each in answers["ada"]] == [401] * CLIENT_AND_USER.free
        assert [each.content for each in answers["ada"]] == [each.content for each in answers["nobody"]]
        browser, _ = await server.logged_in("ada")
        counts = server.access._counts
        assert counts["access_logins_total.wrong"] == 2 * CLIENT_AND_USER.free
        assert counts["access_logins_total.locked_out"] == 2
        assert counts["access_logins_total.right"] == 1

    run(talk())


def test_an_unknown_user_takes_the_same_work(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hash of the same cost is verified for a user that there is and for one that there is not."""
    verified: list[tuple[str, ...]] = []
    real = matches

    def counted(known: str | None, password: str) -> bool:
        used = known or passwords._of_no_one()
        verified.append(tuple(used.split("$")[1:4]))  # algorithm, version, cost
        return real(known, password)

    monkeypatch.setattr(users, "matches", counted)
    server: Server = made()
    for name in ("ada", "nobody", "ADA", "", "'; DROP TABLE users; --"):
        assert server.access.users.verified(name, "not the password") is None
    assert len(verified) == 5
    assert len(set(verified)) == 1
    assert verified[0][0] == "argon2id"


def test_logins_wait_in_a_bounded_queue(made: Any) -> None:
    """One hash is computed at a time; beyond those that may wait, a login is answered with 503 at once."""

    async def talk() -> None:
        server: Server = made()
        server.access._waiting = 16
        async with server.browser() as browser:
            busy = await browser.post("/api/v0/login", json={"user": "ada", "password": PASSWORDS["ada"]})
            assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")

    run(talk())


def test_a_password_is_hashed_with_a_salt() -> None:
    """Two hashes of one password differ and match it; too short and too long ones are refused in a line."""
    first, second = hash_password("correct horse"), hash_password("correct horse")
    assert first != second
    assert matches(first, "correct horse")
    assert not matches(first, "correct horsf")
    assert not matches("nonsense", "correct horse")
    for wrong in ("short", "x" * 300):
        with pytest.raises(PasswordError, match="expected 10 to 256"):
            hash_password(wrong)
