"""Hopscope: In-band Network Telemetry reports in, answers out.

>>> import hopscope
>>> for reports in hopscope.read("reports.pcap"):  # doctest: +SKIP
...     reports.columns()["node_id"], reports.hops.to_pandas()
>>> events = hopscope.detect_events(hopscope.read("reports.pcap"))  # doctest: +SKIP
>>> with hopscope.open("/var/lib/hopscope") as folder:  # doctest: +SKIP
...     folder.history.sql("select kind, count(*) from events group by kind")

Everything is imported when it is first used: `import hopscope` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base.version import VERSION

if TYPE_CHECKING:
    from .base.errors import HopscopeError
    from .base.names import Names
    from .detect.records import Kind, Metric
    from .library.batches import Events, Hops, Reports
    from .library.following import Following
    from .library.interface import Capture, Collection, announce_compilation, detect_events, read
    from .library.interface import open_folder as open
    from .library.samples import sample
    from .settings.collector import Settings
    from .settings.detect import DetectSettings
    from .settings.limits import MetricLimits, ThresholdSettings

__version__ = VERSION

_HOME = {
    "Capture": "library.interface",
    "Collection": "library.interface",
    "DetectSettings": "settings.detect",
    "Events": "library.batches",
    "Following": "library.following",
    "Hops": "library.batches",
    "HopscopeError": "base.errors",
    "Kind": "detect.records",
    "Metric": "detect.records",
    "MetricLimits": "settings.limits",
    "Names": "base.names",
    "Reports": "library.batches",
    "Settings": "settings.collector",
    "ThresholdSettings": "settings.limits",
    "announce_compilation": "library.interface",
    "detect_events": "library.interface",
    "open": "library.interface:open_folder",
    "read": "library.interface",
    "sample": "library.samples",
}
__all__ = [
    "Capture",
    "Collection",
    "DetectSettings",
    "Events",
    "Following",
    "Hops",
    "HopscopeError",
    "Kind",
    "Metric",
    "MetricLimits",
    "Names",
    "Reports",
    "Settings",
    "ThresholdSettings",
    "announce_compilation",
    "detect_events",
    "open",
    "read",
    "sample",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hopscope' has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    value = getattr(import_module(f"{__name__}.{module}"), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
