"""Settings: where they come from, which one wins, and what is said about a wrong one."""

from __future__ import annotations

import math
import os
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hopscope.settings.collector import Settings
from hopscope.settings.configuration import file as file_module
from hopscope.settings.configuration.errors import ConfigError
from hopscope.settings.configuration.file import load, parse_set, walk
from hopscope.settings.custom_dialect import PROTOCOLS, DialectSettings
from hopscope.settings.destinations.databases import PostgresSettings
from hopscope.settings.dialects import known
from hopscope.wire.dialect import DIALECTS, Dialect, Domain
from hopscope.wire.headers.tunnel import by_protocol
from hopscope.wire.rules import Next

REDIS = "[export.a]\nkind = 'redis_state'\n"


def test_defaults_need_nothing() -> None:
    """Without file, environment and flags there are settings that are safe: loopback only."""
    loaded = load(environment={})
    assert loaded.settings.listen[0].host == loaded.settings.serve.host == "127.0.0.1"
    assert loaded.origins == {}


def test_flags_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    """Each source wins over the ones behind it, and only for the keys that it sets."""
    file = tmp_path / "hopscope.toml"
    file.write_text("[serve]\nport = 1\nsql_rows = 1\n[detect]\nports = 16\n")
    environment = {"HOPSCOPE_SERVE__PORT": "2", "HOPSCOPE_SERVE__SQL_ROWS": "2", "PATH": "x"}
    loaded = load(file, [("--http-port", "serve.port", 3), ("--data", "data", None)], environment)
    serve = loaded.settings.serve
    assert (serve.port, serve.sql_rows, loaded.settings.detect.ports) == (3, 2, 16)
    assert loaded.settings.detect.sources == Settings().detect.sources
    assert loaded.origins == {
        "serve.port": "--http-port",
        "serve.sql_rows": "HOPSCOPE_SERVE__SQL_ROWS",
        "detect.ports": str(file),
    }


@pytest.mark.parametrize("name", ["DATA", "NAMES", "SERVE__CERT_FILE"])
def test_an_empty_variable_is_no_path(name: str) -> None:
    """It would be the current folder."""
    with pytest.raises(ConfigError, match=rf"^HOPSCOPE_{name}: [a-z_.]+: found '', expected a path$"):
        load(environment={f"HOPSCOPE_{name}": ""})


def test_the_environment_names_the_file(tmp_path: Path) -> None:
    """HOPSCOPE_CONFIG is read where no --config is given."""
    file = tmp_path / "hopscope.toml"
    file.write_text("[serve]\nport = 1\n")
    assert load(environment={"HOPSCOPE_CONFIG": str(file)}).settings.serve.port == 1


def test_one_limit_leaves_the_others_at_their_defaults(tmp_path: Path) -> None:
    """A table that sets one key of a metric does not clear the rest; `never` switches a limit off."""
    file = tmp_path / "hopscope.toml"
    file.write_text(
        "[detect.thresholds.hop_latency]\nraise_above = 9\n"
        "[detect.thresholds.flow_latency]\nchange = 'never'\n"
    )
    thresholds = load(file, environment={}).settings.detect.thresholds
    assert (thresholds.hop_latency.raise_above, thresholds.hop_latency.change) == (9, 20_000)
    assert thresholds.flow_latency.change is None


