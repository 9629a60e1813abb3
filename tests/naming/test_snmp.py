"""Names of a real agent (Net-SNMP) by SNMPv2c and v3, and of agents that do not answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pysnmp.proto.rfc1902 import OctetString

from hopscope.base.names import DISCOVERED, MAX_NAME, Names
from hopscope.naming.client import ask, client_of
from hopscope.naming.counters import NAMES_COUNTERS
from hopscope.naming.device import DeviceError, PortCounters
from hopscope.naming.interfaces import COUNTER_NAMES
from hopscope.naming.poller import Poller
from hopscope.naming.snmp import IF_ALIAS, IF_NAME, SnmpClient
from hopscope.runtime.checks.connect import connections
from hopscope.runtime.checks.environment import Finding, Verdict
from hopscope.settings.collector import Settings
from hopscope.settings.names_from import SnmpSettings
from support.servers.server_process import ServerProcess

NODE = 0x7F000001
LONG = "x" * 4096
QUOTES = r"""to 'core' \3</b>, {x="1"}"""
"""What must not break a page, a metric or a file."""
COMMUNITY = {"community": "lab-reader"}
USER = {"user": "reader", "auth_password": "authsecret1", "priv_password": "privsecret1"}


class Agent(ServerProcess):
    """Net-SNMP's agent, with an operator's names for interfaces 1 and 2."""

    def __init__(self, program: str, folder: Path) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder = folder
        self.lo_before = 0
        self.rename("leaf-7")
        words = [program, "-f", "-Lo", "-C", "-c", "snmpd.conf", "-p", "snmpd.pid"]
        super().__init__(words, folder, self._answers, {"SNMP_PERSISTENT_DIR": str(folder / "state")})

    def rename(self, name: str) -> None:
        """Write its settings."""
        quoted = QUOTES.replace("\\", r"\\").replace('"', r"\"")
        alias = ".1.3.6.1.2.1.31.1.1.1.18"
        (self.folder / "snmpd.conf").write_text(
            f"agentAddress udp:127.0.0.1:{self.port}\nrocommunity lab-reader\nsysName {name}\n"
            'createUser reader SHA-256 "authsecret1" AES "privsecret1"\nrouser reader priv\n'
            f'override {alias}.1 octet_str "{quoted}"\n'
            f"override {alias}.2 octet_str {LONG}\n"
        )

    def _answers(self) -> bool:
        try:
            return bool(names_of(self.settings(**COMMUNITY)))
        except DeviceError:
            return False

    def settings(self, **more: Any) -> SnmpSettings:
        """The table of settings that asks it."""
        return SnmpSettings.model_validate(
            {"kind": "snmp", "hosts": ["127.0.0.1"], "port": self.port, **more}
        )


def names_of(settings: SnmpSettings) -> Names:
    """Names of the first device."""
    ((node, host),) = settings.devices.items()
    return asyncio.run(ask("names_from.lab", settings, node, host))


def lo_bytes() -> int:
    """Bytes that the loopback interface has sent to itself."""
    return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


@pytest.fixture(scope="module")
def agent(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    made = Agent(tool("snmpd", "/usr/sbin/snmpd"), tmp_path_factory.mktemp("snmpd"))
    made.lo_before = lo_bytes()
    made.start()
    yield made
    made.kill()


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def poller(tmp_path: Path, messages: list[str]) -> Callable[..., Poller]:
    """Makes a poller of the devices of one table, whose messages are collected."""

    def make(settings: SnmpSettings) -> Poller:
        return Poller(
            {"lab": settings},
            tmp_path,
            tmp_path,
            NAMES_COUNTERS.open(tmp_path),
            changed=lambda: messages.append("changed"),
            notify=messages.append,
            warn=messages.append,
        )

    return make


@pytest.mark.parametrize("credentials", [COMMUNITY, USER], ids=["v2c", "v3"])
def test_names_are_those_of_this_machine(agent: Agent, credentials: dict[str, str]) -> None:
    found = names_of(agent.settings(**credentials))
    assert found.nodes == {NODE: "leaf-7"}
    assert found.ports == {(NODE, index): name for index, name in socket.if_nameindex()}


def test_counters_are_those_of_the_kernel(agent: Agent) -> None:
    """Of the loopback interface: no less than before the agent started, no more than now."""

    async def read() -> PortCounters:
        client = client_of("names_from.lab", agent.settings(**COMMUNITY))
        try:
            return await client.counters("127.0.0.1")
        finally:
            await client.close()

    (lo,) = (index for index, name in socket.if_nameindex() if name == "lo")
    found = asyncio.run(read())[lo]
    assert set(found) == set(COUNTER_NAMES)
    assert agent.lo_before <= found["out_bytes"] <= lo_bytes()
    assert agent.lo_before <= found["in_bytes"] <= lo_bytes()


def test_an_operators_name_comes_before_the_interfaces(agent: Agent) -> None:
    found = names_of(agent.settings(interfaces="alias", nodes={"127.0.0.1": 7}, **COMMUNITY))
    assert found.port(7, 1) == QUOTES
    indexes = dict(socket.if_nameindex())
    assert all(found.port(7, index) == name for index, name in indexes.items() if index > 2)
    if 2 in indexes:
        assert found.port(7, 2) == LONG[:MAX_NAME]


def test_answers_are_kept_in_the_data_folder(
    agent: Agent, poller: Callable[..., Poller], messages: list[str], tmp_path: Path
) -> None:
    """With names that a file of the user does not have; equal names change nothing."""
    made = poller(agent.settings(interfaces="alias", **COMMUNITY))
    asyncio.run(made.poll("lab"))
    asyncio.run(made.poll("lab"))
    assert messages == ["changed"]
    user = tmp_path / "names.toml"
    user.write_text(f'[nodes]\n{NODE} = "mine"\n')
    names = Names.load(user, tmp_path)
    assert (names.node(NODE), names.port(NODE, 1)) == ("mine", QUOTES)
    counts = NAMES_COUNTERS.read(tmp_path)
    assert counts == {
        "names_polls_total.answered": 2, "names_polls_total.failed": 0, "names_silent_devices": 0,
        "names_changes_total": 1,
        "names_counter_polls_total.answered": 0, "names_counter_polls_total.failed": 0,
    }  # fmt: skip


def test_a_device_that_does_not_answer_keeps_its_names(
    agent: Agent, poller: Callable[..., Poller], messages: list[str], tmp_path: Path
) -> None:
    """One line when it begins, one when it answers again."""
    asyncio.run(poller(agent.settings(**COMMUNITY)).poll("lab"))
    before = (tmp_path / DISCOVERED).read_text()
    messages.clear()
    wrong = agent.settings(community="another", timeout_seconds=0.2)
    made = poller(wrong)
    asyncio.run(made.poll("lab"))
    asyncio.run(made.poll("lab"))
    assert (tmp_path / DISCOVERED).read_text() == before
    counts = NAMES_COUNTERS.read(tmp_path)
    assert (counts["names_polls_total.failed"], counts["names_silent_devices"]) == (2, 1)
    made._tables["lab"] = agent.settings(**COMMUNITY)
    asyncio.run(made.poll("lab"))
    problem, again = messages
    assert problem.startswith("names of 127.0.0.1: No SNMP response")
    assert problem.endswith("its last names stay")
    assert again == "names of 127.0.0.1: it answers again"


def test_names_of_devices_that_settings_no_longer_have_go(
    poller: Callable[..., Poller], messages: list[str], tmp_path: Path
) -> None:
    (tmp_path / DISCOVERED).write_text('[nodes]\n9 = "old"\n167772161 = "stays"\n[ports.9]\n1 = "a"\n')
    made = poller(SnmpSettings(kind="snmp", hosts=("10.0.0.1",), community="x"))
    made.prune()
    assert Names.load(None, tmp_path) == Names({167772161: "stays"})
    assert messages == ["changed"]


def test_config_check_asks_every_device(agent: Agent, tmp_path: Path) -> None:
    """A wrong password of SNMPv3 is a bad line, and is in none."""
    good = agent.settings(**USER)
    bad = agent.settings(**USER | {"auth_password": "wrongsecret"}, nodes={"127.0.0.1": 9})
    tables = {"good": good.model_dump(), "bad": bad.model_dump()}
    settings = {"data": tmp_path, "listen": [], "serve": {"enabled": False}, "names_from": tables}
    first, second = connections(Settings.model_validate(settings))
    ports = len(socket.if_nameindex())
    assert first == Finding("names_from.good 127.0.0.1", f"leaf-7, {ports} ports")
    assert (second.what, second.verdict) == ("names_from.bad 127.0.0.1", Verdict.BAD)
    assert "digest" in second.found.lower()
    assert "wrongsecret" not in str(second)


@pytest.mark.parametrize(
    "rows",
    [
        [(*IF_NAME, 1), (*IF_NAME, 1)],
        [(*IF_NAME, 1), (*IF_NAME, 0)],
        [(*IF_NAME, 1), (*IF_NAME, 65535)],
        [(*IF_NAME, 1), (*IF_NAME, 2, 3)],
        [(*IF_NAME, 1), (*IF_ALIAS, 2)],
        [(*IF_NAME, 1)],
    ],
    ids=["the same row", "an earlier one", "no port number", "no index", "another column", "the same answer"],
)
def test_a_walk_of_a_device_that_leads_nowhere_ends(
    rows: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers the same rows to every request."""

    async def answer(*_: object) -> list[tuple[tuple[int, ...], OctetString]]:
        return [(oid, OctetString(b"eth1")) for oid in rows]

    monkeypatch.setattr(SnmpClient, "_answer", answer)
    settings = SnmpSettings(kind="snmp", hosts=("192.0.2.7",), community="x")
    assert names_of(settings).ports == {(0xC0000207, 1): "eth1"}
