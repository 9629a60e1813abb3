"""Keys of a cluster whose owners change: asked by the table, and looked for in all stores as the witness."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from hopscope.cluster.owners.file import FILE_NAME, NONE
from hopscope.cluster.owners.table import Owner, OwnerTable, first_table
from hopscope.direct.collectors.collector import LocalCollector
from hopscope.direct.collectors.generations import CollectorGenerations
from hopscope.direct.stores.answers import QueryOptions
from hopscope.direct.stores.epoch_keeper import EpochKeeper
from hopscope.direct.stores.folder import open_stores
from hopscope.direct.stores.spec import StoreSpec, parse_store
from hopscope.direct.stores.store import StoreError
from hopscope.direct.translation.routes import routes_of
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.runtime.direct.nic import NicProcess
from hopscope.runtime.direct.translator import TranslatorProcess
from hopscope.serve.server import bind, run, url_of
from hopscope.settings.collector import Settings
from hopscope.settings.direct import CLUSTER, DirectSettings, NicSettings, TranslatorSettings
from hopscope.wire.dta.forms import Form
from support.direct.direct_make import as_bytes, dta
from support.network.loopback import own_host
from support.servers.server_process import NO_TLS
from support.waiting import HANG_SECONDS, eventually

pytestmark = pytest.mark.kernel
SHARES = 16
SPECS = [
    f"paths=key-write,slots=8192,collectors={SHARES},copies=2",
    f"counts=key-increment,slots=65536,collectors={SHARES}",
    f"distinct=cardinality,sketches=64,precision=6,collectors={SHARES}",
    f"events=append,lists=32,batches=64,batch=1,collectors={SHARES}",
]
KEYS = 200
OPTIONS = QueryOptions()


def specs() -> list[StoreSpec]:
    """The stores of every member."""
    return [parse_store(text) for text in SPECS]


def texts(keys: range) -> list[str]:
    """Keys as users write them."""
    return [str(key) for key in keys]


class Network:
    """Collectors whose stores are in folders, and what a translator writes to them by a table."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder = folder
        self.table = first_table(names, self.owners(*names), {}, time.time_ns(), shares=SHARES)

    def owners(self, *names: str) -> dict[str, Owner]:
        """Their places."""
        return {name: Owner(str(self.folder / name)) for name in names}

    def change(self, *names: str, **fields: Any) -> None:
        """Another generation; the newest moment is now."""
        self.table = replace(self.table, **fields)
        self.table = self.table.changed(names, self.owners(*names), {}, time.time_ns())

    def write(self, keys: range, offset: int) -> None:
        """For each key: a path, as many counts as its number, two elements, and an entry of a list."""
        described = specs()
        members = self.table.current.members
        stores = [list(open_stores(self.folder / name, described).values()) for name in members]
        layouts = [spec.layout for spec in described]
        translator = Translator(
            layouts,
            [MemoryTransport(each) for each in stores],
            routes=routes_of(
                layouts, names=[spec.name for spec in described], shares=self.table.current.shares
            ),
        )
        translator.begin([[store.memory for store in each] for each in stores], offset % (1 << 24))
        numbers = np.array(keys, np.uint64)
        translator.translate(*dta(1, as_bytes(numbers), as_bytes(numbers + np.uint64(offset)), redundancy=2))
        translator.translate(*dta(3, as_bytes(numbers), as_bytes(numbers, 8), counter=numbers, redundancy=2))
        lists = numbers % np.uint64(32)
        translator.translate(*dta(2, as_bytes(lists), as_bytes(numbers + np.uint64(offset)), list=lists))
        for element in range(2):
            values = as_bytes(np.uint64(2 * offset + element) + np.zeros(len(numbers), np.uint64))
            translator.translate(*dta(16, as_bytes(numbers % np.uint64(64)), values))
        translator.flush()
        assert translator.rejected[1:].sum() == 0

    def group(self) -> CollectorGenerations:
        """What a query asks."""
        return self.table.collectors()

    def everywhere(self, store: str, key: str) -> dict[str, dict[str, Any]]:
        """Who has an answer to a key, of all stores of all members: the witness."""
        found = {}
        for folder in self.folder.iterdir():
            (answer,) = LocalCollector(folder).query(store, [key], OPTIONS, None)
            if answer["status"] == "found":
                found[folder.name] = answer
        return found


def values(answers: list[dict[str, Any]], field: str) -> list[Any]:
    """A field of answers that are all found."""
    assert {each["status"] for each in answers} == {"found"}, answers
    return [each[field] for each in answers]


