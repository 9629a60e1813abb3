"""Puts compiled kernels into a wheel of this platform: `make wheel`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelHook(BuildHookInterface):  # type: ignore[type-arg,misc,unused-ignore]
    """HOPSCOPE_SHIP_KERNELS=1 ships what `hopscope warmup` loads for this code; else the wheel is pure."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files that Python calls, not those that only compiling again would need."""
        if os.environ.get("HOPSCOPE_SHIP_KERNELS") != "1" or version == "editable":
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        from hopscope.runtime.warmup import compiled_files

        build_data["force_include"] |= {
            str(path): f"hopscope/compiled/{name}" for name, path in compiled_files().items()
        }
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
