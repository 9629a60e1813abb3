"""What settings need is missing: a check says so before a collector refuses to start."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from support.processes.command import run

CASES = {
    "kafka": '[export.a]\nkind = "kafka"\n',
    "s3": '[export.a]\nkind = "parquet"\nfolder = "s3://bucket/x"\n',
    "remote-write": '[metrics.a]\nkind = "remote_write"\nurl = "http://127.0.0.1:9"\n',
    "cluster": '[cluster]\nnats = ["nats://127.0.0.1:9"]\nevents = "none"\n',
    "redis": '[label]\nlisten = "127.0.0.1:0"\nredis = "redis://127.0.0.1:9/0"\n',
    "p4runtime": '[switches.a]\nkind = "p4runtime"\nnode = 1\naddress = "127.0.0.1:9"\ntls = false\n',
}
"""By extra: settings that need it."""


@pytest.mark.parametrize("extra", CASES)
def test_a_missing_package_is_found_by_every_check(
    extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config check` alone and with --connect: one line, with the command that installs it."""
    file = tmp_path / "hopscope.toml"
    file.write_text(f'data = "{tmp_path / "data"}"\nlisten = []\n{CASES[extra]}[serve]\nenabled = false\n')
    for place in ("hopscope.export.kinds.find_spec", "hopscope.cluster.connection.find_spec"):
        monkeypatch.setattr(place, lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    status, out, err = run("config", "check", file)
    assert (status, out) == (2, "")
    assert f"'hopscope[{extra}]'" in err
    status, out, _ = run("config", "check", file, "--connect")
    assert status == 1
    assert f"'hopscope[{extra}]'" in out
