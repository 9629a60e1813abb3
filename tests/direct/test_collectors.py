"""Queries over several collectors: each key is asked of the collector that has it (DART 3.2)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.direct.collectors.collector import ApiAccess, CollectorError, LocalCollector
from hopscope.direct.collectors.generations import CollectorGenerations, Generation, Retention
from hopscope.direct.collectors.group import CollectorGroup, merge_copies
from hopscope.direct.collectors.http import HttpCollector, _trusted
from hopscope.direct.collectors.open import open_collectors
from hopscope.direct.hashing import collectors_of
from hopscope.direct.primitives import key_write
from hopscope.direct.stores.answers import QueryOptions, Status
from hopscope.direct.stores.folder import open_stores
from hopscope.direct.stores.numbers import parse_numbers, show_numbers
from hopscope.direct.stores.spec import parse_store
from hopscope.direct.stores.store import Store, StoreError
from hopscope.direct.translation.routes import routes_of
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.serve.server import bind, run, url_of
from hopscope.settings.collector import Settings
from hopscope.settings.direct import DirectSettings
from hopscope.settings.serve import ServeSettings
from support.direct.direct_make import as_bytes, dta
from support.servers.tls import Files
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kernel
KEYS = 60


class Absent:
    """A collector that cannot be reached."""

    name = "absent"

    def stores(self) -> Any:
        raise CollectorError("collector absent: no answer")

    def query(self, *_: Any, **__: Any) -> Any:
        raise CollectorError("collector absent: no answer")

    read_list = query


def made(folder: Path, *specs: str, collectors: int = 3) -> tuple[Translator, list[Path]]:
    """A translator that writes to the stores of so many folders, and the folders."""
    folders = [folder / str(number) for number in range(collectors)]
    described = [parse_store(spec) for spec in specs]
    stores = [list(open_stores(each, described).values()) for each in folders]
    transports = [MemoryTransport(each) for each in stores]
    return Translator([spec.layout for spec in described], transports), folders


def group_of(folders: list[Path]) -> CollectorGroup:
    """A group of the collectors of these folders."""
    return CollectorGroup([LocalCollector(folder) for folder in folders])


def texts(count: int = KEYS) -> list[str]:
    """Keys as users write them."""
    return [str(number) for number in range(1, count + 1)]


def keys_of(count: int = KEYS) -> Any:
    """The same keys as bytes."""
    return as_bytes(np.arange(1, count + 1, dtype=np.uint64))


def test_every_primitive_answers_over_all_collectors(tmp_path: Path) -> None:
    """What was reported is found, whichever collector has it; no collector has everything."""
    translator, folders = made(
        tmp_path,
        "paths=key-write,slots=65536,collectors=3,copies=2",
        "hops=postcarding,chunks=4096,hops=2,collectors=3",
        "counts=key-increment,slots=65536,collectors=3",
        "distinct=cardinality,sketches=7,precision=6,collectors=3",
        "shared=append,lists=7,batches=8,batch=2,collectors=3",
    )  # fmt: skip
    keys, numbers = keys_of(), np.arange(1, KEYS + 1, dtype=np.uint64)
    translator.translate(*dta(1, keys, as_bytes(numbers + np.uint64(1000)), redundancy=2))
    translator.translate(*dta(3, keys, as_bytes(numbers, 8), counter=numbers, redundancy=2))
    for hop in (1, 2):
        translator.translate(
            *dta(4, keys, as_bytes(numbers % np.uint64(5) + np.uint64(hop)), hop=hop, path_length=2)
        )
    lists = np.arange(7, dtype=np.uint64)
    translator.translate(*dta(2, as_bytes(lists), as_bytes(lists + np.uint64(70)), list=lists))
    translator.translate(*dta(16, as_bytes(lists), as_bytes(lists + np.uint64(9))))
    translator.flush()
    assert translator.rejected[1:].sum() == 0
    group = group_of(folders)
    options = QueryOptions(values=np.arange(10, dtype=np.uint32))

    found = group.query("paths", texts(), options, None)
    assert [(each["key"], each["status"], each["data"]) for each in found] == [
        (str(number), "found", f"{number + 1000:08x}") for number in range(1, KEYS + 1)
    ]
    assert {each["collector"] for each in found} == {str(folder) for folder in folders}
    counted = group.query("counts", texts(), options, None)
    assert [each["counter"] for each in counted] == list(range(1, KEYS + 1))
    paths = group.query("hops", texts(), options, None)
    assert [each["path"] for each in paths] == [[n % 5 + 1, n % 5 + 2] for n in range(1, KEYS + 1)]
    sketches = group.query("distinct", [str(n) for n in range(7)], options, None)
    assert [each["estimate"] for each in sketches] == [1] * 7
    entries = group.query("shared", [str(n) for n in range(7)], options, None)
    assert [each["entries"] for each in entries] == [[f"{n + 70:08x}"] for n in range(7)]
    assert group.read_list("shared", 5)[0] == [f"{75:08x}"]
    assert group.query("paths", ["7"], options, "all")[0]["epoch"] == 0
    for alone in group.collectors:
        statuses = [each["status"] for each in alone.query("paths", texts(), options, None)]
        assert 0 < statuses.count("found") < KEYS


def test_lists_that_are_not_spread_are_numbered_on(tmp_path: Path) -> None:
    """List 4 of a store with 4 lists is the second collector's list 0."""
    translator, folders = made(tmp_path, "events=append,lists=4,batches=8,batch=1", collectors=2)
    lists = np.arange(8, dtype=np.uint64)
    translator.translate(*dta(2, as_bytes(lists), as_bytes(lists + np.uint64(70)), list=lists))
    group = group_of(folders)
    found = group.query("events", [str(n) for n in range(8)], QueryOptions(), None)
    assert [each["entries"] for each in found] == [[f"{n + 70:08x}"] for n in range(8)]
    assert group.collectors[1].query("events", ["0"], QueryOptions(), None)[0]["entries"] == [f"{74:08x}"]
    with pytest.raises(StoreError, match="list 8: 2 collectors have lists 0 to 7"):
        group.query("events", ["8"], QueryOptions(), None)


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("consensus", [1, 2, 3])
def test_spread_copies_are_merged_as_one_query_over_all_stores(
    tmp_path: Path, drawn: bool, consensus: int
) -> None:
    """Keys are reported again with fewer copies: the same status and data as with all memories at hand."""
    spec = f"paths=key-write,slots=400,collectors=4,copies=3,spread=true,drawn={str(drawn).lower()}"
    translator, folders = made(tmp_path, spec, collectors=4)
    rng = np.random.default_rng(consensus)
    keys = keys_of(200)
    for round_ in range(3):
        data = as_bytes(np.full(200, round_, np.uint64))
        translator.translate(*dta(1, keys, data, redundancy=rng.integers(1, 4, 200)))
    options = QueryOptions(consensus=consensus)
    found = group_of(folders).query("paths", texts(200), options, None)
    stores = [open_stores(folder, [parse_store(spec)])["paths"] for folder in folders]
    truth = key_write.query(stores, keys, consensus=consensus)
    assert {each["status"] for each in found} >= {"found", "empty"} if consensus > 1 else {"found"}
    for row, each in enumerate(found):
        assert each["status"] == Status(truth.status[row]).label, each
        if each["status"] == "found":
            assert (each["data"], each["votes"]) == (bytes(truth.data[row]).hex(), truth.votes[row])


