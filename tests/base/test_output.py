"""Text files that cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopscope.base.output import write_output


@pytest.mark.parametrize("name", ["file/below", "missing/below", "x" * 300, "link"])
def test_an_error_names_the_file(name: str, tmp_path: Path) -> None:
    """Whatever the reason, in the same words; a link that leads nowhere stays."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "missing" / "target")
    with pytest.raises(OSError, match=r"cannot be written \(") as error:
        write_output(tmp_path / name, "text")
    assert error.value.filename == str(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
