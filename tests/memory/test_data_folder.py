"""The folder of shared memory is this user's own, whatever others have put in its place."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from hopscope.memory.data_folder import DataFolder, FolderError, owned_stores, read_owner
from hopscope.memory.private_file import HASH_SECRET, hash_secret, make_hash_secret
from hopscope.memory.region import Region
from support.processes.small_disk import fill, small_disk


def test_a_link_in_place_of_the_regions_is_not_followed(tmp_path: Path) -> None:
    """A link to a folder of the same user: its files stay, nothing is made in it, and it starts."""
    victim, shared = tmp_path / "victim", tmp_path / "shm"
    victim.mkdir()
    shared.mkdir()
    (victim / "id_rsa").write_text("secret")
    folder = DataFolder(tmp_path / "data", shared)
    trap = folder.regions
    trap.symlink_to(victim)
    with folder:
        assert folder.regions != trap
        assert folder.regions.lstat().st_mode & 0o777 == 0o700
        assert (tmp_path / "data" / "regions").resolve() == folder.regions
    assert [path.name for path in victim.iterdir()] == ["id_rsa"]
    assert trap.is_symlink()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, mode: int) -> None:
    """Another folder is made beside it, and the files in it stay."""
    folder = DataFolder(tmp_path / "data", tmp_path)
    trap = folder.regions
    trap.mkdir()
    trap.chmod(mode)
    (trap / "theirs").touch()
    with folder:
        assert folder.regions.parent == trap.parent
        assert folder.regions != trap
    assert (trap / "theirs").exists()


def test_a_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    """It cannot keep the collector from starting."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    folder = DataFolder(tmp_path / "data", tmp_path)
    trap = folder.regions
    trap.mkdir(mode=0o700)
    os.chown(trap, 65534, 65534)
    with folder:
        assert folder.regions != trap
        assert folder.regions.stat().st_uid == 0


