"""The driver against bmv2 with the programs of `p4/`: what it writes is what that switch takes and says."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import finsy
import pytest

from hopscope.base.errors import HopscopeError
from hopscope.control.driver import StandbyError
from hopscope.control.drivers.p4runtime import P4RuntimeDriver
from hopscope.control.state import SwitchState, changed, difference
from hopscope.settings.label import LabellingSettings, TrackedFlowSettings
from hopscope.settings.switches import P4RuntimeSwitchSettings
from hopscope.settings.watch import WatchSettings
from support.waiting import HANG_SECONDS, eventually

pytestmark = pytest.mark.e2e
PROGRAMS = Path(__file__).parents[2] / "p4"
COMPILER, SWITCH = "p4c-bm2-ss", "simple_switch_grpc"
FLOWS = (
    TrackedFlowSettings(src="10.0.0.1", dst="10.0.0.2", every=5),
    TrackedFlowSettings(src="2001:db8::1", dst="2001:db8::2"),
)
RULES = (
    WatchSettings(destination="192.0.2.0/24", port=5001, sample=4),
    WatchSettings(),
    WatchSettings(source="2001:db8::/32", protocol="tcp", port=7, last_port=9),
)


@pytest.fixture
def address() -> Iterator[str]:
    """Of a bmv2 that runs no program."""
    if shutil.which(COMPILER) is None or shutil.which(SWITCH) is None or not PROGRAMS.is_dir():
        pytest.skip(f"{COMPILER} or {SWITCH} is missing: Debian has no packages of them")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    words = [SWITCH, "--no-p4", "--device-id", "1", "--", "--grpc-server-addr", f"127.0.0.1:{port}"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait(HANG_SECONDS)


def settings(address: str, program: str, folder: Path) -> P4RuntimeSwitchSettings:
    """A switch with a program, which is compiled."""
    info, made = folder / f"{program}.p4info.txtpb", folder / f"{program}.json"
    words = [COMPILER, "--p4runtime-files", str(info), "-o", str(made), str(PROGRAMS / f"{program}.p4")]
    subprocess.run(words, check=True, capture_output=True, timeout=HANG_SECONDS)
    return P4RuntimeSwitchSettings(
        kind="p4runtime", node=7, address=address, tls=False, p4info=info, program=made, timeout_seconds=60
    )


def connected(settings: P4RuntimeSwitchSettings) -> P4RuntimeDriver:
    """A driver, once the switch listens."""
    driver = P4RuntimeDriver("bmv2", settings)

    def connect() -> bool:
        with suppress(HopscopeError):
            driver.connect()
            return True
        driver.close()
        return False

    eventually(connect, every=0.1)
    return driver


def follow(driver: P4RuntimeDriver, *wanted: SwitchState) -> None:
    """Each state is reached, and read back."""
    state = driver.read()
    for each in wanted:
        change = difference(each, state)
        driver.apply(change)
        state, found = changed(state, change), driver.read()
        assert not difference(state, found).parts(), (state, found)


def test_watch_lists_of_a_real_program(address: str, tmp_path: Path) -> None:
    """Rules of both versions, in any order, come and go; a second controller waits, and takes over."""
    driver = connected(settings(address, "int", tmp_path))
    lists = (RULES, RULES[1:], RULES[::-1], (), RULES[:1])
    follow(driver, *(SwitchState(watch=rules) for rules in lists))
    second = connected(driver._settings.model_copy(update={"election_id": 2}))
    assert second.read().watch is not None
    with pytest.raises(StandbyError, match="election id 2"):
        driver.apply(SwitchState(watch=()))
    second.apply(SwitchState(watch=()))
    second.close()
    driver.close()


def test_labels_of_a_real_program(address: str, tmp_path: Path) -> None:
    """Tracked flows, every label function, and Reg2 of two ports that the operator has made."""
    driver = connected(settings(address, "label", tmp_path))
    switch = driver._open()
    for port in (1, 2):
        action = finsy.Action("last_hop", interval=1, shift=0, rest=0, chance=1)
        made = finsy.P4TableEntry("label_ports", match=finsy.Match(egress_port=port), action=action)
        driver._run(switch.write([+made]))
    table = ((0.0, 0.1), (0.25, 0.5), (1.0, 1.0))
    follow(
        driver,
        SwitchState(track=FLOWS, reg2={1: 3}),
        SwitchState(labelling=LabellingSettings(interval=0.02, chance="f3", rest=0.5), reg2={2: 255}),
        SwitchState(labelling=LabellingSettings(chance_table=table), track=FLOWS[:1]),
        SwitchState(labelling=LabellingSettings(algorithm="base-a"), track=()),
    )
    driver.close()
