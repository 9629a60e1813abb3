"""What is announced while kernels are compiled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hopscope.runtime.warmup import STEPS, _follow, _shares, load_steps
from support.network.namespaces import clear_abandoned
from support.network.veth import Namespace

PREFIX = "hopscope-warm"


def notes_of(*lines: str) -> list[str]:
    """What is announced of a process that prints these lines."""
    words = [sys.executable, "-c", f"print({chr(10).join(lines)!r})"]
    notes: list[str] = []
    with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
        _follow([child], ["xdp", "files"], notes.append, 1000)
    return notes


def test_only_what_is_compiled_is_announced() -> None:
    """The first kernel is announced, and how many there were; nothing if all were in the cache."""
    assert notes_of("done xdp", "done files") == []
    assert notes_of("walk", "done xdp", "read", "done files") == [
        "compiling the kernels, once for this version and processor: xdp, files",
        "compiled 2 kernels",
    ]


@pytest.mark.kernel
def test_sockets_are_warmed_up_without_ipv4() -> None:
    """In a network namespace whose only address is ::1, a listener there starts, and so does a sink."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a network namespace")
    clear_abandoned(PREFIX)
    made = Namespace(f"{PREFIX}-{os.getpid()}")
    try:
        made.ip("link", "set", "lo", "up")
        made.ip("address", "del", "127.0.0.1/8", "dev", "lo")
        made.inside(lambda: load_steps(["listener", "sink"], lambda line: None))
    finally:
        made.remove()


@pytest.mark.kernel
def test_frames_are_sent_without_further_kernels() -> None:
    """Once the kernels of interfaces are loaded, a ring for sending (of a sink, of `blast --interface`) loads
    no other.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can send frames")
    words = (
        "from hopscope.base.kernels.kernel_cache import loaded\n"
        "from hopscope.runtime.warmup import load_steps\n"
        "from hopscope.capture.ring.sender import RingSender\n"
        "load_steps(['interface'], print)\n"
        "before = set(loaded)\n"
        "RingSender('lo').close()\n"
        "print(sorted(loaded - before), len(before))"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    late, _, count = done.stdout.splitlines()[-1].rpartition(" ")
    assert late == "[]"
    assert int(count) > 0


@pytest.mark.parametrize("count", [1, 2, 4, 8, 100])
def test_the_sink_is_compiled_after_the_decoder(count: int) -> None:
    """Each step is in one share, and the sink, which calls the decoder, follows it in the same process. The
    longest share is at most twice as long as if all were equal, or as both steps together.
    """
    shares = _shares(list(STEPS), count)
    assert sorted(step for share in shares for step in share) == sorted(STEPS)
    assert shares[0][:2] == ["decoder", "sink"]
    lengths = [sum(STEPS[step][0] for step in share) for share in shares]
    both = STEPS["decoder"][0] + STEPS["sink"][0]
    assert 0 < max(lengths) <= max(2 * sum(lengths) / count, both)


def test_steps_without_the_decoder_are_shared() -> None:
    """If the decoder is compiled already, the sink is a step like any other."""
    assert _shares(["sink", "files"], 2) == [["sink"], ["files"]]
