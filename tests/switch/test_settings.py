"""The file of a switch: what is wrong in it is said in one line each; what it says reaches the programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopscope.capture.errors import CaptureError
from hopscope.settings.configuration.errors import ConfigError
from hopscope.settings.watch import prefix
from hopscope.switch.counters import read_counters
from hopscope.switch.program import attach, control_of, detach
from hopscope.switch.settings import SwitchSettings, load_switch
from hopscope.switch.watches import read_watches, rows_of

LEAST = '[switch]\nnode_id = 7\ninterfaces = ["eth1"]\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[switch]\nnode_id = 7\n", "switch.interfaces: not set, expected a value"),
        (f"{LEAST}hop_limits = 3\n", "switch.hop_limits: no such setting; did you mean hop_limit?"),
        (f'{LEAST}[[switch.watch]]\nsource = "192.0.2.1/24"\n', "found '192.0.2.1/24', expected a prefix"),
        (f"{LEAST}[[switch.watch]]\nlast_port = 9\n", "expected a port before last_port"),
        (f"{LEAST}[[switch.watch]]\nport = 9\nlast_port = 8\n", "expected a port before last_port"),
        (f'{LEAST}instructions = ["buffer_occupancy"]\n', "found 'buffer_occupancy', expected 'node_id'"),
        (f'{LEAST}hosts = ["eth1"]\n', "found eth1 in interfaces and in hosts"),
    ],
)
def test_errors_name_file_and_key(tmp_path: Path, text: str, line: str) -> None:
    """A wrong file does not go by silently."""
    file = tmp_path / "switch.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_switch(file)
    assert str(file) in str(caught.value)
    assert line in str(caught.value)


def test_settings_as_the_programs_read_them() -> None:
    """Prefixes are mapped into IPv6, and ports are a range."""
    assert prefix("192.0.2.0/24") == (
        bytes(10) + b"\xff\xff\xc0\x00\x02\x00", b"\xff" * 15 + b"\x00",
    )  # fmt: skip
    assert prefix("any") == (bytes(16), bytes(16))
    watch: list[dict[str, int]] = [{"port": 9}, {"port": 0}, {"port": 5, "last_port": 6}, {}]
    settings = SwitchSettings.model_validate(
        {"node_id": 7, "interfaces": ["eth1"], "watch": watch, "instructions": ["hop_latency", "node_id"]}
    )
    (control,) = control_of(settings)
    assert (control["node_id"], control["instructions"]) == (7, 0xA000)
    ports = [(int(one["first_port"]), int(one["last_port"])) for one in rows_of(settings.watch)]
    assert ports == [(9, 9), (0, 0), (5, 6), (0, 65535)]


def test_nothing_is_left_of_what_cannot_be_attached(tmp_path: Path) -> None:
    """An interface that is not there leaves no folder; without one, there is nothing to show or to detach."""
    settings = SwitchSettings(node_id=7, interfaces=("lo", "nowhere"), pins=tmp_path / "pins")
    with pytest.raises(
        CaptureError, match=r"^(lo: found no Ethernet interface|nowhere: this machine has no such)"
    ):
        attach(settings)
    assert not (tmp_path / "pins").exists()
    with pytest.raises(CaptureError, match=r"^nothing is attached: .*pins"):
        read_counters(settings.pins)
    with pytest.raises(CaptureError, match=r"^nothing is attached: .*pins"):  # what `control status` shows
        read_watches(settings.pins)
    assert not detach(settings)
