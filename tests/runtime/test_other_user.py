"""`hopscope check` by a user who is not the collector's: what it cannot read may be there all the same."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.base.process.control_client import SOCKET_NAME
from hopscope.runtime.checks.environment import findings
from hopscope.runtime.checks.other_user import CREDENTIALS, may_have
from hopscope.settings.collector import Settings
from support.processes.small_disk import fill, small_disk
from support.processes.unprivileged import as_user, home_of_user

OTHER = 42_425
"""Another user that the machine does not know."""
SUDO = f"the collector may have it: `sudo -u '#{OTHER}' hopscope check` looks as its user"
ASK = """
import json, sys
from pathlib import Path
from hopscope.runtime.checks.other_user import may_have
print(json.dumps([may_have(secret, Path(data)) for secret, data in json.loads(sys.argv[1])]))
"""


def test_a_file_of_another_user_may_be_there_for_the_collector() -> None:
    """Who owns the data folder decides; without one, whether somebody but root can read the file. A file that
    is not there, or that the collector's own user cannot read, is missing.
    """
    with home_of_user() as home:
        for name, owner, group, mode in (
            ("roots", 0, 0, 0o600), ("theirs", OTHER, OTHER, 0o600), ("shared", 0, OTHER, 0o640),
        ):  # fmt: skip
            (home / name).write_text("sesame")
            (home / name).chmod(mode)
            os.chown(home / name, owner, group)
        for name, owner, mode in (
            ("data", home.stat().st_uid, 0o755),
            ("other", OTHER, 0o755),
            ("closed", OTHER, 0o700),
        ):
            (home / name).mkdir(mode=mode)
            os.chown(home / name, owner, owner)
        expected = {
            ("roots", "data"): "",
            ("roots", "none"): "",
            ("roots", "other"): SUDO,
            ("theirs", "none"): f"only '#{OTHER}' can read it: check as the user that runs the collector",
            ("theirs", "data"): "",
            ("shared", "none"): "only its group can read it: check as the user that runs the collector",
            (
                "closed/token",
                "none",
            ): f"only '#{OTHER}' can read it: check as the user that runs the collector",
            ("missing", "other"): "",
        }
        asked = [(f"file:{home / name}", str(home / data)) for name, data in expected]
        command = as_user([sys.executable, "-c", ASK, json.dumps(asked)], home)
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert dict(zip(expected, json.loads(done.stdout), strict=True)) == expected


def test_a_variable_may_be_there_for_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the data folder is the collector's user."""
    assert may_have("env:NOWHERE", tmp_path) == may_have("env:NOWHERE", tmp_path / "none") == ""
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    assert may_have("env:NOWHERE", tmp_path).startswith("its unit may set it: `systemctl show ")