def test_a_collector_that_is_not_there_is_named_in_its_answers_alone(tmp_path: Path) -> None:
    """Its keys are unreachable, not empty; the others answer."""
    translator, folders = made(tmp_path, "paths=key-write,slots=65536,collectors=2", collectors=2)
    translator.translate(*dta(1, keys_of(), keys_of(), redundancy=1))
    whole = group_of(folders).query("paths", texts(), QueryOptions(), None)
    group = CollectorGroup([Absent(), LocalCollector(folders[1])])
    for before, each in zip(whole, group.query("paths", texts(), QueryOptions(), None), strict=True):
        if before["collector"] == str(folders[0]):
            assert each["status"] == "unreachable"
            assert each["reason"] == "collector absent: no answer"
        else:
            assert each == before
    assert [each.get("error") for each in group.stores()] == ["collector absent: no answer", None]
    with pytest.raises(CollectorError):
        CollectorGroup([Absent(), Absent()]).query("paths", ["1"], QueryOptions(), None)


def test_copies_of_an_absent_collector_leave_doubt() -> None:
    """A value that is found says that a newer one may be out of reach; none found is unreachable."""
    absent = {"status": "unreachable", "reason": "r"}
    old = {"status": "found", "data": "01", "votes": 1}
    assert merge_copies([absent, old], 1, False) == {**old, "reason": "r"}
    assert merge_copies([absent, {"status": "empty"}], 1, False) == absent
    assert merge_copies([absent, old], 2, False) == absent


