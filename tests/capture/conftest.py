"""Fixtures of what reads and sends frames."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from support.veth import Namespace


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """A network namespace of the test's own."""
    if os.geteuid() != 0:
        pytest.skip("a packet socket and a network namespace need root")
    try:
        made = Namespace(f"hopscope-test-{os.getpid()}")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespace with a veth pair here: {error}")
    yield made
    made.remove()