def test_members_join_and_leave_without_losing_keys(tmp_path: Path) -> None:
    """Three members; one joins, one leaves, keys are written before, between and after: each is answered with
    its newest value, by the member that the witness names.
    """
    network = Network(tmp_path, "c1", "c2", "c3")
    network.write(range(KEYS), 10_000)
    network.change("c1", "c2", "c3", "c4")
    network.write(range(50, 100), 20_000)
    network.change("c2", "c3", "c4")
    network.write(range(75, 125), 30_000)
    group = network.group()

    answers = group.query("paths", texts(range(KEYS)), OPTIONS, None)
    newest = [30_000 if 75 <= n < 125 else 20_000 if 50 <= n < 100 else 10_000 for n in range(KEYS)]
    assert values(answers, "data") == [f"{n + offset:08x}" for n, offset in enumerate(newest)]
    for answer, offset in zip(answers, newest, strict=True):
        there = network.everywhere("paths", answer["key"])
        assert there[answer["collector"]]["data"] == answer["data"]
        if "generation" in answer:  # its owner of now has no value of it
            (now,) = group.owners(specs()[0].layout, [answer["key"]])
            assert not now & there.keys()
            then = network.table.generations[answer["generation"] - 1].of_share()
            assert answer["collector"] in then
            assert answer["generation"] < 3
        elif offset < 30_000:  # it has not moved since
            assert answer["collector"] in ("c2", "c3", "c4")
    assert "c1" in {answer["collector"] for answer in answers}

    counted = group.query("counts", texts(range(1, KEYS)), OPTIONS, None)
    times = [1 + (50 <= n < 100) + (75 <= n < 125) for n in range(1, KEYS)]
    assert values(counted, "counter") == [n * times[n - 1] for n in range(1, KEYS)]
    for answer in counted:
        there = network.everywhere("counts", answer["key"])
        assert answer["counter"] == sum(each["counter"] for each in there.values())
    assert group.query("paths", ["99999"], OPTIONS, None)[0]["status"] == "empty"


def test_lists_are_read_where_they_were(tmp_path: Path) -> None:
    """Entries of a list are read at its owner of before, then at that of now, each once, in small pages."""
    network = Network(tmp_path, "c1", "c2", "c3")
    network.write(range(KEYS), 10_000)
    network.change("c1", "c2", "c3", "c4")
    network.write(range(KEYS), 20_000)
    network.change("c4", "c3")
    network.write(range(KEYS), 30_000)
    for number in range(32):
        expected = [
            f"{n + offset:08x}"
            for offset in (10_000, 20_000, 30_000)
            for n in range(KEYS)
            if n % 32 == number
        ]
        group, found, place = network.group(), [], None
        while True:
            entries, lost, place = group.read_list("events", number, place, 3)
            assert lost == 0
            if not entries:
                break
            found += entries
        assert sorted(found) == expected
        assert group.read_list("events", number, place, 100)[0] == []


def test_a_list_that_comes_back_is_read_once(tmp_path: Path) -> None:
    """A list goes from one member to another and back, with entries each time, also late ones at the owner of
    before: a reader that goes on from its place has each entry once.
    """
    network = Network(tmp_path, "c1", "c2")
    network.write(range(32), 10_000)
    place: str | None = None
    found: list[str] = []

    def read() -> None:
        nonlocal place
        for _ in range(10):
            entries, lost, place = network.group().read_list("events", 3, place, 2)
            assert lost == 0
            found.extend(entries)

    read()
    late = network.table
    for offset, names in ((20_000, ("c1",)), (30_000, ("c2",)), (40_000, ("c1",))):
        network.change(*names)
        network.write(range(32), offset)
        read()
    now, network.table = network.table, late
    network.write(range(32), 50_000)
    network.table = now
    read()
    assert sorted(found) == [f"{3 + offset:08x}" for offset in range(10_000, 60_000, 10_000)]


def test_lists_of_each_collector_are_refused(tmp_path: Path) -> None:
    """A store that is not spread over the shares has no owners: one line says so."""
    group = Network(tmp_path, "c1", "c2").group()
    for name in ("c1", "c2"):
        open_stores(tmp_path / name, [parse_store("own=append,lists=4,batches=8")])
    with pytest.raises(
        StoreError, match="store own is spread over 1 collectors, the table of owners has 16 shares"
    ):
        group.read_list("own", 0)