def test_wrong_groups_are_rejected(tmp_path: Path) -> None:
    """Another number of collectors than the store's, and a store that none has."""
    _, folders = made(tmp_path, "paths=key-write,slots=64,collectors=3")
    with pytest.raises(StoreError, match="spread over 3 collectors, the settings name 2"):
        group_of(folders[:2]).query("paths", ["1"], QueryOptions(), None)
    with pytest.raises(StoreError, match="unknown store 'none'; known: paths"):
        group_of(folders).query("none", ["1"], QueryOptions(), None)


def test_a_collector_is_asked_over_http(tmp_path: Path) -> None:
    """Over its API a collector answers as its folder does, and its errors arrive."""
    token = "0123456789abcdef"
    translator, folders = made(
        tmp_path, "paths=key-write,slots=65536,collectors=2,seed=99",
        "events=append,lists=4,batches=8,batch=2,collectors=2",
        "hops=postcarding,chunks=64,hops=2,collectors=2", "bytes=key-increment,slots=4096,collectors=2",
        collectors=2,
    )  # fmt: skip
    translator.translate(*dta(1, keys_of(), keys_of(), redundancy=1))
    zeros = as_bytes(np.zeros(len(keys_of()), np.uint64), 8)
    translator.translate(*dta(3, keys_of(), zeros, counter=2**64 - 1))
    for number in range(5):
        translator.translate(
            *dta(2, as_bytes(np.array([1, 1, 1])), as_bytes(np.arange(3) + 3 * number), list=1)
        )
    settings = Settings(
        data=tmp_path / "none",
        serve=ServeSettings(port=0, token=token),
        direct=DirectSettings(folder=folders[1]),
    )
    with served(settings) as url:
        asked_over_http(folders, HttpCollector(url, ApiAccess(token, timeout_seconds=HANG_SECONDS)), url)


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """The address of an API that runs in a thread."""
    listener, stop = bind(settings.serve, settings.data), threading.Event()
    thread = threading.Thread(target=run, args=(settings, settings.data, stop, listener))
    thread.start()
    try:
        yield url_of(listener)
    finally:
        stop.set()
        thread.join()


