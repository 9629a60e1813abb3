"""Ports of servers that tests start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.servers.server_process import free_port

OTHER = """
from support.servers import server_process as process
process._PORTS = [{0}] * 999_999 + [*process._PORTS]
print(process.free_port())
"""


def test_a_port_is_not_given_to_two_processes() -> None:
    """Another process, whose dice nearly always show the port of this one, gets another port, though nothing
    listens here: a server that is started later, or again, is not mistaken for that of another test.
    """
    mine = free_port()
    words = [sys.executable, "-c", OTHER.format(mine)]
    assert int(subprocess.check_output(words, cwd=Path(__file__).parent)) != mine
