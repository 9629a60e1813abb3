"""A switch over HTTP: the driver and the server that it speaks to, on real sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hopscope.base.errors import HopscopeError
from hopscope.control.driver import RefusedError, SouthboundError
from hopscope.control.drivers import http
from hopscope.control.drivers.http import PATH, HttpDriver
from hopscope.control.neighbours import SwitchPort, SwitchPorts
from hopscope.control.state import SwitchState
from hopscope.serve import agent
from hopscope.serve.server import ServeError
from hopscope.settings.agent import AgentSettings
from hopscope.settings.label import LabellingSettings, TrackedFlowSettings
from hopscope.settings.switches import HttpSwitchSettings
from hopscope.settings.watch import WatchSettings
from support.network.switch_driver import MemoryDriver, gone
from support.servers.tls import Files
from support.waiting import eventually

TOKEN = "a-token-of-a-switch"
STATE = SwitchState(watch=(), track=(), labelling=LabellingSettings(), reg2={1: 0, 3: 2, 4: 0})
Serve = Callable[..., tuple[MemoryDriver, int]]
Connect = Callable[..., HttpDriver]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves a switch in memory; gives it, and the port."""
    stop, threads = threading.Event(), list[threading.Thread]()

    def make(state: SwitchState = STATE, **more: Any) -> tuple[MemoryDriver, int]:
        switch = MemoryDriver(state)
        settings = AgentSettings(listen="127.0.0.1:0", token=TOKEN, **more)
        listener = agent.bind(settings)
        port = listener.getsockname()[1]
        thread = threading.Thread(target=agent.run, args=(settings, switch, stop, listener))
        thread.start()
        threads.append(thread)
        return switch, port

    yield make
    stop.set()
    for thread in threads:
        thread.join()


@pytest.fixture
def driver(serve: Serve) -> Iterator[Connect]:
    """Connects drivers, and closes them before the servers end."""
    made: list[HttpDriver] = []

    def make(port: int, scheme: str = "http", **more: Any) -> HttpDriver:
        settings = {"url": f"{scheme}://127.0.0.1:{port}", "token": TOKEN, **more}
        made.append(HttpDriver("leaf1", HttpSwitchSettings(kind="http", node=7, **settings)))
        made[-1].connect()
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_state_is_read_and_changed(serve: Serve, driver: Connect) -> None:
    """What the driver applies is what the switch does, part by part; ports that are not named stay."""
    switch, port = serve()
    found = driver(port)
    assert found.read() == STATE
    change = SwitchState(
        watch=(WatchSettings(destination="2001:db8::/32", port=5001),),
        track=(TrackedFlowSettings(src="10.0.0.2", dst="10.0.1.2", every=10),),
        reg2={1: 255, 3: 0, 4: 1},
    )
    found.apply(change)
    assert switch.state.reg2 == {1: 255, 3: 0, 4: 1}
    assert (switch.state.watch, switch.state.track) == (change.watch, change.track)
    assert found.read() == switch.state


def test_ports_are_read(serve: Serve, driver: Connect) -> None:
    """With their neighbours; of a switch that cannot say there are none."""
    switch, port = serve()
    found = driver(port)
    assert found.ports() == SwitchPorts()
    near = SwitchPort(number=3, name="eth3", mac="02:00:00:00:00:01", chassis="x", port="y", system="z")
    switch.known_ports = SwitchPorts(system="leaf-1", ports=(near,))
    assert found.ports() == switch.known_ports
    switch.known_ports = SwitchPorts.model_construct(system="leaf\x1b[2J\n-1", ports=())
    assert found.ports().system == "leaf [2J -1"  # without what a terminal would obey


def test_over_tls_both_ends_are_checked(serve: Serve, driver: Connect, tmp_path: Path) -> None:
    """Strangers without a certificate of the authority reach nothing; nor does a switch without one."""
    files = Files(tmp_path)
    _, port = serve(cert_file=files.cert, key_file=files.key, client_ca_file=files.ca)
    assert driver(port, "https", ca_file=files.ca, **files.own).read() == STATE
    for wrong in ({"ca_file": files.ca}, {"ca_file": files.other_ca, **files.own}):
        with pytest.raises(SouthboundError, match=r"ConnectError|ReadError|RemoteProtocolError"):
            driver(port, "https", **wrong).read()


