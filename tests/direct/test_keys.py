"""Keys and stores as people write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopscope.direct.hashing import Hashing
from hopscope.direct.primitives.key_write import KeyWriteLayout
from hopscope.direct.stores.folder import open_stores, read_store, store_names
from hopscope.direct.stores.keys import parse_key, parse_keys, show_key
from hopscope.direct.stores.spec import StoreSpec, described, options_of, parse_size, parse_store
from hopscope.direct.stores.store import StoreError


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("0xaabbcc", b"\xaa\xbb\xcc"),
        ("16909060", b"\1\2\3\4"),
        ("258:2", b"\1\2"),
        ("10.0.0.1", b"\x0a\0\0\1"),
        ("::1", bytes(15) + b"\1"),
        ("10.0.0.1,10.0.0.2,tcp,80,443", b"\x0a\0\0\1\x0a\0\0\2\6\0\x50\1\xbb"),
        ("7+10.0.0.1,10.0.0.2,17,80,443", b"\0\0\0\7\x0a\0\0\1\x0a\0\0\2\x11\0\x50\1\xbb"),
    ],
)
def test_keys_are_read_as_switches_hash_them(text: str, key: bytes) -> None:
    """Numbers, addresses, flows and joined parts are their big-endian bytes."""
    assert parse_key(text) == key


@pytest.mark.parametrize(
    "text", ["", "0x", "0xabc", "300:1", "4294967296", "a,b,tcp,1,2", "10.0.0.1,::1,tcp,1,2", "1+", "-1"]
)
def test_invalid_keys_are_reported(text: str) -> None:
    """One line says what was found."""
    with pytest.raises(StoreError, match="key"):
        parse_key(text)


def test_a_flow_is_shown_as_it_is_written() -> None:
    """Showing is the inverse of reading for flows; other keys are digits."""
    for text in ("10.0.0.1,10.0.0.2,tcp,80,443", "2001:db8::1,2001:db8::2,udp,1,2", "0xdeadbeef"):
        assert show_key(parse_key(text)) == text


def test_keys_of_one_query_have_one_length() -> None:
    """An array of keys is as wide as each of them."""
    assert parse_keys(["1", "2"]).tolist() == [[0, 0, 0, 1], [0, 0, 0, 2]]
    with pytest.raises(StoreError, match="different lengths"):
        parse_keys(["1", "0xaa"])


def test_a_store_is_described_in_one_line() -> None:
    """Bytes, numbers and names of enumerations become the layout's fields."""
    spec = parse_store("paths=key-write,bytes=1MiB,data_bytes=20,hashing=crc,copies=2")
    assert spec.name == "paths"
    assert spec.layout == KeyWriteLayout(slots=(1 << 20) // 24, data_bytes=20, copies=2, hashing=Hashing.CRC)
    assert parse_store("key-write,slots=1e6") == StoreSpec("key-write", KeyWriteLayout(slots=1_000_000))
    assert [parse_size(size) for size in ("12", "1K", "1.5 MiB", "2gb")] == [12, 1024, 3 << 19, 2 << 30]


def test_a_layout_is_described_by_what_it_has_of_its_own() -> None:
    """The options of a layout make it again."""
    for text in ("a=key-write,slots=17,hashing=crc,data_bytes=20", "b=append,lists=3,batches=8"):
        spec = parse_store(text)
        assert StoreSpec.of(spec.name, spec.layout.name, options_of(spec.layout)) == spec


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x=key-writ", "unknown primitive"),
        ("x=key-write,hops=3", "unknown option hops"),
        ("x=key-write,data_bytes=65", "data_bytes is 65"),
        ("x=key-write,bytes=3", "at least"),
        ("x=key-write,bytes=many", "many"),
        ("x=key-write,copies", "option=value"),
        ("x=key-write,hashing=md5", "expected mix or crc"),
        ("../x=key-write", "expected a name"),
    ],
)
def test_a_store_that_cannot_be_created_is_reported(text: str, said: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(StoreError, match=said):
        parse_store(text)


def test_a_layout_is_described_as_it_is_set() -> None:
    """What a message says of a store makes the same store; an `IntEnum` and a truth value have names."""
    for text in (
        "key-write,slots=16,copies=2,spread=true,hashing=crc,collectors=4",
        "append,batches=8,lists=3",
        "postcarding,chunks=5,padded=false",
    ):
        layout = parse_store(text).layout
        assert parse_store(described(layout)).layout == layout
        assert set(described(layout).split(",")) <= set(text.split(","))


def test_a_folder_of_stores_is_continued(tmp_path: Path) -> None:
    """A restarted writer finds what it wrote; readers find it by name; another layout is rejected."""
    spec = parse_store("a=key-write,slots=16")
    open_stores(tmp_path, [spec])["a"].memory[:] = 7
    assert open_stores(tmp_path, [spec])["a"].memory[0] == 7
    assert store_names(tmp_path) == ["a"]
    assert np.all(read_store(tmp_path, "a").memory == 7)
    assert not read_store(tmp_path, "a").memory.flags.writeable
    said = "holds key-write,slots=16, the settings say key-write,collectors=2,slots=17: "
    with pytest.raises(StoreError, match=said):
        open_stores(tmp_path, [parse_store("a=key-write,slots=17,collectors=2")])
    with pytest.raises(StoreError, match="known: a"):
        read_store(tmp_path, "b")
    (tmp_path / "b.region").write_bytes(b"nothing of ours")
    with pytest.raises(StoreError, match="not a Hopscope region"):
        read_store(tmp_path, "b")
