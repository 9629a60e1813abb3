"""Secrets: read from variables and files, shown nowhere."""

from __future__ import annotations

import json
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hopscope.runtime.checks.environment import findings
from hopscope.serve.access.tokens import token_of
from hopscope.serve.server import bind
from hopscope.settings.collector import Settings
from hopscope.settings.configuration.errors import ConfigError
from hopscope.settings.configuration.file import load
from hopscope.settings.configuration.secrets import Scrubber, secrets_of, shown_tree, unreadable
from hopscope.settings.destinations.common import ExportSettings
from hopscope.settings.destinations.shown import WEBHOOKS, shown
from hopscope.settings.section import is_secret
from hopscope.settings.serve import ServeSettings

from .test_every_setting import DECLARED, nested, set_kind

TOKEN = "sixteen-characters"
ENABLING: dict[str, dict[str, Any]] = {
    "cluster": {"nats": ["nats://127.0.0.1:4222"]},
    "lake": {"catalog": "postgresql://hopscope@192.0.2.8/lake", "data": "s3://telemetry/hopscope"},
    "serve.oidc": {"issuer": "https://login.example", "client_id": "hopscope"},
}
"""What enables a section whose secrets are not read otherwise."""


def test_a_token_comes_from_a_variable_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read when it is needed; the settings have its place only."""
    monkeypatch.setenv("PAGE_TOKEN", TOKEN)
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    for place in ("env:PAGE_TOKEN", f"file:{file}"):
        settings = Settings(serve=ServeSettings(host="0.0.0.0", port=0, token=place))
        assert token_of("serve.token", settings.serve.token) == TOKEN
        bind(settings.serve, tmp_path).close()
        assert shown_tree(settings)["serve"]["token"] == place


def test_a_token_that_is_missing_or_short_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start fails with one line, in which the secret is not."""
    monkeypatch.delenv("PAGE_TOKEN", raising=False)
    (tmp_path / "short").write_text("sesame\n")
    for place, expected in (
        ("env:PAGE_TOKEN", "there is no environment variable PAGE_TOKEN"),
        (f"file:{tmp_path}/none", "No such file"),
        (f"file:{tmp_path}/short", "found 6 characters, expected 16 or more"),
    ):
        with pytest.raises(ConfigError, match=f"serve.token: .*{expected}") as caught:
            bind(ServeSettings(token=place), tmp_path)
        assert "sesame" not in str(caught.value)


def test_a_wrong_secret_is_not_repeated(tmp_path: Path) -> None:
    """Errors in a file have the length of a secret, and nothing of a webhook's address."""
    file = tmp_path / "hopscope.toml"
    file.write_text(
        '[serve]\ntoken = "sesame"\n[export.hook]\nkind = "webhook"\nurl = "hooks.example/services/sesame"\n'
        '[export.state]\nkind = "redis_state"\nurl = "redis://me:sesame@h:x/0"\n'
    )
    with pytest.raises(ConfigError) as caught:
        load(file, environment={})
    assert "sesame" not in str(caught.value)
    assert "serve.token: found 6 characters, expected 16 or more" in str(caught.value)


def test_no_secret_of_any_section_is_shown() -> None:
    """Whichever section and kind of destination declares it, and passwords in URLs."""
    secret = "sesame-open-sesame"
    planted = []
    for key, kind, _ in DECLARED:
        name = key.rpartition(".")[2]
        url = f"redis://me:{secret}@h:1/0" if "redis" in key else f"http://me:{secret}@h:1"
        value: Any = {"url": url, "servers": [f"nats://me:{secret}@h:1"]}.get(name)
        if is_secret(key):
            value = secret
        if name == "headers":
            value = {"X-Api-Key": secret}
        if value is None:
            continue
        tree = nested(key, value)
        set_kind(tree, kind)
        try:
            settings = Settings.model_validate(tree)
        except ValidationError:  # a kind whose URL has no place for a password
            assert name == "url"
            continue
        planted.append(key)
        assert secret in settings.model_dump_json(), key
        assert secret not in json.dumps(shown_tree(settings), default=str), key
        assert Scrubber(secrets_of(settings, {}))(f"<{secret}>") == "<***>", key
    assert len(planted) > 10


