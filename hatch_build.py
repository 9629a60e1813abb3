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
        """Add what Python calls, and the lists of it; not what only compiling again would need."""
        shipped = os.environ.get("HOPSCOPE_SHIP_KERNELS")
        if not shipped or version == "editable":
            return
        folder = Path(self.root, shipped)
        files = [path for path in folder.rglob("*") if path.suffix == ".entry" or path.parent.name == "steps"]
        if not files:
            raise FileNotFoundError(f"no compiled kernels in {folder}: run `hopscope warmup`")
        for path in files:
            build_data["force_include"][str(path)] = f"hopscope/compiled/{path.relative_to(folder)}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
