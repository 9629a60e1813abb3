"""Checks what settings depend on: readable files, valid options of stores, installed packages."""

from __future__ import annotations

from ...base.names import Names
from ...detect.links import read_links
from ...settings.collector import Settings


def check_requirements(settings: Settings) -> None:
    """Raises HopscopeError if the file of names or of links cannot be read, a store has wrong options, or a
    package to reach devices, the cluster, the lake, Redis or a destination is missing.
    """
    Names.load(settings.names)
    read_links(settings.postcards.links)
    if settings.direct.stores:
        from ..direct.stores import store_specs

        store_specs(settings.direct)
    if settings.lake.enabled:
        from ...lake.extensions import check_lake

        check_lake()
    if settings.cluster.enabled:
        from ...cluster.connection import require_client as require_nats

        require_nats()
    clients = [each.kind for each in settings.names_from.values()]
    clients += [each.kind for each in settings.switches.values()]
    if settings.label.redis:
        clients.append("label.redis")
    for client in clients:
        from ...export.kinds import require_client

        require_client(client)
    if settings.destinations or settings.metrics:
        from ...export.kinds import check_exports

        check_exports(settings)
