"""A destination of another package: the example of the guide, installed as users install it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.history.journal import JournalWriter
from support.event_make import random_events

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from hopscope.export.counters import DESTINATION
from hopscope.export.kinds import check_exports
from hopscope.export.run import senders_of
from hopscope.settings.file import load

settings = load(Path(sys.argv[1])).settings
check_exports(settings)
(sender,) = senders_of(settings, settings.data, np.zeros(1, DESTINATION))
sender.start()
sender.finish()
assert sender.ended(60)
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
    file = tmp_path / "hopscope.toml"
    file.write_text(
        f'data = "{data}"\nmember = "m1"\n[export.mine]\nkind = "lines"\nbegin = "oldest"\n'
        f'file = "{tmp_path}/events.jsonl"\n'
    )
    paths = [str(target), *filter(None, [os.environ.get("PYTHONPATH")])]
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)],
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [f"0-{number}" for number in range(50)]
    (block,) = {line["block"] for line in lines}
    assert block.startswith("m1-0-0-49-")
