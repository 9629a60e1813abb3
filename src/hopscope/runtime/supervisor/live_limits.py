"""The limits of a running collector: its own, overridden by those of the cluster's configuration.

Its own limits are those of its settings, changed by requests. A request here cannot change a limit that the
cluster sets: every member applies a whole revision, or reports that it does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...detect.thresholds import read_limits, set_limits
from ...memory.region import Region
from ...memory.text_file import read_text, write_text
from ...settings.collector import Settings
from ...settings.limits import LimitSettings, as_json
from .limits import changed_limits, reset_limits

FILE_NAME = "cluster.json"
"""File in the data folder with the last applied revision. The next start applies it, even if NATS is
unreachable."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """A revision of a cluster's configuration."""

    cluster: str
    revision: int = 0
    limits: dict[str, Any] = field(default_factory=dict)
    """Changes as in a request `set_limits`."""

    @classmethod
    def from_request(cls, request: Any) -> Overlay:
        """ValueError: the request is no overlay."""
        try:
            found = cls(**request)
        except TypeError:
            found = cls("")
        whole = isinstance(found.revision, int) and found.revision >= 0 and isinstance(found.limits, dict)
        if not (found.cluster and isinstance(found.cluster, str) and whole):
            raise ValueError('expected {"cluster": "dc1", "revision": 5, "limits": {}}')
        return found


class LiveLimits:
    """Limits in `control.region`. Used by one thread at a time."""

    def __init__(self, region: Region, settings: Settings, folder: Path | None = None) -> None:
        """`folder`: the data folder, if the settings have a cluster. `region` holds the settings' limits."""
        self._region, self._settings = region, settings
        self._file = folder / FILE_NAME if folder is not None else None
        self._own = settings.limits
        self._overlay = Overlay(settings.cluster.name)

    def resume(self, warn: Callable[[str], object]) -> None:
        """At startup, apply the revision that was applied last."""
        if self._file is None or not self._settings.cluster.enabled:
            return
        text = read_text(self._file)
        if text is None:
            return
        try:
            overlay = Overlay.from_request(json.loads(text))
            if overlay.cluster == self._settings.cluster.name:
                self._use(self._own, overlay, f"cluster {overlay.cluster}, revision {overlay.revision}")
        except (ValueError, RecursionError) as error:
            warn(f"{self._file}: the configuration of the cluster is not applied: {error}")

    def configure(self, settings: Settings, author: str) -> None:
        """Take the limits of reloaded settings.

        ValueError: they contradict the cluster's; nothing has changed.
        """
        overlay = self._overlay
        if not settings.cluster.enabled or settings.cluster.name != overlay.cluster:
            overlay = Overlay(settings.cluster.name)
        self._use(settings.limits, overlay, author)
        self._settings = settings
        if not settings.cluster.enabled and self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def answer(self, request: dict[str, Any], author: str) -> dict[str, Any] | None:
        """Carry out a request `set_limits`, `reset_limits` or `set_cluster`, or answer `cluster`.

        None: it is a different request. ValueError: it is rejected, and nothing has changed.
        """
        sink = self._settings.sink.enabled
        if "set_limits" in request:
            self._refuse_those_of_cluster(request["set_limits"])
            own = changed_limits(self._own, request["set_limits"], sink=sink)
            self._use(own, self._overlay, author)
        elif "reset_limits" in request:
            own = reset_limits(self._own, self._settings.limits, request["reset_limits"])
            self._use(own, self._overlay, author)
        elif "set_cluster" in request:
            self._set_cluster(Overlay.from_request(request["set_cluster"]), author)
        elif "cluster" in request:
            return {"cluster": asdict(self._overlay)}
        else:
            return None
        return {"limits": as_json(read_limits(self._region))}

    def _set_cluster(self, overlay: Overlay, author: str) -> None:
        cluster = self._settings.cluster
        if not cluster.enabled or overlay.cluster != cluster.name:
            raise ValueError(f"this collector is not in cluster {overlay.cluster}")
        if self._file is None:
            raise ValueError("no data folder")
        self._over(self._own, overlay)
        try:
            write_text(self._file, json.dumps(asdict(overlay)) + "\n")
        except OSError as error:
            raise ValueError(f"{self._file}: {error.strerror}") from None
        self._use(self._own, overlay, author)

    def _use(self, own: LimitSettings, overlay: Overlay, author: str) -> None:
        after = self._over(own, overlay)
        if after != read_limits(self._region):
            set_limits(self._region, after, author)
        self._own, self._overlay = own, overlay

    def _over(self, own: LimitSettings, overlay: Overlay) -> LimitSettings:
        return changed_limits(own, overlay.limits, sink=self._settings.sink.enabled)

    def _refuse_those_of_cluster(self, changes: Any) -> None:
        """ValueError if the changes give a limit that the cluster sets a different value."""
        asked, fixed = dict(_leaves(changes)), dict(_leaves(self._overlay.limits))
        for key, value in asked.items():
            above = [key[:length] for length in range(1, len(key) + 1)]
            below = [other for other in fixed if other[: len(key)] == key]
            if any(fixed.get(each, value) != value for each in [*above, *below]):
                raise ValueError(
                    f"{'.'.join(key)}: set for all members by revision {self._overlay.revision} of the "
                    f"configuration of cluster {self._overlay.cluster}; change it by "
                    "`hopscope cluster config set`"
                )


def _leaves(tree: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(path of keys, value) of every leaf of nested objects."""
    if not isinstance(tree, dict):
        if above:
            yield above, tree
        return
    for key, value in tree.items():
        yield from _leaves(value, (*above, str(key)))