def test_sketches_that_moved_say_so(tmp_path: Path) -> None:
    """A sketch whose elements are at two members is at least as large as the larger part."""
    network = Network(tmp_path, "c1", "c2", "c3")
    network.write(range(KEYS), 10_000)
    network.change("c1", "c2")
    network.write(range(KEYS), 20_000)
    answers = network.group().query("distinct", texts(range(64)), OPTIONS, None)
    moved = [each for each in answers if each.get("reason")]
    stayed = [each for each in answers if not each.get("reason")]
    assert {each["estimate"] for each in stayed} == {4}
    assert {each["estimate"] for each in moved} == {2}
    assert moved[0]["reason"] == "moved in this epoch: this is a lower bound"
    assert all("c3" in each["collector"] for each in moved)


def test_old_epochs_answer_by_the_old_table(tmp_path: Path) -> None:
    """An epoch is asked of the owners that it had: also of one that has left, and not of one that came later
    with epochs of the same numbers."""
    network = Network(tmp_path, "c1", "c2", "c3")
    network.write(range(KEYS), 10_000)
    for name in ("c1", "c2", "c3"):
        swap(tmp_path / name)
    network.write(range(KEYS), 20_000)
    network.change("c2", "c3", "c4", epoch_seconds=3600.0)
    network.write(range(50), 30_000)
    for name in ("c2", "c3", "c4"):
        swap(tmp_path / name)
    group = network.group()
    first = group.query("paths", texts(range(100, KEYS)), OPTIONS, 0)
    assert values(first, "data") == [f"{n + 10_000:08x}" for n in range(100, KEYS)]
    assert "c1" in {each["collector"] for each in first}
    second = group.query("paths", texts(range(100, KEYS)), OPTIONS, 1)
    assert values(second, "data") == [f"{n + 20_000:08x}" for n in range(100, KEYS)]
    every = group.query("paths", texts(range(KEYS)), OPTIONS, "all")
    assert values(every, "data") == [f"{n + (30_000 if n < 50 else 20_000):08x}" for n in range(KEYS)]
    none = group.query("paths", texts(range(3)), OPTIONS, 99)
    assert [(each["status"], each["reason"]) for each in none] == [("empty", "no owner has epoch 99")] * 3


def test_a_dead_member_is_named(tmp_path: Path) -> None:
    """A key whose owner does not answer is unreachable, with its name; so is one that no other has if a
    member that may have it does not answer. Keys of others are answered.
    """
    network = Network(tmp_path, "c1", "c2", "c3")
    network.write(range(KEYS), 10_000)
    dead = {**network.table.owners, "c3": Owner("http://127.0.0.1:1")}
    network.table = replace(network.table, owners=dead)
    answers = network.group().query("paths", texts(range(KEYS)), OPTIONS, None)
    owners = network.group().owners(specs()[0].layout, texts(range(KEYS)))
    for answer, owner in zip(answers, owners, strict=True):
        assert answer["status"] == ("unreachable" if owner == {"c3"} else "found")
        assert {answer["collector"]} == owner
    lost = [answer for answer in answers if answer["status"] == "unreachable"]
    assert 0.2 < len(lost) / KEYS < 0.5
    assert "127.0.0.1:1" in lost[0]["reason"]

    network.table = network.table.changed(["c1", "c2"], {}, {}, time.time_ns())
    again = network.group().query("paths", texts(range(KEYS)), OPTIONS, None)
    assert [each["status"] for each in again] == [each["status"] for each in answers]
    assert {each["collector"] for each in again if each["status"] == "unreachable"} == {"c3"}
    network.table = network.table.without_memory_of("c3")
    last = network.group().query("paths", texts(range(KEYS)), OPTIONS, None)
    assert {each["status"] for each in last} == {"found", "empty"}


def swap(folder: Path) -> None:
    """Begin an epoch of each store."""
    for name, store in open_stores(folder, specs()).items():
        keeper = EpochKeeper(folder, name, store, lambda _: None)
        keeper.swap(time.time_ns())
        keeper.close()


# --------------------------------------------------------------------------------------------- over RoCEv2


