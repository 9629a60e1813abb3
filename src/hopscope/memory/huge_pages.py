"""Finds out whether Linux has given huge pages to mapped memory."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .region import HUGE_PAGE, Region, private_memory

SMAPS = Path("/proc/self/smaps")
_RANGE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ")
_HUGE = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped")
_HUGETLB = ("Shared_Hugetlb", "Private_Hugetlb")
"""Pages of hugetlbfs, which are not included in Rss."""


def huge_share(memory: npt.NDArray[np.uint8], smaps: str | None = None) -> float:
    """Share of huge pages in the resident pages of an array, 0 to 1.

    `smaps`: content of /proc/self/smaps; None: read it now. Only pages that were touched are resident.
    """
    address, inside = memory.ctypes.data, False
    sizes: dict[str, int] = {}
    for line in (SMAPS.read_text() if smaps is None else smaps).splitlines():
        if found := _RANGE.match(line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.endswith("kB"):
            name, _, size = line.partition(":")
            sizes[name] = int(size.removesuffix("kB"))
    whole = sum(sizes.get(name, 0) for name in _HUGETLB)
    resident = sizes.get("Rss", 0) + whole
    return (whole + sum(sizes.get(name, 0) for name in _HUGE)) / resident if resident else 0.0


def huge_share_in(folder: Path) -> float:
    """Share of huge pages that a region in a folder would have, found by creating one of 8 MiB there.

    Raises OSError or RegionError if it cannot be created.
    """
    with tempfile.TemporaryDirectory(prefix=".pages-", dir=folder) as place:
        arrays = {"pages": (np.dtype(np.uint8), 4 * HUGE_PAGE)}
        with Region.create(Path(place) / "probe", "probe", 1, arrays) as region:
            region.populate()
            return huge_share(region["pages"])


def huge_zeros(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A private array of zeros that is aligned to huge pages, and uses them if the system has them.

    It suits caches with random access: a row of 64 bytes is always in one cache line, and address translation
    is fast. NumPy's own arrays begin 16 bytes after the start of a page, and use small pages if they are
    below 4 MiB.
    """
    size = count * np.dtype(dtype).itemsize
    octets = np.frombuffer(private_memory(size + HUGE_PAGE), np.uint8)
    start = -octets.ctypes.data % HUGE_PAGE
    return octets[start : start + size].view(dtype)
