"""Data folder ownership: lock, schema, and the folder of its shared memory."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from ..base.errors import HopscopeError
from ..base.version import VERSION
from .private_file import make_hash_secret
from .running import STORES_SOCKET

SCHEMA = 1
"""Version of the data folder's layout; a higher one is rejected."""
SHARED_MEMORY = Path("/dev/shm")
STORES = "direct"
"""Subfolder owned by a translator or a software NIC, not by the collector."""
OPERATORS_FILE = "console.sqlite"
"""What operators decide; it may be in the folder before a collector is."""
OWNER_NAME = "data-folder"
"""File in a folder of regions: path of the data folder that they belong to."""
LINGER_SECONDS = 15.0
"""Time that the processes of a killed supervisor may need to notice it and close their journals."""

USED_SECONDS = 1.0
"""Time after which regions that are still locked belong to another collector."""


class FolderError(HopscopeError):
    """The data folder cannot be used; the message says which one, why, and what to do."""


def read_owner(folder: Path) -> dict[str, Any]:
    """`owner.json`: schema, pid, version, regions, started_ns, events (their layout), and of a collector api,
    listen, labels, names, links, listeners, retention, sink, clock_problem, clock_ahead_ns; empty if none
    has run.
    """
    try:
        owner = json.loads((folder / "owner.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def make_folder(path: Path) -> None:
    """Make a data folder, closed to other users, if there is none. Raises FolderError."""
    try:
        str(path).encode()
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(path, error) from error
    except UnicodeEncodeError:  # it is in files that are UTF-8, and DuckDB takes no other
        shown = ascii(str(path))
        raise FolderError(f"data folder {shown}: not UTF-8; choose another one with --data") from None


def _unusable(path: Path, error: OSError) -> FolderError:
    foreign = isinstance(error, FileExistsError | NotADirectoryError)
    what = "is not a folder" if foreign else error.strerror
    return FolderError(f"data folder {path}: {what}; choose another one with --data")


def check_is_folder(path: Path) -> None:
    """Raises FolderError if there is no data folder to read."""
    if not path.is_dir():
        found = "is not a folder" if path.exists() else "does not exist"
        raise FolderError(f"data folder {path} {found}; choose another one with --data")


class DataFolder:
    """A data folder owned by this process: `acquire` it, `close` it. Raises FolderError.

    Child processes inherit the open file that holds the lock (`lock`), so after a supervisor is killed the
    folder stays locked until its last worker has closed its journal.
    """

    def __init__(
        self,
        path: Path,
        regions: Path | None = None,
        rescue: Callable[[Path, Path], list[Path]] | None = None,
    ) -> None:
        self.path = path.absolute()
        self.regions = _regions_folder(self.path, regions)
        """Folder of this data folder's regions; `acquire` chooses another name if this one is taken."""
        self._rescue = rescue
        """Called with the folder and its regions before those of a collector that has ended are deleted;
        returns files that must stay.
        """
        self.events_wait = False
        """Whether rings hold events that the disk does not take: they stay when the folder is closed."""
        self.lock = -1
        """Descriptor of the lock, to be inherited by child processes."""
        self._regions_lock = -1
        """Descriptor of the folder of regions, locked: while any process has it, the regions are used."""

    @property
    def locks(self) -> list[int]:
        """Descriptors that child processes inherit: while one of them lives, both folders are in use."""
        return [self.lock, self._regions_lock]

    def acquire(self) -> None:
        """Lock the folder, create its subfolders, and empty its regions."""
        make_folder(self.path)
        try:
            self._reject_foreign()
            self.lock = self._locked()
            hide(self.path)
            self._reject_newer()
            for part in ("journal", "segments"):
                (self.path / part).mkdir(exist_ok=True)
            self._make_regions()
            make_hash_secret(self.path)
        except OSError as error:
            self.close()
            raise _unusable(self.path, error) from error
        except FolderError:
            self.close()
            raise

    def adopt(self, regions: Path, locks: list[int]) -> None:
        """Own the folder by the locks of another process, which leaves it and its regions as they are."""
        self.regions = regions
        self.lock, self._regions_lock = locks

    def _reject_foreign(self) -> None:
        names = sorted(
            entry.name
            for entry in os.scandir(self.path)
            if entry.name != STORES and not entry.name.startswith(OPERATORS_FILE)  # it has a -wal, a -shm
        )
        if names and "owner.lock" not in names:
            raise FolderError(
                f"data folder {self.path} holds files that are not Hopscope's ({', '.join(names[:3])}"
                f"{', …' if len(names) > 3 else ''}); choose an empty folder with --data"
            )

    def _locked(self) -> int:
        import fcntl  # not available on Windows, where collecting is not supported

        descriptor = os.open(self.path / "owner.lock", os.O_RDWR | os.O_CREAT, 0o640)
        until = time.monotonic() + LINGER_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                pid = read_owner(self.path).get("pid")
                if (isinstance(pid, int) and _alive(pid)) or time.monotonic() > until:
                    os.close(descriptor)
                    raise FolderError(
                        f"data folder {self.path} is used by another collector (pid {pid}); "
                        "stop it, or choose another folder with --data"
                    ) from None
                time.sleep(0.05)

    def _reject_newer(self) -> None:
        schema = read_owner(self.path).get("schema", SCHEMA)
        if schema != SCHEMA:
            raise FolderError(
                f"data folder {self.path} has schema {schema}, and this version of Hopscope ({VERSION}) "
                f"knows {SCHEMA}; use the version that wrote it, or choose another folder with --data"
            )

    def _make_regions(self) -> None:
        previous = self._previous_regions()
        owned = [folder for folder in {previous, self.regions} if folder is not None and _is_own(folder)]
        used = [folder for folder in owned if _in_use(folder)]
        for folder in owned:
            if folder not in used and self._empty(folder, rescue=folder == previous):
                self.regions, self.events_wait = folder, True
        try:
            self.regions.parent.mkdir(parents=True, exist_ok=True)
            if not _is_own(self.regions):  # whatever is there, another user may have put it there
                with suppress(FileExistsError):
                    self.regions.mkdir(mode=0o700)
            if self.regions in used or not _is_own(self.regions):
                self.regions = Path(tempfile.mkdtemp(prefix=f"{self.regions.name}-", dir=self.regions.parent))
        except OSError as error:
            raise FolderError(
                f"{self.regions}: {error.strerror}; choose another folder with --regions"
            ) from error
        self._regions_lock = os.open(self.regions, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        _lock(self._regions_lock)
        link = self.path / "regions"
        draft = self.path / f".regions.{os.getpid()}"
        draft.unlink(missing_ok=True)
        draft.symlink_to(self.regions)
        draft.replace(link)

    def _previous_regions(self) -> Path | None:
        """Folder of the regions of the collector that ran last, if it was one of this data folder."""
        try:
            folder = Path((self.path / "regions").readlink())
        except OSError:
            return None
        return folder if folder.name.startswith(self.regions.name) else None

    def _empty(self, folder: Path, *, rescue: bool) -> bool:
        """Delete the regions of a collector that has ended. `rescue`: what waited in them goes into history;
        else they are of an earlier data folder at this path. Returns whether some must stay.
        """
        wanted = self._rescue if rescue and any(folder.glob("worker-*")) else None
        kept = wanted(self.path, folder) if wanted else []
        _delete_files(folder, {path.name for path in kept})
        if folder != self.regions and not kept:
            with suppress(OSError):
                folder.rmdir()
        return bool(kept)

    def remove_orphans(self, warn: Callable[[str], object]) -> None:
        """Remove regions beside these that killed collectors of this user left, of whatever data folder; what
        waited in them goes into their history. `warn` gets a line for each.
        """
        for folder in self.regions.parent.glob("hopscope-*"):
            if folder == self.regions or not _is_own(folder):
                continue
            try:
                data = Path((folder / OWNER_NAME).read_text(encoding="utf-8"))
                if self._remove_orphan(folder, data):
                    warn(f"{folder}: removed; a killed collector with data folder {data} left it")
            except (HopscopeError, OSError, ValueError) as error:
                if folder.exists() and not isinstance(error, FileNotFoundError):
                    warn(f"{folder}: a killed collector left it, and it cannot be removed ({error})")

    def _remove_orphan(self, folder: Path, data: Path) -> bool:
        """Whether these regions were left by a killed collector of `data`, and are removed."""
        with ExitStack() as opened:
            files = [(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)]
            if (data / "owner.lock").exists():
                files.append((data / "owner.lock", os.O_RDWR))
            for path, flags in files:
                descriptor = os.open(path, flags)
                opened.callback(os.close, descriptor)
                if not _lock(descriptor):
                    return False
            rescue = self._rescue if len(files) > 1 and any(folder.glob("worker-*")) else None
            if rescue and rescue(data, folder):
                raise FolderError("the disk does not take the events that wait there")
            shutil.rmtree(folder)
            return True

    def write_owner(self, **more: Any) -> None:
        """Write `owner.json` atomically, and into the folder of regions to whom it belongs.

        On a full disk, the text takes the place of the one before in its file.
        """
        (self.regions / OWNER_NAME).write_text(str(self.path), encoding="utf-8")
        owner = {
            "schema": SCHEMA,
            "pid": os.getpid(),
            "version": VERSION,
            "regions": str(self.regions),
            "started_ns": time.time_ns(),
            **more,
        }
        path, draft = self.path / "owner.json", self.path / ".owner.json"
        text = (json.dumps(owner, indent=1) + "\n").encode()
        try:
            draft.write_bytes(text)
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            if not _overwrite(path, text):
                raise FolderError(f"{path}: {error.strerror}") from error

    def close(self, *, left: bool = False) -> None:
        """Delete the shared memory, but for rings if `events_wait`, and release the lock; `left`: another
        process has adopted both.
        """
        if self.lock < 0:
            return
        if self.events_wait and not left:
            with suppress(OSError):
                _delete_files(
                    self.regions, {OWNER_NAME, *(path.name for path in self.regions.glob("worker-*.events"))}
                )
        elif not left:
            shutil.rmtree(self.regions, ignore_errors=True)
        if self._regions_lock >= 0:  # first: who gets the other lock finds these regions free
            os.close(self._regions_lock)
            self._regions_lock = -1
        os.close(self.lock)
        self.lock = -1

    def __enter__(self) -> DataFolder:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def owned_stores(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of stores, which has one writer, and let queries find it
    (`running.running_stores`). Raises FolderError.
    """
    import fcntl  # not available on Windows, where collecting is not supported

    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        hide(folder)
        lock = (folder / "owner.lock").open("ab")
    except OSError as error:
        raise FolderError(f"folder of stores {folder}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(
                f"folder of stores {folder} is written by another translator or software NIC; "
                "stop it, or choose another folder with --data"
            ) from None
        with _findable(folder.absolute() / STORES_SOCKET):
            yield


@contextmanager
def _findable(place: Path) -> Iterator[None]:
    """Listen on a socket that nobody connects to, so that queries find its folder; without it if the path is
    too long for the name of a socket.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        with suppress(OSError):
            place.unlink(missing_ok=True)
            listener.bind(str(place))
            listener.listen()
        try:
            yield
        finally:
            place.unlink(missing_ok=True)


def _overwrite(path: Path, text: bytes) -> bool:
    """Write into the blocks that a file has on the disk; False: there is none, or they have no room."""
    try:
        with path.open("rb+") as file:
            if len(text) > os.fstat(file.fileno()).st_blocks * 512:
                return False
            file.write(text)
            file.truncate()
    except OSError:
        return False
    return True


def _delete_files(folder: Path, kept: set[str]) -> None:
    """Delete the files of a folder that is not a link, but for some names."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for entry in os.scandir(descriptor):
            if entry.is_file(follow_symlinks=False) and entry.name not in kept:
                os.unlink(entry.name, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file or folder; False: another process has locked it."""
    import fcntl  # not available on Windows, where collecting is not supported

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _regions_folder(data: Path, chosen: Path | None) -> Path:
    name = f"hopscope-{hashlib.blake2b(os.fsencode(data.resolve()), digest_size=6).hexdigest()}"
    if chosen is not None:
        return chosen.absolute() / name
    if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK):
        return SHARED_MEMORY / name
    return data / "regions.d"


def hide(folder: Path) -> None:
    """Take a folder's permissions of other users away: it holds who talked to whom."""
    state = folder.stat()
    if state.st_mode & 0o007 and state.st_uid == os.geteuid():
        folder.chmod(stat.S_IMODE(state.st_mode) & ~0o007)


def _is_own(folder: Path) -> bool:
    """Whether this is a folder, not a link to one, that only this user can write."""
    try:
        state = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022


def _in_use(folder: Path) -> bool:
    """Whether another collector has these regions: one whose data folder has this path in another mount
    namespace. Those of a process that is just being killed are free a moment after its data folder.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        until = time.monotonic() + USED_SECONDS
        while not _lock(descriptor):
            if time.monotonic() > until:
                return True
            time.sleep(0.05)
        return False
    finally:
        os.close(descriptor)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def check_writable(folder: Path) -> str | None:
    """Reason why `folder`, or its future parent, is not writable; None: it is."""
    try:
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)
