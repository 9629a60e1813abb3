"""LLDP at real interfaces: whose frames name a neighbour, and for how long."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from scapy.contrib.lldp import LLDPDUChassisID, LLDPDUEndOfLLDPDU, LLDPDUPortID, LLDPDUTimeToLive
from scapy.layers.l2 import Ether

from hopscope.control.neighbours import LocalPorts, SwitchPorts
from support.network.namespaces import clear_abandoned
from support.network.veth import Namespace
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")]
PREFIX = "hopscope-lldp"


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    """Two interfaces, `near` and `far`, that lead to each other."""
    clear_abandoned(PREFIX)
    made = Namespace(f"{PREFIX}-{os.getpid()}")
    yield made
    made.remove()


class Listening:
    """Ports of the namespace, as its switch reads them."""

    def __init__(self, namespace: Namespace, *names: str) -> None:
        self._namespace, self._local = namespace, LocalPorts()
        self._numbers = [int(namespace.ip("-o", "link", "show", name).partition(":")[0]) for name in names]

    def read(self) -> SwitchPorts:
        """Inside, where its interfaces are."""
        return self._namespace.inside(lambda: self._local.read(self._numbers))

    def close(self) -> None:
        """Listen no longer."""
        self._local.close()


def test_neighbours_come_and_go(namespace: Namespace) -> None:
    """The newest frame of a port counts, for the time that it says; a frame that this machine sends, one of
    another port and a damaged one name nobody.
    """
    near = Listening(namespace, "near")
    assert [(port.name, port.chassis) for port in near.read().ports] == [("near", "")]

    def frame(port: str, seconds: int) -> bytes:
        head = Ether(src="02:00:00:00:00:01", dst="01:80:c2:00:00:0e", type=0x88CC)
        ids = LLDPDUChassisID(subtype=7, id=b"leaf-2") / LLDPDUPortID(subtype=5, id=port.encode())
        return bytes(head / ids / LLDPDUTimeToLive(ttl=seconds) / LLDPDUEndOfLLDPDU())

    with namespace.raw("far") as far, namespace.raw("near") as own:
        own.send(frame("own", 120))
        far.send(frame("cut", 120)[:30])
        for number in (1, 2):
            far.send(frame(f"eth{number}", 120))
        eventually(lambda: near.read().ports[0].port == "eth2")
        assert near.read().ports[0].chassis == "leaf-2"
        far.send(frame("eth2", 0))
        eventually(lambda: near.read().ports[0].port == "")
    near.close()
