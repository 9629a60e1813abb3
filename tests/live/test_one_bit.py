"""The one-bit form of INT-label on real packets (section 5), with its ageing database in a real Redis."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hopscope.labels.counters import LABEL_COUNTERS
from hopscope.labels.registers import Registers
from hopscope.labels.state import FILE_NAME, LabelReader
from support.network.live_fabric import LOSS, Fabric, fabric, lose, traffic
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
WINDOW_SECONDS = 2.0


@pytest.fixture
def redis_client(tool: Callable[..., str], tmp_path: Path) -> Iterator[Any]:
    """A client of a server on loopback."""
    redis = pytest.importorskip("redis")
    program = tool("redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
    with (
        subprocess.Popen(words, stdout=subprocess.DEVNULL) as server,
        redis.Redis("127.0.0.1", port, decode_responses=True, protocol=2) as client,
    ):
        try:
            eventually(lambda: listens(port))
            yield client
        finally:
            server.kill()


def listens(port: int) -> bool:
    """Whether anybody takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def coverage(live: Fabric) -> float:
    """Of the ports and telemetry intervals with traffic that begin from now on; 0 if the machine was too busy
    for traffic on half of them.
    """
    begin = time.time_ns()
    time.sleep(WINDOW_SECONDS)
    rows = LabelReader.attach(Path(live.state.data, "regions", FILE_NAME)).coverage(1000)
    rows = rows[rows["begin_ns"] >= begin]
    if rows["active"].sum() <= 0.5 * len(live.parts.ports) * 10 * WINDOW_SECONDS:
        return 0.0
    return float(rows["reported"].sum() / rows["active"].sum())


def flags() -> dict[tuple[str, int], bool]:
    """Reg2 of every port, as `status` shows it."""
    told = fabric("status", "--format", "json", "--over", "0.1")
    assert told.returncode == 0, told.stderr
    return {(row["switch"], row["port"]): row["flag"] for row in map(json.loads, told.stdout.splitlines())}


def test_the_one_bit_form_with_a_real_redis(tool: Callable[..., str], redis_client: Any) -> None:
    """A link that loses all: the flag of its port is set, for as long as its entry in Redis is renewed. Links
    that lose 60 %: coverage is far above the 76 % that two labels in a telemetry interval would give (of 12
    ports, 8 lie before such a link: (4 + 8 (1 - 0.6^2)) / 12). No loss again: Redis publishes the time-out of
    the entry, and the flag falls.
    """
    tool("ip")
    if os.geteuid():
        pytest.skip("network namespaces need root")
    port = redis_client.connection_pool.connection_kwargs["port"]
    made = fabric(
        "up", "--http-port", "0", "--adaptive", "one-bit", "--interval", "50ms", "--telemetry", "100ms",
        "--set", f"label.redis=redis://127.0.0.1:{port}/0", "--set", "label.prefix=live",
    )  # fmt: skip
    try:
        if made.returncode and os.environ.get("HOPSCOPE_REQUIRE_TOOLS") != "1" and "netns" in made.stderr:
            pytest.skip(f"no network namespaces with veth pairs here: {made.stderr}")
        assert made.returncode == 0, made.stderr
        live = Fabric()
        names = {(live.parts.topology.switch_name(one.node), one.number): one for one in live.parts.ports}
        dead = names["spine-0", 1]
        entry = f"live:label:ageing:{dead.node}:{dead.number}"
        row = live.parts.ports.index(dead)
        with traffic(live):
            eventually(lambda: redis_client.scard("live:label:ports") == len(names))
            label = (
                f"live:label:port:{dead.node}:{dead.number}"  # the controller knows ports that have labelled
            )
            eventually(lambda: int(redis_client.hget(label, "labels")) > 0)
            told = fabric("loss", "spine-0", "1", "1")
            assert told.returncode == 0, told.stderr

            def seen() -> str:
                entries = redis_client.keys("live:label:ageing:*")
                return f"{flags()}, {entries}, {LABEL_COUNTERS.read(Path(live.state.data, 'regions'))}"

            eventually(lambda: live.registers.flag[row] and redis_client.exists(entry), seen)
            assert flags()["spine-0", 1]
            lose(live, LOSS)
            eventually(lambda: coverage(live) > 0.9, "coverage never was above 90 %")
            Registers.attach(live.state.registers, writable=True).loss[:] = 0
            eventually(lambda: not live.registers.flag[row])
        counted = LABEL_COUNTERS.read(Path(live.state.data, "regions"))
        assert counted["label_redis_expired_total.notification"] > 0
    finally:
        fabric("down")