def test_every_secret_whose_place_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever section and kind of destination declares it: its key, and what is wrong with its place."""
    monkeypatch.delenv("NOWHERE", raising=False)
    monkeypatch.setenv("SOMEWHERE", "sesame-open-sesame")
    found = []
    for key, kind, _ in DECLARED:
        name = key.rpartition(".")[2]
        named = (
            {"headers": "X-Api-Key", "options": "ssl.keystore.location"}.get(name)
            if key.startswith("export")
            else None
        )
        if not is_secret(key) and not named and not (name == "url" and kind in WEBHOOKS):
            continue

        def reasons(place: str, key: str = key, kind: str = kind, named: str | None = named) -> Any:
            tree = nested(key, {named: place} if named else place)
            set_kind(tree, kind)
            if (section := key.rpartition(".")[0]) in ENABLING:
                reduce(getitem, section.split("."), tree).update(ENABLING[section])
            return list(unreadable(Settings.model_validate(tree)))

        place = key.replace("NAME", "mine") + (f".{named}" if named else "")
        assert reasons("env:NOWHERE") == [
            (place, "env:NOWHERE", "there is no environment variable NOWHERE")
        ], key
        file = f"file:{tmp_path}/none"
        assert reasons(file) == [(place, file, f"{file}: No such file or directory")], key
        assert reasons("env:SOMEWHERE") == [], key
        found.append(key)
    assert len(found) > 20


@pytest.mark.parametrize("section", [*ENABLING, "serve"])
def test_secrets_of_a_disabled_section_are_not_missed(section: str) -> None:
    """What nobody reads may be anywhere."""
    more = {"enabled": False} if section == "serve" else {}
    off = [key for key, *_ in DECLARED if key.rpartition(".")[0] == section and is_secret(key)]
    assert off
    for key in off:
        tree = nested(key, "env:NOWHERE")
        reduce(getitem, section.split("."), tree).update(more)
        assert list(unreadable(Settings.model_validate(tree))) == [], key


def test_check_says_which_secret_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hopscope check`, of destinations too: a collector starts, but they get nothing."""
    monkeypatch.delenv("NOWHERE", raising=False)
    file = tmp_path / "hopscope.toml"
    file.write_text(
        '[export.base]\nkind = "postgres"\npassword = "env:NOWHERE"\n'
        f'[export.hook]\nkind = "webhook"\nurl = "file:{tmp_path}/none"\n'
    )
    found = {each.what: each for each in findings(load(file, environment={}).settings)}
    reason = "there is no environment variable NOWHERE"
    assert (found["export.base.password"].verdict, found["export.base.password"].found) == ("bad", reason)
    assert found["export.hook.url"].verdict == "bad"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me@h:5432/lake", "postgresql://me@h:5432/lake"),
        ("postgres://me:sesame@h/lake", "postgres://me:***@h/lake"),
        ("postgresql://me:se:sa@me@[::1]/lake", "postgresql://me:***@[::1]/lake"),
        ("postgresql://me:ses/ame@h/lake", "postgresql://***"),
        ("postgresql://h/lake", "postgresql://h/lake"),
        ("nats://sesame@h:4222", "nats://***@h:4222"),
        ("https://me:sesame@h/x?key=sesame", "https://***@h/x"),
    ],
)
def test_what_a_url_shows(url: str, expected: str) -> None:
    """The user of a database is a name; that of another server may be a token."""
    assert shown(url) == expected


def test_known_secrets_and_what_looks_like_one_leave_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is around them; other text stays."""
    monkeypatch.setenv("STORE_PASSWORD", "open-sesame")
    monkeypatch.setenv("WHERE", "hidden")
    settings = Settings.model_validate(
        {
            "serve": {"token": TOKEN},
            "export": {
                "state": {"kind": "redis_state", "url": "redis://me:p%40ss@h/0", "password": "env:WHERE"},
                "hook": {"kind": "slack", "url": "https://hooks.example/services/T0/B1?key=q7Q7"},
            },
        }
    )
    scrub = Scrubber(secrets_of(settings, {"STORE_PASSWORD": "open-sesame"}))
    secrets = [TOKEN, "p%40ss", "p@ss", "services/T0/B1", "key=q7Q7", "open-sesame", "hidden"]
    text = " ".join(f"<{secret}>" for secret in secrets)
    assert scrub(text) == " ".join("<***>" for _ in secrets)
    for given, expected in (
        ("password=abc, host=h", "password=***, host=h"),
        ('"token": "abc"', '"token": "***"'),
        ("Authorization: Bearer abc", "Authorization: Bearer ***"),
        ("amqp://me:abc@h/x", "amqp://***@h/x"),
        ("token = \"(set)\"", "token = \"(set)\""),
        ("10 reports per second from 192.0.2.7", "10 reports per second from 192.0.2.7"),
    ):  # fmt: skip
        assert scrub(given) == expected


def test_a_cluster_and_a_lake_show_no_secret(tmp_path: Path) -> None:
    """From a file, a variable and a flag, in URLs too: `config show` has none, and reports lose them."""
    file = tmp_path / "hopscope.toml"
    file.write_text(
        '[cluster]\nnats = ["nats://u:sesame-1@127.0.0.1:4222"]\n'
        '[lake]\ndata = "s3://bucket"\nsecret = "sesame-2"\n'
    )
    environment = {
        "HOPSCOPE_CLUSTER__PASSWORD": "sesame-3",
        "HOPSCOPE_CLUSTER__USER": "u",
        "HOPSCOPE_LAKE__CATALOG": "postgresql://u:sesame-4@h/lake",
    }
    flags = [("--set", "lake.password", "sesame-5"), ("--set", "cluster.token", "sesame-6")]
    settings = load(file, flags, environment).settings
    shown = json.dumps(shown_tree(settings))
    assert "sesame" not in shown
    assert settings.cluster.place == "nats://***@127.0.0.1:4222"
    assert settings.lake.place == "postgresql://u:***@h/lake, s3://bucket"
    scrub = Scrubber(secrets_of(settings, environment))
    assert scrub(" ".join(f"sesame-{number}" for number in range(1, 7))).split() == ["***"] * 6


def test_a_destination_without_url_is_shown_as_its_kind() -> None:
    """As one of another package, which writes files."""
    assert ExportSettings(kind="lines").place == "lines"