def test_errors_have_one_line(serve: Serve, driver: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch whose programs are gone, a part that it lacks, a wrong token, nobody there, another server."""
    switch, port = serve(SwitchState(watch=()))
    found = driver(port)
    with pytest.raises(RefusedError, match=r"^this switch has no reg2$"):
        found.apply(SwitchState(reg2={1: 1}))
    with pytest.raises(SouthboundError, match=r"^this switch has no watch, port 9$"):
        driver(serve(SwitchState(reg2={1: 1}))[1]).apply(SwitchState(watch=(WatchSettings(),), reg2={9: 1}))
    switch.refused = {"watch"}
    with pytest.raises(RefusedError, match=r"no such .*watch$"):
        found.apply(SwitchState(watch=()))
    switch.problem = gone()
    with pytest.raises(SouthboundError, match=r"^status 503: it does not answer$"):
        found.read()
    with pytest.raises(SouthboundError, match=r"^status 401: a login is needed"):
        driver(port, token="another-token-of-a-switch").read()
    with pytest.raises(SouthboundError, match="ConnectError"):
        driver(1).read()
    monkeypatch.setattr(http, "MAX_BYTES", 100)
    switch.problem = None
    with pytest.raises(SouthboundError, match="longer than 100 bytes"):
        driver(serve(STATE)[1]).read()
    with pytest.raises(HopscopeError, match=r"none\.pem"):
        driver(port, "https", ca_file=Path("none.pem"))


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"{", "JSON"),
        (b'{"watch": 7}', "watch"),
        (b'{"reg2": {"1": 256}}', "reg2"),
        (b'{"reg2": {"x": 1}}', "reg2"),
        (b'{"whatever": 1}', "whatever"),
        (b"[" * 100_000, "JSON"),
        (b"[]", "found [], expected a table"),
        (b'{"watch": [' + b"{}," * 9_999 + b"{}]}", "{},…, expected at most 32 items"),
    ],
)
def test_a_bad_request_changes_nothing(serve: Serve, body: bytes, line: str) -> None:
    """Each gets a clear answer."""
    switch, port = serve()
    headers = {"authorization": f"Bearer {TOKEN}"}
    answer = httpx.patch(f"http://127.0.0.1:{port}{PATH}", content=body, headers=headers)
    assert answer.status_code == 400
    assert line in answer.json()["error"]
    assert len(answer.json()["error"]) < 400
    assert switch.state == STATE


def test_reg2_is_reset_without_a_controller(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that is gone leaves no port labelling more often for ever; rules stay."""
    monkeypatch.setattr(agent, "LEASE_LOOK_SECONDS", 0.01)
    switch, _ = serve(STATE.model_copy(update={"watch": (WatchSettings(),)}), lease_seconds=0.05)
    eventually(lambda: switch.state.reg2 == {1: 0, 3: 0, 4: 0})
    assert switch.state.watch == (WatchSettings(),)


def test_a_certificate_that_is_no_good_is_named(tmp_path: Path) -> None:
    """Before anything is served."""
    file, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for text in ("", "no certificate"):
        if text:
            file.write_text(text)
            key.write_text(text)
        settings = AgentSettings(listen="127.0.0.1:0", token=TOKEN, cert_file=file, key_file=key)
        with agent.bind(settings) as listener, pytest.raises(ServeError, match=r"cert\.pem"):
            agent.run(settings, MemoryDriver(STATE), threading.Event(), listener)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"listen": "192.0.2.1:7255", "token": TOKEN}, "without cert_file"),
        ({"token": "short"}, "expected 16 or more"),
        ({"token": TOKEN, "key_file": "key.pem"}, "without cert_file"),
    ],
)
def test_a_switch_is_not_open_to_strangers(given: dict[str, Any], line: str) -> None:
    """Beyond loopback only over TLS, and never without a token."""
    with pytest.raises(ValueError, match=line):
        AgentSettings.model_validate(given)


def test_a_token_does_not_cross_networks_in_the_clear() -> None:
    """Plain HTTP is for this machine."""
    for url in ("http://127.0.0.1:1", "http://[::1]:1/", "http://localhost", "https://192.0.2.7:1"):
        HttpSwitchSettings(kind="http", node=7, url=url, token=TOKEN)
    for url in ("http://192.0.2.7:1", "http://leaf-1", "http://[2001:db8::1]"):
        with pytest.raises(ValueError, match="expected https://"):
            HttpSwitchSettings(kind="http", node=7, url=url, token=TOKEN)
