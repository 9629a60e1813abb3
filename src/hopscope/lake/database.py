"""PostgreSQL, the database of the catalog: connections in addition to DuckDB's own, and locks."""

from __future__ import annotations

import getpass
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from ..base.errors import HopscopeError, described
from ..base.extras import install_command
from ..base.tls import client_context
from ..settings.destinations import shown
from ..settings.lake import LakeSettings

ANSWER_SECONDS = 20.0
"""How long the database may take to answer."""
LOCK_SECONDS = 15.0
"""How long to wait for a lock; less than ANSWER_SECONDS."""
_SPACE = 0x686F70
"""First key of the advisory locks, which sets those of lakes apart from others."""
COMMIT = "commit"
"""The lock to hold for a commit. Without it, DuckLake retries whenever another commit came first, which takes
seconds if there are many members."""
_ENGLISH = ("C", "POSIX", "en_", "English")


class LakeError(HopscopeError):
    """The lake cannot be used now. The message is one line: the place, the problem, and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of the database, and the user."""

    host: str
    port: int
    database: str
    user: str
    password: str | None

    @classmethod
    def of(cls, settings: LakeSettings) -> Address:
        """The address in the settings. LakeError: the URL is invalid, or the password cannot be read."""
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
    """One connection. All methods may raise LakeError: the database reports an error, or does not answer.

    If a client disappears silently, the server ends its session, and releases its locks, after 25 s.
    """

    def __init__(self, settings: LakeSettings) -> None:
        try:
            import pg8000.native
        except ImportError:
            raise LakeError(f"lake: pg8000 is missing; install it with: {install_command('lake')}") from None
        self._schema = settings.schema_name
        self._answers = True
        self.place = shown.shown(settings.catalog)
        address = Address.of(settings)
        try:
            # None: TLS without verification
            tls = client_context(settings.ca_file) if settings.tls else False
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
        """Run one statement; returns its rows."""
        try:
            return self._connection.run(statement, **given) or []
        except Exception as error:
            raise self._named(error) from None

    def _named(self, error: Exception) -> LakeError:
        fields = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        self._answers = bool(fields)
        message = fields.get("M") or (str(error) or described(error))
        return LakeError(f"{self.place}: {message}")

    def check_language(self) -> None:
        """Check that messages are in English: only then, DuckLake recognises conflicts, after which it
        retries.
        """
        ((language,),) = self.run("SELECT current_setting('lc_messages')")
        if language and not language.startswith(_ENGLISH):
            raise LakeError(
                f"{self.place}: its messages are in {language}, expected English; as its superuser: "
                "ALTER SYSTEM SET lc_messages = 'C'; SELECT pg_reload_conf()"
            )

    def lock(self, name: str) -> None:
        """Take a lock of the lake, and hold it until `unlock`, or until the connection ends."""
        try:
            self.run("SELECT pg_advisory_lock(:space, :key)", space=_SPACE, key=self._key(name))
        except LakeError as error:
            if "lock timeout" not in str(error):
                raise
            raise LakeError(
                f"{self.place}: another process has held the lock {name!r} for {LOCK_SECONDS:.0f} s"
            ) from None

    def try_lock(self, name: str) -> bool:
        """Take a lock, unless another session holds it; returns whether it was taken."""
        ((got,),) = self.run("SELECT pg_try_advisory_lock(:space, :key)", space=_SPACE, key=self._key(name))
        return bool(got)

    def unlock(self, name: str) -> None:
        """Release a lock."""
        self.run("SELECT pg_advisory_unlock(:space, :key)", space=_SPACE, key=self._key(name))

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock during a `with` block."""
        self.lock(name)
        try:
            yield
        finally:
            self.unlock(name)

    def _key(self, name: str) -> int:
        """Second key of a lock, int4, which sets the locks of this lake apart from those of other lakes."""
        return zlib.crc32(f"{self._schema}/{name}".encode()) - 2**31

    def close(self) -> None:
        """Release all locks and end the session; the server may notice its end only later."""
        if self._answers:
            with suppress(LakeError):
                self.run("SELECT pg_advisory_unlock_all()")
        with suppress(Exception):  # whatever fails, the session is not used any more
            self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
