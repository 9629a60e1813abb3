"""The API's routes about stores, over real regions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from hopscope.direct.collectors.open import open_collectors
from hopscope.direct.stores.folder import open_stores
from hopscope.direct.stores.spec import parse_store
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.serve.api import create_app
from hopscope.settings.serve import ServeSettings
from support.direct.direct_make import as_bytes, dta

pytestmark = pytest.mark.kernel


def get(api: Any, folder: Path, *paths: str) -> list[tuple[int, Any]]:
    """Status and JSON of each path."""

    async def talk() -> list[tuple[int, Any]]:
        async with api(folder) as client:
            found = [await client.get(f"/api/v0/direct/{path}") for path in paths]
            return [(one.status_code, one.json()) for one in found]

    return asyncio.run(talk())


def test_stores_are_listed_and_answer_keys(api: Any, tmp_path: Path) -> None:
    """A key that was written is found with its data, another is empty; the store says what it is."""
    stores = open_stores(tmp_path / "direct", [parse_store("paths=key-write,slots=1024")])
    store = stores["paths"]
    Translator([store.layout], MemoryTransport([store])).translate(
        *dta(1, as_bytes(np.array([7], np.uint64)), as_bytes(np.array([9], np.uint64)), redundancy=1)
    )
    listed, asked = get(api, tmp_path, "stores", "stores/paths/query?key=7&key=8")
    assert listed[1]["items"][0]["primitive"] == "key-write"
    assert listed[1]["items"][0]["layout"]["slots"] == 1024
    assert asked == (
        200,
        {
            "items": [
                {"key": "7", "status": "found", "data": "00000009", "votes": 1},
                {"key": "8", "status": "empty"},
            ]
        },
    )


def test_a_list_is_polled_from_where_the_last_answer_ended(api: Any, tmp_path: Path) -> None:
    """Every entry is told once, in order; a place that nobody was told is refused or finds nothing wrong."""
    store = open_stores(tmp_path / "direct", [parse_store("events=append,batches=8,batch=2")])["events"]
    translator = Translator([store.layout], MemoryTransport([store]))
    numbers = np.zeros((3, 4), np.uint8)
    translator.translate(*dta(2, numbers, as_bytes(np.arange(3, dtype=np.uint64))))
    translator.flush()
    ((_, first),) = get(api, tmp_path, "stores/events/lists/0")
    assert first["items"] == ["00000000", "00000001", "00000002"]
    translator.translate(*dta(2, numbers, as_bytes(np.arange(3, 6, dtype=np.uint64))))
    translator.flush()
    ((_, second),) = get(api, tmp_path, f"stores/events/lists/0?after={first['next']}")
    assert second["items"] == ["00000003", "00000004", "00000005"]
    assert second["lost"] == 0
    ((_, third),) = get(api, tmp_path, "stores/events/lists/0?limit=3")
    assert third["items"] == ["00000000", "00000001", "00000002"]
    ((_, fourth),) = get(api, tmp_path, f"stores/events/lists/0?limit=1&after={third['next']}")
    assert (fourth["items"], fourth["lost"]) == (["00000003"], 0)
    for place in ("4294967295-4294967295-16777215", "0-0-0", "7-3-1", "0-0-1-9"):
        ((status, _),) = get(api, tmp_path, f"stores/events/lists/0?after={place}")
        assert status == 200
    for path in ("0?after=x", "0?after=1-2", "1"):
        assert get(api, tmp_path, f"stores/events/lists/{path}")[0][0] == 400


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("stores/none/query?key=1", 404, "no store none"),
        ("stores/..%2Fx/query?key=1", 404, ""),
        ("stores/paths/query", 400, "key"),
        ("stores/paths/query?key=zz", 400, "found 'zz'"),
        ("stores/paths/query?key=1&copies=9", 400, "9 copies"),
        ("stores/paths/query?key=1&values=-1", 400, "32 bits"),
        ("stores/broken/query?key=1", 400, "not a Hopscope region"),
    ],
)
def test_wrong_queries_are_told(api: Any, tmp_path: Path, path: str, status: int, said: str) -> None:
    """One line of JSON says what was found; nothing crashes."""
    open_stores(tmp_path / "direct", [parse_store("paths=key-write,slots=1024")])
    (tmp_path / "direct" / "broken.region").write_bytes(b"no region")
    ((found, told),) = get(api, tmp_path, path)
    assert found == status
    assert said in told["error"]


def test_the_outlook_is_that_of_the_closed_forms(api: Any, tmp_path: Path) -> None:
    """1,024 keys of two copies in 1,024 slots: load 1 and 1 - exp(-2) of the slots in use, within the noise
    of hashing. A key is lost when both its slots are overwritten: (1 - exp(-2 a))^2 at age a, written out.
    """
    stores = open_stores(tmp_path / "direct", [parse_store("paths=key-write,slots=1024,copies=2")])
    store = stores["paths"]
    keys = as_bytes(np.arange(1, 1025, dtype=np.uint64))
    Translator([store.layout], MemoryTransport([store])).translate(*dta(1, keys, keys, redundancy=2))
    (status, found), (missing, _) = get(api, tmp_path, "stores/paths/outlook", "stores/none/outlook")
    assert (status, missing) == (200, 404)
    assert found["what"] == "keys"
    assert found["used"] == pytest.approx(1 - np.exp(-2), abs=0.03)
    assert found["load"] == pytest.approx(1, abs=0.15)
    ages = np.array(found["ages"]) / 1024
    np.testing.assert_allclose(found["correct"], 1 - (1 - np.exp(-2 * ages)) ** 2, atol=1e-6)
    assert found["half"] == pytest.approx(1024 * -np.log(1 - np.sqrt(0.5)) / 2, rel=0.1)
    assert found["per_second"] is None  # a store without a translator does not say when it began


def test_lists_and_counters_can_be_browsed(api: Any, tmp_path: Path) -> None:
    """Lists with the entries they have had; counters that are not 0, the highest first, in pages."""
    specs = ["events=append,lists=3,batches=8,batch=2", "packets=key-increment,slots=64,copies=1"]
    stores = open_stores(tmp_path / "direct", [parse_store(spec) for spec in specs])
    lists, packets = stores["events"], stores["packets"]
    translator = Translator([lists.layout], MemoryTransport([lists]))
    numbers = np.array([1, 1, 0, 0, 0], np.uint64)
    translator.translate(*dta(2, as_bytes(numbers), as_bytes(np.arange(5, dtype=np.uint64)), list=numbers))
    translator.flush()
    packets.memory.view(np.uint64)[[5, 9, 60]] = 7, 2**60, 1
    first, page, rest, wrong, listless = get(
        api, tmp_path, "stores/events/lists?offset=0&limit=2", "stores/packets/counters?limit=2",
        "stores/packets/counters?order=index&offset=1", "stores/events/counters", "stores/packets/lists",
    )  # fmt: skip
    assert first[1]["total"] == 3
    assert first[1]["items"] == [{"number": 0, "entries": 3}, {"number": 1, "entries": 2}]
    assert page[1] == {
        "total": 3, "offset": 0,
        "items": [{"number": 9, "value": str(2**60)}, {"number": 5, "value": 7}],
    }  # fmt: skip
    assert [item["number"] for item in rest[1]["items"]] == [9, 60]
    packets.memory.view(np.uint64)[:] = 2**64 - 1
    ((_, asked),) = get(api, tmp_path, "stores/packets/query?key=1&monitor=turboflow")
    assert asked["items"][0]["counter"] == str(2**64 - 1) == asked["items"][0]["decoded"]["packets"]
    assert (wrong[0], listless[0]) == (400, 400)


def test_a_folder_without_stores_has_none(api: Any, tmp_path: Path) -> None:
    """An empty list, not an error."""
    assert get(api, tmp_path, "stores") == [(200, {"items": []})]


def test_no_query_of_a_store_is_an_internal_error(api: Any, tmp_path: Path) -> None:
    """A number that no list can have, a sketch that a hostile writer has filled: empty, with the reason."""
    specs = [parse_store("lists=append,lists=4"), parse_store("sketches=cardinality,sketches=2")]
    stores = open_stores(tmp_path / "direct", specs)
    for filled in (255, 63):
        stores["sketches"].memory[:] = filled
        for path in (
            "lists/query?key=10.0.0.1,10.0.0.2,tcp,80,443",
            "lists/query?key=0xffffffffffffffffff",
            "sketches/query?key=1",
        ):
            ((status, said),) = get(api, tmp_path, f"stores/{path}")
            assert status == 200, (path, said)
            (item,) = said["items"]
            assert item["status"] == "empty"
            assert "maximum" in item["reason"] or "lists 0 to 3" in item["reason"]


def test_the_api_asks_all_collectors(tmp_path: Path) -> None:
    """Each key is answered by the collector that has it; `local` asks this one alone; answers are decoded."""
    spec = parse_store("turboflow=key-increment,slots=65536,collectors=2")
    folders = [tmp_path / "direct", tmp_path / "other"]
    stores = [open_stores(folder, [spec])["turboflow"] for folder in folders]
    translator = Translator([spec.layout], [MemoryTransport([store]) for store in stores])
    numbers = np.arange(1, 21, dtype=np.uint64)
    translator.translate(*dta(3, as_bytes(numbers), as_bytes(numbers, 8), counter=numbers, redundancy=2))
    app = create_app(ServeSettings(), tmp_path, collectors=open_collectors(list(map(str, folders)), tmp_path))
    keys = "&".join(f"key={number}" for number in numbers)

    async def talk() -> list[Any]:
        transport = httpx.ASGITransport(app.state.guarded)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            paths = (f"stores/turboflow/query?{keys}", f"stores/turboflow/query?{keys}&local=true", "stores")
            return [(await client.get(f"/api/v0/direct/{path}")).json()["items"] for path in paths]

    every, local, listed = asyncio.run(talk())
    app.state.context.close()
    assert [answer["decoded"] for answer in every] == [{"packets": int(number)} for number in numbers]
    assert 0 < sum(answer["status"] == "found" for answer in local) < len(numbers)
    assert [(store["collector"], store["own"]) for store in listed] == [
        (str(folder), own) for folder, own in zip(folders, (True, False), strict=True)
    ]
