"""`hopscope switch serve`: offers this machine's programs to a controller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from ...base.process.stop import Stop
from ...settings.agent import AgentSettings
from ...settings.switches import EbpfSwitchSettings
from ...wire.address import with_port


def run(
    node_id: int, pins: Path, settings: AgentSettings, stop: Stop, ready: Callable[[str], object]
) -> None:
    """Serve until `stop` is set; `ready` is called with the address. Raises HopscopeError."""
    from ...control.drivers.ebpf import EbpfDriver
    from ...serve.agent import bind, run
    from ...switch.clock import LOOK_SECONDS, ClockFollower

    listener = bind(settings)
    host, port = listener.getsockname()[:2]
    place = with_port(host, port)
    driver = EbpfDriver("agent", EbpfSwitchSettings(kind="ebpf", node=node_id, pins=pins))
    follower, ended = ClockFollower(pins), threading.Event()

    def follow() -> None:
        while not ended.wait(LOOK_SECONDS):
            follower.look()

    thread = threading.Thread(target=follow, name="clock", daemon=True)
    thread.start()
    try:
        run(settings, driver, stop, listener, lambda: ready(place))
    finally:
        ended.set()
        thread.join()
