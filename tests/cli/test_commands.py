"""The commands around the collector: their output, their exit status, their one line for a mistake."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from unittest.mock import Mock

import duckdb
import numpy as np
import pytest

from hopscope.capture.pcap.reader import PcapWriter
from hopscope.cli import application
from hopscope.cli.options.settings import SettingsOptions
from hopscope.detect.thresholds import CONTROL_FILE, create_control
from hopscope.memory.data_folder import DataFolder
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.settings.collector import Settings
from hopscope.settings.configuration.file import load
from hopscope.wire.dialect import DIALECTS
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import FrameBatch, ReportBatch
from support.processes import command
from support.processes.command import Run
from support.processes.small_disk import fill, small_disk

SMALL = ("--set", "detect.flow_rows=16", "--set", "detect.ports=64", "--set", "detect.sources=16")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `hopscope` with arguments: exit status, stdout, stderr."""
    monkeypatch.setenv("HOPSCOPE_CONFIG", str(tmp_path / "settings.toml"))
    (tmp_path / "settings.toml").write_text(f"data = {str(tmp_path / 'data')!r}\n")
    monkeypatch.setenv("COLUMNS", "200")
    return command.run


def frames() -> FrameBatch:
    """Twenty reports of one flow, the last one slow."""
    reports, hops = new_reports(20), new_hops(20, 0xB000)
    reports["time_ns"] = 1_700_000_000_000_000_000 + np.arange(20) * 10_000_000
    reports["source_lo"] = mapped_v4(np.full(20, 0xC0000201, np.uint32))
    reports["src_lo"] = mapped_v4(np.full(20, 0x0A000001, np.uint32))
    reports["int_version"], reports["instructions"] = 20, 0xB000
    reports["first_hop"], reports["hop_count"] = np.arange(20), 1
    reports["sequence"] = np.arange(20)
    hops["node_id"], hops["hop_latency"], hops["queue_occupancy"] = 7, 1000, 12
    hops["hop_latency"][-1] = 900_000
    return encode_reports(ReportBatch(reports, hops))


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of these frames."""
    path = tmp_path / "reports.pcap"
    with PcapWriter(path) as writer:
        writer.write(frames())
    return path


def test_version(run: Run) -> None:
    """One line, and with -v what it stands on."""
    assert re.fullmatch(r"hopscope \d+\.\d+\.\d+(\.dev\d+)?\n", run("version")[1])
    assert "numba " in run("version", "-v")[1]


def test_help_names_every_command(run: Run) -> None:
    """`--help` lists all commands; each has a help of its own with an explanation of its flags."""
    status, out, _ = run("--help")
    assert status == 0
    for name in application.COMMANDS:
        assert re.search(rf"\b{name}\b", out), name
        status, own, _ = run(name, "--help")
        assert status == 0, own
        assert "Usage: hopscope" in own


def test_help_groups_options(run: Run) -> None:
    """Shared options stand below the heading of their group; a default may be the command's own."""
    _, out, _ = run("query", "events", "--help")
    assert re.search(r"^Filters:\n  --since.*^Settings:\n  -c, --config", out, re.M | re.S)
    assert re.search(r"--load SHARE .*default: 0\.3\]", run("demo", "--help")[1])
    assert re.search(r"--load SHARE .*default: 0\.35\]", run("simulate", "--help")[1])


