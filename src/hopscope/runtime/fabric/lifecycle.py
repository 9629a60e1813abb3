"""Makes a fabric step by step, and removes it, however far it got."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...capture.sockets import free_udp_port
from ...fabric.topology import Topology, is_file
from ...labels.registers import Registers
from ...memory.data_folder import read_owner
from ...settings.collector import Settings
from ...settings.label import LabelSettings
from ...settings.section import host_and_port
from ...testbed import fabric, namespaces, state
from ...testbed.fabric import TestbedError
from ...testbed.state import REGISTERS_FILE, SETTINGS_FILE, TOPOLOGY_FILE, FabricState
from ...wire.address import network
from .process import await_ready, start

_GRACE_SECONDS = 30.0
_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class FabricOptions:
    """The fabric that `up` makes."""

    topology: Topology
    settings: Settings
    """Settings of the collector; the switches use `label`, too."""
    name: str = state.DEFAULT_NAME
    data: Path | None = None
    """Data folder to keep; None: one that is removed with the fabric."""
    inner_mtu: int | None = None


@dataclass
class Removal:
    """What `down` removed."""

    processes: int = 0
    namespaces: int = 0
    folder: bool = False

    def __bool__(self) -> bool:
        return bool(self.processes or self.namespaces or self.folder)

    def __str__(self) -> str:
        parts = [f"{count} {what}" for count, what in (
            (self.processes, "processes"), (self.namespaces, "namespaces")
        ) if count]  # fmt: skip
        return ", ".join([*parts, *(["its folder"] if self.folder else [])]) or "nothing"


def up(options: FabricOptions, notify: Callable[[str], object], turn: Callable[[], object]) -> FabricState:
    """Make a fabric, and return once its switches and its collector work.

    `notify` gets a line before each step; `turn` is called repeatedly meanwhile.
    The remains of a killed run of the same name are removed first. If a step fails, everything is removed.
    Raises HopscopeError.
    """
    namespaces.require_root()
    with state.alone(options.name):
        before = state.read(options.name)
        alive = [role for role, runs in (before.running() if before else {}).items() if runs]
        if before and alive:
            page = f", page {before.page}" if before.page else ""
            ending = "hopscope fabric down" + (
                "" if options.name == state.DEFAULT_NAME else f" --name {options.name}"
            )
            raise TestbedError(
                f"fabric {options.name!r} is up already ({before.topology}{page}): end it with {ending}, or "
                "choose another --name"
            )
        if removed := _remove(options.name):
            notify(f"removed the remains of an earlier run: {removed}")
        try:
            return _up(options, notify, turn)
        except BaseException:
            _remove(options.name)
            raise


def _up(options: FabricOptions, notify: Callable[[str], object], turn: Callable[[], object]) -> FabricState:
    label = options.settings.label
    parts = fabric.plan(
        options.topology, options.name, max_hop=label.labelling.max_hop, inner_mtu=options.inner_mtu
    )
    longest = fabric.longest_path(parts)
    if longest > label.labelling.max_hop:
        raise TestbedError(
            f"label.labelling.max_hop: found {label.labelling.max_hop}, expected {longest} or more: the "
            f"number of switches on the longest paths of {options.topology.name}"
        )
    folder = state.folder_of(options.name)
    folder.mkdir(mode=0o700, parents=True)
    data = options.data.absolute() if options.data else folder / "data"
    topology = options.topology.name
    if is_file(topology):  # as it is now, whatever becomes of the file
        topology = str(shutil.copyfile(topology, folder / TOPOLOGY_FILE))
    made = FabricState(
        name=options.name, topology=topology, max_hop=label.labelling.max_hop,
        inner_mtu=parts.inner_mtu, interval=label.labelling.interval,
        export=_export(label), data=str(data), adaptive=label.adaptive.mode,
    )  # fmt: skip
    made.write()
    names = folder / "names.toml"
    names.write_text(options.topology.names_toml(), encoding="utf-8")
    settings = options.settings.model_copy(
        update={
            "data": data,
            "regions": folder / "regions",
            "names": options.settings.names or names,
            "label": label.model_copy(update={"listen": made.export, "registers": folder / REGISTERS_FILE}),
        }
    )
    written = folder / SETTINGS_FILE
    written.touch(mode=0o600)  # it may contain a token or a password
    written.write_text(settings.model_dump_json(indent=1), encoding="utf-8")
    interval_ns = round(label.labelling.interval * 1e9)
    registers = Registers.create(
        made.registers, [(port.node, port.number) for port in parts.ports], interval_ns
    )
    for flow in label.track:
        registers.track(network(flow.src)[0], network(flow.dst)[0], flow.every)
    fabric.build(parts)
    notify(f"made {len(parts.hosts)} hosts and {len(options.topology.switches)} switches")
    processes = {role: start(made, role) for role in ("collector", "switches")}
    notify("starting the collector and the switches (the first start compiles, for up to a few minutes)")
    for role, process in processes.items():
        await_ready(made, role, process, turn)
    made.page = str(read_owner(data).get("api") or "")
    made.write()
    return made


def down(name: str) -> Removal:
    """Remove a fabric or its remains: processes, namespaces, folder. Raises HopscopeError."""
    namespaces.require_root()
    with state.alone(name):
        return _remove(name)


def _remove(name: str) -> Removal:
    removed = Removal()
    known, folder = state.read(name), state.folder_of(name)
    marked = namespaces.marked(state.mark_of(name))
    if known and not Path(known.data).is_relative_to(folder):
        # the data folder is kept: the collector closes its journal, and ends its own processes
        collector = [process for role, (process, _) in known.processes.items() if role == "collector"]
        removed.processes += namespaces.end(set(collector) & set(marked), seconds=_GRACE_SECONDS)
    for _ in range(_ROUNDS):  # a process that is just starting is found in the next round
        if not (marked := namespaces.marked(state.mark_of(name))):
            break
        removed.processes += namespaces.end(marked, seconds=0)
    removed.namespaces = fabric.remove(name)
    removed.folder = state.remove(name)
    return removed


def _export(label: LabelSettings) -> str:
    """The address to which last hops send labels: that of the settings, or a free port."""
    if label.listen and host_and_port(label.listen)[1]:
        return label.listen
    return f"127.0.0.1:{free_udp_port()}"
