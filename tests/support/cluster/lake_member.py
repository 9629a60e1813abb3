"""The lake process of a member, in a process of its own: `lake_member.py SETTINGS FOLDER MEMBER`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from hopscope.lake.process import LakeProcess
from hopscope.memory.private_file import incarnation
from hopscope.settings.lake import LakeSettings


class LakeMember:
    """Starts and kills the lake process of a data folder, whose regions are in it."""

    def __init__(self, settings: LakeSettings, folder: Path, name: str) -> None:
        self.settings, self.folder, self.name = settings, folder, name
        (folder / "regions").mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it connects by itself."""
        words = [sys.executable, __file__, self.settings.model_dump_json(), str(self.folder), self.name]
        tests = str(Path(__file__).resolve().parents[2])
        self._process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": tests})

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in an orderly way."""
        self._end(signal.SIGTERM)

    def processor_seconds(self) -> float:
        """Processor time that it has taken."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None


def main() -> None:
    """Run until SIGTERM."""
    given, folder, name = sys.argv[1:]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = LakeSettings.model_validate_json(given)
    LakeProcess(settings, Path(folder), name, incarnation(Path(folder))).run(stop)


if __name__ == "__main__":
    main()
