"""Segments of TCP that the kernel merges before a program sees them: INT needs single packets."""

from __future__ import annotations

from ..capture.errors import CaptureError
from ..capture.ring.offload import features
from .settings import SwitchSettings

MERGING = {"rx-gro": "gro", "rx-lro": "lro", "rx-gro-hw": "rx-gro-hw", "rx-gro-list": "rx-gro-list"}
"""Features that merge what an interface receives, and what ethtool calls them."""


def check_segments(settings: SwitchSettings) -> None:
    """Raises CaptureError if TCP that this machine forwards is to get INT, and its segments are merged."""
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
                f"{interface} merges segments of TCP that it receives, and these get no INT: "
                f'`ethtool -K {interface} {words}`, or watch TCP with mode = "xd"'
            )
