"""Lists of processors, and what the kernel says of NUMA nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopscope.base.process.affinity import as_list, node_of, nodes, read_list


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", {0}), ("0-3", {0, 1, 2, 3}), ("0-1,8,10-11\n", {0, 1, 8, 10, 11}), ("\n", set())],
)
def test_lists_of_processors(text: str, numbers: set[int]) -> None:
    """As cpuset(7) writes them, both ways."""
    assert read_list(text) == numbers
    assert as_list(numbers) == text.strip()


def test_nodes_of_processors_and_interfaces(tmp_path: Path) -> None:
    """A node without a processor is none; an interface without a device, or with node -1, has none."""
    for node, processors in (("node0", "0-1"), ("node10", "4"), ("node2", ""), ("has_cpu", "0")):
        (tmp_path / node).mkdir()
        (tmp_path / node / "cpulist").write_text(f"{processors}\n")
    assert nodes(tmp_path) == {0: {0, 1}, 10: {4}}
    assert nodes(tmp_path / "missing") == {}
    for interface, node in (("eth0", "1"), ("eth1", "-1")):
        (tmp_path / interface / "device").mkdir(parents=True)
        (tmp_path / interface / "device" / "numa_node").write_text(f"{node}\n")
    assert [node_of(each, tmp_path) for each in ("eth0", "eth1", "lo")] == [1, None, None]
