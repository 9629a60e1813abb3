"""What other users see of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopscope.base.process import title


def test_an_emulated_kernel_does_not_say_where_arguments_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As that of qemu-user, whose /proc/self/stat ends before: nothing is hidden, and nothing fails."""
    (tmp_path / "stat").write_text("1 (python3) R" + " 0" * 40 + "\n")
    monkeypatch.setattr(title, "Path", lambda path: tmp_path / path.rpartition("/")[2])
    title.hide_arguments(["secret"])
    title.show_name("test")
    assert (tmp_path / "comm").read_bytes() == b"hopscope: test"