def test_regions_that_another_collector_uses_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two data folders with one path, in two mount namespaces (containers) that share /dev/shm: the second
    collector takes other regions, and leaves those of the first whole.
    """
    monkeypatch.setattr("hopscope.memory.data_folder.USED_SECONDS", 0.0, raising=False)
    path, elsewhere, shared = tmp_path / "data", tmp_path / "mounted elsewhere", tmp_path / "shm"
    with DataFolder(path, shared) as first:
        (first.regions / "worker-0.events").write_bytes(b"theirs")
        path.rename(elsewhere)
        with DataFolder(path, shared) as second:
            assert second.regions != first.regions
            assert (path / "regions").resolve() == second.regions
        assert (first.regions / "worker-0.events").read_bytes() == b"theirs"
        copy = path / "regions"  # a copy of the first folder with its link
        copy.symlink_to(first.regions)
        with DataFolder(path, shared) as third:
            assert third.regions != first.regions
        assert (first.regions / "worker-0.events").read_bytes() == b"theirs"


def test_what_a_killed_collector_left_is_removed(tmp_path: Path) -> None:
    """Of its first or a later name; links in it are removed, not followed; its distributions are rescued."""
    kept = tmp_path / "kept"
    kept.write_text("x")
    rescued: list[Path] = []

    def note(regions: Path) -> list[Path]:
        rescued.append(regions)
        return []

    for trapped in (False, True):
        folder = DataFolder(tmp_path / "data", tmp_path, lambda _, regions: note(regions))
        if trapped:
            folder.regions.mkdir(exist_ok=True)
            folder.regions.chmod(0o777)
        folder.acquire()
        left = folder.regions
        (left / "worker-0.distributions").touch()
        (left / "worker-0.events").touch()
        os.link(kept, left / "linked")
        for lock in folder.locks:  # it was killed
            os.close(lock)
        following = DataFolder(tmp_path / "data", tmp_path, lambda _, regions: note(regions))
        with following:
            assert rescued[-1] == left
            assert not list(following.regions.iterdir())
            assert left == following.regions or not left.exists()
    assert kept.read_text() == "x"


def test_a_folder_that_was_deleted_gives_nothing_to_its_successor(tmp_path: Path) -> None:
    """Regions of a killed collector whose data folder is gone are deleted, and not rescued, by the next one
    at the same path: their events are of another history, with ids of its flows by another secret.
    """
    rescued: list[Path] = []

    def note(_: Path, regions: Path) -> list[Path]:
        rescued.append(regions)
        return []

    first = DataFolder(tmp_path / "data", tmp_path, note)
    first.acquire()
    (first.regions / "worker-0.events").touch()
    for descriptor in first.locks:  # it was killed
        os.close(descriptor)
    shutil.rmtree(first.path)
    with DataFolder(tmp_path / "data", tmp_path, note) as following:
        assert following.regions == first.regions
        assert not list(following.regions.iterdir())
    assert not rescued


@pytest.mark.parametrize("regions", ["whole", "deleted", "of another user"])
def test_a_crash_is_told_from_an_end(tmp_path: Path, regions: str) -> None:
    """Also after a reboot, which deletes the regions, and if the collector is started again as another user:
    alarms are left, for each start until they have been ended; not after an end.
    """
    if regions == "of another user" and os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    killed = DataFolder(tmp_path / "data", tmp_path)
    killed.acquire()
    assert not killed.alarms_left
    if regions == "deleted":
        shutil.rmtree(killed.regions)
    elif regions == "of another user":
        os.chown(killed.regions, 65534, 65534)
    for descriptor in killed.locks:
        os.close(descriptor)
    for left, fails in ((True, True), (True, False), (False, False)):
        with DataFolder(tmp_path / "data", tmp_path) as folder:
            assert folder.alarms_left == left
            folder.alarms_left = fails
        assert not folder.regions.exists()


def test_other_users_cannot_read_data(tmp_path: Path) -> None:
    """A folder loses its permissions for others, also one that was there before; regions have none."""
    for mode in (None, 0o755, 0o777):
        data, stores = tmp_path / f"data{mode}", tmp_path / f"stores{mode}"
        for folder in (data, stores):
            if mode is not None:
                folder.mkdir()
                folder.chmod(mode)
        with DataFolder(data, tmp_path) as owned, owned_stores(stores):
            for folder in (data, stores):
                assert stat.S_IMODE(folder.stat().st_mode) & 0o007 == 0
            region = Region.create(owned.regions / "one.region", "one", 1, {"x": ("<u8", 4)})
            assert stat.S_IMODE((owned.regions / "one.region").stat().st_mode) & 0o007 == 0
            region.close()


def test_regions_of_a_dead_collector_are_removed_by_another(tmp_path: Path) -> None:
    """What a killed collector left is removed by the start of one with another data folder, after what waited
    is in its own history; regions in use, of no known owner, or of a folder that is locked stay, and so do
    those with events that their disk does not take.
    """
    rescued: list[tuple[Path, Path]] = []
    told: list[str] = []

    def note(data: Path, regions: Path) -> list[Path]:
        rescued.append((data, regions))
        return [regions / "worker-0.events"] if data.name == "full" else []

    def folder(name: str) -> DataFolder:
        made = DataFolder(tmp_path / name, tmp_path, note)
        made.acquire()
        made.write_owner()
        (made.regions / "worker-0.events").touch()
        return made

    dead, full, gone, alive, locked = (folder(name) for name in ("dead", "full", "gone", "alive", "locked"))
    unknown = tmp_path / "hopscope-unknown"
    unknown.mkdir(mode=0o700)
    for killed in (dead, full, gone):
        for descriptor in killed.locks:
            os.close(descriptor)
    os.close(locked.locks[1])
    shutil.rmtree(tmp_path / "gone")
    other = folder("other")
    other.remove_orphans(told.append)
    assert not dead.regions.exists()
    assert not gone.regions.exists()
    assert sorted(rescued) == [(left.path, left.regions) for left in (dead, full)]
    assert full.regions.exists()
    assert alive.regions.exists()
    assert locked.regions.exists()
    assert unknown.exists()
    assert len(told) == 3
    alive.close()
    other.close()


def test_the_secret_of_hashes_is_nobody_elses(tmp_path: Path) -> None:
    """It is made once, stays with the folder, and is not used while others can read it."""
    folder = tmp_path / "data"
    with DataFolder(folder, tmp_path / "regions"):
        secret = folder / HASH_SECRET
        assert secret.stat().st_mode & 0o777 == 0o600
        first = hash_secret(folder)
    with DataFolder(folder, tmp_path / "regions"):
        assert hash_secret(folder) == first
    secret.chmod(0o644)
    assert hash_secret(folder) == hash_secret(None) == b""


def test_a_secret_is_made_when_the_disk_has_room_again(tmp_path: Path) -> None:
    """A full disk leaves no empty file, which would be taken for somebody else's from then on. Processes of
    the collector that found none have none, also if they start when there is room: they share tables.
    """
    with small_disk(tmp_path / "disk", "1m") as disk:
        ballast = fill(disk)
        make_hash_secret(disk)
        assert hash_secret(disk) == b""
        ballast.unlink()
        assert hash_secret(disk) == b""
        make_hash_secret(disk)
        assert len(hash_secret(disk)) == 32


def test_a_folder_is_left_to_another_process(tmp_path: Path) -> None:
    """Who adopts it owns it and its regions as they are, without a moment at which a third could take it."""
    first, second, third = (DataFolder(tmp_path / "data", tmp_path) for _ in range(3))
    first.acquire()
    (first.regions / "worker-0.counters").write_bytes(b"state")
    second.adopt(first.regions, [os.dup(lock) for lock in first.locks])
    first.close(left=True)
    assert (second.regions / "worker-0.counters").read_bytes() == b"state"
    second.write_owner()
    with pytest.raises(FolderError, match="is used by another collector"):
        third.acquire()
    second.close()
    assert not second.regions.exists()
    third.acquire()
    third.close()


def test_an_owner_that_is_written_again_started_once(tmp_path: Path) -> None:
    """As after settings were read again: counts begin at the start, and a start is how restarts are found."""
    with DataFolder(tmp_path / "data") as folder:
        folder.write_owner(names="first")
        started_ns = read_owner(folder.path)["started_ns"]
        folder.write_owner(names="second")
        assert read_owner(folder.path)["started_ns"] == started_ns
        assert read_owner(folder.path)["names"] == "second"


def test_an_owner_on_a_full_disk(tmp_path: Path) -> None:
    """A collector starts, and reads its settings again, on a disk that has no room for one more file."""
    with small_disk(tmp_path / "small", "1m") as small:
        data = small / "data"
        with DataFolder(data, tmp_path) as folder:
            folder.write_owner(names="a file with a long name")
            fill(small)
            folder.write_owner(names="short")
            assert read_owner(data)["names"] == "short"
            with pytest.raises(FolderError, match=r"owner\.json: No space left on device"):
                folder.write_owner(names="x" * 8192)
            assert read_owner(data)["names"] == "short"
            assert not (data / ".owner.json").exists()


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    """It is rejected in one line, and nothing is made."""
    folder = tmp_path / os.fsdecode(b"\xff")
    with pytest.raises(FolderError, match="udcff': not UTF-8; choose another one with --data"):
        DataFolder(folder, tmp_path).acquire()
    assert list(tmp_path.iterdir()) == []
