"""Who may be a member: users, tokens, JWTs and certificates, on real servers; and a quorum that is lost."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hopscope.cluster.connection import ClusterError, Connection
from hopscope.cluster.membership.members import Directory
from hopscope.settings.collector import Settings
from support.cluster.members import Member, make, running, settings_of
from support.servers.nats_accounts import Accounts
from support.servers.server_process import NatsCluster, NatsServer
from support.servers.tls import Files
from support.waiting import eventually

SECRET = "s3cret-of-nats"


@pytest.fixture
def serve(tmp_path: Path, tool: Callable[[str], str]) -> Iterator[Callable[..., NatsServer]]:
    """Starts a server with options: today's, from the wheel; the other tests have Debian's."""
    newest = Path(sys.executable).with_name("nats-server")
    program = str(newest) if newest.exists() else tool("nats-server")
    with ExitStack() as stack:

        def serve(*options: str) -> NatsServer:
            folder = tmp_path / "nats"
            folder.mkdir()
            server = NatsServer(program, folder, *options)
            stack.callback(server.kill)
            server.start()
            return server

        yield serve


def joins(settings: Settings, folder: Path) -> bool:
    """Whether `cluster init` works, and a member joins."""
    make(settings)
    with running(Member(settings, folder)), Connection(settings.cluster, "test") as connection:
        return Directory(connection).living().keys() == {settings.member}


def problem(settings: Settings) -> str:
    """Why a command cannot connect."""
    with pytest.raises(ClusterError) as found, Connection(settings.cluster, "test"):
        pass
    return str(found.value)


def test_tls_with_a_user(serve: Callable[..., NatsServer], tmp_path: Path) -> None:
    """The server is verified, this member shows its certificate, and both errors name what is wrong; no error
    has the password.
    """
    (tmp_path / "tls").mkdir()
    files = Files(tmp_path / "tls")
    server = serve(
        "--tlsverify", f"--tlscert={files.cert}", f"--tlskey={files.key}", f"--tlscacert={files.ca}",
        "--user", "u", "--pass", SECRET,
    )  # fmt: skip
    url = server.url.replace("nats:", "tls:")
    (tmp_path / "password").write_text(SECRET)
    given: dict[str, Any] = {"user": "u", "password": f"file:{tmp_path}/password"}
    own = {"ca_file": files.ca, **files.own}
    assert joins(settings_of(url, "tls", "c1", **given, **own), tmp_path / "c1")
    for wrong in ({"password": "wrong"}, {"ca_file": files.other_ca}, {"cert_file": None, "key_file": None}):
        text = problem(settings_of(url, "tls", "c1", **{**given, **own, **wrong}))
        assert text.startswith(f"NATS at tls://127.0.0.1:{server.port}: ")
        assert SECRET not in text
        assert "wrong" not in text


def test_a_token(serve: Callable[..., NatsServer], tmp_path: Path) -> None:
    """A token is enough; without it, the server's refusal is shown."""
    server = serve("--auth", SECRET)
    assert joins(settings_of(server.url, "token", "c1", token=SECRET), tmp_path / "c1")
    assert "uthorization" in problem(settings_of(server.url, "token", "c1"))


def test_credentials(serve: Callable[..., NatsServer], tmp_path: Path) -> None:
    """A file with a JWT and its seed, of an account of its own."""
    accounts, other = Accounts(tmp_path), tmp_path / "other"
    other.mkdir()
    server = serve("-c", str(accounts.configuration))
    assert joins(settings_of(server.url, "jwt", "c1", credentials=accounts.credentials), tmp_path / "c1")
    assert "uthorization" in problem(
        settings_of(server.url, "jwt", "c1", credentials=Accounts(other).credentials)
    )
    assert "No such file" in problem(settings_of(server.url, "jwt", "c1", credentials=tmp_path / "none"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nats-py forgets a writer
def test_a_password_that_changes(serve: Callable[..., NatsServer], tmp_path: Path) -> None:
    """A server that comes back with another password refuses the member, which says so; once it takes the old
    one again, the member is there by itself.
    """
    server = serve("--user", "u", "--pass", SECRET)
    settings = settings_of(server.url, "password", "c1", user="u", password=SECRET)
    make(settings)
    member = Member(settings, tmp_path / "c1")
    with running(member):
        words = server._words
        server.kill()
        server._words = [*words[:-1], "another"]
        server.start()
        eventually(lambda: "uthorization" in member.status()["problem"])
        server.kill()
        server._words = words
        server.start()
        member.await_state("joined")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nats-py forgets a writer
def test_passwords_and_certificates_that_are_rotated(
    serve: Callable[..., NatsServer], tmp_path: Path
) -> None:
    """The server is restarted with others: once the member's files have them, it is there again by itself;
    until then `problem` says why it was refused.
    """
    folders = [tmp_path / name for name in ("server", "member", "fresh")]
    for folder in folders:
        folder.mkdir()
    of_server, of_member, fresh = map(Files, folders)

    def give(to: Path, files: Files) -> None:
        for path in files.folder.iterdir():
            shutil.copy(path, to)

    give(folders[1], of_server)
    password = tmp_path / "password"
    password.write_text(SECRET)
    server = serve(
        "--tlsverify", f"--tlscert={of_server.cert}", f"--tlskey={of_server.key}",
        f"--tlscacert={of_server.ca}", "--user", "u", "--pass", SECRET,
    )  # fmt: skip
    url = server.url.replace("nats:", "tls:")
    settings = settings_of(
        url, "rotated", "c1", user="u", password=f"file:{password}", ca_file=of_member.ca, **of_member.own
    )
    make(settings)
    member = Member(settings, tmp_path / "c1")
    with running(member):
        server.kill()
        server._words = [*server._words[:-1], "another"]
        server.start()
        eventually(lambda: "uthorization" in member.status()["problem"])
        server.kill()
        give(folders[0], fresh)
        server.start()
        eventually(lambda: "certificate" in member.status()["problem"])
        give(folders[1], fresh)
        eventually(lambda: "uthorization" in member.status()["problem"])
        password.write_text("another")
        member.await_state("joined")


def _made(settings: Settings) -> bool:
    try:
        make(settings)
    except ClusterError:
        return False
    return True


@pytest.mark.e2e  # for its pauses, which cost lanes that compute more
def test_most_of_three_servers_away(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """With one of three servers NATS still answers, but JetStream does not: a member says so, and is there
    again by itself when a second server is back.
    """
    servers = NatsCluster(tool("nats-server"), tmp_path)
    try:
        servers.start()
        urls = [server.url for server in servers.servers]
        settings = settings_of(urls, "three", "c1", replicas=3)
        eventually(lambda: _made(settings))  # servers that have just started may not know each other yet
        member = Member(settings, tmp_path / "c1")
        with running(member):
            for server in servers.servers[1:]:
                server.kill()
            assert "NATS is away" in member.await_state("away")["problem"]
            eventually(lambda: "JetStream does not answer" in member.status()["problem"])
            servers.servers[1].start()
            member.await_state("joined")
            with Connection(settings.cluster, "test") as connection:
                assert Directory(connection).living().keys() == {"c1"}
    finally:
        servers.kill()
