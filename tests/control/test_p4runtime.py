"""A P4Runtime session: tables, mastership, failures, with a server in this process that keeps to the
specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from hopscope.control.driver import RefusedError, SouthboundError, StandbyError
from hopscope.control.drivers.p4runtime import P4RuntimeDriver
from hopscope.control.reconcile import Reconciler
from hopscope.control.state import SwitchState, changed, difference
from hopscope.settings.label import LabellingSettings, TrackedFlowSettings
from hopscope.settings.switches import P4RuntimeSwitchSettings
from hopscope.settings.watch import WatchSettings
from support.servers.p4runtime_server import P4Device, p4info
from support.servers.tls import Files
from support.waiting import eventually

RULE = WatchSettings(destination="192.0.2.0/24", port=5001)
FLOW = TrackedFlowSettings(src="10.0.0.2", dst="10.0.1.2", every=10)
Connect = Callable[..., P4RuntimeDriver]


@pytest.fixture
def device() -> Iterator[P4Device]:
    """A switch with both programs' tables, and two ports that label."""
    made = P4Device(p4info("int", "label"))
    ports = next(each for each in made.config.p4info.tables if each.preamble.alias == "label_ports")
    for number in (1, 2):
        action = ports.action_refs[number - 1].id
        values = (50_000, 0, 0, 1, 1500)[: 5 if number == 1 else 4]
        params = " ".join(
            f'params {{ param_id: {at} value: "{_escaped(value)}" }}' for at, value in enumerate(values, 1)
        )
        made.insert(
            f'table_id: {ports.preamble.id} match {{ field_id: 1 exact {{ value: "{_escaped(number)}" }} }} '
            f"action {{ action {{ action_id: {action} {params} }} }}"
        )
    made.start()
    yield made
    made.stop()


def _escaped(value: int) -> str:
    """P4Runtime's shortest bytes, in protobuf's text format."""
    data = value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
    return "".join(f"\\{byte:03o}" for byte in data)


@pytest.fixture
def connect(device: P4Device) -> Iterator[Connect]:
    """Connects drivers; closes them before the server ends."""
    made: list[P4RuntimeDriver] = []

    def connected(**more: Any) -> P4RuntimeDriver:
        given = {"address": f"127.0.0.1:{device.port}", "tls": False, **more}
        made.append(P4RuntimeDriver("leaf1", P4RuntimeSwitchSettings(kind="p4runtime", node=7, **given)))
        made[-1].connect()
        made[-1].read()
        return made[-1]

    yield connected
    for each in made:
        each.close()


def test_a_switch_does_what_it_should(device: P4Device, connect: Connect) -> None:
    """From state to state: after each change the switch says that it does it; a server that knows the
    specification refuses no entry; no change is no Write.
    """
    driver = connect()
    state = driver.read()
    assert state.parts() == ("watch", "track", "labelling", "reg2")
    for wanted in (
        SwitchState(watch=(RULE, WatchSettings()), track=(FLOW,), reg2={1: 3}),
        SwitchState(watch=(WatchSettings(),), track=(), reg2={1: 0, 2: 255}),
        SwitchState(labelling=LabellingSettings(interval=0.02, chance="f3", rest=0.5, max_hop=7)),
        SwitchState(labelling=LabellingSettings(chance_table=((0.0,), (0.25,), (1.0,))), reg2={2: 1}),
        SwitchState(watch=(), labelling=LabellingSettings(algorithm="base-a")),
    ):
        change = difference(wanted, state)
        driver.apply(change)
        state = changed(state, change)
        assert not difference(state, driver.read()).parts()
    writes = device.writes
    driver.apply(SwitchState())
    assert device.writes == writes
    assert len(device.entries) == 2  # those of the ports


def test_what_a_program_cannot_do_stops_nothing_else(device: P4Device, connect: Connect) -> None:
    """A list that it refuses writes nothing, and the session goes on with other changes."""
    driver = connect()
    with pytest.raises(RefusedError, match="'mx'"):
        driver.apply(SwitchState(watch=(RULE, WatchSettings(mode="mx")), reg2={1: 2}))
    assert (device.writes, driver.read().watch) == (0, ())
    driver.apply(SwitchState(reg2={1: 2}))
    assert driver.read().reg2 == {1: 2, 2: 0}


def test_what_others_change_is_seen(device: P4Device, connect: Connect) -> None:
    """An entry that is gone, or a port with another interval, is a difference."""
    driver = connect()
    wanted = SwitchState(watch=(RULE,), labelling=LabellingSettings(interval=0.02))
    driver.apply(wanted)
    assert not difference(wanted, driver.read()).parts()
    watch = next(key for key, entry in device.entries.items() if entry.priority)
    del device.entries[watch]
    port = next(entry for entry in device.entries.values() if not entry.priority)
    interval = next(each for each in port.action.action.params if each.param_id == 1)
    interval.value = b"\x01"
    assert difference(wanted, driver.read()).parts() == ("watch", "labelling")