def asked_over_http(folders: list[Path], remote: HttpCollector, url: str) -> None:
    """The body of the test above."""
    here = LocalCollector(folders[1])
    local, group = group_of(folders), CollectorGroup([LocalCollector(folders[0]), remote])
    assert remote.stores() == here.stores()
    damaged = folders[1] / "damaged.region"
    damaged.write_bytes(b"no store")
    assert remote.stores() == here.stores() != []
    damaged.unlink()
    options = QueryOptions(values=parse_numbers("1-20,25"))

    def unnamed(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: each[key] for key in each if key != "collector"} for each in answers]

    for store, keys in (("paths", texts()), ("events", texts(3)), ("hops", texts(3)), ("bytes", texts())):
        assert unnamed(group.query(store, keys, options, None)) == unnamed(
            local.query(store, keys, options, None)
        )
    first = group.read_list("events", 1, limit=3)
    assert first[:2] == ([f"{n:08x}" for n in range(3)], 0)
    assert group.read_list("events", 1, first[2], limit=100)[0] == [f"{n:08x}" for n in range(3, 14)]
    assert {store["collector"] for store in group.stores()} == {str(folders[0]), url.rstrip("/")}
    with pytest.raises(StoreError, match="9 copies"):
        remote.query("paths", ["1"], QueryOptions(copies=9), None)
    with pytest.raises(CollectorError, match="HTTP status 401"):
        HttpCollector(url, ApiAccess("another token", timeout_seconds=HANG_SECONDS)).stores()


def test_a_collector_is_asked_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API's certificate is verified with the file of the settings, or with the system's certificates."""
    files = Files(tmp_path)
    made(tmp_path, "paths=key-write,slots=64,collectors=3")
    serve = ServeSettings(port=0, cert_file=files.cert, key_file=files.key)
    settings = Settings(data=tmp_path / "none", serve=serve, direct=DirectSettings(folder=tmp_path / "0"))
    with served(settings) as url:
        url = url.replace("http:", "https:")
        named = HttpCollector(url, ApiAccess(ca_file=files.ca))
        assert [store["name"] for store in named.stores()] == ["paths"]
        for unusable in (files.other_ca, tmp_path / "missing.pem"):
            with pytest.raises(CollectorError, match=r"certificate verify failed|missing\.pem: No such file"):
                HttpCollector(url, ApiAccess(ca_file=unusable)).stores()
        _trusted.cache_clear()
        monkeypatch.setenv("SSL_CERT_FILE", str(files.ca))  # where OpenSSL looks for the system's
        assert [store["name"] for store in HttpCollector(url).stores()] == ["paths"]
        _trusted.cache_clear()


def test_nobody_listens_at_an_address() -> None:
    """A refused connection is one line that names the collector."""
    with pytest.raises(CollectorError, match=r"collector http://127\.0\.0\.1:1: "):
        HttpCollector("http://127.0.0.1:1/").stores()


def test_settings_open_collectors(tmp_path: Path) -> None:
    """A data folder, a folder of stores, an address; without any, the collector's own stores."""
    (tmp_path / "data" / "direct").mkdir(parents=True)
    places = [str(tmp_path / "data"), str(tmp_path), "http://192.0.2.1:8080"]
    names = [each.name for each in open_collectors(places, tmp_path / "own").collectors]
    assert names == [str(tmp_path / "data" / "direct"), str(tmp_path), "http://192.0.2.1:8080"]
    assert [each.name for each in open_collectors([*places, *places], tmp_path).collectors] == names
    assert [each.name for each in open_collectors((), tmp_path / "own").collectors] == [str(tmp_path / "own")]


@pytest.mark.parametrize("text", ["0", "1-20,25", "0-4294967295", "7,9,11-12"])
def test_numbers_are_shown_as_they_are_parsed(text: str) -> None:
    """Ranges in ascending order are the same text again; too many are rejected."""
    if text == "0-4294967295":
        with pytest.raises(StoreError, match="at most 16,777,216 numbers"):
            parse_numbers(text)
        return
    assert show_numbers(parse_numbers(text)) == text
    assert show_numbers(parse_numbers(text)[::-1]) == text


