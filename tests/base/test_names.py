"""Names of nodes and ports: both formats give the same, and what is wrong is said with its place."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hopscope.base.names import DISCOVERED, MAX_NAME, Names, NamesError, clean_name

TOML = """
[nodes]
7 = "agg-1-0"
0x0a = "core-3"

[ports.7]
2 = "to core-3"
"""
CSV = "node_id,port,name\n7,,agg-1-0\n0x0a,,core-3\n7,2,to core-3\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [("names.toml", TOML), ("names.csv", CSV), ("bom.csv", "\ufeff" + CSV), ("bom.toml", "\ufeff" + TOML)],
)
def test_both_formats_name_nodes_and_ports(tmp_path: Path, name: str, text: str) -> None:
    """A TOML and a CSV file with the same names are read as the same names."""
    path = tmp_path / name
    path.write_text(text)
    names = Names.load(path)
    assert names.nodes == {7: "agg-1-0", 10: "core-3"}
    assert names.ports == {(7, 2): "to core-3"}


def test_an_address_is_a_node(tmp_path: Path) -> None:
    """Agents of sFlow and exporters of IPFIX: the node id is the address as a number."""
    path = tmp_path / "names.toml"
    path.write_text('[nodes]\n"192.0.2.7" = "edge-7"\n[ports."192.0.2.7"]\n3 = "to the provider"\n')
    names = Names.load(path)
    assert names.nodes == {0xC0000207: "edge-7"}
    assert names.ports == {(0xC0000207, 3): "to the provider"}
    assert names.find_node("192.0.2.7") == 0xC0000207


def test_labels_fall_back_to_numbers() -> None:
    """What has no name is shown by its number, never left out."""
    names = Names({7: "agg-1-0"}, {(7, 2): "to core-3"})
    assert names.node(7) == "agg-1-0"
    assert names.node(8) is None
    assert names.node_label(8) == "8"
    assert names.port_label(7, 2) == "to core-3"
    assert names.port_label(7, 3) == "3"
    assert names.path_label([7, 8]) == "agg-1-0 → 8"


def test_a_node_is_found_by_name_or_number() -> None:
    """Filters take either; a text that is neither finds nothing."""
    names = Names({7: "agg-1-0"})
    assert (names.find_node("agg-1-0"), names.find_node("0x7"), names.find_node("nowhere")) == (7, 7, None)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "id,name\n", "line 1: found 'id,name', expected 'node_id,port,name'"),
        ("a.csv", "node_id,port,name\n1,2\n", "line 2: found 2 columns, expected 3"),
        ("a.csv", "node_id,port,name\nx,,y\n", "line 2: found node id 'x'"),
        (
            "a.csv",
            "node_id,port,name\n1,1073741824,y\n",
            "line 2: found port '1073741824', expected a number from 0 to 1073741823",
        ),
        (
            "a.csv",
            "node_id,port,name\n1,10.0.0.1,y\n",
            "line 2: found port '10.0.0.1', expected a number from 0 to 1073741823",
        ),
        ("a.csv", "node_id,port,name\n1,,y\n1,,z\n", "line 3: node 1 is named twice"),
        ("a.csv", "node_id,port,name\n1,,\n", "line 2: found name ''"),
        ("a.csv", "", "line 1: found ''"),
        ("a.toml", "[switches]\n", "found table 'switches', expected `nodes` or `ports`"),
        ("a.toml", "nodes = 3\n", "found 3 in nodes"),
        ("a.toml", "[nodes]\n1 = 3\n", "nodes.1: found name 3"),
        ("a.toml", "[ports]\n1 = 3\n", "ports.1: found 3, expected a table"),
        ("a.toml", "[nodes]\n1 = " + "1" * 5000 + "\n", "a.toml:2: Exceeds the limit"),
        ("a.toml", "a = " + "[" * 5000 + "\n", "a.toml:1: tables or lists are nested too deeply"),
        ("a.toml", "[nodes\n", "a.toml:1: Expected ']' at the end of a table declaration at column 7"),
        ("a.csv", "node_id,port,name\n1,,\x1b[31mred\n", "expected printable text"),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, name: str, text: str, said: str) -> None:
    """A file that is wrong raises one error: the file, where, what was found and what was expected."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(NamesError, match=r"^[^\n]+$") as caught:
        Names.load(path)
    assert said in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and a binary one are told in a line, too."""
    with pytest.raises(NamesError, match="No such file"):
        Names.load(tmp_path / "missing.toml")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NamesError, match=r"binary\.csv"):
        Names.load(tmp_path / "binary.csv")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """The error says what was expected, not what a codec calls it."""
    path = tmp_path / "capture.pcap"
    path.write_bytes(b"\xd4\xc3\xb2\xa1")
    with pytest.raises(NamesError, match="expected names as TOML or CSV"):
        Names.load(path)


@given(st.binary(max_size=5000))
def test_any_bytes_of_a_device_are_one_printable_line(raw: bytes) -> None:
    """Which a file of names holds, and gives back."""
    name = clean_name(raw)
    assert len(name) <= MAX_NAME
    assert not name or (name.isprintable() and name == name.strip())


@given(st.text(min_size=1, max_size=64).map(lambda text: clean_name(text.encode("utf-8", "replace"))))
def test_a_file_of_cleaned_names_is_read_as_it_was(name: str) -> None:
    assume(name and not name.isdecimal())  # a number gets the id, see below
    names = Names({7: name, 2**32 - 1: f"{name}b"}, {(7, 2): name, (7, 1): f"{name}a", (9, 0): name})
    with TemporaryDirectory() as folder:
        path = Path(folder, "names.toml")
        path.write_text(names.as_toml(), encoding="utf-8")
        assert Names.load(path) == names


def test_a_name_that_two_have_says_which_one(tmp_path: Path) -> None:
    """Two switches, also where a device gave one of the names, and two ports of one; a name leads to its own.
    Ports of two switches may have one name.
    """
    path = tmp_path / "names.toml"
    path.write_text('[nodes]\n7 = "leaf"\n8 = "spine"\n[ports.7]\n1 = "up"\n2 = "up"\n[ports.8]\n1 = "up"\n')
    (tmp_path / DISCOVERED).write_text('[nodes]\n9 = "leaf"\n')
    names = Names.load(path, tmp_path)
    assert names.nodes == {7: "leaf (7)", 8: "spine", 9: "leaf (9)"}
    assert names.ports == {(7, 1): "up (1)", (7, 2): "up (2)", (8, 1): "up"}
    assert [names.find_node(text) for text in ("leaf (9)", "leaf (7)", "spine", "leaf")] == [9, 7, 8, None]


def test_a_name_that_is_a_number_is_not_another_nodes_id(tmp_path: Path) -> None:
    """Its id is added, so that a number always selects the node with that id."""
    file = tmp_path / "names.toml"
    file.write_text('[nodes]\n7 = "8"\n8 = "spine"\n9 = "9"\n')
    names = Names.load(file)
    assert names.nodes == {7: "8 (7)", 8: "spine", 9: "9"}
    assert [names.find_node(text) for text in ("8", "8 (7)", "9")] == [8, 7, 9]


def test_the_users_names_come_before_those_of_devices(tmp_path: Path) -> None:
    user = tmp_path / "user.csv"
    user.write_text("node_id,port,name\n7,,mine\n7,1,uplink\n")
    assert Names.load(user, tmp_path) == Names({7: "mine"}, {(7, 1): "uplink"})
    (tmp_path / DISCOVERED).write_text(
        '[nodes]\n7 = "leaf-7"\n8 = "leaf-8"\n[ports.7]\n1 = "eth1"\n2 = "eth2"\n'
    )
    found = Names.load(user, tmp_path)
    assert found == Names({7: "mine", 8: "leaf-8"}, {(7, 1): "uplink", (7, 2): "eth2"})
    (tmp_path / DISCOVERED).write_text("[nodes")
    assert Names.load(user, tmp_path) == Names({7: "mine"}, {(7, 1): "uplink"})
