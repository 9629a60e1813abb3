"""What the supervisor says of the interfaces of its listeners."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from hopscope.runtime.supervisor.interfaces import Interfaces
from hopscope.settings.listen import ListenSettings
from support.network.namespaces import clear_abandoned
from support.network.veth import Namespace
from support.waiting import eventually

PREFIX = "hopscope-ifs"


@pytest.fixture
def pair() -> Iterator[Namespace]:
    """A veth pair."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a network namespace")
    clear_abandoned(PREFIX)
    made = Namespace(f"{PREFIX}-{os.getpid()}")
    yield made
    made.remove()


def test_interfaces_of_xdp_programs_are_watched(pair: Namespace) -> None:
    """They are missed and found again as others are; their listeners need no new sockets."""
    watched = pair.inside(lambda: Interfaces([ListenSettings(kind="xdp", interface="near")]))
    assert pair.inside(watched.gone) == []
    pair.ip("link", "del", "near")
    assert pair.inside(watched.gone) == ["near"]
    pair.pair("near", "far")
    assert pair.inside(lambda: list(watched.back())) == [("near", [])]
    assert pair.inside(lambda: watched.bound("near")) > 0
    assert pair.inside(watched.gone) == []
    watched.close()


def test_an_interface_that_is_down_is_not_just_present(pair: Namespace) -> None:
    """Down itself, or its other end: it stays bound, so ready, and the detail says that nothing arrives."""
    watched = pair.inside(lambda: Interfaces([ListenSettings(kind="mirror", interface="near")]))

    def says(detail: str) -> None:  # the kernel notices a carrier a moment after the interface is up
        def said() -> bool:
            (found,) = pair.inside(watched.status)
            assert found["ready"]
            return bool(found["detail"] == detail)

        eventually(said)

    with closing(watched):
        says("present")
        for end in ("near", "far"):
            pair.ip("link", "set", end, "down")
            says("down, or without a carrier: nothing arrives")
            pair.ip("link", "set", end, "up")
            says("present")
        pair.ip("link", "del", "near")
        assert pair.inside(watched.gone) == ["near"]
        (found,) = pair.inside(watched.status)
        assert (found["ready"], found["detail"]) == (False, "missing")
