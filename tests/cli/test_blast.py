"""`hopscope blast`: datagrams arrive from all sources; nobody listening is an error."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from hopscope.capture.udp.listener import UdpListener
from hopscope.settings.collector import ListenSettings
from support.command import hopscope, run

pytestmark = pytest.mark.kernel


@pytest.fixture
def listener() -> Iterator[UdpListener]:
    """One that nobody reads meanwhile."""
    made = UdpListener(ListenSettings(port=0))
    made.open()
    yield made
    made.close()


def test_reports_arrive_from_all_sources(listener: UdpListener, tmp_path: object) -> None:
    """At a rate, each a datagram; the output has how many were sent."""
    words = ("--rate", 1000, "--seconds", 0.2, "--sources", 4, "--flows", 7, "--data", tmp_path)
    done = hopscope("blast", "--to", f"udp://127.0.0.1:{listener.port}", *words, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["sent"] >= 50
    assert "received" not in found  # no collector runs there
    sources, total = set(), 0
    while total < found["sent"]:
        batch = listener.receive()
        assert batch is not None
        total += len(batch)
        sources |= set((batch.frames["source_lo"] & 0xFFFFFFFF).tolist())
    assert sources == {0x7F010101 + number for number in range(4)}


def test_nobody_listens(tmp_path: object) -> None:
    """One line says so, and little is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    status, out, err = run("blast", "--to", f"udp://127.0.0.1:{port}", "--seconds", 60, "--data", tmp_path)
    assert (status, out) == (2, "")
    assert f"udp://127.0.0.1:{port}: nobody listens there" in err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--to", "mirror://lo"), "--to mirror://lo: expected udp://HOST:PORT"),
        (("--sources", 3), "--sources 3: expected a power of two"),
    ],
)
def test_a_wrong_option_is_one_line(words: tuple[object, ...], line: str) -> None:
    """It is named, with what was expected."""
    status, _, err = run("blast", *words)
    assert (status, len(err.splitlines())) == (2, 1)
    assert line in err
