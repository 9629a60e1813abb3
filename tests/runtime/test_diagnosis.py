"""`hopscope report-issue`: one file with what a report of a problem needs, and no secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from hopscope.runtime.checks.diagnosis import LOG_BYTES
from support.processes.command import run
from support.waiting import eventually

SECRET = "open-sesame"
SETTINGS = f"""
listen = []
[serve]
enabled = false
token = "{SECRET}-of-the-page"
[direct.query]
token = "{SECRET}-of-others"
[label]
redis = "redis://me:{SECRET}-1@127.0.0.1/0"
[export.state]
kind = "redis_state"
url = "redis://me:{SECRET}-2@127.0.0.1/0"
[export.second]
kind = "redis_state"
password = "{SECRET}-3"
[export.hook]
kind = "webhook"
url = "https://hooks.example/services/{SECRET}-4?key={SECRET}-5"
[export.lab]
kind = "influxdb"
password = "{SECRET}-6"
token = "file:SECRETS/token"
[export.other]
kind = "influxdb"
token = "env:OTHER_PLACE"
"""
FILES = {
    "about.txt", "versions.json", "settings.toml", "environment.json", "machine.json", "collector.json",
    "counters.json", "log.txt",
}  # fmt: skip


def contents(path: Path) -> dict[str, str]:
    """Texts of a bundle by name."""
    found = {}
    with tarfile.open(path) as bundle:
        for member in bundle.getmembers():
            assert member.name.split("/")[0].startswith("hopscope-report-")
            file = bundle.extractfile(member)
            assert file is not None
            found[member.name.split("/")[1]] = file.read().decode()
    return found


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, files, variables and a log that are full of secrets."""
    (tmp_path / "token").write_text(f"{SECRET}-7\n")
    file = tmp_path / "hopscope.toml"
    file.write_text(f'data = "{tmp_path / "data"}"\n' + SETTINGS.replace("SECRETS", str(tmp_path)))
    for name, secret in (
        ("OTHER_PLACE", "8"),
        ("HOPSCOPE_SERVE__TOKEN", "of-the-page-2"),
        ("DB_PASSWORD", "9"),
    ):
        monkeypatch.setenv(name, f"{SECRET}-{secret}")
    data = tmp_path / "data"
    data.mkdir()
    (data / "token").write_text(f"{SECRET}-of-this-folder\n")
    (data / "hash.secret").write_text(f"{SECRET}-of-hashes\n")
    known = [*map(str, range(1, 10)), "of-the-page-2", "of-others", "of-this-folder", "of-hashes"]
    lines = [json.dumps({"event": "delivery failed", "reason": f"<{SECRET}-{each}>"}) for each in known]
    lines.append(json.dumps({"event": "from a library", "text": f"GET ?token={SECRET}-unknown HTTP/1.1"}))
    (tmp_path / "log").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_no_secret_is_in_the_bundle(planted: Path) -> None:
    """Not in settings, variables, log, nor in the names of files; the rest is there."""
    bundle = planted / "bundle.tar.gz"
    words = ["report-issue", "--config", planted / "hopscope.toml", "--output", bundle, "--seconds", "0.1"]
    status, out, err = run(
        *words, "--log", planted / "log", "--set", f"export.third={{kind='influxdb',token='{SECRET}-x'}}"
    )
    assert status == 0, err
    assert bundle.stat().st_mode & 0o777 == 0o600
    found = contents(bundle)
    assert found.keys() == FILES
    for name, text in {**found, "printed": out + err}.items():
        assert SECRET not in text, f"{name}: {text[max(0, text.index(SECRET) - 200) :][:400]}"
    assert found["log.txt"].count("delivery failed") == 13
    assert 'token = "env:OTHER_PLACE"' in found["settings.toml"]
    assert json.loads(found["environment.json"])["values"]["HOPSCOPE_SERVE__TOKEN"] == "(set)"
    assert json.loads(found["versions.json"])["packages"]["numpy"]
    status, _, err = run(*words)
    assert (status, err) == (2, f"hopscope: {bundle} exists; choose another with --output\n")


def test_wrong_settings_are_in_the_bundle_as_errors(planted: Path) -> None:
    """What cannot be read may be the problem: the bundle is made, and has the lines of the errors."""
    file, bundle = planted / "hopscope.toml", planted / "bundle.tar.gz"
    file.write_text(file.read_text() + "[detect]\nflow_rows = 3\n")
    status, _, err = run(
        "report-issue", "--config", file, "--output", bundle, "--log", planted / "log",
        "--set", f"data={planted / 'data'}", "--events", "5", "--seconds", "0.1",
    )  # fmt: skip
    assert status == 0, err
    found = contents(bundle)
    assert found.keys() == FILES | {"events.jsonl"}
    assert "detect.flow_rows: found 3, expected a power of two" in found["settings.toml"]
    for name, text in found.items():
        for number in range(1, 10):
            assert f"{SECRET}-{number}" not in text, name


def test_the_end_of_a_long_log_is_taken(tmp_path: Path) -> None:
    """Whole lines, at most so many bytes."""
    log, bundle = tmp_path / "log", tmp_path / "bundle.tar.gz"
    log.write_text("".join(f"{number:08} {'x' * 4000}\n" for number in range(200)))
    status, _, err = run(
        "report-issue", "--output", bundle, "--log", log, "--seconds", "0.1",
        "--set", f"data={tmp_path}", "--set", "listen=[]",
    )  # fmt: skip
    assert status == 0, err
    lines = contents(bundle)["log.txt"].splitlines()
    assert lines[-1].startswith("00000199 ")
    assert all(len(line) == 4009 for line in lines)
    assert LOG_BYTES - 8000 < sum(len(line) + 1 for line in lines) <= LOG_BYTES


def test_the_file_is_named_by_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the time zone of the machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # 14 hours ahead
    time.tzset()
    try:
        before = time.gmtime()
        status, _, err = run(
            "report-issue", "--seconds", "0.1", "--set", f"data={tmp_path}", "--set", "listen=[]"
        )
        after = time.gmtime()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert status == 0, err
    (path,) = tmp_path.glob("*.tar.gz")
    first, last = (time.strftime("hopscope-report-%Y%m%d-%H%M%S.tar.gz", each) for each in (before, after))
    assert first <= path.name <= last


SLEEP = """
import sys, time
from hopscope.cli.options.settings import SettingsOptions
SettingsOptions(overrides=sys.argv[1:]).load()
print("read", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_a_secret_of_the_command_line_is_overwritten(tmp_path: Path) -> None:
    """Every user can read /proc/PID/cmdline; what is no secret stays."""
    words = [
        f"serve.token={SECRET}-of-the-page",
        f"label.redis=redis://me:{SECRET}@127.0.0.1/0",
        "serve.port=0",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEP, *words], stdout=subprocess.PIPE, cwd=tmp_path, env=os.environ, text=True
    )
    try:
        assert process.stdout is not None
        assert eventually(process.stdout.readline) == "read\n"
        shown = Path(f"/proc/{process.pid}/cmdline").read_text()
        assert SECRET not in shown
        assert "serve.token=***" in shown
        assert "serve.port=0" in shown
    finally:
        process.kill()
        process.communicate()
