"""Reports that Linux itself sends through a tunnel, as they are on the wire: captured and decoded."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator

import pytest

from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT
from support.network.veth import Namespace, received, run
from support.packets.by_hand import ethernet, group, int_2, ipv4, single, u32, udp
from support.packets.wire_cases import frame_batch

pytestmark = pytest.mark.e2e
ENDS = ("local", "192.0.2.2", "remote", "192.0.2.1")
TUNNELS = {
    "vxlan": ("id", "77", *ENDS, "dstport", "4789", "dev", "far"),
    "geneve": ("id", "77", *ENDS[2:]),
    "gretap": ENDS,
    "erspan": (*ENDS, "seq", "key", "7", "erspan_ver", "1", "erspan", "3"),
    "gre": ENDS,
    "ipip": ENDS,
}
LINK_LAYER = "02:00:00:00:00:01"


@pytest.fixture
def sender(namespace: Namespace) -> Iterator[Namespace]:
    """A namespace of its own with the far end, 192.0.2.2, which knows the address of the near one."""
    made = Namespace.__new__(Namespace)
    made.name = f"{namespace.name}-far"
    run("ip", "netns", "add", made.name)
    try:
        made.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        namespace.ip("link", "set", "far", "netns", made.name)
        made.ip("link", "set", "far", "up")
        made.ip("address", "add", "192.0.2.2/24", "dev", "far")
        made.ip("neigh", "add", "192.0.2.1", "lladdr", LINK_LAYER, "dev", "far")
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("kind", TUNNELS)
def test_reports_through_an_interface_of_linux(namespace: Namespace, sender: Namespace, kind: str) -> None:
    """A switch whose route to the collector is a tunnel: a mirror port of the underlay sees the reports."""
    try:
        sender.ip("link", "add", "tunnel", "type", kind, *TUNNELS[kind])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this kernel has no {kind}: {error.stderr.strip()}")
    sender.ip("link", "set", "tunnel", "up")
    sender.ip("address", "add", "198.51.100.2/24", "dev", "tunnel")
    if kind not in ("gre", "ipip"):
        sender.ip("neigh", "add", "198.51.100.1", "lladdr", LINK_LAYER, "dev", "tunnel")
    telemetry = int_2(0x8000, [u32(9), u32(8)], 1)
    report = group(single(ethernet(ipv4(udp(telemetry), dscp=0x17))))
    listener = namespace.listener()
    with sender.inside(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as handle:
        for _ in range(3):
            handle.sendto(report, ("198.51.100.1", 32766))
    batch = frame_batch(received(listener, 3))
    listener.close()
    found = list(report_objects(decode_plain(batch), batch, DEFAULT))
    assert [[hop["node_id"] for hop in each["hops"]] for each in found] == [[8, 9]] * 3