@pytest.mark.parametrize(
    "words", ["--help", "query events --help", "collect --bad", "version", "config show"]
)
def test_an_output_without_a_reader_is_no_error(words: str) -> None:
    """As of `hopscope --help | true`: nothing is printed, and the status is 0, or that of the command."""
    reader, writer = os.pipe()
    os.close(reader)
    program = "from hopscope.cli.application import run; run()"
    with os.fdopen(writer, "wb") as out:
        command = [sys.executable, "-c", program, *words.split()]
        env = {**os.environ, "PYTHONUNBUFFERED": ""}
        done = subprocess.run(command, env=env, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    bad = "--bad" in words
    assert (done.returncode, "No such option" in done.stderr) == (2 * bad, bad), done.stderr


@pytest.mark.parametrize("words", ["craft -", "query sql -", "users add ada --password-file -"])
def test_a_closed_input_is_one_line(tmp_path: Path, words: str) -> None:
    """As a service or `<&-` starts it: Python then has no standard input."""
    (tmp_path / "segments").mkdir()
    process = subprocess.run(
        ["sh", "-c", '"$0" -m hopscope "$@" <&-', sys.executable, *words.split()],
        env={**os.environ, "HOPSCOPE_DATA": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = process.returncode, process.stdout, process.stderr
    assert found == (2, "", "hopscope: standard input: cannot be read (is closed)\n")


@pytest.mark.parametrize(
    ("error", "stops"),
    [
        (MemoryError(), True),
        (RuntimeError("can't start new thread"), True),
        (duckdb.OutOfMemoryException("Out of Memory Error: Allocation failure"), True),
        (ImportError("numba.so: failed to map segment from shared object"), True),
        (RuntimeError("of the program"), False),
    ],
)
def test_too_little_memory_is_one_line(
    error: Exception, stops: bool, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under `ulimit -v` and `ulimit -u`; other errors are the program's, and keep their traceback."""
    monkeypatch.setattr(application, "build", Mock(side_effect=error))
    if not stops:
        with pytest.raises(RuntimeError, match="of the program"):
            application.run()
        return
    status, _, err = run("check")
    assert (status, err.count("\n")) == (2, 1)
    assert "`ulimit -a`" in err


def test_an_output_on_a_full_disk_is_one_line() -> None:
    """It is found when the output is flushed at the end, and only once."""
    env = {**os.environ, "PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-c", "from hopscope.cli.application import run; run()", "version"]
    with Path("/dev/full").open("wb") as out:
        done = subprocess.run(command, env=env, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "hopscope: No space left on device\n")


@pytest.mark.parametrize(
    "words",
    ["config init FILE", "dashboards --kind prometheus --to .", "dissector -o FILE", "simulate --names FILE"],
)
def test_a_file_on_a_full_disk_is_named(
    words: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is left of it."""
    with small_disk(tmp_path / "disk", "64k") as disk:
        monkeypatch.chdir(disk)
        fill(disk)
        status, _, err = run(*words.replace("FILE", "made").split())
        monkeypatch.chdir(tmp_path)
        left = [path for path in disk.rglob("*") if path.is_file()]
    assert status == 2
    assert re.fullmatch(r"hopscope: \S+: cannot be written \(No space left on device\)\n", err)
    assert [path.name for path in left] == ["ballast"]


def test_a_folder_that_was_deleted_is_named(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one in which a command runs, and by which paths are found."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    found = run("collect", "--data", "data")
    monkeypatch.chdir(tmp_path)
    assert found == (2, "", "hopscope: the current folder was deleted: change to another one\n")


@pytest.mark.parametrize(
    ("words", "status"),
    [("report-issue --seconds 0.1 --set listen=", 0), ("report-issue --bad", 2), ("decode missing.pcap", 2)],
)
def test_a_full_stderr_changes_no_status(tmp_path: Path, words: str, status: int) -> None:
    """What a command says there is lost; its work is done, and a mistake stays one."""
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "hopscope", *words.split()]
        env = {**os.environ, "HOPSCOPE_DATA": str(tmp_path / "data")}
        done = subprocess.run(command, cwd=tmp_path, env=env, stderr=full, check=False)
    assert done.returncode == status
    assert [path.suffix for path in tmp_path.glob("hopscope-report-*")] == [".gz"] * (not status)


@pytest.mark.parametrize(
    ("variable", "given"),
    [
        ("HOPSCOPE_CONFIG", True),
        ("HOPSCOPE_NAMES", True),
        ("HOPSCOPE_DIALECTS__MINE__INT_DSCP", True),
        ("HOPSCOPE_DEBUG", False),
    ],
)
def test_settings_of_the_environment_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, given: bool
) -> None:
    """Commands that work without settings, as `decode`, read those of variables, too."""
    for name in [name for name in os.environ if name.startswith("HOPSCOPE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert not SettingsOptions().given
    monkeypatch.setenv(variable, "1")
    assert SettingsOptions().given == given


@pytest.mark.parametrize("command", ["limits show", "users list", "plan cluster", "check", "doctor"])
def test_help_starts_without_numpy(command: str) -> None:
    """Help of commands that work with no columns imports neither NumPy nor what needs it."""
    program = (
        "import sys; from hopscope.cli.application import build\n"
        f"build()({[*command.split(), '--help']!r}, standalone_mode=False)\n"
        "print({'numpy', 'numba', 'duckdb'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"


def test_json_is_short_for_its_format(run: Run) -> None:
    """Wherever `--format` is, and not for commands without it."""
    plan = ["plan", "direct", "--flows", "1000"]
    assert run(*plan, "--json")[1] == run(*plan, "--format", "json")[1] != run(*plan)[1]
    assert "No such option: --json" in run("version", "--json")[2]


def test_usage_errors(run: Run) -> None:
    """An unknown command or flag is exit status 2, without a traceback."""
    for arguments in (["fly"], ["version", "--fly"], ["top", "--kind", "fly"], ["replay"]):
        status, _, err = run(*arguments)
        assert status == 2, arguments
        assert "Traceback" not in err
    assert (
        "'--format' / '-f': 'xml' is not one of 'json', 'table', 'csv'."
        in run("users", "list", "-f", "xml")[2]
    )


def test_good_settings_are_those_that_a_collector_starts_with(run: Run, tmp_path: Path) -> None:
    """An unknown kind of event in a filter, and processors that do not fit the workers, are what no model
    knows: `config check` finds them all the same.
    """
    file = tmp_path / "hopscope.toml"
    file.write_text('[export.pager]\nkind = "webhook"\nurl = "http://127.0.0.1:9"\nkinds = ["rased"]\n')
    status, out, err = run("config", "check", file)
    assert (status, out) == (2, "")
    assert err.startswith("hopscope: export.pager: kinds: found 'rased', expected one of new_key, ")
    file.write_text("processors = [0, 0]\n")
    for words in ((), ("--connect",)):
        status, out, err = run("config", "check", file, *words)
        assert (status, out, err) == (2, "", "hopscope: processors: found one twice, expected each once\n")


def test_a_wrong_store_is_found_before_a_start(run: Run, tmp_path: Path) -> None:
    """Its options depend on its primitive, so no model knows them: the message names the setting."""
    file = tmp_path / "hopscope.toml"
    file.write_text(
        '[[direct.stores]]\nname = "a"\nprimitive = "append"\n'
        '[[direct.stores]]\nname = "b"\nprimitive = "key-write"\noptions = {hops = 3}\n'
    )
    status, out, err = run("config", "check", file)
    assert (status, out) == (2, "")
    assert err.startswith("hopscope: direct.stores[1]: store b: unknown option hops; key-write has bytes, ")


def test_the_lake_is_that_of_the_settings(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whichever collectors run here: only their status needs one of them."""
    monkeypatch.setattr("hopscope.memory.running.running_folders", lambda: [Path("/a"), Path("/b")])
    empty = tmp_path / "empty.toml"
    empty.touch()
    for word in ("init", "check", "compact", "expire", "rebuild"):
        assert run("lake", word, "-c", empty)[2] == "hopscope: no lake: set lake.catalog and lake.data\n"
    assert "2 collectors run here: choose one with --data" in run("lake", "status", "-c", empty)[2]


def test_config_commands(run: Run, tmp_path: Path) -> None:
    """show prints TOML with origins, init a file that check accepts, dialects what each of them is."""
    status, out, _ = run("config", "show", "--set", "serve.token=0123456789abcdef")
    assert status == 0
    assert tomllib.loads(out)["serve"]["token"] == "(set)"
    assert "0123456789abcdef" not in out
    assert f"# {tmp_path / 'settings.toml'}" in out
    secret = tmp_path / "secret.toml"
    secret.write_text(
        '[export.a]\nkind = "redis_state"\nurl = "redis://me:sesame@h/0"\n'
        '[export.b]\nkind = "redis_state"\npassword = "sesame"\n'
        '[label]\nredis = "redis://me:sesame@h/1"\n'
        '[export.bus]\nkind = "nats"\nservers = ["nats://me:sesame@h:4222"]\ntoken = "sesame"\n'
        '[export.log]\nkind = "kafka"\n'
        'options = {sasl.username = "me", sasl.password = "sesame", ssl.key.pem = "sesame"}\n'
    )
    status, out, _ = run("config", "show", "--config", secret)
    assert status == 0
    urls = [(one["url"], one["password"]) for one in map(tomllib.loads(out)["export"].get, "ab")]
    assert urls == [("redis://***@h/0", ""), ("redis://127.0.0.1:6379/0", "(set)")]
    assert tomllib.loads(out)["export"]["bus"]["servers"] == ["nats://***@h:4222"]
    options = {"sasl.username": "me", "sasl.password": "(set)", "ssl.key.pem": "(set)"}
    assert tomllib.loads(out)["export"]["log"]["options"] == options
    assert "sesame" not in out
    written = tmp_path / "new" / "hopscope.toml"
    assert run("config", "init", written)[0] == 0
    assert run("config", "check", written)[:2] == (0, f"{written}: good\n")
    status, _, err = run("config", "init", written)
    assert (status, err) == (2, f"hopscope: {written} exists; --force overwrites it\n")
    written.write_text("[serve]\nprot = 1\nport = 'x'\n")
    status, _, err = run("config", "check", written)
    assert status == 2
    assert err.startswith(f"hopscope: {written}:2: serve.prot: no such setting")
    written.write_text(
        '[dialects.lab]\nbase = "bmv2"\nmarker = "aabb"\n\n[dialects.lab.clock]\nunit_ns = 8\n'
    )
    listed = run("config", "dialects", "--config", written)[1]
    for name, dialect in DIALECTS.items():
        assert re.search(rf"^{re.escape(name)} +{re.escape(dialect.about.split()[0])}", listed, re.M)
    assert re.search(r"^lab +Custom, based on bmv2\.$", listed, re.M)
    shown = tomllib.loads(run("config", "show", "--config", written)[1])
    assert shown["dialects"]["lab"]["marker"] == "aabb"
    assert shown["dialects"]["lab"]["clock"] == {"unit_ns": 8}


def test_what_config_show_prints_can_be_read(run: Run, tmp_path: Path) -> None:
    """It means the same settings: names with dots, tables without some values, texts that must be quoted."""
    written, again = tmp_path / "a.toml", tmp_path / "b.toml"
    written.write_text(
        "data = '/srv/d\u00e4ta \"1\" \\'\n"
        '[dialects."lab-0.5"]\nbase = "bmv2"\nclock.unit_ns = 8\n'
        '[[listen]]\ndialect = "lab-0.5"\n'
        '[[control.watch]]\nsource = "192.0.2.0/24"\n'
        "[[control.watch]]\nport = 1\nlast_port = 2\n"
        '[names_from.edge]\nkind = "gnmi"\nhosts = ["192.0.2.7"]\nnodes = {"192.0.2.7" = 7}\n'
    )
    again.write_text(run("config", "show", "--config", written)[1])
    assert load(again, environment={}).settings == load(written, environment={}).settings


def test_dashboards_of_prometheus_have_no_database(run: Run, tmp_path: Path) -> None:
    """An option that would do nothing is an error, and nothing is written."""
    status, _, err = run(
        "dashboards", "--kind", "prometheus", "--database", "x", "--to", tmp_path / "grafana"
    )
    assert status == 2
    assert err == "hopscope: --database: found with --kind prometheus, expected influxdb or clickhouse\n"
    assert not (tmp_path / "grafana").exists()


@pytest.mark.parametrize(
    "url", ["https://hooks.example/services/T0/B0/sesame", "https://me:sesame@h/x?k=sesame"]
)
def test_a_webhook_is_shown_without_its_secrets(run: Run, tmp_path: Path, url: str) -> None:
    """Neither its path, which is the key of some services, nor user, password and query."""
    path = tmp_path / "hooks.toml"
    path.write_text(f'[export.pager]\nkind = "webhook"\nurl = "{url}"\n')
    out = run("config", "show", "--config", str(path))[1]
    assert "sesame" not in out
    assert tomllib.loads(out)["export"]["pager"]["url"] in ("https://hooks.example/***", "https://***@h/***")


def test_check(run: Run, tmp_path: Path) -> None:
    """A table of the machine; something bad is exit status 1 and says what to do."""
    flags = ("--set", "serve.port=0", "--set", "listen=udp://127.0.0.1:0")
    status, out, _ = run("check", "--format", "json", *flags)
    findings = {row["what"]: row for row in map(json.loads, out.splitlines())}
    assert status == 0, out
    assert {"system", "processors", "net.core.rmem_max", "kernels of collector"} <= findings.keys()
    tcp = ("--set", "serve.port=0", "--set", "listen=ipfix+tcp://127.0.0.1:0")
    assert "rmem_max" not in run("check", *tcp)[1], "TCP has no such buffer"
    status, out, _ = run("check", *flags, "--data", "/proc/nowhere")
    assert status == 1
    assert "choose another folder with --data" in out


def test_check_of_a_disk_with_no_room_for_evidence(run: Run, tmp_path: Path) -> None:
    """There is room for the history that it may keep, but not for the reports. With room: no advice."""
    flags = ["--data", str(tmp_path / "disk"), "--set", "history.keep_bytes=1048576", "--set"]
    with small_disk(tmp_path / "disk", "4m"):
        full, free = (run("check", *flags, f"history.evidence_bytes={n}")[1] for n in (5 << 20, 1 << 20))
    assert "lower history.evidence_bytes" in " ".join(full.split())
    assert "evidence" not in free


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("postcards.links=missing.toml", "missing.toml (links between switches): No such"),
        (
            "export={lab={kind='parquet',kinds=['rased']}}",
            "export.lab: kinds: found 'rased', expected one of new_key, ",
        ),
        ("listen=[]", "set listen"),
        ("label.listen=127.0.0.1:{port}", "the port is in use by another program"),
    ],
)
def test_check_finds_what_keeps_a_collector_from_starting(run: Run, setting: str, said: str) -> None:
    """A file of links that is not there, an unknown kind, no listener at all, an address in use."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        setting = setting.replace("{port}", str(taken.getsockname()[1]))
        status, out, _ = run("check", "--format", "json", "--set", "serve.port=0", "--set", setting)
    assert status == 1
    bad = [row["advice"] for row in map(json.loads, out.splitlines()) if row["verdict"] == "bad"]
    assert said in [advice[: len(said)] for advice in bad]


@pytest.mark.kernel
def test_replay(run: Run, capture: Path, tmp_path: Path) -> None:
    """A summary of what was found, and with --data a history; a second run adds to it, and says so. What is
    logged after a crash is not between the lines of the output.
    """
    status, out, _ = run("replay", capture, *SMALL)
    assert status == 0
    assert "received   20 reports in 20 frames" in out
    assert "2 change" in out
    for times in (1, 2):
        status, _, err = run("replay", capture, "--data", tmp_path / "data", *SMALL)
        assert status == 0
        assert ("has a history already: events are added to it" in err) == (times == 2)
        status, out, err = run(
            "query", "events", "--kind", "change", "--format", "json", "--data", tmp_path / "data"
        )
        assert status == 0, err
        assert len(out.splitlines()) == 2 * times
    status, out, _ = run("replay", capture, "--format", "json", "--events", *SMALL)
    *events, summary = [json.loads(line) for line in out.splitlines()]
    assert summary["reports_total"] == 20
    assert [event["value"] for event in events if event["kind"] == "change"] == [900_000, 900_000]
    assert run("replay", capture, "--speed", "100", *SMALL)[0] == 0
    names = tmp_path / "names.csv"
    names.write_text("node_id,port,name\n7,,leaf-7\n")
    (tmp_path / "data" / "regions").symlink_to(tmp_path / "gone")  # as after a crash
    status, out, err = run(
        "replay", capture, "--format", "json", "--data", tmp_path / "data", "--names", names, *SMALL
    )
    assert status == 0
    assert json.loads(out)["reports_total"] == 20
    assert "ending the alarms of a collector that was killed" in err
    _, out, _ = run("query", "events", "--kind", "change", "--data", tmp_path / "data")
    assert "leaf-7" in out


@pytest.mark.kernel
def test_replay_of_bad_files(run: Run, capture: Path, tmp_path: Path) -> None:
    """A cut file is read up to the cut, status 1; a missing, empty or foreign one is status 2 and a line."""
    capture.write_bytes(capture.read_bytes()[:-5])
    status, out, err = run("replay", capture, *SMALL)
    assert status == 1
    assert "received   19 reports" in out
    assert "is cut in the middle of a record" in err
    (tmp_path / "empty.pcap").touch()
    for bad in (tmp_path / "missing.pcap", tmp_path / "empty.pcap", Path(__file__), tmp_path):
        status, _, err = run("replay", bad)
        assert status == 2
        assert len(err.splitlines()) == 1, err


@pytest.mark.parametrize("words", ["control topology", "control status", "limits show", "open", "top --once"])
def test_without_a_collector_a_command_says_what_to_do(run: Run, tmp_path: Path, words: str) -> None:
    """One line, the same everywhere, also for a data folder that is not there."""
    folder = tmp_path / "nowhere"
    status, out, err = run(*words.split(), "--data", folder)
    start = "`hopscope collect` starts one, --data names another folder"
    assert (status, out, err) == (2, "", f"hopscope: no collector is running on {folder}: {start}\n")


@pytest.mark.kernel
def test_top_shows_the_state(run: Run, tmp_path: Path) -> None:
    """One frame: counts, the slowest flow with its path, the fullest queue, the newest events; filters."""
    names = tmp_path / "names.csv"
    names.write_text("node_id,port,name\n7,,leaf-7\n")
    settings = Settings.model_validate({"detect": {"flow_rows": 16, "ports": 64, "sources": 16}})
    with DataFolder(tmp_path / "data") as folder:
        folder.write_owner(listen=["udp://127.0.0.1:1"], api=None)
        create_control(folder.regions / CONTROL_FILE, settings.limits)
        pipeline = pipeline_of(settings, Shard(settings.history, data=folder.path, regions=folder.regions))
        pipeline.step(frames())
        status, out, _ = run("top", "--once", "--all", "--names", names)
        assert status == 0
        for part in ("10.0.0.1:0 → 0.0.0.0:0 udp", "900 µs", "leaf-7", "queue 0", "change", "new_key"):
            assert part in out, out
        _, out, _ = run("top", "--once", "--node", "8", "--kind", "change")
        assert "900 µs" not in out
        _, out, _ = run("top", "--once", "--prefix", "192.0.2.0/24")
        assert "10.0.0.1" not in out
        status, _, err = run("top", "--once", "--node", "nowhere")
        assert (status, len(err.splitlines())) == (2, 1)
        pipeline.close()


@pytest.mark.kernel
def test_warmup(run: Run) -> None:
    """It compiles the parts that it is given, which `check` then finds."""
    status, out, _ = run("warmup", "files", "encoder")
    assert status == 0
    assert re.match(r"compiled: decoder, detector, files, datagrams, encoder; .* s; in ", out)
    _, out, _ = run("check", "--format", "csv")
    assert "good,kernels of files,compiled" in out
    status, _, err = run("warmup", "everything")
    assert status == 2
    assert "PARTS: found 'everything'" in err


@pytest.mark.parametrize("port", ["99999999", "-1", "65536"])
@pytest.mark.parametrize(
    "words", ["demo --http-port", "collect --http-port", "fabric up --http-port", "translate --port"]
)
def test_ports_that_cannot_be(run: Run, words: str, port: str) -> None:
    """A port beyond 16 bits is told with its flag, before anything starts."""
    status, out, err = run(*words.split(), port)
    assert (status, out) == (2, "")
    assert words.split()[-1] in err
    assert ": expected " in err


def test_no_links(run: Run, tmp_path: Path) -> None:
    """Without a collector's state there are no links, and stderr says so."""
    status, out, err = run("control", "topology", "--format", "json", "--data", tmp_path)
    assert (status, out, err) == (0, "", f"hopscope: no links are known in {tmp_path}\n")


def test_a_collector_without_switches_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty table alone would say nothing."""
    monkeypatch.setattr("hopscope.cli.control.request", lambda folder, request: {"switches": []})
    assert run("control", "status") == (0, "", "hopscope: no switches in the settings of this collector\n")
