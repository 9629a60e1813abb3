"""A destination of another package: the example of the guide, installed as users install it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.history.writing.journal import JournalWriter
from support.events.event_make import random_events

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
import threading
from pathlib import Path
from hopscope.export.run import run
from hopscope.settings.configuration.file import load
from support.waiting import eventually

settings = load(Path(sys.argv[1])).settings
output, stop = settings.export["mine"].file, threading.Event()
thread = threading.Thread(target=run, args=(settings, settings.data, stop))
thread.start()
try:
    eventually(lambda: output.exists() and output.read_bytes().count(b"\\n") >= 50)
finally:
    stop.set()
    thread.join()
"""


@pytest.mark.e2e
def test_the_example_of_the_guide_works(tmp_path: Path) -> None:
    """Installed by pip, it is a kind of destination, with settings of its own, and gets every event once."""
    target = tmp_path / "site"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"),
            *("--no-index", "--target", str(target), str(ROOT / "docs/examples/destination")),
        ],
        check=True,
    )
    data = tmp_path / "data"
    with JournalWriter(data, 0) as writer:
        writer.append(random_events(50))
    (data / "regions").mkdir()
    file = tmp_path / "hopscope.toml"
    file.write_text(
        f'data = "{data}"\nmember = "m1"\n[export.mine]\nkind = "lines"\nbegin = "oldest"\n'
        f'file = "{tmp_path}/events.jsonl"\n'
    )
    paths = [str(target), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)],
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [f"0-{number}" for number in range(50)]
    (block,) = {line["block"] for line in lines}
    assert block.startswith("m1-0-0-49-")
