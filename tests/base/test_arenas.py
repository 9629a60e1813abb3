"""Memory of threads: they share arenas of glibc."""

from __future__ import annotations

import os
import subprocess
import sys

_PROGRAM = """
import ctypes, sys, tempfile, threading
from hopscope.base.process.arenas import share_arenas
if sys.argv[1] == "shared":
    share_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.fdopen.restype = ctypes.c_void_p
together = threading.Barrier(6)
def allocate():
    together.wait()
    for _ in range(1000):
        libc.malloc(ctypes.c_size_t(5000))
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with tempfile.NamedTemporaryFile() as file:
    stream = ctypes.c_void_p(libc.fdopen(file.fileno(), b"w"))
    libc.malloc_info(0, stream)
    libc.fflush(stream)
    print(open(file.name).read().count("<heap "))
"""


def _heaps(how: str) -> int:
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=True, env=environment
    )
    return int(done.stdout)


def test_threads_share_two_arenas() -> None:
    """Six threads that allocate have two arenas, and more without this."""
    assert _heaps("shared") == 2
    assert _heaps("own") > 2
