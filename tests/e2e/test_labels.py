"""Labels taken by a real collector: the process that takes them is started, killed, and goes on."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from hopscope.wire.label.batch import encode_blocks
from hopscope.wire.label.records import LABEL
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]


def test_the_process_of_labels_is_restarted_and_goes_on(collector: Callable[..., Any]) -> None:
    """Labels reach the API and /metrics; after a SIGKILL ports and counters are continued, and the summary at
    the end tells all of them.
    """
    one = collector("--set", "label.listen=127.0.0.1:0")
    one.start()
    url = one.owner["api"]
    port = int(one.owner["labels"].rpartition(":")[2])
    ended, sent = threading.Event(), 0

    def send() -> None:
        nonlocal sent
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while not ended.wait(0.02):
                labels = np.zeros(3, LABEL)
                labels["node_id"], labels["egress_port"], labels["time_ns"] = 7, (1, 2, 3), time.time_ns()
                labels["count"], labels["position"] = 3, (0, 1, 2)
                sender.sendto(encode_blocks(labels), ("127.0.0.1", port))
                sent += 3

    def labels_of(number: int) -> int:
        items = client.get(f"{url}api/v0/labels").json()["items"]
        return next((int(item["labels"]) for item in items if item["port"]["id"] == number), 0)

    sending = threading.Thread(target=send)
    sending.start()
    try:
        with httpx.Client(timeout=300, trust_env=False) as client:
            eventually(lambda: labels_of(3) > 20)
            before = labels_of(2)
            os.kill(one.status()["labels"]["pid"], signal.SIGKILL)
            eventually(lambda: one.status()["labels"]["restarts"] == 1)
            eventually(lambda: labels_of(2) > before + 20)
            eventually(lambda: client.get(f"{url}api/v0/labels/coverage").json()["items"])
            assert "hopscope_labels_total" in client.get(f"{url}metrics").text
    finally:
        ended.set()
        sending.join()
    assert one.stop() == 0
    told = next(line for line in one.said().splitlines() if line.startswith("labels "))
    assert "of 3 ports in" in told
    assert 0.5 * sent < int(told.split()[1].replace(",", "")) <= sent
