"""`config check --connect`: every source and destination is tried, and what is wrong is one line."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from hopscope.settings.collector import Settings
from support.processes.command import run
from support.servers.redis_server import RedisServer
from support.servers.server_process import free_port
from support.servers.tls import Files

PASSWORD = "open-sesame"


class Answers(BaseHTTPRequestHandler):
    """A webhook that takes POST only, and an InfluxDB that rejects the token."""

    def do_HEAD(self) -> None:
        """As a webhook."""
        self.send_response(405)
        self.end_headers()

    def do_GET(self) -> None:
        """As InfluxDB 2: its health needs no token."""
        self.send_response(204 if self.path == "/ping" else 401)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    """Address of a server on loopback."""
    with HTTPServer(("127.0.0.1", 0), Answers) as found:
        thread = Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join()


def tried(tmp_path: Path, text: str) -> tuple[int, dict[str, dict[str, str]], str]:
    """Exit status, what was found by key, all that was printed."""
    file = tmp_path / "hopscope.toml"
    file.write_text(f'data = "{tmp_path / "data"}"\n{text}')
    status, out, err = run("config", "check", file, "--connect", "--format", "json")
    rows = {row["what"].split()[0]: row for row in map(json.loads, out.splitlines())}
    return status, rows, out + err


def test_what_works_is_good(tmp_path: Path, server: str) -> None:
    """Ports are free, servers answer; nothing is posted."""
    status, rows, printed = tried(
        tmp_path,
        '[[listen]]\nport = 0\n[serve]\nport = 0\n[label]\nlisten = "127.0.0.1:0"\n'
        f'[export.hook]\nkind = "webhook"\nurl = "http://{server}/services/{PASSWORD}"\n'
        f'[export.lab]\nkind = "influxdb"\nurl = "http://{server}"\ncreate = false\n'
        '[sink.report]\nto = "127.0.0.1:32766"\n',
    )
    assert status == 0, printed
    assert {name: row["verdict"] for name, row in rows.items()} == dict.fromkeys(
        ("listen[0]", "serve", "label.listen", "export.hook", "export.lab", "sink.report.to"), "good"
    )
    assert rows["export.hook"]["found"] == "connected"
    assert PASSWORD not in printed


def test_a_console_with_a_certificate(tmp_path: Path) -> None:
    """Its address is the one that browsers use."""
    files = Files(tmp_path)
    serve = f'[serve]\nport = 0\ncert_file = "{files.cert}"\nkey_file = "{files.key}"\n'
    status, rows, printed = tried(tmp_path, f"listen = []\n{serve}")
    assert status == 0, printed
    assert rows["serve"]["what"] == "serve https://127.0.0.1:0"


def test_what_does_not_work_is_one_line(tmp_path: Path, server: str) -> None:
    """Each source and destination with its reason; the exit status is 1, and no password is shown."""
    nothing = free_port()
    links = tmp_path / "links.csv"
    links.write_text("no such columns\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        status, rows, printed = tried(
            tmp_path,
            f'names = "{tmp_path}/none.toml"\n[postcards]\nlinks = "{links}"\n'
            f'[[listen]]\nport = {port}\n[[listen]]\nkind = "mirror"\ninterface = "nowhere0"\n'
            "[serve]\nenabled = false\n"
            f'[export.hook]\nkind = "webhook"\nurl = "http://127.0.0.1:{nothing}/{PASSWORD}"\n'
            f'[export.state]\nkind = "redis_state"\nurl = "redis://me:{PASSWORD}@127.0.0.1:{nothing}/0"\n'
            f'[export.lab]\nkind = "influxdb"\nurl = "http://{server}"\ntoken = "{PASSWORD}"\n'
            f'[export.other]\nkind = "influxdb"\nurl = "http://127.0.0.1:{nothing}"\ncreate = false\n'
            f'[export.variable]\nkind = "influxdb"\nurl = "http://{server}"\ntoken = "env:NOT_THERE"\n'
            f'[switches.far]\nkind = "http"\nnode = 1\nurl = "http://127.0.0.1:{nothing}"\n'
            f'token = "{PASSWORD}-{PASSWORD}"\n'
            f'[switches.p4]\nkind = "p4runtime"\nnode = 2\naddress = "127.0.0.1:{nothing}"\ntls = false\n'
            f'[switches.here]\nkind = "ebpf"\nnode = 3\npins = "{tmp_path}"\n'
            f'[cluster]\nnats = ["nats://me:{PASSWORD}@127.0.0.1:{nothing}"]\n',
        )
    assert status == 1
    assert {row["verdict"] for row in rows.values()} == {"bad"}
    for name, reason in {
        "names": "none.toml",
        "postcards.links": "links.csv",
        "listen[0]": "in use",
        "listen[1]": "no such interface",
        "export.hook": "refused",
        "export.state": "refused",
        "export.lab": "status 401",
        "export.other": "refused",
        "export.variable": "NOT_THERE",
        "switches.far": "refused",
        "switches.p4": "unavailable",
        "switches.here": str(tmp_path),
        "cluster": "Connect call failed",
    }.items():
        assert reason in rows[name]["found"], rows[name]
        assert "\n" not in rows[name]["found"]
    assert PASSWORD not in printed


def test_redis_says_what_it_is(
    tmp_path: Path, tool: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password of a file opens it; a wrong one is an error."""
    server = RedisServer(tool("redis-server"), tmp_path, "--requirepass", PASSWORD)
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD + "\n")
    monkeypatch.setenv("WRONG", "not-this-one")
    server.start(password=PASSWORD)
    try:
        status, rows, printed = tried(
            tmp_path,
            "listen = []\n[serve]\nenabled = false\n"
            f'[label]\nredis = "{server.url.replace("//", f"//:{PASSWORD}@")}"\n'
            + "".join(
                f'[export.{name}]\nkind = "redis_state"\nurl = "{server.url}"\npassword = "{password}"\n'
                for name, password in (("a", f"file:{secret}"), ("b", "env:WRONG"), ("c", "env:NOWHERE"))
            ),
        )
    finally:
        server.kill()
    assert status == 1
    assert rows["label.redis"]["found"].startswith("Redis ")
    assert rows["export.a"]["found"] == "connected"
    assert "invalid username-password pair" in rows["export.b"]["found"]
    assert rows["export.c"]["found"] == "there is no environment variable NOWHERE"
    assert "not-this-one" not in printed
    assert PASSWORD not in printed


def test_defaults_name_two_places() -> None:
    """One listener and the page."""
    from hopscope.runtime.checks.connect import connections

    settings = Settings.model_validate({"listen": [{"port": 0}], "serve": {"port": 0}})
    with closing(connections(settings)) as found:  # type: ignore[type-var]
        assert [each.what.split()[0] for each in found] == ["listen[0]", "serve"]
