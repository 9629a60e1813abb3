"""Writes what the lanes of a test run took, and its slowest tests, into a page:
python tests/durations_page.py LOG PAGE

`make durations` runs it, on the output of `make test`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SLOWEST = 12


def table(log: str) -> str:
    """Lanes with their tests, seconds and processor time, then the slowest tests of all."""
    lanes, tests = [], []
    for lane in re.split(r"^== (?=[a-z0-9-]+$)", log, flags=re.M)[1:]:
        name = lane.split("\n", 1)[0]
        runs = re.findall(r"^=+ (?:(\d+) failed, )?(\d+) passed.* in ([\d.]+)s", lane, flags=re.M)
        count = sum(int(failed or 0) + int(passed) for failed, passed, _ in runs)
        processor = sum(map(int, re.findall(r"^(\d+) CPU seconds$", lane, flags=re.M)))
        lanes.append(
            f"| {name} | {count:,} | {sum(float(seconds) for *_, seconds in runs):.0f} | {processor} |"
        )
        found = re.findall(r"^([\d.]+)s (call|setup|teardown) +tests/(\S+)", lane, flags=re.M)
        tests += [(float(seconds), test, name) for seconds, _, test in found]
    slowest = [
        f"| `{test}` | {name} | {seconds:.0f} |" for seconds, test, name in sorted(tests)[: -SLOWEST - 1 : -1]
    ]
    head = ["| lane | tests | s | CPU s |", "|---|--:|--:|--:|"]
    between = ["", "The slowest tests:", "", "| test | lane | s |", "|---|---|--:|"]
    return "\n".join([*head, *lanes, *between, *slowest])


if __name__ == "__main__":
    log, page = (Path(word) for word in sys.argv[1:])
    block = f"<!-- durations -->\n\n{table(log.read_text())}\n\n<!-- end durations -->"
    pattern = r"<!-- durations -->.*?<!-- end durations -->"
    page.write_text(re.sub(pattern, lambda _: block, page.read_text(), flags=re.S))
