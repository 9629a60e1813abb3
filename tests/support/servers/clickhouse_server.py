"""ClickHouse on loopback: Debian's server, and today's engine (chdb) after a small HTTP server of its own.

The engine answers what a server of its version would; only HTTP and processes are ours:
`python clickhouse_server.py PORT FOLDER` serves.
"""

from __future__ import annotations

import json
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from support.servers.server_process import NO_TLS, ServerProcess, free_port


class ClickHouse(ServerProcess):
    """What both have: an address, and answers in JSON."""

    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        """Whether it runs statements."""
        return (
            httpx.post(self.url, content="SELECT 1", trust_env=False, verify=NO_TLS, timeout=60).text == "1\n"
        )

    def query(self, text: str) -> list[dict[str, Any]]:
        """Rows of a SELECT."""
        answer = httpx.post(
            self.url,
            content=f"{text} FORMAT JSONEachRow".encode(),
            trust_env=False,
            verify=NO_TLS,
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]


class ClickHouseServer(ClickHouse):
    """Debian's server with the data in `folder`."""

    def __init__(self, program: str, folder: Path) -> None:
        self.port, native = free_port(), free_port()
        (folder / "config.xml").write_text(
            "<yandex><logger><level>warning</level><console>1</console></logger>"
            f"<listen_host>127.0.0.1</listen_host><http_port>{self.port}</http_port>"
            f"<tcp_port>{native}</tcp_port><path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>"
            "<users_config>users.xml</users_config><default_profile>default</default_profile>"
            "<default_database>default</default_database><mark_cache_size>100000000</mark_cache_size>"
            "<timezone>UTC</timezone></yandex>"
        )
        (folder / "users.xml").write_text(
            "<yandex><profiles><default/></profiles><quotas><default/></quotas><users><default><password/>"
            "<networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>"
            "</default></users></yandex>"
        )
        super().__init__([program, f"--config-file={folder}/config.xml"], folder, self.answers)


class ClickHouseToday(ClickHouse):
    """Today's engine with the data in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
        super().__init__(
            [sys.executable, __file__, str(self.port), str(folder / "data")],
            folder,
            self.answers,
            environment,
        )


def serve(port: int, folder: str) -> None:
    """Run statements until killed."""
    from chdb.session import Session

    session: Any = Session(folder)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            """A statement in the body, or an INSERT in the URL with its rows in the body."""
            given = dict(parse_qsl(urlsplit(self.path).query))
            body = self.rfile.read(int(self.headers["content-length"]))
            statement = given.pop("query", "")
            with tempfile.NamedTemporaryFile() as rows:
                if statement:
                    rows.write(body)
                    rows.flush()
                    into, _, layout = statement.partition(" FORMAT ")
                    settings = ", ".join(f"{key} = '{value}'" for key, value in given.items())
                    settings = f" SETTINGS {settings}" if settings else ""
                    statement = f"{into} FROM INFILE '{rows.name}'{settings} FORMAT {layout}"
                else:
                    statement = body.decode()
                try:
                    status, answer = 200, session.query(statement, "TabSeparated").bytes()
                except Exception as error:
                    status, answer = 500, str(error).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
