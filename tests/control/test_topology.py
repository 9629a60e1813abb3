"""Links from a file, LLDP and paths: which neighbour is which switch, and what counts if they differ."""

from __future__ import annotations

from hopscope.control.neighbours import SwitchPort, SwitchPorts
from hopscope.control.topology import Link, edges, merged


def ports(system: str, *found: tuple[int, str, str, str, str, str]) -> SwitchPorts:
    """(Number, name, MAC, neighbour's chassis, port, system) of each."""
    names = ("number", "name", "mac", "chassis", "port", "system")
    return SwitchPorts(
        system=system,
        ports=tuple(SwitchPort.model_validate(dict(zip(names, each, strict=True))) for each in found),
    )


MAC = "02:00:00:00:00:{:02x}".format
SWITCHES = {
    1: ports("leaf-1", (3, "eth0", MAC(1), "", "", ""), (4, "eth1", MAC(2), MAC(11), MAC(11), "spine-1")),
    2: ports(
        "leaf-2",
        (3, "eth0", MAC(3), MAC(99), "eno1", "host-9"),
        (4, "eth1", MAC(4), "cafe", "eth1", "spine-1"),
    ),
    9: ports(
        "spine-1", (1, "eth0", MAC(11), MAC(1), "eth1", ""), (2, "eth1", MAC(12), "x", "eth1", "leaf-2")
    ),
}


def test_neighbours_are_found_by_address_and_by_name() -> None:
    """A port's MAC address; a chassis' address and a port's name; a system's name and a port's name."""
    links = merged({}, SWITCHES, ())
    assert links == (
        Link(1, 4, 9, 1, "", ("lldp",)),
        Link(2, 3, None, None, "host-9 eno1", ("lldp",)),
        Link(2, 4, 9, 2, "", ("lldp",)),
        Link(9, 1, 1, 4, "", ("lldp",)),
        Link(9, 2, 2, 4, "", ("lldp",)),
    )


def test_a_name_of_two_switches_names_none() -> None:
    """Where machines share a name, the port's name alone is no link."""
    twins = {node: ports("twin", (1, "eth0", MAC(node), "twin", "eth0", "twin")) for node in (1, 2)}
    assert [link.next_node for link in merged({}, twins, ())] == [None, None]


def test_the_file_counts_first() -> None:
    """Then LLDP, then paths; who agrees is named, who does not makes the link disputed."""
    paths = [((1, 4), 9, 1, 5), ((2, 4), 9, None, 3), ((2, 4), 7, None, 2), ((5, 1), 6, 2, 1)]
    links = {(link.node, link.port): link for link in merged({(1, 4): 9, (2, 4): 7}, SWITCHES, paths)}
    assert links[1, 4] == Link(1, 4, 9, 1, "", ("file", "lldp", "paths"))
    assert links[2, 4] == Link(2, 4, 7, None, "", ("file",), disputed=True)
    assert links[5, 1] == Link(5, 1, 6, 2, "", ("paths",))


def test_edges_have_a_port_that_leads_to_no_switch() -> None:
    """Leaves have hosts; a spine has none; nothing is known of a switch without ports."""
    assert edges(SWITCHES, merged({}, SWITCHES, ())) == {1, 2}
    assert edges({}, merged({(1, 4): 9}, {}, ())) == set()
    assert edges(SWITCHES, merged({(1, 3): 2}, SWITCHES, ())) == {2}
