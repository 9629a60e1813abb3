"""Ownership of a data folder: its lock, its schema, and the folder of its shared memory."""

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
"""File of operators' accounts and decisions; it may exist before a collector has used the folder."""
OWNER_NAME = "data-folder"
"""File in a folder of regions, with the path of the data folder that they belong to."""
LINGER_SECONDS = 15.0
"""How long the processes of a killed supervisor may need to notice this and close their journals."""

USED_SECONDS = 1.0
"""If regions are still locked after this time, they belong to another collector."""


class FolderError(HopscopeError):
    """A data folder cannot be used; the message states the folder, the reason, and what to do."""


def read_owner(folder: Path) -> dict[str, Any]:
    """The content of `owner.json`: schema, pid, version, regions, started_ns, events (their layout); and from
    a collector also api, listen, labels, names, links, listeners, retention, sink, clock_problem,
    clock_ahead_ns. Empty if no process has owned the folder.
    """
    try:
        owner = json.loads((folder / "owner.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def make_folder(path: Path) -> None:
    """Create a data folder, to which other users have no access, if it does not exist. Raises FolderError."""
    try:
        str(path).encode()
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(path, error) from error
    except UnicodeEncodeError:  # the path is written into UTF-8 files, and DuckDB accepts only UTF-8
        shown = ascii(str(path))
        raise FolderError(f"data folder {shown}: not UTF-8; choose another one with --data") from None


def _unusable(path: Path, error: OSError) -> FolderError:
    foreign = isinstance(error, FileExistsError | NotADirectoryError)
    reason = "is not a folder" if foreign else error.strerror
    return FolderError(f"data folder {path}: {reason}; choose another one with --data")


def check_is_folder(path: Path) -> None:
    """Raise FolderError if there is no data folder to read."""
    if not path.is_dir():
        found = "is not a folder" if path.exists() else "does not exist"
        raise FolderError(f"data folder {path} {found}; choose another one with --data")


class DataFolder:
    """A data folder that this process owns from `acquire` to `close`. Raises FolderError.

    Child processes inherit the open file that holds the lock (`lock`), so if the supervisor is killed, the
    folder stays locked until the last worker has closed its journal.
    """

    def __init__(
        self,
        path: Path,
        regions: Path | None = None,
        rescue: Callable[[Path, Path], list[Path]] | None = None,
    ) -> None:
        self.path = path.absolute()
        self.regions = _regions_folder(self.path, regions)
        """The folder of regions; `acquire` chooses another name if this one is in use."""
        self._rescue = rescue
        """Called with the data folder and its regions if the last collector was killed, before its regions
        are deleted; returns files that must be kept.
        """
        self.events_wait = False
        """Whether rings may have events that are not on disk; if so, `close` keeps the rings, and the link to
        them.
        """
        self.alarms_left = False
        """Whether the last collector was killed, so that history may have alarms that nothing ends. Unless
        this is reset, `close` keeps the link `regions`, by which the next `acquire` sees it, too.
        """
        self.lock = -1
        """Descriptor of the lock, which child processes inherit."""
        self._started_ns = time.time_ns()
        self._regions_lock = -1
        """Descriptor of the locked folder of regions; as long as any process has it open, the regions are in
        use.
        """

    @property
    def locks(self) -> list[int]:
        """Descriptors that child processes inherit; while one of these processes lives, both folders are in
        use.
        """
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
        """Take over the folder with the locks of another process, which leaves it
        and its regions unchanged.
        """
        self.regions = regions
        self.lock, self._regions_lock = locks

    def _reject_foreign(self) -> None:
        names = sorted(
            entry.name
            for entry in os.scandir(self.path)
            if entry.name != STORES
            and not entry.name.startswith(OPERATORS_FILE)  # SQLite adds files that end with -wal and -shm
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
        link = self.path / "regions"
        self.alarms_left = link.is_symlink()
        previous = self._previous_regions()
        owned = [folder for folder in {previous, self.regions} if folder is not None and _is_own(folder)]
        used = [folder for folder in owned if _in_use(folder)]
        for folder in owned:
            if folder not in used and self._empty(folder, rescue=folder == previous):
                self.regions, self.events_wait = folder, True
        try:
            self.regions.parent.mkdir(parents=True, exist_ok=True)
            if not _is_own(self.regions):  # it may be missing, or made by another user
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
        draft = self.path / f".regions.{os.getpid()}"
        draft.unlink(missing_ok=True)
        draft.symlink_to(self.regions)
        draft.replace(link)

    def _previous_regions(self) -> Path | None:
        """Folder of regions of the last collector, if it was killed (the link to it is deleted at the end)
        and belonged to this data folder.
        """
        try:
            folder = Path((self.path / "regions").readlink())
        except OSError:
            return None
        return folder if folder.name.startswith(self.regions.name) else None

    def _empty(self, folder: Path, *, rescue: bool) -> bool:
        """Delete the regions of a collector that has ended. With `rescue`, events that wait in them are first
        written into history; without, the regions belong to an earlier data folder at this path. Returns
        whether some files must be kept.
        """
        rescue_files = self._rescue if rescue and any(folder.glob("worker-*")) else None
        kept = rescue_files(self.path, folder) if rescue_files else []
        _delete_files(folder, {path.name for path in kept})
        if folder != self.regions and not kept:
            with suppress(OSError):
                folder.rmdir()
        return bool(kept)

    def remove_orphans(self, warn: Callable[[str], object]) -> None:
        """Remove the regions that killed collectors of this user have left beside these regions, whatever
        their data folder. Events that wait in them are written into its history. `warn` gets a line for each.
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
        """Remove these regions if they were left by a killed collector of `data`;
        returns whether they were.
        """
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
        """Write `owner.json` atomically, and the path of the data folder into the folder of regions.

        If the disk is full, the text is written over the previous one in the existing file.
        """
        (self.regions / OWNER_NAME).write_text(str(self.path), encoding="utf-8")
        owner = {
            "schema": SCHEMA,
            "pid": os.getpid(),
            "version": VERSION,
            "regions": str(self.regions),
            "started_ns": self._started_ns,
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
        """Delete the shared memory, except rings if `events_wait`; delete the link to it, unless
        `events_wait` or `alarms_left`; and release the lock. `left`: leave the shared memory, because another
        process has adopted the folder.
        """
        if self.lock < 0:
            return
        if self.events_wait and not left:
            with suppress(OSError):
                _delete_files(
                    self.regions, {OWNER_NAME, *(path.name for path in self.regions.glob("worker-*.events"))}
                )
        elif not left and self._regions_lock >= 0:
            shutil.rmtree(self.regions, ignore_errors=True)
            with suppress(OSError):
                link = self.path / "regions"
                # it may be that of another data folder, moved here meanwhile
                if link.readlink() == self.regions and not self.alarms_left:
                    link.unlink()
        if self._regions_lock >= 0:  # before the other lock, whose next owner must find these regions free
            os.close(self._regions_lock)
            self._regions_lock = -1
        os.close(self.lock)
        self.lock = -1

    def __enter__(self) -> DataFolder:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def owned_stores(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of stores, which may have only one writer, and let queries find the folder
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
    """Listen on a socket to which nobody connects, so that queries find its folder. If the path is too long
    for the name of a socket, there is none.
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
    """Overwrite a file within the blocks that it has on disk; False if there is no
    file, or too little room.
    """
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
    """Delete all files in a folder, which must not be a link, except those with the names `kept`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for entry in os.scandir(descriptor):
            if entry.is_file(follow_symlinks=False) and entry.name not in kept:
                os.unlink(entry.name, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file or folder; False if another process has locked it."""
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
    """Remove other users' permissions from a folder, since it shows who communicated with whom."""
    state = folder.stat()
    if state.st_mode & 0o007 and state.st_uid == os.geteuid():
        folder.chmod(stat.S_IMODE(state.st_mode) & ~0o007)


def _is_own(folder: Path) -> bool:
    """Whether this is a folder (not a link) to which only this user can write."""
    try:
        state = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022


def _in_use(folder: Path) -> bool:
    """Whether another collector uses these regions; its data folder has the same path in another mount
    namespace. Waits a moment, because a process that is being killed releases its regions a little later than
    its data folder.
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
    """The reason why `folder`, or its future parent, is not writable; None if it is."""
    try:
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)
