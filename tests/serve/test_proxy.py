"""The TLS proxy that the guide describes, with a real nginx."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.waiting import eventually

TOKEN = "correct horse battery"
GUIDE = Path(__file__).parents[2] / "docs/guides/api.md"
URL = "https://hopscope.example"
_CONFIGURATION = """
daemon off; worker_processes 1; pid FOLDER/pid; error_log FOLDER/error.log;
events { worker_connections 64; }
http {
    access_log off; client_body_temp_path FOLDER/body; proxy_temp_path FOLDER/proxy;
    fastcgi_temp_path FOLDER/f; uwsgi_temp_path FOLDER/u; scgi_temp_path FOLDER/s;
    GUIDE
}
"""


@pytest.fixture(params=["kept", "replaced"])
def proxy(server: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A client of nginx with the guide's configuration, as it is, or with the Host header replaced; only
    addresses and paths are those of this test. nginx inherits its socket, so that nothing else gets the port.
    """
    nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if nginx is None:
        assert not os.environ.get("HOPSCOPE_REQUIRE_TOOLS")
        pytest.skip("nginx is not installed")
    found = re.search(r"```nginx\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found
    listener = socket.create_server(("127.0.0.1", 0))
    at = f"127.0.0.1:{listener.getsockname()[1]}"
    text = _CONFIGURATION.replace("GUIDE", found[1]).replace("FOLDER", str(tmp_path))
    for guide, here in (
        ("http://127.0.0.1:8080", server.rstrip("/")),
        ("listen 443 ", f"listen {at} "),
        ("/etc/ssl/hopscope.pem", str(tmp_path / "cert.pem")),
        ("/etc/ssl/hopscope.key", str(tmp_path / "key.pem")),
        ("proxy_set_header Host $http_host;", "" if request.param == "replaced" else None),
    ):
        assert guide in text
        text = text if here is None else text.replace(guide, here)
    (tmp_path / "nginx.conf").write_text(text)
    certificate = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]
    names = ["-subj", "/CN=hopscope.example", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run([*certificate, *names, *files], check=True, capture_output=True)
    command = [
        nginx,
        "-p",
        str(tmp_path),
        "-e",
        str(tmp_path / "early.log"),
        "-c",
        str(tmp_path / "nginx.conf"),
    ]
    fd = listener.fileno()
    with listener, subprocess.Popen(command, pass_fds=[fd], env={**os.environ, "NGINX": f"{fd};"}) as process:
        try:
            headers = {"host": URL.partition("//")[2]}
            with httpx.Client(
                base_url=f"https://{at}", headers=headers, verify=False, timeout=None
            ) as client:
                eventually(lambda: _answers(client, process), lambda: (tmp_path / "error.log").read_text())
                yield client
        finally:
            process.terminate()


def _answers(client: httpx.Client, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None
    try:
        return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("server", [{"token": TOKEN, "public_url": URL}], indirect=True)
def test_the_documented_proxy_works(proxy: httpx.Client) -> None:
    """Login, page, change, SQL and live feed through TLS; another site's Origin is refused."""
    login = proxy.post("/login", data={"token": TOKEN}, headers={"origin": URL})
    assert login.status_code == 303
    assert login.headers["set-cookie"].endswith("; Secure")
    proxy.headers["cookie"] = login.headers["set-cookie"].partition(";")[0]
    page = proxy.get("/", headers={"accept": "text/html"})
    assert page.status_code == 200
    assert "Hopscope" in page.text
    limits = "/api/v0/limits/hop_latency"
    assert proxy.patch(limits, json={"change": 7}, headers={"origin": URL}).status_code == 403
    proxy.headers["x-hopscope-csrf"] = proxy.get("/api/v0/session").json()["csrf"]
    change = proxy.patch(limits, json={"change": 7}, headers={"origin": URL})
    assert (change.status_code, change.json()["change"]) == (200, 7)
    refused = proxy.patch(limits, json={"change": 8}, headers={"origin": "https://evil.example"})
    assert refused.status_code == 403
    answer = proxy.post("/api/v0/sql", json={"sql": "SELECT 40 + 2"}, headers={"origin": URL})
    assert answer.json()["rows"] == [[42]]
    with proxy.stream("GET", "/api/v0/events/live") as feed:
        assert next(feed.iter_lines()).startswith("retry:")
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "origin": URL,
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    path = "/api/v0/live"
    assert proxy.get(path, headers={**upgrade, "origin": "https://evil.example"}).status_code == 403
    with proxy.stream("GET", path, headers=upgrade) as opened:
        assert opened.status_code == 101