def test_the_highest_election_id_is_primary(device: P4Device, connect: Connect) -> None:
    """A controller with a lower one waits, and takes over when the other is gone; all may read. One with the
    same id bids one less.
    """
    first = connect(election_id=5)
    second, third = connect(election_id=9), connect(election_id=9)
    assert second.read() == third.read() == first.read()
    for waiting in (first, third):
        with pytest.raises(StandbyError, match="election id 9"):
            waiting.apply(SwitchState(watch=(RULE,)))
    second.apply(SwitchState(watch=(RULE,)))
    second.close()
    eventually(lambda: _is_primary(third))
    third.read()
    third.apply(SwitchState(watch=()))
    assert third.read().watch == ()
    with pytest.raises(StandbyError):
        first.apply(SwitchState(watch=(RULE,)))


def test_a_switch_that_restarts_is_reached_again(device: P4Device) -> None:
    """The loop of a switch: an ended session is a failure, the next one writes what the restart has lost."""
    settings = P4RuntimeSwitchSettings(
        kind="p4runtime", node=7, address=f"127.0.0.1:{device.port}", tls=False
    )
    lines: list[str] = []
    reconciler = Reconciler(
        "leaf1", P4RuntimeDriver("leaf1", settings), verify_seconds=0.05, retry_seconds=0.1,
        notify=lines.append, warn=lines.append,
    )  # fmt: skip
    reconciler.start()
    try:
        reconciler.ask(SwitchState(watch=(RULE,)))
        eventually(lambda: reconciler.status()["in_sync"], reconciler.status)
        port = device.port
        device.stop()
        eventually(lambda: reconciler.status()["state"] == "down", reconciler.status)
        device.entries.clear()
        device.start(port)
        eventually(lambda: reconciler.status()["in_sync"] and len(device.entries) == 1, reconciler.status)
        assert reconciler.counts["failures"] >= 1
    finally:
        reconciler.stop()
        reconciler.join()


def test_a_program_is_loaded_once(device: P4Device, connect: Connect, tmp_path: Path) -> None:
    """Where another program runs it is replaced, and its entries with it; the same one stays as it is."""
    info, program = tmp_path / "int.p4info.txtpb", tmp_path / "int.json"
    info.write_text(str(p4info("int")))
    program.write_text("{}")
    files = {"p4info": info, "program": program}
    driver = connect(**files)
    assert driver.read().parts() == ("watch",)
    driver.apply(SwitchState(watch=(RULE,)))
    driver.close()
    assert connect(**files).read().watch is not None
    assert len(device.entries) == 1


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (grpc.StatusCode.UNAVAILABLE, "unavailable: not today"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "resource exhausted: not today"),
    ],
)
def test_errors_have_one_line(device: P4Device, connect: Connect, problem: Any, line: str) -> None:
    """What the server answers, without a traceback."""
    driver = connect()
    device.problem = problem
    with pytest.raises(SouthboundError, match=f"^{line}$"):
        driver.read()


def test_a_refused_update_is_named(device: P4Device, connect: Connect) -> None:
    """Of several updates the first that was refused, and why (§12.3)."""
    one, other = connect(election_id=1), connect(election_id=2)
    other.apply(SwitchState(watch=(RULE,)))
    other.close()
    eventually(lambda: _is_primary(one))
    with pytest.raises(SouthboundError, match=r"^already exists: update 0: there is such an entry$"):
        one.apply(SwitchState(watch=(RULE,)))


def _is_primary(driver: P4RuntimeDriver) -> bool:
    try:
        driver.apply(SwitchState())
    except StandbyError:
        return False
    return True


def test_nobody_there_and_nothing_loaded(device: P4Device, connect: Connect) -> None:
    """Each is a line; a switch that is silent does not hold the thread for longer than the settings allow."""
    with pytest.raises(SouthboundError, match=r"unavailable|within 0\.3 s"):
        connect(address="127.0.0.1:1", timeout_seconds=0.3)
    with pytest.raises(SouthboundError, match="not found"):
        connect(device_id=2)
    device.config.Clear()
    with pytest.raises(SouthboundError, match="runs no program"):
        connect()


def test_over_tls(connect: Connect, tmp_path: Path) -> None:
    """The server's certificate is checked; without TLS it is not reached."""
    files = Files(tmp_path)
    certificates = grpc.ssl_server_credentials(
        [(files.key.read_bytes(), files.cert.read_bytes())], files.ca.read_bytes(), require_client_auth=True
    )
    device = P4Device(p4info("int"))
    device.start(certificates=certificates)
    try:
        address = f"127.0.0.1:{device.port}"
        found = connect(address=address, tls=True, ca_file=files.ca, **files.own)
        assert found.read().parts() == ("watch",)
        found.close()
        for wrong in ({"ca_file": files.other_ca, **files.own}, {"ca_file": files.ca}, {"tls": False}):
            with pytest.raises(SouthboundError):
                connect(**{"address": address, "tls": True, "timeout_seconds": 2, **wrong})
    finally:
        device.stop()
