"""A collector keeps the watch lists of real programs at tc: those of this machine, and others over HTTP."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from hopscope.base.process.control_client import RejectedError, request
from hopscope.capture.errors import CaptureError
from hopscope.settings.watch import WatchSettings
from hopscope.switch.labels.maps import LabelMaps
from hopscope.switch.watches import read_watches, replace_watches
from hopscope.wire.label.batch import encode_blocks
from hopscope.wire.label.records import LABEL
from support.network.namespaces import clear_abandoned
from support.network.veth import Namespace, run
from support.packets.xdp_make import built
from support.processes.collector_process import Collector
from support.processes.command import run as hopscope
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.geteuid() != 0, reason="programs at tc need root")]
SOURCES = Path(__file__).parents[2] / "src"
PREFIX = "hopscope-control"
TOKEN = "a-token-of-a-switch"
PORT = 5001
DSCP = 0x17
RULE = {"destination": "10.78.0.0/24", "port": PORT}


class Network:
    """Two switches in a namespace, each with an interface: `near` of leaf1, `far` of leaf2."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.pins = folder, folder / "bpf"
        self.pins.mkdir()
        run("mount", "-t", "bpf", "bpf", str(self.pins))
        stack.callback(run, "umount", str(self.pins))
        self.namespace = Namespace(f"{PREFIX}-{os.getpid()}")
        stack.callback(self.namespace.remove)
        for name, number, interface in (("leaf1", 1, "near"), ("leaf2", 2, "far")):
            labels = "[switch.label]\n" if name == "leaf1" else ""
            (folder / f"{name}.toml").write_text(
                f'[switch]\nnode_id = {number}\ninterfaces = ["{interface}"]\npins = "{self.pins / name}"\n'
                f'{labels}[agent]\nlisten = "127.0.0.1:0"\ntoken = "{TOKEN}"\n'
            )
            self.attach(name)

    def attach(self, name: str) -> None:
        """`hopscope switch attach`: the watch list is empty."""
        words = ["ip", "netns", "exec", self.namespace.name, *self._switch("attach", name)]
        subprocess.run(words, check=True, capture_output=True, env=_environment(), timeout=HANG_SECONDS)

    def serve(self, name: str, port: int = 0) -> tuple[subprocess.Popen[str], int]:
        """`hopscope switch serve`, and its port."""
        file = self.folder / f"{name}.toml"
        file.write_text(file.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        process = subprocess.Popen(
            self._switch("serve", name), stderr=subprocess.PIPE, text=True, env=_environment()
        )
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("node 2 listens on 127.0.0.1:"), line
        return process, int(line.rpartition(":")[2])

    def _switch(self, command: str, name: str) -> list[str]:
        file = self.folder / f"{name}.toml"
        return [sys.executable, "-m", "hopscope", "switch", command, "--config", str(file)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCES)}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, tool: Any) -> Iterator[Network]:
    """Two switches with programs."""
    built(tool)
    clear_abandoned(PREFIX)
    with ExitStack() as stack:
        try:
            yield Network(tmp_path_factory.mktemp("control"), stack)
        except CaptureError as error:
            pytest.skip(str(error))


def test_watch_lists_follow_the_controller(network: Network, tmp_path: Path) -> None:
    """Rules reach the switches that they name; what others change or a restart loses is written again; a
    switch that is away is shown, and gets its rules when it is back.
    """
    agent, port = network.serve("leaf2")
    config = tmp_path / "hopscope.toml"
    config.write_text(
        "listen = []\nserve = { enabled = false }\n"
        "[label]\nlisten = '127.0.0.1:0'\n[label.labelling]\ninterval = 0.02\nchance = 'f3'\n"
        "[label.adaptive]\nmode = 'shift'\nmax_shift = 3\n"
        f'[switches.leaf1]\nkind = "ebpf"\nnode = 1\npins = "{network.pins / "leaf1"}"\n'
        f'[switches.leaf2]\nkind = "http"\nnode = 2\nurl = "http://127.0.0.1:{port}"\ntoken = "{TOKEN}"\n'
        "[control]\nverify_seconds = 0.2\nretry_seconds = 0.5\n"
        f'[[control.watch]]\ndestination = "10.78.0.0/24"\nport = {PORT}\n'
    )
    collector = Collector(tmp_path / "data", "--config", str(config))
    collector.start()
    try:
        _check_rules(network, collector, port, agent)
        _check_labels(network, collector)
    finally:
        collector.stop()
        agent.kill()
        agent.wait()
        if agent.stderr is not None:
            agent.stderr.close()


