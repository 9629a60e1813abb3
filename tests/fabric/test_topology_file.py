"""Files with own topologies: what they say, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.fabric.topology import FabricError, Topology, parse_topology
from hopscope.fabric.topology_file import topology_toml

EXAMPLE = """
rate = "10G"
switches = { a = 11, b = 12, c = 13 }
links = [
  "a - b",   # the first free ports
  "b:7 - c:8",
  { between = "c - a", rate = "40G", delay = "50us" },
]

[hosts]
a = 2
c = ["web-1", { name = "db-1", address = "10.0.9.1", rate = 2500000000, port = 1 }]
"""
PAIR = 'switches = ["a", "b"]\nlinks = ["a - b"]\n'


def topology_of(folder: Path, text: str) -> Topology:
    file = folder / "own.toml"
    file.write_text(text)
    return parse_topology(str(file))


def test_everything_that_a_file_says(tmp_path: Path) -> None:
    """Ids, names, ports, rates, delays and addresses; port numbers of the file come before automatic ones."""
    topology = topology_of(tmp_path, EXAMPLE)
    file = tmp_path / "names.toml"
    file.write_text(topology.names_toml())
    names = Names.load(file)
    assert names.nodes == {11: "a", 12: "b", 13: "c"}
    assert names.ports == {
        (11, 1): "to b", (11, 2): "to c", (11, 3): "to host-a-1", (11, 4): "to host-a-2",
        (12, 1): "to a", (12, 7): "to c",
        (13, 8): "to b", (13, 2): "to a", (13, 3): "to web-1", (13, 1): "to db-1",
    }  # fmt: skip
    assert topology.host_names == ["host-a-1", "host-a-2", "web-1", "db-1"]
    assert topology.host_address.tolist() == [0x0A000102, 0x0A000103, 0x0A000302, 0x0A000901]
    ports = topology.ports
    assert ports["rate"][:4].tolist() == [10**10, 10**10, 10**10, 2_500_000_000]
    for node, number, rate, delay in (("a", 1, 10, -1), ("c", 2, 40, 50_000), ("a", 2, 40, 50_000)):
        port = ports[topology.port_row(node, number)]
        assert (port["rate"], port["delay_ns"]) == (rate * 10**9, delay)
        assert ports["reverse"][ports["reverse"]].tolist() == np.arange(len(ports)).tolist()
    assert topology.link_between(11, 13) == topology.port_row("a", 2)
    assert topology.link_between(12, 99) == -1


def test_a_number_of_hosts_and_rates_for_all(tmp_path: Path) -> None:
    """`hosts = N` is at every switch; without `rate` links have that of the caller."""
    topology = topology_of(tmp_path, PAIR + 'hosts = 3\nhost_rate = "1G"\ndelay = "2us"')
    assert topology.hosts == 6
    assert set(topology.ports["rate"][:6].tolist()) == {10**9}
    assert set(topology.ports["delay_ns"].tolist()) == {-1, 2000}
    plain = parse_topology(str(tmp_path / "own.toml"), 40 * 10**9)
    assert set(plain.ports["rate"].tolist()) == {10**9, 40 * 10**9}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('switches = ["a",\nlinks', "own.toml:2: "),
        ("", "switches: found none, expected names"),
        ("switches = 3", ":1: switches: found 3, expected names"),
        ('switches = ["a", "b", "a"]', ":1: switches: found a twice"),
        ('switches = ["a b"]', ":1: switches: found the name 'a b'"),
        ("[switches]\na = 1\nb = 4294967296", ":3: switches: found id 4294967296 of b, expected 1 to"),
        ("[switches]\na = 0", ":2: switches: found id 0 of a, expected 1 to 4294967294"),
        ("[switches]\na = 7\nb = 7", ":3: switches: found id 7 twice"),
        ('switches = { "1" = 2, b = 1 }', "1 is the name of a switch and the id of another"),
        ('switchs = ["a"]', ":1: switchs: no such key; did you mean switches?"),
        (PAIR, "hosts: found none, expected 2 for two at every switch, or for one switch { a = 2 }"),
        (f"{PAIR}hosts = {{ a = 1 }}", "found 1 host, expected 2 to"),
        (f"{PAIR}hosts = true", ":3: hosts: found True"),
        (f"{PAIR}[hosts]\na = 1\nq = 2", ":5: hosts.q: q is no switch of the file: add it to `switches`"),
        (f"{PAIR}hosts = {{ a = 300 }}", "hosts.a: found 300, expected a number up to 253"),
        (f'{PAIR}hosts = {{ a = ["x", "x"] }}', "hosts.a: x is also the name of a host at a"),
        (f"{PAIR}hosts = {{ a = [3] }}", "hosts.a: found the name 3"),
        (
            f'{PAIR}hosts = {{ a = [{{ name = "x", address = "10.0.2.2" }}], b = 1 }}',
            "hosts.b: host-b-1 has the address of x, 10.0.2.2",
        ),
        (f'{PAIR}hosts = {{ a = [{{ address = "10.0.0.300" }}] }}', "found address '10.0.0.300', expected"),
        (f"{PAIR}hosts = {{ a = [{{ ports = 1 }}] }}", "hosts.a: no such key as ports; did you mean port?"),
        (
            'switches = ["leaf-1", "leaf-2"]\nlinks = [\n  "leaf-1 - leaf-2",\n  "leaf-1 - laef-2",\n]',
            ":4: links: leaf-1 - laef-2: laef-2 is no switch of the file: did you mean leaf-2?",
        ),
        ('switches = ["a", "b"]\nlinks = ["a-b"]', ":2: links: found 'a-b', expected \"SWITCH - SWITCH\""),
        ('switches = ["a", "b"]\nlinks = "a - b"', ":2: links: found 'a - b', expected a list"),
        (
            'switches = ["a", "b"]\nlinks = ["a - b",\n"b:1 - b:2"]',
            ":3: links: b:1 - b:2: expected two different switches",
        ),
        ('switches = ["a", "b"]\nlinks = ["a:swp1 - b"]', "found port swp1, expected its number in INT"),
        ('switches = ["a", "b"]\nlinks = ["a:65536 - b"]', "found port 65536, expected its number in INT"),
        (f'switches = ["a", "b"]\nlinks = ["a:{"9" * 5000} - b"]', "9, expected its number in INT"),
        (f'{PAIR}hosts = {{ a = [{{ port = "٣" }}] }}', "found port ٣, expected its number in INT"),
        (
            'switches = ["a", "b"]\nlinks = ["a:1 - b:1",\n "a:1 - b:2"]\nhosts = 1',
            ":3: links: a:1 - b:2: port 1 of a is in use by a:1 - b:1: choose another number",
        ),
        (
            'switches = ["a", "b"]\nlinks = ["a:1 - b:1", "a:257 - b:2"]\nhosts = 1',
            "ports 1 and 257 of a share a queue id, the last 8 bits of a number",
        ),
        (
            f'switches = ["a", "b"]\nlinks = {["a - b"] * 257}\nhosts = 1',
            "links: a - b: a has more than 256 ports",
        ),
        (
            'switches = ["a", "b"]\nlinks = [{ between = "a - b", speed = "1G" }]',
            ":2: links: a - b: no such key as speed; expected between, rate, delay",
        ),
        (f'rate = "3G"\n{PAIR}', ":1: rate: found 3G, expected at least 1k, at which a byte takes"),
        (f"rate = 1\n{PAIR}", ":1: rate: found 1, expected at least 1k"),
        (f'host_rate = "q"\n{PAIR}', ":1: host_rate: found q, expected bits per second, such as"),
        ('switches = ["a", "b"]\nlinks = [{ between = "a - b", rate = "fast" }]', "found rate fast, exp"),
        ('switches = ["a", "b"]\nlinks = [{ between = "a - b", delay = "2h" }]', "found delay 2h, expected"),
        ('switches = ["a", "b"]\nlinks = [{ between = "a - b", delay = "2s" }]', "found delay 2s, expected"),
        (
            'switches = ["a", "b", "c", "d"]\nlinks = ["a - b", "c - d"]\nhosts = 1',
            "no link connects a, b with c, d: add one to `links`",
        ),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    """Each mistake is reported with its line, what was found, and what was expected."""
    with pytest.raises(FabricError) as caught:
        topology_of(tmp_path, text)
    assert message in str(caught.value)
    assert str(tmp_path / "own.toml") in str(caught.value)


def test_links_of_a_network_become_a_file(tmp_path: Path) -> None:
    """By hand: ends with known ports, ends that only the other direction knows, parallel links in order, a
    direction that nothing has used, and names that a file cannot have.
    """
    links = {
        (1, 4): (2, 7), (2, 7): (1, None),
        (2, 1): (3, None), (2, 2): (3, None), (3, 30): (2, None), (3, 20): (2, None),
        (3, 5): (4, None),
    }  # fmt: skip
    text = topology_toml({1: "fra 1", 2: "b", 3: "b", 4: "44"}, links)
    topology = topology_of(tmp_path, text)
    assert [(switch.node_id, switch.name) for switch in topology.switches] == [
        (1, "fra-1"), (2, "node-2"), (3, "node-3"), (4, "node-4"),
    ]  # fmt: skip
    joined = {
        (int(port["node_id"]), int(port["number"])): (
            topology.switches[port["peer_switch"]].node_id, int(port["peer_number"]),
        )
        for port in topology.ports
        if port["switch"] >= 0 and port["peer_switch"] >= 0
    }  # fmt: skip
    expected = {(1, 4): (2, 7), (2, 1): (3, 20), (2, 2): (3, 30), (3, 5): (4, 1)}
    assert joined == expected | {there: here for here, there in expected.items()}


def test_what_a_file_cannot_have_is_left_out(tmp_path: Path) -> None:
    """Port 0, a link to the switch itself, and the name that another switch gets, whose own is a number."""
    links = {(1, 0): (2, 7), (2, 7): (1, 0), (2, 3): (2, 4)}
    topology = topology_of(tmp_path, topology_toml({1: "node-2", 2: "2"}, links))
    assert [switch.name for switch in topology.switches] == ["node-1", "node-2"]
    (link,) = topology.links()
    port = topology.ports[link]
    assert {(int(port["node_id"]), int(port["number"])), (2, 7)} == {(1, 1), (2, 7)}


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder, and a file that is not text."""
    with pytest.raises(FabricError, match=r"own\.toml: No such file"):
        parse_topology(str(tmp_path / "own.toml"))
    with pytest.raises(FabricError, match="Is a directory"):
        parse_topology(str(tmp_path))
    (tmp_path / "own.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FabricError, match="not UTF-8, expected a topology in TOML"):
        parse_topology(str(tmp_path / "own.toml"))
