"""One sink forwards what comes in at an interface."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from hopscope.capture.claim import claim
from hopscope.capture.errors import CaptureError
from support.veth import Namespace


@pytest.fixture
def namespace(tool: Callable[..., str]) -> Iterator[Namespace]:
    """`near` and `far`."""
    tool("ip")
    try:
        made = Namespace(f"hopscope-claim-{os.getpid()}")
    except (OSError, subprocess.CalledProcessError) as error:
        if os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1":
            raise
        pytest.skip(f"no network namespaces with veth pairs here: {error}")
    try:
        yield made
    finally:
        made.remove()


def test_one_claim(namespace: Namespace) -> None:
    """A second claim says who has the first, by any name of the interface, until that is closed; other
    interfaces are free.
    """
    namespace.ip("link", "property", "add", "dev", "near", "altname", "nearby")
    first, other = namespace.inside(lambda: claim("near")), namespace.inside(lambda: claim("far"))
    for name in ("near", "nearby"):
        with pytest.raises(CaptureError, match=rf"{name}: another sink \(process {os.getpid()}\) forwards"):
            namespace.inside(lambda name=name: claim(name))  # type: ignore[misc]
    first.close()
    namespace.inside(lambda: claim("nearby")).close()
    other.close()


def test_a_missing_interface(namespace: Namespace) -> None:
    """It is named."""
    with pytest.raises(CaptureError, match="gone: this machine has no such interface"):
        namespace.inside(lambda: claim("gone"))