def test_a_store_of_one_collector_is_asked_as_it_is(tmp_path: Path) -> None:
    """No name of a collector in the answers; Store.create stays the only way to make one."""
    store = Store.create(tmp_path / "a.region", parse_store("a=key-write,slots=64").layout)
    Translator([store.layout], MemoryTransport([store])).translate(*dta(1, keys_of(1), keys_of(1)))
    (found,) = CollectorGroup([LocalCollector(tmp_path)]).query("a", ["1"], QueryOptions(), None)
    assert "collector" not in found


def test_keys_of_different_lengths_are_asked_at_once(tmp_path: Path) -> None:
    """Answers are in the order of the keys, whatever their lengths, of one collector and of several."""
    for collectors in (1, 3):
        translator, folders = made(
            tmp_path / str(collectors),
            f"paths=key-write,slots=65536,collectors={collectors}",
            collectors=collectors,
        )
        for length in (2, 4, 8):
            keys = np.array([[*[0] * (length - 1), number] for number in range(1, 6)], np.uint8)
            translator.translate(*dta(1, keys, as_bytes(np.arange(1, 6) + 100 * length), redundancy=2))
        asked = ["3", "1:2", "5:8", "9", "2:2", "3"]
        found = group_of(folders).query("paths", asked, QueryOptions(), None)
        assert [each["key"] for each in found] == asked
        data = [each.get("data") and int(each["data"], 16) for each in found]
        assert data == [403, 201, 805, None, 202, 403]


def test_a_collector_may_have_several_shares(tmp_path: Path) -> None:
    """Eight shares at three collectors, in an order of their own: each key is found where its share is."""
    described = [
        parse_store("paths=key-write,slots=4096,collectors=8"),
        parse_store("own=append,lists=4,batches=8"),
    ]
    layouts, shares = [spec.layout for spec in described], [0, 2, 1, 1, 0, 2, 2, 0]
    folders = [tmp_path / str(number) for number in range(3)]
    transports = [MemoryTransport(list(open_stores(each, described).values())) for each in folders]
    translator = Translator(
        layouts, transports, routes=routes_of(layouts, names=["paths", "own"], shares=shares)
    )
    translator.translate(*dta(1, keys_of(), keys_of(), redundancy=1))
    lists = np.arange(12, dtype=np.uint64)
    translator.translate(*dta(2, as_bytes(lists), as_bytes(lists + np.uint64(70)), list=lists))
    translator.flush()
    assert translator.rejected[1:].sum() == 0
    group = open_collectors([str(folders[number]) for number in shares], tmp_path)
    assert [each.name for each in group.collectors] == [str(folders[number]) for number in (0, 2, 1)]
    found = group.query("paths", texts(), QueryOptions(), None)
    assert [each["data"] for each in found] == [f"{number:08x}" for number in range(1, KEYS + 1)]
    params = layouts[0].params()
    owners = [str(folders[shares[int(share)]]) for share in collectors_of(params, keys_of())]
    assert [each["collector"] for each in found] == owners
    entries = CollectorGroup([LocalCollector(folder) for folder in folders], shares).query(
        "own", [str(number) for number in range(12)], QueryOptions(), None
    )
    assert [each["entries"] for each in entries] == [[f"{number + 70:08x}"] for number in range(12)]


def test_parts_of_a_counter_wrap_as_it_does(tmp_path: Path) -> None:
    """A counter that another collector had before is the sum of its parts modulo 2^64: after +5 and -3, which
    is 2^64 - 3, it is 2.
    """
    groups = []
    for name, counter in (("before", 5), ("now", 2**64 - 3)):
        store = open_stores(tmp_path / name, [parse_store("counts=key-increment,slots=64")])["counts"]
        store.memory.view(np.uint64)[:] = counter
        groups.append(CollectorGroup([LocalCollector(tmp_path / name)]))
    before, now = groups
    generations = CollectorGenerations(
        [Generation(1, before, time.time_ns()), Generation(2, now)], Retention()
    )
    (answer,) = generations.query("counts", ["7"], QueryOptions(), None)
    assert answer["counter"] == 2
