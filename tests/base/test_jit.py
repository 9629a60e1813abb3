"""The kernel decorators."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.base.kernels import jit, kernel_cache
from hopscope.base.kernels.jit import U64, inlined, kernel, uncached

pytestmark = pytest.mark.kernel


@kernel
def below(x: Any) -> Any:
    return x + U64(1)


@inlined
def between(x: Any) -> Any:
    return below(x) << U64(1)


@kernel
def above(x: Any) -> Any:
    return between(x) + U64(3)


def test_inlining_is_not_handed_down() -> None:
    """What an inlined kernel calls is inlined only where it says so itself: else everything below one is
    copied into each of its callers, and compiles many times as long.
    """
    assert above(U64(5)) == 15
    forced = {}
    dispatchers: list[Any] = [below, between, above]
    for dispatcher in dispatchers:
        dispatcher.inner or dispatcher.inner_version(next(iter(dispatchers[-1].overloads)))  # from the cache
        (compiled,) = dispatcher.inner.values()
        forced[dispatcher.__name__] = compiled.fndesc.inline
    assert forced == {"below": False, "between": True, "above": False}


@kernel
def applied(function: Any, x: Any) -> Any:
    return function(x)


def test_a_kernel_for_a_function_of_a_caller_is_not_kept() -> None:
    """Only an address would tell the function from another: each gets what it computes, in no file."""
    functions: list[Any] = [lambda x: x + U64(1), lambda x: x]
    assert [applied(uncached(function), U64(5)) for function in functions] == [6, 5]
    assert not [name for name in kernel_cache.loaded if "applied" in name]


ONE = np.dtype([("a", "<u8"), ("b", "<u8"), ("c", "<u2"), ("d", "u1"), ("rest", "u1", (5,)), ("e", "<u4")])
OTHER = np.dtype([("e", "<u4"), ("more", "u1", (3,)), ("d", "u1"), ("a", "<u8"), ("b", "<u8"), ("c", "<u2")])
NAMES = ("a", "b", "c", "d", "e")
same = jit.matcher(NAMES)


@kernel
def matches(ones: Any, others: Any) -> Any:
    return same(ones[0], others[0])


def test_fields_match_wherever_they_are() -> None:
    """A bit of any field that differs is seen, in fields that are compared at once and in others; bytes
    between them are not compared.
    """
    one, other = np.full(1, 0, ONE), np.full(1, 0, OTHER)
    one["rest"], other["more"] = 1, 2
    for number, name in enumerate(NAMES):
        one[name] = other[name] = 77 + number
    assert matches(one, other)
    for name in NAMES:
        for bit in range(8 * ONE[name].itemsize):
            other[name] ^= np.array(1 << bit, ONE[name])
            assert not matches(one, other), (name, bit)
            other[name] = one[name]
    assert matches(one, other)


def test_bounds_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """With them, an index outside of an array is an IndexError, in a kernel that a kernel calls, too."""
    monkeypatch.setattr("hopscope.base.kernels.compiler.config.BOUNDSCHECK", 1)

    @uncached
    def item(rows: Any, row: Any, column: Any) -> Any:
        return rows[row, column]

    @uncached
    def outer(rows: Any, row: Any, column: Any) -> Any:
        return item(rows, row, column)

    rows = np.arange(6).reshape(2, 3)
    assert [outer(rows, 1, column) for column in (0, 2, -1, -3)] == [3, 5, 5, 3]
    for row, column in ((0, 3), (0, -4), (2, 0), (-3, 0)):
        with pytest.raises(IndexError, match="out of bounds"):
            outer(rows, row, column)
    with pytest.raises(IndexError, match="out of bounds"):
        outer(rows, U64(0), U64((1 << 64) - 1))


def test_a_kernel_is_keyed_by_what_it_imports() -> None:
    """Files that a kernel imports, directly or not, are in its key; others are not."""
    wire = Path(jit.__file__).parents[2] / "wire"
    names = {path.name for path in kernel_cache.closure(wire / "headers" / "tunnel_kernel.py")}
    assert {"tunnel_kernel.py", "packet_kernel.py", "layout.py", "jit.py"} <= names
    assert "strip_kernel.py" not in names
    assert all(path.is_file() for path in kernel_cache.closure(wire / "decode" / "decode_kernel.py"))


def test_the_key_follows_contents_not_places(tmp_path: Path) -> None:
    """Neither path nor prose is in the key; a constant in an imported file is."""
    keys = []
    for folder, constant in (("a", "1"), ("b", '1\n"""One."""\n\n# once'), ("c", "2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "layout.py").write_text(f"CONSTANT = {constant}\n")
        (tmp_path / folder / "one_kernel.py").write_text("from .layout import CONSTANT\n")
        keys.append(kernel_cache.fingerprint(tmp_path / folder / "one_kernel.py"))
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("which", ["file", "folder", "link", "owner"])
def test_kernels_that_others_could_have_written_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    """A file or cache that others can write or own, and a link, are as if they were not there."""
    monkeypatch.setenv("HOPSCOPE_KERNEL_CACHE", str(tmp_path))
    kernel_cache.write("target/one_kernel/key/file", b"code")
    path = kernel_cache.cache_folder() / "target/one_kernel/key/file"
    assert kernel_cache.read("target/one_kernel/key/file") == b"code"
    kernel_cache._distrusted.cache_clear()
    if which == "file":
        path.chmod(0o666)
    elif which == "folder":
        kernel_cache.cache_folder().chmod(0o777)
    elif which == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif os.getuid() == 0:
        os.chown(path, 65534, 65534)
    else:
        pytest.skip("only root can give a file away")
    assert kernel_cache.read("target/one_kernel/key/file") is None
    kernel_cache.write("target/one_kernel/key/other", b"code")
    assert (path.parent / "other").exists() == (which != "folder")
    said = capsys.readouterr().err
    assert said.count("can be written by other users, so it is not used") == (which == "folder")
    kernel_cache._distrusted.cache_clear()


def test_kernels_of_older_versions_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 30 days in which nothing has loaded them; those of this version stay, whatever the clock says."""
    monkeypatch.setenv("HOPSCOPE_KERNEL_CACHE", str(tmp_path))
    kernel = kernel_cache.PACKAGE / "wire" / "decode" / "decode_kernel.py"
    current = f"target/{kernel_cache.folder_of(kernel)}/file"
    names = (
        current,
        "target/wire.decode.decode_kernel/older/file",
        "target/wire.decode.decode_kernel/new/file",
    )
    for name, days in zip(names, (31, 31, 29), strict=True):
        kernel_cache.write(name, b"code")
        then = time.time() - days * 86_400
        os.utime((kernel_cache.cache_folder() / name).parent, (then, then))
    kernel_cache.prune()
    assert [kernel_cache.find(name) is not None for name in names] == [True, False, True]