@contextmanager
def nic_at(folder: Path, host: str) -> Iterator[NicProcess]:
    """A software NIC on a loopback address, in a thread."""
    nic, stop = NicProcess(DirectSettings(nic=NicSettings(hosts=(host,))), folder, specs()), threading.Event()
    nic.open()
    thread = threading.Thread(target=nic.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield nic
    finally:
        stop.set()
        thread.join(HANG_SECONDS)


def test_a_node_is_added_under_load_over_rocev2(tmp_path: Path) -> None:
    """Reports keep coming over UDP while the table changes: from three NICs to four, then to three others.
    None is rejected, and each key is answered with its newest value.
    """
    from hopscope.capture.udp.sender import UdpSender
    from hopscope.direct.reporter import Reporter

    hosts = {name: own_host(70 + number) for number, name in enumerate(("c1", "c2", "c3", "c4"))}
    own = own_host(75)
    owners = {name: Owner(str(tmp_path / name), host) for name, host in hosts.items()}
    tables: list[OwnerTable] = []
    translator = TranslatorSettings(
        host=own, port=0, transport="rocev2", collectors=(CLUSTER,), address=own,
    )  # fmt: skip
    with ExitStack() as opened:
        for name in ("c1", "c2", "c3"):
            opened.enter_context(nic_at(tmp_path / name, hosts[name]))
        names = ["c1", "c2", "c3"]
        tables.append(first_table(names, owners, {}, time.time_ns(), shares=SHARES))
        said: list[str] = []
        process = TranslatorProcess(
            DirectSettings(translator=translator), tmp_path / "translator", notify=said.append,
            owners=lambda: tables[-1],
        )  # fmt: skip
        process.batch_timeout_ns = 20_000_000_000
        process.open()
        stop = threading.Event()
        thread = threading.Thread(target=process.run, args=(stop,), daemon=True)
        thread.start()
        eventually(lambda: process.collectors == 3)
        reporter, sent = Reporter(Form.SIZED, first=1), 0
        sender = opened.enter_context(closing(UdpSender(own, process.port)))

        def send(rounds: int) -> None:
            nonlocal sent
            for _ in range(rounds):
                first = sent % KEYS
                keys = np.arange(first, first + 20, dtype=">u4").view(np.uint8).reshape(-1, 4)
                data = np.arange(sent, sent + 20, dtype=">u4").view(np.uint8).reshape(-1, 4)
                sender.send(reporter.key_write(keys, data, redundancy=2))
                sent += 20
                time.sleep(0.001)

        send(20)
        opened.enter_context(nic_at(tmp_path / "c4", hosts["c4"]))
        names.append("c4")
        tables.append(tables[-1].changed(names, {"c4": owners["c4"]}, {}, time.time_ns()))
        send(40)
        eventually(lambda: process.collectors == 4)
        send(20)
        tables.append(tables[-1].changed(["c2", "c3", "c4"], {}, {}, time.time_ns()))
        send(40)
        eventually(lambda: any("generation 3 of owners" in line for line in said))
        eventually(lambda: int(process.translator.rejected.sum()) == sent)
        stop.set()
        thread.join(HANG_SECONDS)
        assert process.translator.rejected[1:].sum() == 0
        assert process.output.connections["made"] == 3 + 4 + 3  # type: ignore[attr-defined]
        answers = tables[-1].collectors().query("paths", texts(range(KEYS)), OPTIONS, None)
        newest = [sent - KEYS + (n - sent) % KEYS for n in range(KEYS)]
        assert values(answers, "data") == [f"{value:08x}" for value in newest]


# --------------------------------------------------------------------------------------------- the API


def test_the_api_asks_the_owners(tmp_path: Path) -> None:
    """In a cluster a member answers for all: its own keys itself, others by their owners. Without a table it
    asks its own stores; while it does not know whether there is one, it answers 503.
    """
    network = Network(tmp_path / "all", "c1", "c2", "c3")
    network.write(range(KEYS), 10_000)
    data = tmp_path / "data"
    data.mkdir()
    settings = Settings.model_validate(
        {
            "data": data, "member": "c1", "serve": {"port": 0}, "direct": {"folder": tmp_path / "all" / "c1"},
            "cluster": {"nats": ["nats://127.0.0.1:1"]},
        }
    )  # fmt: skip
    listener, stop = bind(settings.serve, data), threading.Event()
    thread = threading.Thread(target=run, args=(settings, data, stop, listener))
    thread.start()
    asked = f"{url_of(listener)}api/v0/direct/stores/paths/query"
    keys = {"key": texts(range(KEYS))}
    given: dict[str, Any] = {"trust_env": False, "verify": NO_TLS, "timeout": HANG_SECONDS}
    try:
        answer = httpx.get(asked, params=keys, **given)
        assert answer.status_code == 503
        assert answer.json()["error"] == "the owners of keys are not known: NATS has not answered yet"
        local = httpx.get(asked, params={**keys, "local": "true"}, **given).json()["items"]
        (data / FILE_NAME).write_text(NONE)
        own = httpx.get(asked, params=keys, **given).json()["items"]
        assert own == local
        assert {each["status"] for each in own} == {"found", "empty"}
        (data / FILE_NAME).write_bytes(network.table.encode())
        items = httpx.get(asked, params=keys, **given).json()["items"]
        assert values(items, "data") == [f"{n + 10_000:08x}" for n in range(KEYS)]
        assert {each["collector"] for each in items} == {"c1", "c2", "c3"}
    finally:
        stop.set()
        thread.join()
