"""The console's files: one page for all of its addresses, and modules, styles and images. Their addresses
contain a digest of all files, so that browsers can cache them and never mix two versions.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

ROOT = Path(__file__).parent / "console"
ADDRESSES = (
    "/", "/fabric", "/flows", "/flows/{rest:path}", "/ports", "/ports/{rest:path}", "/events",
    "/events/{rest:path}", "/ask", "/direct", "/direct/{rest:path}", "/labels", "/sink", "/limits", "/system",
    "/system/{rest:path}",
)  # fmt: skip
"""Addresses of pages; `lib/pages.js` defines the content of each."""
_MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_GZIP_BYTES = 512
"""Shorter files are sent as they are."""


@dataclass(frozen=True, slots=True)
class File:
    """A file in the form in which it is sent."""

    body: bytes
    packed: bytes | None
    """Compressed with gzip, if that is shorter."""
    media: str


@dataclass(frozen=True, slots=True)
class Files:
    """All files of the console."""

    digest: str
    page: File
    """`index.html`, with the digest in its links."""
    files: dict[str, File]
    """By path below `/console/DIGEST/`."""


@cache
def files(root: Path = ROOT) -> Files:
    """Read all files, which takes 1 ms; they stay in memory."""
    found = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.suffix in _MEDIA
    }
    digest = hashlib.blake2b(b"".join(k.encode() + b"\0" + v for k, v in found.items()), digest_size=8)
    page = found.pop("index.html").replace(b"{digest}", digest.hexdigest().encode())
    return Files(
        digest.hexdigest(),
        _file("index.html", page),
        {name: _file(name, body) for name, body in found.items()},
    )


def _file(name: str, body: bytes) -> File:
    packed = gzip.compress(body, 9, mtime=0) if len(body) >= _GZIP_BYTES else None
    return File(body, packed, _MEDIA[Path(name).suffix])


def mount(app: FastAPI) -> None:
    """Serve the console."""
    for address in ADDRESSES:
        app.add_api_route(address, _page, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route(
        "/console/{digest}/{name:path}", _asset, methods=["GET", "HEAD"], include_in_schema=False
    )
    app.add_api_route("/favicon.ico", _icon, methods=["GET", "HEAD"], include_in_schema=False)


async def _page(request: Request) -> Response:
    return _answer(request, files().page, "no-cache")


async def no_page(request: Request) -> Response:
    """404: for a browser the page, which says so and has the menu; for programs a line."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404)
    answer = _answer(request, files().page, "no-cache")
    if answer.status_code == 200:
        answer.status_code = 404
    return answer


async def _asset(request: Request, digest: str, name: str) -> Response:
    """A file; under a digest of another version not to be cached: open pages get the new version."""
    all_files = files()
    file = all_files.files.get(name)
    if file is None:
        return Response("not found", 404, media_type="text/plain")
    current = digest == all_files.digest
    return _answer(request, file, "public, max-age=31536000, immutable" if current else "no-cache")


async def _icon(request: Request) -> Response:
    return _answer(request, files().files["icon.svg"], "public, max-age=86400")


def _answer(request: Request, file: File, keep: str) -> Response:
    tag = f'"{hashlib.blake2b(file.body, digest_size=8).hexdigest()}"'
    headers = {"cache-control": keep, "etag": tag, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    body = file.body
    if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["content-encoding"] = file.packed, "gzip"
    return Response(body, media_type=file.media, headers=headers)
