"""Puts compiled kernels into a wheel of this platform: `make wheel` says where they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelHook(BuildHookInterface):  # type: ignore[type-arg,misc,unused-ignore]
    """HOPSCOPE_SHIP_KERNELS names a folder that `hopscope warmup` filled; without it, the wheel is pure."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the newest set of what Python calls; not what only compiling again would need."""
        shipped = os.environ.get("HOPSCOPE_SHIP_KERNELS")
        if not shipped or version == "editable":
            return
        folder = Path(self.root, shipped)
        markers = sorted(folder.glob("*/steps/*"), key=lambda path: path.stat().st_mtime)
        if not markers:
            raise FileNotFoundError(f"no compiled kernels in {folder}: run `hopscope warmup`")
        newest = markers[-1].name.rpartition("-")[2]
        for marker in markers:
            if marker.name.endswith(newest):
                names = [str(marker.relative_to(folder)), *marker.read_text().splitlines()]
                build_data["force_include"] |= {
                    str(folder / name): f"hopscope/compiled/{name}" for name in names
                }
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
