"""What settings need beside themselves: files that can be read, options of stores, packages."""

from __future__ import annotations

from ...base.names import Names
from ...detect.links import read_links
from ...settings.collector import Settings


def check_needed(settings: Settings) -> None:
    """Raises HopscopeError if the file of names or of links cannot be read, a store has wrong options, or a
    package to reach devices, the lake or a destination is missing.
    """
    Names.load(settings.names)
    read_links(settings.postcards.links)
    if settings.direct.stores:
        from ..direct.stores import store_specs

        store_specs(settings.direct)
    if settings.lake.enabled:
        from ...lake.extensions import check_lake

        check_lake()
    devices = [each.kind for each in settings.names_from.values()]
    for kind in devices + [each.kind for each in settings.switches.values()]:
        from ...export.kinds import require_client

        require_client(kind)
    if settings.destinations or settings.metrics:
        from ...export.kinds import check_exports

        check_exports(settings)
