"""Options and output of `hopscope fabric up`: tracked flows, progress, summary."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Any

from ...base.errors import HopscopeError
from ..output.printer import Format, print_rows
from ..output.running import interruptible

if TYPE_CHECKING:
    from ...fabric.topology import Topology
    from ...settings.label import TrackedFlowSettings
    from ...testbed.fabric import FabricPlan
    from ...testbed.state import FabricState

_PROGRESS_SECONDS = 30.0


class StartProgress:
    """Shows the progress of a long start; a signal ends it by KeyboardInterrupt."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._began = self._shown = time.monotonic()

    def __enter__(self) -> StartProgress:
        self._signals = interruptible()
        self._signals.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        self._signals.__exit__(None, None, None)

    def begin(self, line: str) -> None:
        """Show that a step begins."""
        self._text = line
        if self._terminal:
            self._show()
        else:
            print(f"hopscope: {line}", file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Update the elapsed time."""
        if time.monotonic() - self._shown < (1 if self._terminal else _PROGRESS_SECONDS):
            return
        if self._terminal:
            self._show()
        else:
            self._shown = time.monotonic()
            print(f"hopscope: {self._shown - self._began:.0f} s so far", file=sys.stderr, flush=True)

    def _show(self) -> None:
        self._shown = time.monotonic()
        passed = self._shown - self._began
        print(f"\r\033[Khopscope: {passed:3.0f} s  {self._text}", end="", file=sys.stderr, flush=True)


def tracked_flows(text: str, topology: Topology) -> list[TrackedFlowSettings]:
    """The flows of a `--track`: between hosts given by name, one per IP version. Raises HopscopeError."""
    from ...settings.label import TrackedFlowSettings
    from ...testbed.fabric import plan

    parts = plan(topology, "tracked", max_hop=2)
    hosts = {host.name: (host.ipv4, host.ipv6) for host in parts.hosts}
    found = re.fullmatch(r"(\[[^]]+\]|[^:[]+):(\[[^]]+\]|[^:[]+)(?::(\d{1,9}))?", text)
    if found is None:
        raise HopscopeError(f"--track {text}: expected SRC:DST[:EVERY], such as host-0-0:host-1-0:10")
    sources, targets = (hosts.get(end, (end.strip("[]"),)) for end in found.groups()[:2])
    every = int(found[3] or 100)
    try:
        pairs = zip(sources, targets, strict=False)  # an address pairs with the host's first one
        return [TrackedFlowSettings(src=src, dst=dst, every=every) for src, dst in pairs]
    except ValueError as error:
        raise HopscopeError(
            f"--track {text}: found {found[1]} and {found[2]}, expected two hosts of the fabric, or two "
            "addresses of one version, and 1 or more packets"
        ) from error


def running_fabric(name: str) -> FabricState:
    """The fabric of this name. Raises HopscopeError if it does not run, or this user is not root."""
    from ...testbed.namespaces import require_root
    from ...testbed.state import running

    require_root()
    return running(name)


def print_fabric(fabric: FabricState) -> None:
    """Print the fabric's hosts, and the next commands to try."""
    parts = fabric.plan()
    print(
        f"{fabric.topology}: {len(parts.topology.switches)} switches, {len(parts.hosts)} hosts, "
        f"{len(parts.ports)} switch ports; a label every {fabric.interval * 1000:g} ms per port"
    )
    print_rows(Format.TABLE, ("host", "address", "ipv6", "at"), _host_rows(parts))
    also = "" if fabric.name == "fabric" else f" --name {fabric.name}"
    first, last = parts.hosts[0], parts.hosts[-1]
    print(f"page    {fabric.page or 'none'}")
    print(f"try     hopscope fabric traffic udp{also}")
    print(f"        hopscope fabric status{also}")
    print(f"        ip netns exec {first.namespace} ping {last.ipv4}")
    print(f"        ip netns exec {parts.switches} tshark -i {parts.ports[-1].interface} ip proto 253")
    print(f"end     hopscope fabric down{also}")


def _host_rows(parts: FabricPlan) -> list[dict[str, Any]]:
    switch_of = parts.topology.host_switch
    return [
        {
            "host": host.name,
            "address": host.ipv4,
            "ipv6": host.ipv6,
            "at": parts.topology.switches[int(switch_of[number])].name,
        }
        for number, host in enumerate(parts.hosts)
    ]