def test_a_credential_is_there_for_its_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the service runs, nobody has the file: that is no fault, except for the service. The page is
    checked without it.
    """
    place = f"file:{CREDENTIALS}/hopscope-test.service/token"
    tree = {"data": tmp_path, "listen": [], "serve": {"host": "0.0.0.0", "port": 0, "token": place}}
    settings = Settings.model_validate(tree)

    def found() -> dict[str, tuple[str, str]]:
        return {each.what: (str(each.verdict), each.advice) for each in findings(settings)}

    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    verdict, advice = found()["serve.token"]
    assert (verdict, "LoadCredential=" in advice) == ("advice", True)
    assert found()["http://0.0.0.0:0"] == ("good", "")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials/hopscope-test.service")
    assert found()["serve.token"][0] == "bad"


def test_folders_that_are_closed_have_no_settings() -> None:
    """The current folder and HOME of who called `sudo -u hopscope` or `runuser` are often closed to that
    user: settings are not looked for there, and the data folder is a finding.
    """
    with home_of_user() as home:
        closed = home / "closed"
        closed.mkdir(mode=0o700)
        os.chown(closed, OTHER, OTHER)
        (closed / "hopscope.toml").write_text("no = 'setting'\n")
        command = ["env", f"HOME={closed}", f"XDG_DATA_HOME={closed}", sys.executable, "-m", "hopscope"]
        public = ("--set", "serve.host=0.0.0.0", "--set", "serve.port=0")
        words = as_user([*command, "check", *public, "--format", "json"], home)
        done = subprocess.run(words, cwd=closed, capture_output=True, text=True, check=False)
    rows = {row["what"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert (done.returncode, done.stderr) == (1, "")
    row = rows[f"data folder {closed}/hopscope"]
    assert (row["verdict"], row["found"]) == ("bad", "Permission denied")
    assert rows["http://0.0.0.0:0"]["advice"] == "check as the collector's user"


def test_the_collector_of_another_user_is_no_collector_that_does_not_run() -> None:
    """Its socket is closed to others: commands say whose it is."""
    with home_of_user() as home, socket.socket(socket.AF_UNIX) as listener:
        data = home / "theirs"
        data.mkdir(mode=0o755)
        listener.bind(str(data / SOCKET_NAME))
        (data / SOCKET_NAME).chmod(0o600)
        listener.listen()
        for who in (data / SOCKET_NAME, data):
            os.chown(who, OTHER, OTHER)
        command = [sys.executable, "-m", "hopscope"]
        said = f"hopscope: the collector on {data} answers its user ({OTHER}) and root: run this as such\n"
        for mode in (0o755, 0o744):
            data.chmod(mode)
            for words in ("limits show", "open", "top --once"):
                asked = as_user([*command, *words.split(), "--data", str(data)], home)
                done = subprocess.run(asked, cwd=home, capture_output=True, text=True, check=False)
                assert (done.returncode, done.stdout, done.stderr) == (2, "", said), (oct(mode), words)


def test_commands_that_may_not_open_a_data_folder_say_who_may() -> None:
    """The folder is closed, or a file in it is: the error names what is closed, and its owner."""
    with home_of_user() as home:
        data = home / "data"
        data.mkdir(mode=0o700)
        (data / "console.sqlite").touch(mode=0o600)
        for each in (data / "console.sqlite", data):
            os.chown(each, OTHER, OTHER)
        for words in ("query events", "query bursts", "query sql 'SELECT 1'", "direct list", "users list"):
            command = [sys.executable, "-m", "hopscope", *shlex.split(words), "--data", str(data)]
            done = subprocess.run(
                as_user(command, home), cwd=home, capture_output=True, text=True, check=False
            )
            error = done.stderr
            assert done.returncode == 2, error
            assert error.startswith(f"hopscope: {data}"), (words, error)
            said = f"; {data} belongs to '#{OTHER}': run the command by `sudo -u '#{OTHER}'`\n"
            assert error.endswith(said), (words, error)


def test_a_full_disk_is_found(tmp_path: Path) -> None:
    """Without room for a file, a new data folder cannot be used."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        settings = Settings.model_validate({"data": disk / "data", "listen": [], "serve": {"enabled": False}})
        found = {each.what: each.verdict for each in findings(settings)}
        assert found[f"data folder {disk}/data"] == "advice"
        fill(disk)
        found = {each.what: each.verdict for each in findings(settings)}
        assert found[f"data folder {disk}/data"] == "bad"


def test_doctor_of_a_folder_of_another_user() -> None:
    """It may not be read: the collector's user is named, however the folder is given."""
    with home_of_user() as home:
        (home / "data").mkdir(mode=0o700)
        os.chown(home / "data", OTHER, OTHER)
        command = [
            sys.executable,
            "-m",
            "hopscope",
            "doctor",
            "--format",
            "json",
            "--data",
            str(home / "data"),
        ]
        done = subprocess.run(as_user(command, home), capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout) == {
        "verdict": "bad",
        "what": "collector",
        "found": f"{home / 'data'}: Permission denied",
        "advice": f"run it as its user: `sudo -u '#{OTHER}' hopscope doctor --data {home / 'data'}`",
    }
