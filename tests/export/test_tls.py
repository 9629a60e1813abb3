"""TLS to every kind of destination: `config check --connect` accepts the right server and no other."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from hopscope.runtime.checks.connect import connections
from hopscope.settings.collector import Settings
from support.servers.bus_make import need
from support.servers.kafka_gate import broker_at
from support.servers.kafka_mock import MockCluster
from support.servers.postgres_server import PostgresServer
from support.servers.redis_server import RedisServer
from support.servers.server_process import MqttServer, NatsServer, free_port
from support.servers.tls import Files, relay

SECRET = "open-sesame"
Given = dict[str, Any]


class Answers(BaseHTTPRequestHandler):
    """Every HTTP server: 200, with the version of a database."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-length", "4")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"23.1")

    do_GET = do_HEAD = do_POST = _answer  # noqa: N815 - the names that the library calls

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


class Quiet(ThreadingHTTPServer):
    """Whose clients may break off."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Quiet."""


@contextmanager
def https(files: Files) -> Iterator[int]:
    """The port of a web server."""
    with Quiet(("127.0.0.1", 0), Answers) as server:
        server.socket = files.context().wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


class Places:
    """Settings of every kind at a host, whose servers are started when they are asked for, and stay."""

    def __init__(self, files: Files, folder: Path, tool: Callable[..., str], stack: ExitStack) -> None:
        self._files, self._folder, self._tool, self._stack = files, folder, tool, stack
        self._ports: dict[str, int] = {}

    def given(self, kind: str, host: str) -> Given:
        """Settings of a destination of a kind, without certificates."""
        one: Given = getattr(self, f"_{kind}", self._http)(kind, host)
        return {"kind": kind, **one}

    def _port(self, name: str, start: Callable[[], int]) -> int:
        if name not in self._ports:
            self._ports[name] = start()
        return self._ports[name]

    def _http(self, kind: str, host: str) -> Given:
        port = self._port("https", lambda: self._stack.enter_context(https(self._files)))
        more: Given = {"create": False} if kind in ("influxdb", "clickhouse") else {}
        secret = "password" if kind == "clickhouse" else "token"
        return {"url": f"https://{host}:{port}", **more, **({} if kind == "slack" else {secret: SECRET})}

    def _run(self, name: str, server: Any) -> int:
        (self._folder / name).mkdir(exist_ok=True)
        self._stack.callback(server.kill)
        server.start()
        return server.port

    def _nats(self, kind: str, host: str) -> Given:
        def start() -> int:
            need("nats")
            program, files, folder = self._tool("nats-server"), self._files, self._folder / "nats"
            folder.mkdir()
            options = ["--tlsverify", f"--tlscert={files.cert}", f"--tlskey={files.key}"]
            options += [f"--tlscacert={files.ca}", "--user", "u", "--pass", SECRET]
            return self._run("nats", NatsServer(program, folder, *options))

        port = self._port("nats", start)
        return {"servers": [f"tls://{host}:{port}"], "user": "u", "password": SECRET}

    def _mqtt(self, kind: str, host: str) -> Given:
        def start() -> int:
            need("paho")
            program, files, folder = self._tool("mosquitto"), self._files, self._folder / "mqtt"
            folder.mkdir()
            lines = [f"cafile {files.ca}", f"certfile {files.cert}", f"keyfile {files.key}"]
            lines += ["require_certificate true", "allow_anonymous true"]
            return self._run("mqtt", MqttServer(program, folder, *lines))

        port = self._port("mqtt", start)
        return {"url": f"mqtts://{host}:{port}", "user": "u", "password": SECRET}

    def _redis_stream(self, kind: str, host: str) -> Given:
        def start() -> int:
            program, files, folder = self._tool("redis-server"), self._files, self._folder / "redis"
            folder.mkdir()
            options = ["--tls-cert-file", str(files.cert), "--tls-key-file", str(files.key)]
            options += ["--tls-ca-cert-file", str(files.ca), "--requirepass", SECRET]
            server = RedisServer(program, folder, *options)
            server.listen = ("--port", "0", "--tls-port")
            self._stack.callback(server.kill)
            own = {f"ssl_{name.replace('_', '')}": str(file) for name, file in files.own.items()}
            server.start(ssl=True, ssl_ca_certs=str(files.ca), password=SECRET, **own)
            return server.port

        port = self._port("redis", start)
        return {"url": f"rediss://{host}:{port}/0", "password": SECRET}

    _redis_state = _redis_stream

    def _postgres(self, kind: str, host: str) -> Given:
        def start() -> int:
            need("pg8000")
            folder = Path(tempfile.mkdtemp(prefix="hopscope-postgres-"))
            folder.chmod(0o755)
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            server = PostgresServer(self._tool, folder)
            data = server.data
            for file, name in ((self._files.cert, "server.crt"), (self._files.key, "server.key")):
                shutil.copy(file, data / name)
            shutil.copy(self._files.ca, data / "root.crt")
            for name in ("server.crt", "server.key", "root.crt"):
                shutil.chown(data / name, data.owner(), data.group())
                (data / name).chmod(0o600)
            with (data / "postgresql.conf").open("a") as settings:
                settings.write("ssl = on\nssl_ca_file = 'root.crt'\n")
            hosts = "host all all 127.0.0.1/32 trust\n"  # psql of the fixture
            (data / "pg_hba.conf").write_text("hostssl hopscope all all trust clientcert=verify-ca\n" + hosts)
            port = self._run("postgres", server)
            server.run("CREATE DATABASE hopscope", "postgres")
            return port

        port = self._port("postgres", start)
        return {"host": host, "port": port, "tls": True, "create": False, "password": SECRET}

    def _kafka(self, kind: str, host: str) -> Given:
        """Its metadata name the port that takes TLS."""

        def start() -> int:
            need("confluent_kafka")
            cluster = MockCluster("hopscope.v1.events")
            self._stack.callback(cluster.close)
            address, _, port = cluster.brokers[0].rpartition(":")

            def change(answer: bytes, own: int) -> bytes:
                return answer.replace(broker_at(int(port)), broker_at(own))

            return self._stack.enter_context(relay(self._files.context(), (address, int(port)), change))

        port = self._port("kafka", start)
        options = {"security.protocol": "SSL", "broker.address.family": "v4", "ssl.key.password": SECRET}
        return {"brokers": [f"{host}:{port}"], "options": options}

    def _syslog(self, kind: str, host: str) -> Given:
        port = self._port("https", lambda: self._stack.enter_context(https(self._files)))
        return {"url": f"tls://{host}:{port}"}

    _ipfix = _syslog

    def _email(self, kind: str, host: str) -> Given:
        def start() -> int:
            port = free_port()
            context = self._files.context()
            controller = Controller(object(), hostname="127.0.0.1", port=port, ssl_context=context)
            controller.start()
            self._stack.callback(controller.stop)
            return port

        port = self._port("smtps", start)
        return {"url": f"smtps://{host}:{port}", "to": ["noc@example.net"]}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def places(
    files: Files, tmp_path_factory: pytest.TempPathFactory, tool: Callable[..., str]
) -> Iterator[Places]:
    with ExitStack() as stack:
        yield Places(files, tmp_path_factory.mktemp("servers"), tool, stack)


