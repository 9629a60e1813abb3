"""The database of the catalog, PostgreSQL: connections to it beside DuckDB's own, and their locks."""

from __future__ import annotations

import getpass
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

from ..base.errors import HopscopeError, described
from ..base.extras import install_command
from ..base.tls import client_context
from ..settings.destinations import shown
from ..settings.lake import LakeSettings

ANSWER_SECONDS = 20.0
"""How long the database may take for an answer."""
LOCK_SECONDS = 15.0
"""How long a lock is awaited; less than ANSWER_SECONDS."""
_SPACE = 0x686F70
"""Of all advisory locks, those of lakes."""
COMMIT = "commit"
"""Lock of those who commit. Without it DuckLake tries again while others are first, which takes seconds with
many."""
_ENGLISH = ("C", "POSIX", "en_", "English")


class LakeError(HopscopeError):
    """The lake cannot be used now: one line with the place, the problem, and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is, and as whom."""

    host: str
    port: int
    database: str
    user: str
    password: str | None

    @classmethod
    def of(cls, settings: LakeSettings) -> Address:
        """LakeError: the URL is no good, or the password cannot be read."""
        try:
            parts = urlsplit(settings.catalog)
            password = settings.password or unquote(parts.password or "")
            return cls(
                parts.hostname or "127.0.0.1",
                parts.port or 5432,
                unquote(parts.path.lstrip("/")),
                unquote(parts.username or "") or getpass.getuser(),
                shown.secret(password) if password else None,
            )
        except (ValueError, OSError) as error:
            raise LakeError(f"{shown.shown(settings.catalog)}: {error}") from None
        except KeyError:
            raise LakeError("lake.catalog: found no user, expected one, since yours has no name") from None


class Database:
    """One connection; LakeError (of all methods): what the database answers, or that it does not.

    The server ends a session whose client is gone without a word after 25 s, and with it its locks.
    """

    def __init__(self, settings: LakeSettings) -> None:
        try:
            import pg8000.native
        except ImportError:
            raise LakeError(f"lake: pg8000 is missing; install it with: {install_command('lake')}") from None
        self._schema = settings.schema_name
        self.place = shown.shown(settings.catalog)
        address = Address.of(settings)
        try:
            tls = (
                client_context(settings.ca_file) if settings.tls else False
            )  # None: TLS without verification
            self._connection: Any = pg8000.native.Connection(
                address.user,
                address.host,
                address.database,
                address.port,
                address.password,
                ssl_context=tls,
                timeout=ANSWER_SECONDS,
                application_name="hopscope lake",
            )
        except Exception as error:
            raise self._named(error) from None
        for name, value in (
            ("tcp_keepalives_idle", "10s"),
            ("tcp_keepalives_interval", "5s"),
            ("tcp_keepalives_count", "3"),
            ("lock_timeout", f"{LOCK_SECONDS:.0f}s"),
            ("search_path", f'"{self._schema}"'),
        ):
            self.run(f"SET {name} = '{value}'" if name != "search_path" else f"SET {name} = {value}")

    def run(self, statement: str, **given: Any) -> list[list[Any]]:
        """Rows of the answer of one statement; none if it has no rows."""
        try:
            return self._connection.run(statement, **given) or []
        except Exception as error:
            raise self._named(error) from None

    def _named(self, error: Exception) -> LakeError:
        fields = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        message = fields.get("M") or (str(error) or described(error))
        return LakeError(f"{self.place}: {message}")

    def check_language(self) -> None:
        """DuckLake recognises messages of conflicts, which it tries again, in English alone."""
        ((language,),) = self.run("SELECT current_setting('lc_messages')")
        if language and not language.startswith(_ENGLISH):
            raise LakeError(
                f"{self.place}: its messages are in {language}, expected English; as its superuser: "
                "ALTER SYSTEM SET lc_messages = 'C'; SELECT pg_reload_conf()"
            )

    def lock(self, name: str) -> None:
        """Hold a lock of the lake until `unlock`, or until the connection ends."""
        try:
            self.run("SELECT pg_advisory_lock(:space, :key)", space=_SPACE, key=self._key(name))
        except LakeError as error:
            if "lock timeout" not in str(error):
                raise
            raise LakeError(
                f"{self.place}: another process has held the lock {name!r} for {LOCK_SECONDS:.0f} s"
            ) from None

    def try_lock(self, name: str) -> bool:
        """Hold a lock, if no other session has it."""
        ((got,),) = self.run("SELECT pg_try_advisory_lock(:space, :key)", space=_SPACE, key=self._key(name))
        return bool(got)

    def unlock(self, name: str) -> None:
        """Give a lock back."""
        self.run("SELECT pg_advisory_unlock(:space, :key)", space=_SPACE, key=self._key(name))

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock for the length of a block."""
        self.lock(name)
        try:
            yield
        finally:
            self.unlock(name)

    def _key(self, name: str) -> int:
        """Number of a lock, int4: of this lake among those of the database."""
        return zlib.crc32(f"{self._schema}/{name}".encode()) - 2**31

    def close(self) -> None:
        """End the session."""
        with suppress(Exception):  # whatever is wrong with it, it is gone
            self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
