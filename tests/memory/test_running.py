"""Which collectors run here: what Linux lists of their control sockets."""

from __future__ import annotations

import socket
from pathlib import Path

from hopscope.base.process.control_client import SOCKET_NAME, socket_path
from hopscope.memory.data_folder import owned_stores
from hopscope.memory.running import running_folders, running_stores


def test_a_listening_control_socket_is_a_running_collector(tmp_path: Path) -> None:
    """Its folder is found while it listens, also with blanks in its name, and not after it is closed."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    with socket_path(folder) as path, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        assert folder not in running_folders()
        listener.listen()
        assert folder in running_folders()
    assert folder not in running_folders()


def test_what_is_no_collector(tmp_path: Path) -> None:
    """Connections, abstract names, other sockets, folders of others or that are gone, and no list at all."""
    mine = tmp_path / "mine"
    mine.mkdir()
    begin, listening = "0000000000000000: 00000002 00000000", "00010000 0001 01 1234"
    table = tmp_path / "unix"
    table.write_text(
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        f"{begin} {listening} {mine}/{SOCKET_NAME}\n"
        f"{begin} 00000000 0001 03 1235 {mine}/{SOCKET_NAME}\n"
        f"{begin} {listening} @/abstract/{SOCKET_NAME}\n"
        f"{begin} {listening} {mine}/other.sock\n"
        f"{begin} {listening} {tmp_path}/gone/{SOCKET_NAME}\n"
        f"{begin} {listening}\n"
    )
    assert running_folders(table) == [mine]
    assert running_folders(tmp_path / "missing") == []


def test_stores_that_are_written_are_found(tmp_path: Path) -> None:
    """A folder of stores is found while it has a writer, also after one that was killed; nothing else finds
    it, and a path that is too long for a socket keeps nobody from writing.
    """
    folder = tmp_path / "data" / "direct"
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(folder / "stores.sock"))
    with owned_stores(folder):
        assert folder in running_stores()
        assert folder not in running_folders()
    assert folder not in running_stores()
    assert not (folder / "stores.sock").exists()
    with owned_stores(tmp_path / ("long" * 30)):
        assert running_stores(tmp_path / "missing") == []
