"""Three NATS servers with the configuration of deploy/cluster, at ports of this machine."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

from hopscope.settings.cluster import ClusterSettings
from support.servers.server_process import NatsServer, free_port
from support.waiting import eventually

DEPLOY = Path(__file__).resolve().parents[2] / "deploy/cluster"
NAMES = ("nats1", "nats2", "nats3")
OTHER_ACCOUNT = """
  dc2: { jetstream: { max_mem: 64MB, max_file: 1GB, max_streams: 16 }, users: [ { user: "other" } ] }"""
"""Of another cluster on the same servers: its user may do everything, in its own account."""


def certificates(folder: Path, *names: str) -> Path:
    """What certificates.sh makes."""
    words = [str(DEPLOY / "certificates.sh"), str(folder), *names]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return folder


class ClusterServer(NatsServer):
    """One of them: `own` is its port for the others, `routes` are those of all."""

    def __init__(self, program: str, folder: Path, name: str, ports: dict[str, int], certs: Path) -> None:
        super().__init__(program, folder)
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports.values())
        text = (DEPLOY / "nats.conf").read_text()
        for pattern, given in (
            (r"^server_name: .*$", f"server_name: {name}"),
            (r'"0.0.0.0:4222"', f'"127.0.0.1:{self.port}"'),
            (r'"0.0.0.0:6222"', f'"127.0.0.1:{ports[name]}"'),
            (r"^http: .*$", ""),
            (r"routes: .*$", f"routes: [{routes}]"),
            (r"/var/lib/nats", f"{folder}/store"),
            (r"/etc/nats/server", f"{certs}/{name}"),
            (r"/etc/nats/ca.pem", f"{certs}/ca.pem"),
        ):
            text, found = re.subn(pattern, given, text, flags=re.MULTILINE)
            assert found, pattern
        (folder / "nats.conf").write_text(text)
        self.write_users("^", "")
        self._words = [program, "-c", str(folder / "nats.conf")]

    def write_users(self, pattern: str, given: str) -> None:
        """Those of the example, with the first match of a pattern replaced, and another account."""
        text, found = re.subn(pattern, given, (DEPLOY / "users.conf").read_text(), count=1, flags=re.DOTALL)
        assert found, pattern
        text, found = re.subn(r"\n  dc1: ", OTHER_ACCOUNT + r"\g<0>", text)
        assert found
        (self._folder / "users.conf").write_text(text)

    @property
    def log(self) -> str:
        """What it has written so far."""
        return (self._folder / "server.log").read_text(errors="replace")


class ClusterServers:
    """All three, and settings of a client with a certificate."""

    def __init__(self, program: str, folder: Path, certs: Path) -> None:
        self._certs = certs
        ports = {name: free_port() for name in NAMES}
        self.servers = []
        for name in NAMES:
            (folder / name).mkdir()
            self.servers.append(ClusterServer(program, folder / name, name, ports, self._certs))

    def start(self) -> None:
        """Start all, and wait until they have a leader."""
        for server in self.servers:
            server.start()
        eventually(lambda: "JetStream cluster new metadata leader" in self.log, lambda: self.log, 0.1)

    def kill(self) -> None:
        """End all."""
        for server in self.servers:
            server.kill()

    @property
    def log(self) -> str:
        """What all have written so far."""
        return "".join(server.log for server in self.servers)

    def change_users(self, pattern: str, given: str) -> None:
        """Change the users of all, as `ClusterServer.write_users`, and have them read the file again."""
        for server in self.servers:
            server.write_users(pattern, given)
            server.signal(signal.SIGHUP)

    def refused(self) -> set[tuple[str, str]]:
        """Who wanted to publish or subscribe to what without having the right, so far."""
        return set(re.findall(r'Violation - User "(\w+)", Subject "([^"]+)"', self.log))

    def settings(self, who: str, /, **more: object) -> ClusterSettings:
        """Settings of a client with the certificate of `who`; `more` are others."""
        return ClusterSettings.model_validate(
            {
                "name": "dc1",
                "nats": [server.url.replace("nats:", "tls:") for server in self.servers],
                "ca_file": self._certs / "ca.pem",
                "cert_file": self._certs / f"{who}.pem",
                "key_file": self._certs / f"{who}.key",
                **more,
            }
        )
