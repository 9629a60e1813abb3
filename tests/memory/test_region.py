"""Regions: what is written is read by another mapping, and what is foreign is rejected with its reason."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.records import EVENT, FLOW_ROW
from hopscope.memory.region import ALIGN, Region, RegionError

ARRAYS = {"count": (np.uint64, 3), "rows": (FLOW_ROW, 5), "events": (EVENT, 7)}


def test_attach_sees_writes(tmp_path: Path) -> None:
    """A second mapping has the same arrays, dtypes and values, aligned, and follows later writes."""
    made = Region.create(tmp_path / "a", "test", 3, ARRAYS)
    made["events"]["path"][4, 2] = 77
    seen = Region.attach(tmp_path / "a", "test", 3)
    assert seen.shape() == made.shape()
    assert seen["events"]["path"][4, 2] == 77
    made["rows"]["tag"][1, 11] = 5
    assert seen["rows"]["tag"][1, 11] == 5
    for name in ARRAYS:
        assert seen[name].ctypes.data % ALIGN == 0
        assert not seen[name].flags.writeable


def test_records_are_the_declared_ones(tmp_path: Path) -> None:
    """Arrays of records have the declared dtype itself, in each mapping: kernels compare any other, if equal,
    field by field at every call.
    """
    made = Region.create(tmp_path / "a", "test", 3, ARRAYS)
    for region in (made, Region.attach(tmp_path / "a", "test", 3), Region.create(None, "test", 3, ARRAYS)):
        assert region["rows"].dtype is FLOW_ROW
        assert region["events"].dtype is EVENT


def test_attach_writable(tmp_path: Path) -> None:
    """A writable mapping's writes reach the file."""
    Region.create(tmp_path / "a", "test", 1, ARRAYS).close()
    with Region.attach(tmp_path / "a", "test", 1, writable=True) as again:
        again["count"][2] = 9
    assert Region.attach(tmp_path / "a", "test", 1)["count"].tolist() == [0, 0, 9]


def test_private_region() -> None:
    """Without a path a region is plain memory, zeroed and writable."""
    region = Region.create(None, "test", 1, {"big": (np.uint64, 1 << 19), "none": (np.uint8, 0)})
    assert region.is_current()
    assert not region["big"].any()
    region["big"][-1] = 1
    assert len(region["none"]) == 0


@pytest.mark.parametrize("again", [False, True])
def test_moved_while_it_is_attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    """A file that goes away, or makes place for another, between opening and mapping is still that file."""
    path = tmp_path / "a.region"
    Region.create(path, "test", 1, {"x": (np.uint8, 4)})["x"][:] = 1

    def move(_: object) -> None:
        monkeypatch.undo()
        path.rename(tmp_path / "b.region")
        if again:
            Region.create(path, "test", 1, {"x": (np.uint8, 4)})

    monkeypatch.setattr("hopscope.memory.region._advise", move)
    region = Region.attach(path, "test", 1)
    assert region["x"].tolist() == [1] * 4
    assert not region.is_current()


def test_created_again(tmp_path: Path) -> None:
    """A region made again leaves the old one to whoever mapped it, who can tell; no draft stays after."""
    old = Region.create(tmp_path / "a", "test", 1, {"count": (np.uint64, 1)})
    old["count"][0] = 1
    new = Region.create(tmp_path / "a", "test", 1, {"count": (np.uint64, 1)})
    assert (old["count"][0], new["count"][0]) == (1, 0)
    assert not old.is_current()
    assert new.is_current()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda b: b"", "not a Hopscope region"),
        (lambda b: b"PAR1" + b[4:], "not a Hopscope region"),
        (lambda b: b[:40], "not a Hopscope region"),
        (lambda b: b[:8] + b"\x09" + b[9:], "header format 9"),
        (lambda b: b[:12] + bytes([1, 2, 3, 4]) + b[16:], "byte order mark"),
        (lambda b: b[:-1], "the file is truncated"),
        (lambda b: b[:64], "the file is truncated"),
        (lambda b: b[:66] + b"\xff" + b[67:], "array table is damaged"),
    ],
)
def test_foreign_files_are_rejected(tmp_path: Path, damage: object, found: str) -> None:
    """A damaged or foreign file is a RegionError that names the file and what was found in it."""
    path = tmp_path / "a"
    Region.create(path, "test", 1, ARRAYS).close()
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(RegionError, match=found) as error:
        Region.attach(path, "test", 1)
    assert str(path) in str(error.value)


def test_other_kind_and_version_are_rejected(tmp_path: Path) -> None:
    """Kind and schema version must be what was asked for; both are reported."""
    Region.create(tmp_path / "a", "flows", 2, ARRAYS)
    with pytest.raises(RegionError, match="kind 'flows', expected 'ports'"):
        Region.attach(tmp_path / "a", "ports", 2)
    with pytest.raises(RegionError, match="schema version 2 of 'flows', expected 3"):
        Region.attach(tmp_path / "a", "flows", 3)
    with pytest.raises(RegionError, match="cannot open"):
        Region.attach(tmp_path / "b", "flows", 2)


def test_unwritable_folder(tmp_path: Path) -> None:
    """No folder, no region: one clear error, and nothing left after."""
    with pytest.raises(RegionError, match=r"cannot create a region .*; `hopscope check` says"):
        Region.create(tmp_path / "missing" / "a", "test", 1, ARRAYS)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no posix_fallocate here")
def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is an error when the region is made, not a SIGBUS when it is used."""

    def full(handle: int, at: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(RegionError, match="No space left"):
        Region.create(tmp_path / "a", "test", 1, ARRAYS)
    assert not list(tmp_path.iterdir())
