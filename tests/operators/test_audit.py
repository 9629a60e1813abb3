"""The log of changes: what is in an entry, pages, and its bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopscope.operators import audit as module
from hopscope.operators.audit import Audit, Author
from hopscope.operators.database import Database, OperatorsError

ADA = Author("ada", "192.0.2.7")


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path)


def test_entries_are_read_newest_first_in_pages(database: Database) -> None:
    """Pages join without a gap; kind, its first part and author select."""
    audit = Audit(database)
    for n in range(5):
        audit.add(ADA, "limits.change", f"hop {n}", {"n": n}, {"n": n + 1})
    audit.add(Author("bob"), "limit", "other")
    first = audit.page(4)
    rest = audit.page(4, before=first[-1].id)
    assert [entry.subject for entry in first + rest] == ["other", "hop 4", "hop 3", "hop 2", "hop 1", "hop 0"]
    assert (first[1].who, first[1].address, first[1].before, first[1].after) == (
        "ada", "192.0.2.7", {"n": 4}, {"n": 5},
    )  # fmt: skip
    assert first[0].before is None
    assert len(audit.page(kind="limits")) == len(audit.page(kind="limits.change")) == 5
    assert [entry.who for entry in audit.page(who="bob")] == ["bob"]


def test_entries_do_not_change(database: Database) -> None:
    """The file itself refuses it."""
    audit = Audit(database)
    audit.add(ADA, "limits.change", "hop")
    with (
        pytest.raises(Exception, match="do not change"),
        database.transaction() as connection,
    ):
        connection.execute("UPDATE audit SET who = 'eve'")
    assert [entry.who for entry in audit.page()] == ["ada"]


def test_an_entry_is_written_with_its_change_or_not_at_all(database: Database) -> None:
    """Inside a transaction that fails, the entry goes with it."""
    audit = Audit(database)

    def change() -> None:
        with database.transaction() as connection:
            audit.add(ADA, "limits.change", "hop")
            connection.execute("SELECT * FROM missing")

    with pytest.raises(OperatorsError):
        change()
    assert audit.page() == []


def test_the_log_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go first; of a value that is too long its length stays."""
    monkeypatch.setattr(module, "MAX_ENTRIES", 3)
    audit = Audit(database)
    for n in range(5):
        audit.add(ADA, "k", str(n), after="x" * 20_000)
    assert [entry.subject for entry in audit.page()] == ["4", "3", "2"]
    assert audit.page()[0].after == {"characters": 20_002}