def _check_rules(network: Network, collector: Collector, port: int, agent: subprocess.Popen[str]) -> None:
    def switches() -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in request(collector.data, {"switches": {}})["switches"]}

    def in_sync() -> bool:
        found = switches()
        return len(found) == 2 and all(each["in_sync"] for each in found.values())

    rule, other = WatchSettings.model_validate(RULE), WatchSettings(source="2001:db8::/32", protocol="tcp")
    eventually(in_sync, switches)
    assert read_watches(network.pins / "leaf1") == read_watches(network.pins / "leaf2") == (rule,)

    added = {"source": "2001:db8::/32", "protocol": "tcp", "switches": ["leaf2"]}
    request(collector.data, {"set_watch": {"add": [added]}})
    eventually(lambda: read_watches(network.pins / "leaf2") == (rule, other))
    assert read_watches(network.pins / "leaf1") == (rule,)
    with pytest.raises(RejectedError, match="found switch 'leaf3'"):
        request(collector.data, {"set_watch": {"add": [{"switches": ["leaf3"]}]}})

    network.attach("leaf1")  # with an empty list
    replace_watches(network.pins / "leaf2", [])
    for name, wanted in (("leaf1", (rule,)), ("leaf2", (rule, other))):
        eventually(lambda name=name, wanted=wanted: read_watches(network.pins / name) == wanted)  # type: ignore[misc]
        eventually(lambda name=name: switches()[name]["counts"]["drifts"] >= 1)  # type: ignore[misc]

    agent.send_signal(signal.SIGTERM)
    assert agent.wait(HANG_SECONDS) == 0
    eventually(lambda: switches()["leaf2"]["state"] == "down", switches)
    status, out, _ = hopscope("control", "status", "--data", str(collector.data))
    assert status == 1
    assert "ConnectError" in out
    request(collector.data, {"set_watch": {"remove": [RULE]}})
    eventually(lambda: read_watches(network.pins / "leaf1") == ())
    again, _ = network.serve("leaf2", port)
    try:
        eventually(in_sync, switches)
        assert read_watches(network.pins / "leaf2") == (other,)
    finally:
        again.terminate()
        again.wait(HANG_SECONDS)
        if again.stderr is not None:
            again.stderr.close()


def _check_labels(network: Network, collector: Collector) -> None:
    """Label function, a tracked flow, and Reg2 of a port that is no longer heard of, in the maps of leaf1."""
    index = int(network.namespace.ip("-o", "link", "show", "near").partition(":")[0])
    with closing(LabelMaps.pinned(network.pins / "leaf1")) as maps:
        found = maps.labelling()
        assert (found.interval, found.chance) == (0.02, "f3")
        assert maps.reg2() == {index: 0}
        request(collector.data, {"set_tracked": {"add": [{"src": "10.78.0.1", "dst": "10.78.0.2"}]}})
        eventually(lambda: [each.every for each in maps.tracked()] == [100])
        host, _, port = collector.owner["labels"].removeprefix("udp://").partition(":")
        label = np.zeros(1, LABEL)
        label["node_id"], label["egress_port"], label["count"] = 1, index, 1
        label["time_ns"] = time.time_ns()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(encode_blocks(label), (host, int(port)))
        eventually(lambda: maps.reg2() == {index: 3}, maps.reg2)


def test_a_packet_gets_int_by_a_rule_of_the_controller(network: Network) -> None:
    """The map that the driver writes is what the program reads: the next packet has INT."""
    packet = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / IP(src="10.78.0.1", dst="10.78.0.2")
    packet /= UDP(sport=9, dport=PORT) / b"payload"
    with network.namespace.raw("near") as near, network.namespace.raw("far", 3) as far:
        for rules, tos in (((), 0), ((WatchSettings.model_validate(RULE),), DSCP << 2)):
            replace_watches(network.pins / "leaf1", rules)
            near.send(bytes(packet))
            found = Ether(far.recv(2000))
            assert (found[IP].tos, len(found) > len(packet)) == (tos, tos > 0)
