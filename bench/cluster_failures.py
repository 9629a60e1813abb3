"""Times of a whole cluster after SIGKILL of a member, and after one is added; the share of sources that move.

    python bench/cluster_failures.py [RUNS]

Each run is `hopscope cluster demo --format json`, whose proof has to hold, then the same cluster with a
member that is added. As root all is in namespaces, with real ECMP.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from hopscope.cli.cluster.demo.demo_cluster import COMPILE_SECONDS, DemoCluster
from hopscope.cli.cluster.demo.place import choose
from hopscope.cli.cluster.demo.servers import find
from hopscope.cli.demo.folder import temporary_folder
from hopscope.cluster.owners.file import OwnersFile
from hopscope.direct.stores.folder import open_stores
from hopscope.direct.stores.spec import parse_store
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


def joined() -> dict[str, float]:
    """A fourth member under load of 3,000 reports/s: seconds from its start, and of its keys from
    `hopscope cluster owners add`.
    """
    names, rate = ["c1", "c2", "c3"], 3000
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        cluster = DemoCluster(choose(), folder, find(), stack)
        cluster.start_servers(names)
        cluster.start_members()
        cluster.start_fabric(rate, 1)
        places = {name: folder / f"{name}-stores" for name in (*names, "c4")}
        for path in places.values():
            open_stores(path, [parse_store("paths=key-write,slots=4096,collectors=256")])
        cluster.hopscope("owners", "set", *(f"{name}={places[name]}" for name in names))
        before, begin = cluster.owners(), time.monotonic()
        member = cluster.add_member("c4")
        done: dict[str, float] = {}

        def answers() -> bool:
            said = cluster.first.get("/api/v0/summary?scope=cluster", 20)["cluster"]
            return "c4" in said["answered"] and said["complete"]

        steps: dict[str, Callable[[], object]] = {
            "received": member.receives,
            "route": lambda: "c4" in cluster.place.using,
            "sources": member.senders,
            "complete": answers,
            "lake": lambda: member.senders() and cluster.lake_has(member, {0: 1}),
        }

        def look() -> bool:
            for key, step in steps.items():
                if key not in done and step():
                    done[key] = time.monotonic() - begin
            return done.keys() == steps.keys()

        cluster.until(look, "a member is added", COMPILE_SECONDS)
        after = cluster.owners()
        moved = {source for source in before if after.get(source) != before[source]}
        assert moved
        assert {after[source] for source in moved} == {"c4"}
        done["moved sources, of 60"] = len(moved)
        files = [OwnersFile(each.data) for each in cluster.members.values()]
        began = time.monotonic()
        cluster.hopscope("owners", "add", f"c4={places['c4']}")
        done["keys, command"] = time.monotonic() - began
        cluster.until(lambda: all(each.table.current.number == 2 for each in files), "owners")  # type: ignore[union-attr]
        done["keys, at all members"] = time.monotonic() - began
        return done


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
    for key, value in joined().items():
        print(f"{'added':<14} {key:<22} {value:6.2f}")
    if os.geteuid() == 0:
        for members in (3, 7, 15):
            share, ideal = added(members), 1 / (members + 1)
            print(f"added to {members:<3} {share:.1%} of the buckets moved, ideal {ideal:.1%}")


if __name__ == "__main__":
    main()
