"""TCP segments that the kernel merges before a program sees them: INT needs single packets."""

from __future__ import annotations

from ..capture.errors import CaptureError
from ..capture.ring.offload import features
from .settings import SwitchSettings

MERGING = {"rx-gro": "gro", "rx-lro": "lro", "rx-gro-hw": "rx-gro-hw", "rx-gro-list": "rx-gro-list"}
"""Features that merge packets that an interface receives, with their names in ethtool."""


def check_segments(settings: SwitchSettings) -> None:
    """Raises CaptureError if TCP packets that this machine forwards should get INT, but are merged."""
    if len(settings.interfaces) + len(settings.hosts) < 2:
        return
    if not any(watch.protocol != "udp" and watch.mode in ("md", "mx") for watch in settings.watch):
        return
    for interface in (*settings.interfaces, *settings.hosts):
        found = features(interface)
        active = [name for feature, name in MERGING.items() if feature in found and found[feature].active]
        if active:
            words = " ".join(f"{name} off" for name in active)
            raise CaptureError(
                f"{interface} merges TCP segments that it receives, and merged segments get no INT: "
                f'run `ethtool -K {interface} {words}`, or watch TCP with mode = "xd"'
            )
