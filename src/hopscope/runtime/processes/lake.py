"""Main of the process that writes history into the lake."""

from __future__ import annotations

from .child import Child


def run(child: Child) -> None:
    """Write until `child.stop` is set, then write the remaining events for a few seconds."""
    from ...lake.extensions import check_lake
    from ...lake.process import LakeProcess
    from ...lake.status import FILE_NAME
    from ...memory.private_file import incarnation

    settings = child.settings
    if not settings.lake.enabled:  # any more: settings were read again
        child.started = True
        child.report(ready=True)
        (child.regions / FILE_NAME).unlink(missing_ok=True)
        while not child.stop.wait(0.5):
            pass
        return
    check_lake()
    process = LakeProcess(settings.lake, child.data, settings.member_name, incarnation(child.data))
    child.started = True
    child.report(ready=True)
    process.run(child.stop)
