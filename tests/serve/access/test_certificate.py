"""TLS from files, with a real server: what it speaks, and how a renewal comes in."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trustme

from hopscope.serve.access import tls
from hopscope.serve.server import ServeError, bind, run, url_of
from hopscope.settings.collector import Settings
from hopscope.settings.serve import ServeSettings
from support.servers.tls import Files
from support.waiting import eventually


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Certificates of an authority."""
    return Files(tmp_path)


@contextlib.contextmanager
def served(settings: Settings) -> Iterator[str]:
    """The address of an API that runs in a thread."""
    listener, stop = bind(settings.serve, settings.data), threading.Event()
    thread = threading.Thread(target=run, args=(settings, settings.data, stop, listener))
    thread.start()
    try:
        yield url_of(listener, tls=True)
    finally:
        stop.set()
        thread.join()


def serial(context: ssl.SSLContext, url: str) -> int:
    """Serial number of the certificate that the server shows a new connection."""
    with httpx.Client(verify=context) as client, client.stream("GET", f"{url}healthz") as answer:
        shown = answer.extensions["network_stream"].get_extra_info("ssl_object").getpeercert()
        return int(shown["serialNumber"], 16)


def test_a_renewal_closes_no_connection(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New files are shown to new connections within a look, while one that is open goes on; files that do not
    fit each other leave the old certificate in use, which /readyz says, and the next good ones are taken.
    """
    monkeypatch.setattr(tls, "LOOK_SECONDS", 0.02)
    trusted = ssl.create_default_context(cafile=files.ca)
    (data := tmp_path / "data").mkdir()
    cert, key = tmp_path / "live.pem", tmp_path / "live.key"
    shutil.copy(files.cert, cert)
    shutil.copy(files.key, key)
    serve = ServeSettings(port=0, cert_file=cert, key_file=key)
    with served(Settings(data=data, serve=serve)) as url, httpx.Client(verify=trusted) as before:
        assert url.startswith("https://127.0.0.1:")
        first = before.get(f"{url}healthz")
        assert first.status_code == 200
        old = serial(trusted, url)

        other = trustme.CA()
        other.cert_pem.write_to_path(tmp_path / "more.pem")
        other.issue_cert("127.0.0.1").private_key_pem.write_to_path(key)  # of another certificate

        def component() -> tuple[bool, str]:
            parts = before.get(f"{url}readyz").json()["components"]
            found = next(part for part in parts if part["name"] == "certificate")
            return found["ready"], found["detail"]

        eventually(lambda: not component()[0], component)
        assert "live.pem and " in component()[1]
        assert serial(trusted, url) == old

        issued = other.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(key)
        issued.cert_chain_pems[0].write_to_path(cert)
        renewed = ssl.create_default_context(cafile=tmp_path / "more.pem")
        eventually(lambda: component()[0], component)
        assert serial(renewed, url) != old
        assert before.get(f"{url}healthz").status_code == 200, "the old connection goes on"


def test_only_modern_tls_is_spoken(files: Files) -> None:
    """TLS 1.2 and later; of TLS 1.2 only suites with forward secrecy and authenticated encryption."""
    context = tls.Certificate(files.cert, files.key).context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    suites = [suite for suite in context.get_ciphers() if suite["protocol"] == "TLSv1.2"]
    assert suites
    assert all(suite["aead"] and suite["name"].startswith("ECDHE-") for suite in suites)


def test_a_certificate_that_is_no_good_stops_the_start(files: Files, tmp_path: Path) -> None:
    """A missing file, a key of another certificate, and a text that is none are named, with their section."""
    (tmp_path / "text").write_text("no certificate")
    for cert, key, named in (
        (tmp_path / "none.pem", files.key, "none.pem"),
        (files.cert, Path(files.own["key_file"]), "server.pem and "),
        (tmp_path / "text", files.key, "text"),
    ):
        with pytest.raises(ServeError, match=f"^serve: .*{named}"):
            bind(ServeSettings(port=0, cert_file=cert, key_file=key), tmp_path)