def tried(given: Given) -> str:
    """What `config check --connect` prints of a destination."""
    section = "metrics" if given["kind"] == "remote_write" else "export"
    tree = {"listen": (), "serve": {"enabled": False}, section: {"one": {"timeout_seconds": 5, **given}}}
    (finding,) = connections(Settings.model_validate(tree))
    assert SECRET not in json.dumps([finding.what, finding.found])
    return finding.found


def with_files(given: Given, ca: Path, own: dict[str, Path]) -> Given:
    """The settings with a CA, and a certificate of one's own."""
    if given["kind"] != "kafka":
        return given | {"ca_file": ca} | own
    names = {"cert_file": "ssl.certificate.location", "key_file": "ssl.key.location"}
    more = {names[name]: str(file) for name, file in own.items()}
    return given | {"options": {**given["options"], "ssl.ca.location": str(ca), **more}}


KINDS = (
    *("influxdb", "clickhouse", "remote_write", "otlp", "webhook", "alertmanager", "slack", "nats"),
    # paho leaves the socket of a failed handshake to the collector of garbage
    pytest.param("mqtt", marks=pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")),
    *("redis_stream", "redis_state", "kafka", "postgres", "syslog", "ipfix", "email"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_server_and_no_other(places: Places, files: Files, kind: str) -> None:
    """A server with a certificate of the given CA is accepted; one of another CA, or with another host name,
    is rejected with the reason; no secret is printed.
    """
    here = places.given(kind, "127.0.0.1")
    assert tried(with_files(here, files.ca, files.own)) == "connected"
    wrong = tried(with_files(here, files.other_ca, files.own))
    assert "certificate verify failed" in wrong or "unknown CA" in wrong, wrong
    named = tried(with_files(places.given(kind, "localhost"), files.ca, files.own))
    assert "certificate" in named, named


@pytest.mark.parametrize("kind", ["otlp", "nats", "redis_stream", "postgres"])
def test_a_server_that_wants_a_certificate(places: Places, files: Files, kind: str) -> None:
    """Without one, the destination is rejected with a reason."""
    found = tried(with_files(places.given(kind, "127.0.0.1"), files.ca, {}))
    assert found != "connected"
    assert found


def test_files_that_are_no_good_are_named(places: Places, files: Files) -> None:
    """One that is missing, and one that is no certificate."""
    here = places.given("otlp", "127.0.0.1")
    assert tried(here | {"ca_file": files.folder / "none.pem"}).endswith(
        "none.pem: No such file or directory"
    )
    assert "server.key: " in tried(here | {"ca_file": files.key})
    wrong = {"cert_file": files.own["cert_file"], "key_file": files.key}
    assert "server.key: " in tried(here | {"ca_file": files.ca} | wrong)