def test_listeners_are_addresses_or_tables(tmp_path: Path) -> None:
    """A listener is written as an address (file, environment, flag) or as a table."""
    file = tmp_path / "hopscope.toml"
    file.write_text('[[listen]]\nhost = "127.0.0.2"\nworkers = 2\n')
    assert load(file, environment={}).settings.listen[0].workers == 2
    environment = {"HOPSCOPE_LISTEN": "udp://127.0.0.1:1, udp://[::1]:2?workers=3"}
    listen = load(environment=environment).settings.listen
    assert [(one.host, one.port, one.workers) for one in listen] == [("127.0.0.1", 1, 1), ("::1", 2, 3)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[serve]\nport = 99999", "serve.port: found 99999, expected at most 65535"),
        ("[serve]\nport = 'x'", "serve.port: found 'x', expected a whole number"),
        ("[serve]\nprot = 1", "serve.prot: no such setting; did you mean serve.port?"),
        ("serv = 1", "serv: no such setting"),
        ("[serve]\nport = = 1", "hopscope.toml:2: Invalid value at column 8"),
        ("\n[serve]\nport = [1,\n", "hopscope.toml:3: Invalid value at the end of the file"),
        (
            "[export.a.options]\nx = 1",
            "hopscope.toml:1: export.a: found no kind, expected one of clickhouse, influxdb, ",
        ),
        ("[export.a]\nkind = ['nats']", "export.a: found kind ['nats'], expected one of clickhouse, "),
        (
            "[metrics.a.labels]\nx = 'y'",
            "hopscope.toml:1: metrics.a: found no kind, expected one of remote_write, ",
        ),
        ("detect.silent_seconds = 1e-7", "detect.silent_seconds: found 1e-07, expected at least 1e-06"),
        ("distributions.period_seconds = 0.01", "period_seconds: found 0.01, expected at least 0.1"),
        ("label.adaptive.k = 1e12", "label.adaptive.k: found 1000000000000.0, expected at most 100000.0"),
        ("label.adaptive.flag_life = 1e12", "flag_life: found 1000000000000.0, expected at most 100000.0"),
        ("label.labelling.interval = 1e9", "interval: found 1000000000.0, expected at most 10000.0"),
        (
            "[names_from.a]\nkind = 'gnmi'\nhosts = ['192.0.2.7']\ncounters_seconds = 0.5",
            "names_from.a.counters_seconds: found 0.5, expected 0 (never), or 1 to 86400",
        ),
        ("processors = [1, true]", "processors: found [1, True], expected a whole number"),
        ("[label.labelling]\nchance_table = [[true]]", "chance_table: found [[True]], expected a number"),
        ("[distributions]\nhop_latency = [true]", "hop_latency: found [True], expected a whole number"),
        (
            "workers = 2",
            "workers: no such setting; did you mean listen[].workers or direct.translator.workers?",
        ),
        ("[alerts]", "alerts: no such setting; `hopscope config show` lists them"),
        ("[serve]\nflow_rows = 1", "serve.flow_rows: no such setting; did you mean detect.flow_rows?"),
        ("[[listen]]\nflow_rows = 1", "listen[0].flow_rows: no such setting; did you mean detect.flow_rows?"),
        ("[switch]\nnode_id = 7", "switch: no such setting; a file with [switch] is for `hopscope switch`: "),
        ("serve = 1", "serve: found 1, expected a table"),
        ("data = ''", "data: found '', expected a path"),
        (
            "[direct.translator]\ntransport = 'rocev2'\ncollectors = ['192.0.2.1:1']",
            "found collector '192.0.2.1:1', expected",
        ),
        (
            "[direct.translator]\ncollectors = ['192.0.2.1']",
            'direct.translator: found collectors with transport = "memory", which writes to this machine',
        ),
        ("[names_from.a]\nkind = 'snmp'", "names_from.a.hosts: not set, expected a value"),
        ("[detect]\nflow_rows = 1000", "detect.flow_rows: found 1000, expected a power of two"),
        ("[serve.oidc]\nissuer = 'https://a.example'", "serve.oidc: found issuer without client_id"),
        ("[serve]\npublic_url = 'x'", "found 'x', expected an address that begins with http:// or https://"),
        ("[serve]\npublic_url = 'https://a.example/b'", "with http:// or https:// and has no path"),
        ("[export.a]\nkind = 'clickhouse'\nurl = 'http://a/?b=c'", "or https:// and has no query"),
        ("[export.a]\nkind = 'syslog'\nurl = 'udp://a'", "tcp:// or tls:// and ends with a port"),
        ("[lake]\ncatalog = 'postgres://a'", "postgresql:// and ends with the name of a database"),
        (
            "[cluster]\nnats = ['x']",
            "nats[0]: found 'x', expected an address that begins with nats:// or tls://",
        ),
        (
            "[export.a]\nkind = 'slack'\nurl = 'sesame'",
            "found 6 characters, expected an address that begins with http:// or https://, or env:NAME, or",
        ),
        (
            "[export.a]\nkind = 'ipfix'\nurl = 'x'",
            "expected an address that begins with udp://, tcp:// or tls://",
        ),
        ("[export.a]\nkind = 'kafka'\nbrokers = []", "brokers: found [], expected 1 or more items"),
        ("[cluster]\nname = 'a b'", "name: found 'a b', expected 1 to 32 letters, digits, _ and -, as in"),
        ("[serve]\ntoken = 'short'", "serve.token: found 5 characters, "),
        ("[[listen]]\nport = -1", "listen[0].port: found -1, expected at least 0"),
        ("[listen]\nport = 1", "listen: found one table, expected a list of them, as [[listen]] makes it"),
        ("[[listen]]\nprot = 1", "listen[0].prot: no such setting; did you mean port?"),
        (
            "[label.labelling]\nprotocol = 17",
            "label.labelling.protocol: found 17, expected at least 148",
        ),
        ("listen = ['tcp://127.0.0.1:1']", "listen: tcp://127.0.0.1:1: expected udp://HOST:PORT"),
        ("[export.a]\nkind = 'webhook'\nurl = 'ftp://x'", "export.a.url: found 'ftp://x', "),
        (
            "listen = ['mirror://eth1?output=eth1']",
            "found output 'eth1', the interface itself, expected another one",
        ),
        (
            "[distributions]\nhop_latency = [-1, 5]",
            "distributions.hop_latency[0]: found -1, expected at least 0",
        ),
        (
            REDIS + "url = 'http://u:sesame@h:1/0'",
            "export.a.url: found 'http://***@h:1/0', expected redis://",
        ),
        (
            REDIS + "url = 'redis://:sesame@h:x/0'",
            "export.a.url: found an invalid URL, expected redis://",
        ),
        (
            REDIS + "url = 'redis://:sesame@h/zero'",
            "found 'redis://***@h/zero', expected a database number",
        ),
        (
            REDIS + "url = 'redis://h?password=sesame'",
            "found 'redis://h' with a query, expected none",
        ),
        (
            REDIS + "password = ['sesame']",
            "export.a.password: found 10 characters, ",
        ),
        (
            REDIS + "url = 'redis://:12/sesame@h'",
            "export.a.url: found 'redis://***', ",
        ),
        (
            REDIS + "url = 'redis://:open/sesame@h'",
            "export.a.url: found an invalid URL, ",
        ),
        ("export = 'redis://:sesame@h'", "export: found 'redis://***@h', "),
        (
            "[detect.thresholds.hop_latency]\nclear_below = 1",
            "expected clear_below to be at most raise_above",
        ),
        ("[serve", "hopscope.toml:1: Expected ']' at the end of a table declaration at the end of the file"),
        ("detect.flow_rows = true", "detect.flow_rows: found True, expected a whole number"),
        ("pause_ms = true", "pause_ms: found True, expected a number"),
        ("serve.cert_file = ''", "serve.cert_file: found '', expected a path"),
        ("history.keep_free = -1", "history.keep_free: found -1, expected bytes, such as 1000000000"),
        ("history.keep_free = 1.5", "history.keep_free: found 1.5, expected bytes, such as 1000000000"),
        ("[[listen]]\nallow = ['x']", "listen[0].allow[0]: found 'x', expected a network"),
        (
            "[label.labelling]\nchance_table = [[0], [2]]",
            "label.labelling.chance_table[1][0]: found 2, expected at most 1",
        ),
        ("[label.labelling]\nchance_table = [[]]", "chance_table[0]: found [], expected 1 or more items"),
        ("label.allow = ['x']", "label.allow[0]: found 'x', expected a network"),
        ("direct.translator.allow = ['x']", "direct.translator.allow[0]: found 'x', expected a network"),
        ("direct.nic.allow = ['x']", "direct.nic.allow[0]: found 'x', expected a network"),
        ("[[listen]]\noutput = 'eth2'", "listen[0]: found output with kind udp, expected kind mirror"),
        (
            "[[listen]]\nring_bytes = 1048576",
            "listen[0]: found ring_bytes with kind udp, expected kind ring, xdp or mirror",
        ),
        (
            "[[listen]]\nkind = 'mirror'\ninterface = 'eth1'\nport = 7",
            "listen[0]: found port with kind mirror, expected kind udp, ring, xdp, sflow, ipfix or ipfix+tcp",
        ),
        (
            "[[listen]]\nkind = 'ring'\ninterface = 'eth1'\ngro = false",
            "listen[0]: found gro with kind ring, expected kind udp, sflow or ipfix",
        ),
        (
            "listen = ['udp://127.0.0.1:7', 'udp://127.0.0.2:7', 'sflow://127.0.0.1:7']",
            "listen: found listeners 0 and 2 at one address, expected two",
        ),
        (
            "[sink]\nenabled = true\n[[listen]]\nkind = 'mirror'\ninterface = 'eth1'\n[[listen]]\n",
            "listen: found kind udp in a sink, expected kind mirror",
        ),
        ("[export.'a.b']\nkind = 'parquet'", "export.a.b: found 'a.b', expected 1 to 63 of a-z,"),
        (
            "listen = ['udp://127.0.0.1:1?dialect=klingon']",
            "listen[0].dialect: unknown dialect 'klingon'; known are",
        ),
        (
            "[[listen]]\ndialect = 'geannt'",
            "listen[0].dialect: unknown dialect 'geannt'; did you mean geant?",
        ),
        ("[dialects.x]\nbase = 'klingon'", "dialects.x.base: unknown dialect 'klingon'"),
        (
            "[dialects.x]\nbase = 'y'\n[dialects.y]\nbase = 'x'",
            "dialects.x.base: found 'y', which is based on 'x'",
        ),
        ("[dialects.spec]\nswapped = true", "dialects.spec: found the name 'spec', expected another name"),
        ("[dialects.auto]", "dialects.auto: found the name 'auto', expected another name"),
        ("[dialects.'my one']", "found the name 'my one', expected another name"),
        ("[dialects.x]\nprots = [1]", "dialects.x.prots: no such setting; did you mean ports?"),
        ("[dialects.x]\nports = [70000]", "dialects.x.ports[0]: found 70000, expected at most 65535"),
        (
            "[dialects.x]\nint_dscp = ['zz']",
            "dialects.x.int_dscp[0]: found 'zz', expected a number, such as 23",
        ),
        (
            "[dialects.x]\nint_dscp = [64]",
            "dialects.x.int_dscp[0]: found 64, expected at most 63",
        ),
        ("[dialects.x]\nint_dscp_bit = 3", "dialects.x: found int_dscp_bit = 3, expected a power of two"),
        ("[dialects.x]\nifa_protocol = 17", "dialects.x.ifa_protocol: found 17, which is UDP, expected"),
        ("[dialects.x]\nmarker = 'xyz'", "dialects.x.marker: found 'xyz', expected 1 to 8 bytes"),
        (
            "[dialects.x]\ngeneve_classes = [1, 2, 3, 4, 5]",
            "dialects.x.geneve_classes: found [1, 2, 3, 4, 5], ",
        ),
        ("[dialects.x.clock]\nunit = 1", "dialects.x.clock.unit: no such setting"),
        ("[dialects.x]\nclock = 1", "dialects.x.clock: found 1, "),
        ("[dialects]\nx = 1", "dialects.x: found 1, "),
        (
            "[[dialects.x.domains]]\nid = 1\nfields = [{bit = 16, name = 'a', bytes = 4}]",
            "fields[0].bit: found 16",
        ),
    ],
)
def test_a_wrong_setting_is_told_in_a_line(tmp_path: Path, text: str, said: str) -> None:
    """The line has the file, the path of the key, what was found and what was expected."""
    file = tmp_path / "hopscope.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"^[^\n]+$") as caught:
        load(file, environment={})
    assert str(caught.value).startswith(str(file))
    assert said in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_every_mistake_has_a_line(tmp_path: Path) -> None:
    """Mistakes of every kind are reported at once, each with its origin."""
    file = tmp_path / "hopscope.toml"
    file.write_text(
        "listen = ['tcp://127.0.0.1:1']\n[serve]\nprot = 1\nsql_rows = 'many'\n[detect.thresholds]\nx = 1\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(file, [parse_set("serve.port=x")], {"HOPSCOPE_DETECT__PORTS": "y", "HOPSCOPE_DAT": "z"})
    assert {line.rsplit(": ", 1)[0] for line in str(caught.value).splitlines()} == {
        "--set serve.port",
        "HOPSCOPE_DAT: dat",
        "HOPSCOPE_DETECT__PORTS: detect.ports",
        f"{file}:6: detect.thresholds.x",
        f"{file}:1: listen: tcp://127.0.0.1:1",
        f"{file}:3: serve.prot",
        f"{file}:4: serve.sql_rows",
    }


@pytest.mark.parametrize(
    ("line", "key", "wrong"),
    [
        (1, "dat", "dat = 'x'"),
        (3, "serve.prot", "prot = 1"),
        (3, "serve.oidc.isuer", "oidc.isuer = 'x'"),
        (4, "listen[0]", "output = 'eth2'"),
        (6, "listen[0].port", 'port = "x"  # a = 1'),
        (9, "listen[1].prot", "  prot = 1"),
        (12, "export.a.b.url", "url = 'x'"),
        (14, "dialects.y.domains[0].fields[0].bit", "fields = [\n  {bit = 16, name = 'a', bytes = 4},\n]"),
        (12, "names_from.c.hosts", "[names_from.'c']\nkind = 'gnmi'"),
    ],
)
def test_an_error_has_the_line_of_the_setting(tmp_path: Path, line: int, key: str, wrong: str) -> None:
    """Also in items of lists, tables with quoted names and lists of several lines; else that of its table."""
    lines = [
        "", "[serve]", "", '[["listen"]]  # one = 1', "", "", "[[listen]]", "", "",
        "[export.'a.b']", "kind = 'webhook'", "", "[[dialects.y.domains]]", "",
    ]  # fmt: skip
    at = 5 if key == "listen[0]" else line
    lines[at - 1] = wrong
    if not key.startswith("export"):
        lines[9:11] = ["", ""]
    file = tmp_path / "hopscope.toml"
    file.write_text("\r\n".join(lines))
    with pytest.raises(ConfigError) as caught:
        load(file, environment={})
    assert f"{file}:{line}: {key}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('names = """\n[serve]\nprot = 1\n"""\n\n[serve]\nprot = 2\n', "7: serve.prot"),
        (
            "[label.labelling]\nchance_table = [\n  [0.5],\n  [1]\n]\n\nchance_tabel = 1\n",
            "7: label.labelling.chance_tabel",
        ),
    ],
)
def test_what_is_in_a_value_is_no_setting(tmp_path: Path, text: str, found: str) -> None:
    """A text or list of several lines may have lines that look like a table or a key."""
    file = tmp_path / "hopscope.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, environment={})
    assert f"{file}:{found}: no such setting" in str(caught.value)


@pytest.mark.parametrize(("host", "shown"), [("::1", "[::1]"), ("192.0.2.7", "192.0.2.7"), ("db", "db")])
def test_where_a_database_is_can_be_read_with_any_address(host: str, shown: str) -> None:
    """An IPv6 address has brackets before its port, as in the URL of every other destination."""
    settings = PostgresSettings(kind="postgres", host=host)
    assert settings.place == f"postgresql://{shown}:5432/hopscope"


def test_the_last_one_to_set_a_value_is_blamed(tmp_path: Path) -> None:
    """A variable that overrides the file, or adds to a section of it, is named; not the file."""
    file = tmp_path / "hopscope.toml"
    for text in ("[serve]\nport = 1\n", "[serve]\n", ""):
        file.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load(file, environment={"HOPSCOPE_SERVE__PORT": "abc"})
        assert str(caught.value) == "HOPSCOPE_SERVE__PORT: serve.port: found 'abc', expected a whole number"


@pytest.mark.parametrize("name", ["HOPSCOPE_SERVE__PROT", "HOPSCOPE_DAT", "HOPSCOPE_A__B__C"])
def test_an_unknown_variable_is_an_error(name: str) -> None:
    """A mistyped variable does not pass silently."""
    with pytest.raises(ConfigError, match=f"^{name}: .*: no such setting"):
        load(environment={name: "1"})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("HOPSCOPE_SERVE__PROT", "HOPSCOPE_SERVE__PORT"),
        ("HOPSCOPE_SERVE_PORT", "HOPSCOPE_SERVE__PORT"),
        ("HOPSCOPE_QUOTA", "HOPSCOPE_SINK__QUOTA"),
        ("HOPSCOPE_WORKERS", "HOPSCOPE_LISTEN or HOPSCOPE_DIRECT__TRANSLATOR__WORKERS"),
        ("HOPSCOPE_EXPORT__LAB__SAMPEL", "HOPSCOPE_EXPORT__LAB__SAMPLE"),
    ],
)
def test_the_hint_for_a_variable_is_a_variable(name: str, hint: str) -> None:
    """What is meant can be copied into the environment; of a list, it is the variable that sets all of it."""
    lab = {"HOPSCOPE_EXPORT__LAB__KIND": "nats", "HOPSCOPE_EXPORT__LAB__SERVERS": "nats://192.0.2.8:4222"}
    with pytest.raises(ConfigError) as caught:
        load(environment=lab | {name: "1"})
    assert str(caught.value).endswith(f": no such setting; did you mean {hint}?")


def test_a_variable_names_what_shells_cannot(tmp_path: Path) -> None:
    """`-` in a name of the file; a name that is written in the same way is meant first, and errors name what
    was set.
    """
    file = tmp_path / "a.toml"
    hook = 'kind = "webhook"\nurl = "http://192.0.2.8/"\n'
    file.write_text("".join(f"[export.{name}]\n{hook}" for name in ("on-call", "a-b", "a_b")))
    one = {"HOPSCOPE_EXPORT__ON_CALL__TIMEOUT_SECONDS": "3"}
    export = load(file, environment=one | {"HOPSCOPE_EXPORT__A_B__TIMEOUT_SECONDS": "4"}).settings.export
    assert {name: each.timeout_seconds for name, each in export.items()} == {
        "on-call": 3.0, "a-b": 10.0, "a_b": 4.0,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"^HOPSCOPE_EXPORT__ON_CALL__TIMEOUT_SECONDS: export\.on-call\."):
        load(file, environment={"HOPSCOPE_EXPORT__ON_CALL__TIMEOUT_SECONDS": "x"})
    with pytest.raises(ConfigError, match="did you mean HOPSCOPE_EXPORT__ON_CALL__TIMEOUT_SECONDS"):
        load(file, environment={"HOPSCOPE_EXPORT__ON_CALL__TIMEOUT_SECOND": "3"})


@pytest.mark.parametrize("source", ["file", "variable", "flag"])
def test_a_variable_with_a_secret_is_no_setting(tmp_path: Path, source: str) -> None:
    """The guide's `env:HOPSCOPE_DB_PASSWORD`, wherever it is given; another variable is still an error."""
    file, named = tmp_path / "a.toml", "env:HOPSCOPE_DB_PASSWORD"
    file.write_text(f'[serve]\ntoken = "{named}"\n' if source == "file" else "")
    flags = [parse_set(f"serve.token={named}")] if source == "flag" else []
    environment = {"HOPSCOPE_DB_PASSWORD": "sesame", "HOPSCOPE_DATABASE_PASSWORD": "sesame"}
    if source == "variable":
        environment["HOPSCOPE_SERVE__TOKEN"] = named
    assert load(file, flags, environment).settings.serve.token == named
    with pytest.raises(ConfigError, match=r"^HOPSCOPE_DB_PASSWORT: db_passwort: no such setting"):
        load(file, flags, environment | {"HOPSCOPE_DB_PASSWORT": "sesame"})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A file that is named must be there and be text."""
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "missing.toml", environment={})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"binary\.toml"):
        load(tmp_path / "binary.toml", environment={})


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    """Editors of other systems begin a file with U+FEFF."""
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf[serve]\r\nport = 81\r\n")
    assert load(tmp_path / "a.toml", environment={}).settings.serve.port == 81


def test_what_config_init_writes_can_be_read() -> None:
    """The template is TOML as it is and with every line switched on, and then means the defaults."""
    from hopscope.cli.config import _template

    lines = list(_template())
    assert tomllib.loads("\n".join(lines)) is not None
    settings = {key.rpartition(".")[2] for key, _ in walk(Settings)}
    on = []
    for line in "\n".join(lines).splitlines():
        name = line.removeprefix("# ").partition(" = ")[0]
        on.append(line.removeprefix("# ") if " = " in line and name in settings else line)
    tree = tomllib.loads("\n".join(on))
    for thresholds in tree["detect"]["thresholds"].values():
        thresholds.update({key: None for key, value in thresholds.items() if value == "never"})
    assert Settings.model_validate(tree) == Settings()


@pytest.mark.parametrize(
    "override",
    [
        {"detect": {"thresholds": {"hop_latency": {"change": 2**64}}}},
        {"detect": {"thresholds": {"hop_latency": {"raise_above": -1}}}},
        {"detect": {"push_seconds": math.inf}},
        {"detect": {"idle_seconds": 1e300}},
        {"detect": {"flow_rows": 2**62}},
        {"history": {"ring_events": 2**62}},
        {"history": {"keep_days": math.nan}},
    ],
)
def test_numbers_without_measure_are_refused(override: dict[str, Any]) -> None:
    """A number that no table or 64-bit word could hold is wrong at the start, not a crash later."""
    with pytest.raises(ValidationError):
        Settings.model_validate(override)


def test_limits_may_be_never() -> None:
    """`never` and null both switch a limit off."""
    for never in ("never", None):
        limits = Settings.model_validate({"detect": {"thresholds": {"hop_latency": {"change": never}}}})
        assert limits.detect.thresholds.hop_latency.change is None


OWN_DIALECTS = """
[dialects.mine]
base = "bmv2"
ports = [1234, 0x1000]
int_dscp = ["0x17"]
marker = "0xaabb"

[dialects.mine.clock]
unit_ns = 8

[[dialects.mine.domains]]
id = 0x1234
fields = [{ bit = 1, name = "fan", bytes = 4 }, { bit = 0, name = "temperature", bytes = 2 }]

[dialects.other]
base = "mine"
about = "As mine, on port 7."

[[listen]]
dialect = "other"
"""


def test_dialects_of_ones_own(tmp_path: Path) -> None:
    """A table of dialects changes what it names in its base, which may be one of one's own too."""
    file = tmp_path / "hopscope.toml"
    file.write_text(OWN_DIALECTS)
    settings = load(file, [parse_set("dialects.other.int_ports=7, 0x10")], {}).settings
    dialects = known(settings.dialects)
    bmv2, other = DIALECTS["bmv2"], dialects["other"]
    assert other == replace(
        bmv2,
        name="other",
        about="As mine, on port 7.",
        ports=(1234, 0x1000),
        int_ports=(7, 16),
        marker=b"\xaa\xbb",
        clock=replace(bmv2.clock, unit_ns=8),
        domains=(Domain(0x1234, ((0, "temperature", 2), (1, "fan", 4))),),
    )
    assert settings.listen[0].dialect == "other"
    assert {name: dialects[name] for name in DIALECTS} == DIALECTS
    assert Settings.model_validate(settings.model_dump(mode="json")) == settings


def test_every_field_of_a_dialect_of_ones_own_exists() -> None:
    """What the table of a dialect offers is a field of the decoder's dialect, under the same name."""
    own = set(DialectSettings.model_fields) - {"base"}
    assert own <= {field.name for field in fields(Dialect)}


def test_a_file_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hopscope.toml` is read if no file is named, before the user's own; another user's file is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(file_module, "default_file", lambda: tmp_path / "user.toml")
    (tmp_path / "user.toml").write_text("workers_missing = 1\n")
    local = tmp_path / "hopscope.toml"
    local.write_text('data = "here"\n')
    loaded = load(environment={})
    assert (loaded.settings.data, loaded.file) == (Path("here"), Path("hopscope.toml"))
    other = tmp_path / "other.toml"
    other.write_text('data = "there"\n')
    assert load(environment={"HOPSCOPE_CONFIG": str(other)}).settings.data == Path("there")
    assert load(other, environment={}).settings.data == Path("there")
    if os.geteuid() == 0:
        os.chown(local, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: local.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        load(environment={})


def test_protocols_in_use_are_those_of_the_decoder() -> None:
    """No other IP protocol leads anywhere."""
    assert set(PROTOCOLS) == {each for each in range(256) if by_protocol(each) != Next.NOTHING}
