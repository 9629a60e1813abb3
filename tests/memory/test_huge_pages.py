"""Huge pages are recognised, and asked for in vain where there are none."""

from __future__ import annotations

import mmap
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hopscope.direct.stores.folder import open_stores
from hopscope.direct.stores.spec import parse_store
from hopscope.direct.stores.store import StoreError
from hopscope.memory.huge_pages import huge_share, huge_share_in, huge_zeros
from hopscope.memory.region import HUGE_PAGE
from hopscope.runtime.checks import environment
from hopscope.runtime.checks.environment import LARGE
from hopscope.runtime.pipeline.mode import Mode
from hopscope.settings.collector import Settings

SMAPS = """\
{low:x}-{high:x} rw-s 00000000 00:27 2     /stores/x.region
KernelPageSize:        4 kB
Rss:               65540 kB
AnonHugePages:         0 kB
ShmemPmdMapped:    49152 kB
FilePmdMapped:         0 kB
VmFlags: rd wr sh mr mw me ms sd hg
7fd000000000-7fd000001000 rw-p 00000000 00:00 0
Rss:                   4 kB
AnonHugePages:         4 kB
"""


def test_arrays_begin_with_a_huge_page() -> None:
    """Whatever their size, they are zeros that can be written, and rows of 64 bytes are cache lines."""
    for count in (1, 1 << 18, (1 << 18) + 1):
        array = huge_zeros(count, np.uint64)
        assert array.ctypes.data % HUGE_PAGE == 0
        assert array.dtype == np.uint64
        assert len(array) == count
        assert not array.any()
        array[-1] = 1


def test_the_mapping_of_an_address_is_found() -> None:
    """Three quarters of the resident pages of its mapping are huge; others do not count."""
    memory = np.zeros(4096, np.uint8)
    low = memory.ctypes.data & ~0xFFF
    assert huge_share(memory, SMAPS.format(low=low, high=low + 8192)) == pytest.approx(0.75, abs=1e-3)
    assert huge_share(memory, SMAPS.format(low=low + 8192, high=low + 16384)) == 0


def test_pages_of_hugetlbfs_are_huge() -> None:
    """Linux counts them in no Rss (proc_pid_smaps(5))."""
    memory = np.zeros(4096, np.uint8)
    low = memory.ctypes.data & ~0xFFF
    entry = f"{low:x}-{low + 8192:x} rw-s 00000000 00:27 2     /huge/x.region\n"
    assert huge_share(memory, entry + "Rss: 0 kB\nShared_Hugetlb:  0 kB\nPrivate_Hugetlb: 2048 kB\n") == 1


def test_a_region_takes_whole_blocks_of_its_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In hugetlbfs a file has huge pages only; its header states its size."""
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_bsize=2 << 20))
    specs = [parse_store("paths=key-write,bytes=3MiB")]
    open_stores(tmp_path, specs)
    assert (tmp_path / "paths.region").stat().st_size == 4 << 20
    assert open_stores(tmp_path, specs)["paths"].region.nbytes == 4 << 20


def test_small_pages_are_small() -> None:
    """Memory that must not have huge pages has none."""
    mapped = mmap.mmap(-1, 1 << 20)
    mapped.madvise(mmap.MADV_NOHUGEPAGE)
    memory = np.frombuffer(mapped, np.uint8)
    memory[::4096] = 1
    assert huge_share(memory) == 0


def test_a_store_in_small_pages_is_no_store_in_huge_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start says how to get huge pages; with them it goes on, and a small store needs none."""
    specs = [parse_store("paths=key-write,bytes=8MiB")]
    for share, small in ((0.1, "bytes=8MiB"), (0.9, "bytes=8MiB"), (0.1, "bytes=1MiB")):
        monkeypatch.setattr("hopscope.direct.stores.folder.huge_share", lambda _, share=share: share)
        specs = [parse_store(f"paths{small[6:7]}=key-write,{small}")]
        if share < 0.5 and small == "bytes=8MiB":
            with pytest.raises(StoreError, match="huge=always"):
                open_stores(tmp_path, specs, huge_pages=True)
        else:
            assert len(open_stores(tmp_path, specs, huge_pages=True)) == 1


@pytest.fixture(params=["always", "never"])
def tmpfs(
    tool: Callable[..., str], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[str, Path]]:
    """A tmpfs whose mount says whether its pages are huge."""
    folder = tmp_path / "tmpfs"
    folder.mkdir()
    mount = [tool("mount"), "-t", "tmpfs", "-o", f"huge={request.param},size=64m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield request.param, folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_pages_of_a_folder_are_found_by_a_try(tmpfs: tuple[str, Path]) -> None:
    """What a tmpfs is mounted with decides; nothing is left in it."""
    huge, folder = tmpfs
    share = huge_share_in(folder)
    assert share > 0.9 if huge == "always" else share == 0
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("share", "needed", "verdict"), [(1.0, LARGE, "good"), (0.0, LARGE, "advice"), (0.0, LARGE - 1, "good")]
)
def test_large_tables_are_advised_huge_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, needed: int, verdict: str
) -> None:
    """`hopscope check` names what to mount for tables that gain by it."""
    monkeypatch.setattr(environment, "huge_share_in", lambda _: share)
    monkeypatch.setattr(Mode, "state_bytes", lambda _: needed)
    settings = Settings(regions=tmp_path, data=tmp_path, listen=())
    finding = next(each for each in environment.findings(settings) if each.what == f"pages of {tmp_path}")
    assert finding.verdict == verdict
    assert ("huge=within_size" in finding.advice) == (verdict == "advice")
