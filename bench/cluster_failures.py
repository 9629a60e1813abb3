"""Times of a whole cluster after SIGKILL of a member, and the share of sources that move when one is added.

    python bench/cluster_failures.py [RUNS]

Each run is `hopscope cluster demo --format json`, whose proof has to hold. As root it is in namespaces, with
real ECMP.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

from hopscope.testbed.ecmp import EcmpNetwork

KILLED = ("withdrawn", "moved", "answered", "gone")
AGAIN = ("received", "sources", "lake", "complete")


def demo() -> dict[str, dict[str, float]]:
    """Times of one run, in seconds."""
    words = [sys.executable, "-m", "hopscope", "cluster", "demo", "--format", "json"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True, timeout=600).stdout)
    assert found["holds"]
    return {
        "killed": {key: found["killed"][f"{key}_seconds"] for key in KILLED},
        "started again": {key: found["started_again"][f"{key}_seconds"] for key in AGAIN},
    }


def added(members: int) -> float:
    """Share of the router's buckets that move when a member is added to `members`."""
    names = [f"c{number}" for number in range(1, members + 1)]
    network = EcmpNetwork(f"hopscope-bench-{os.getpid()}", names)
    try:
        network.create()
        network.use(network.members)
        before = network.buckets()
        network.add(f"c{members + 1}")
        network.use(network.members)
        after = network.buckets()
    finally:
        network.remove()
    return sum(one != other for one, other in zip(before, after, strict=True)) / len(before)


def main() -> None:
    """Print medians."""
    runs = [demo() for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1)]
    for part, keys in (("killed", KILLED), ("started again", AGAIN)):
        for key in keys:
            values = [run[part][key] for run in runs]
            print(f"{part:<14} {key:<10} {statistics.median(values):6.2f} s  (of {len(runs)} runs)")
    if os.geteuid() == 0:
        for members in (3, 7, 15):
            share, ideal = added(members), 1 / (members + 1)
            print(f"added to {members:<3} {share:.1%} of the buckets moved, ideal {ideal:.1%}")


if __name__ == "__main__":
    main()
