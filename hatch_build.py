"""What a wheel carries beside the package: a bill of materials (PEP 770), the XDP program, and compiled
kernels if asked.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LOCK = "requirements.lock"
_PINNED = re.compile(r"^([\w.-]+)==([^\s;]+).*\n((?: .*\n)+)", re.MULTILINE)
"""Name, version, and the lines that follow: hashes, and who needs it."""
_NEEDED_BY = re.compile(r"^    #(?: via|  ) +([\w.-]+)", re.MULTILINE)


def bill_of_materials(version: str, license_id: str, lock: str) -> dict[str, Any]:
    """CycloneDX 1.6 document of Hopscope and what it depends on, as the lock file pins it."""
    pinned: list[tuple[str, str, str]] = _PINNED.findall(lock)
    refs = [("hopscope", f"pkg:pypi/hopscope@{version}")]
    refs += [(name, f"pkg:pypi/{name}@{number}") for name, number, _ in pinned]
    needs: dict[str, list[str]] = {ref: [] for _, ref in refs}
    for name, number, rest in pinned:
        users = set(_NEEDED_BY.findall(rest))
        for user, ref in refs:
            if user in users:
                needs[ref].append(f"pkg:pypi/{name}@{number}")
    own = refs[0][1]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, own + lock).urn,
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "application",
                "name": "hopscope",
                "version": version,
                "bom-ref": own,
                "purl": own,
                "licenses": [{"license": {"id": license_id}}],
            },
        },
        "components": [
            {"type": "library", "name": name, "version": number, "bom-ref": ref, "purl": ref}
            for (name, number, _), (_, ref) in zip(pinned, refs[1:], strict=True)
        ],
        "dependencies": [{"ref": ref, "dependsOn": used} for ref, used in needs.items()],
    }


def bpf_build(root: str) -> Any:
    """The module that compiles the XDP programs; it imports nothing of the package."""
    path = Path(root, "src", "hopscope", "bpf", "build.py")
    spec = importlib.util.spec_from_file_location("hopscope_bpf_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class WheelHook(BuildHookInterface):  # type: ignore[type-arg,misc,unused-ignore]
    """HOPSCOPE_SHIP_KERNELS=1 ships what `hopscope warmup` loads for this code; else the wheel is pure."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the bill of materials; of kernels, the files that Python calls, not those that only compiling
        again would need.
        """
        bpf = bpf_build(self.root)
        self._folder = tempfile.TemporaryDirectory()
        try:
            built = bpf.compile_programs(bpf.PROGRAMS if version == "editable" else Path(self._folder.name))
            if version != "editable":
                for path in built:
                    build_data["force_include"][str(path)] = f"hopscope/bpf/programs/{path.name}"
        except bpf.BuildError as error:
            self.app.display_warning(f"without the XDP programs: {error}")
        if version == "editable":
            return
        path = Path(self._folder.name, "hopscope.cdx.json")
        core = self.metadata.core
        lock = Path(self.root, LOCK).read_text(encoding="utf-8")
        bill = bill_of_materials(self.metadata.version, core.license_expression, lock)
        path.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
        build_data["sbom_files"].append(str(path))
        if os.environ.get("HOPSCOPE_SHIP_KERNELS") != "1":
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        from hopscope.runtime.warmup import compiled_files

        build_data["force_include"] |= {
            str(path): f"hopscope/compiled/{name}" for name, path in compiled_files().items()
        }
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the file of the bill of materials."""
        self._folder.cleanup()
