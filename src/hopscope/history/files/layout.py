"""The layout of a data folder's events, as stated in its `owner.json`."""

from __future__ import annotations

from pathlib import Path

from ...detect.records import EVENT_VERSION
from ...memory.data_folder import read_owner
from ..errors import HistoryError


def reject_later(folder: Path) -> None:
    """HistoryError: a later version has written into this folder. The folder is not changed, so that the
    later version can still use it.
    """
    owner = read_owner(folder)
    written = owner.get("events", EVENT_VERSION)
    if isinstance(written, int) and written > EVENT_VERSION:
        raise HistoryError(
            f"{folder / 'owner.json'}: version {owner.get('version')} has written events of layout {written},"
            f" and this one reads {EVENT_VERSION}: use the version that wrote it, or another folder"
        )
