"""The console's files: one page for all addresses, files that browsers may keep, and a strict policy."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from hopscope.serve.static import ROOT, files

IMPORT = re.compile(r"""^import [^;]*["'](\.[^"']+)["'];""", re.MULTILINE)


def ask(api: Any, folder: Path, *urls: str, **headers: str) -> list[Any]:
    """Answers to GETs."""

    async def talk() -> list[Any]:
        async with api(folder) as client:
            return [await client.get(url, headers=headers) for url in urls]

    return asyncio.run(talk())


def test_every_address_is_the_one_page(api: Any, tmp_path: Path) -> None:
    """Its policy allows neither inline scripts or styles nor anything from elsewhere."""
    first, *rest = ask(
        api, tmp_path, "/", "/flows", "/flows/00aa", "/ports/leaf-1/to%20host", "/system/access"
    )
    assert {each.text for each in rest} == {first.text}
    policy = first.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "<script>" not in first.text
    assert " style=" not in first.text
    assert "http" not in re.sub(r"api/v0/\S+", "", first.text)


def test_an_address_that_is_none(api: Any, tmp_path: Path) -> None:
    """404 in any case: browsers get the page, which says so and has the menu; programs one line."""
    page, browser = ask(api, tmp_path, "/", "/alarms", accept="text/html,*/*;q=0.8")
    assert (browser.status_code, browser.text) == (404, page.text)
    assert browser.headers["content-security-policy"] == page.headers["content-security-policy"]
    (program,) = ask(api, tmp_path, "/alarms", accept="*/*")
    assert (program.status_code, program.json()) == (404, {"error": "Not Found"})
    (of_api,) = ask(api, tmp_path, "/api/v0/alarmz", accept="text/html")
    assert of_api.json()["error"].startswith("not found: ")


def test_files_are_kept_by_version(api: Any, tmp_path: Path) -> None:
    """The address has the digest of all files; with another digest nothing is kept; a tag saves the body."""
    found = files()
    name = f"/console/{found.digest}/app.js"
    now, old, missing = ask(
        api, tmp_path, name, "/console/0123/app.js", f"/console/{found.digest}/..%2fapi.py"
    )
    assert "immutable" in now.headers["cache-control"]
    assert now.headers["content-encoding"] == "gzip"
    assert old.headers["cache-control"] == "no-cache"
    assert missing.status_code == 404
    (again,) = ask(api, tmp_path, name, **{"if-none-match": now.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_all_imports_lead_to_files() -> None:
    """No module of the console imports one that is not there, and none from elsewhere."""
    for module in ROOT.rglob("*.js"):
        text = module.read_text()
        for target in IMPORT.findall(text):
            assert (module.parent / target).exists(), f"{module.name} imports {target}"
        assert not re.search(r"""^import [^;]*["'](?!\.)[^"']*["'];""", text, re.MULTILINE), module.name
        assert "innerHTML" not in text, module.name
        assert "eval(" not in text, module.name
