"""Devices that are asked for names: which node each is, and credentials that fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hopscope.settings.collector import Settings
from hopscope.settings.configuration.file import load
from hopscope.settings.configuration.secrets import secrets_of, shown_tree
from hopscope.settings.names_from import SnmpSettings

HOSTS: dict[str, Any] = {"kind": "snmp", "hosts": ["192.0.2.7", "2001:db8::c000:208"], "community": "x"}


def test_a_device_is_the_node_that_its_address_names() -> None:
    """As agents of sFlow are."""
    settings = Settings.model_validate({"names_from": {"lab": HOSTS | {"nodes": {"192.0.2.7": 7}}}})
    assert settings.names_from["lab"].devices == {7: "192.0.2.7", 0xC0000208: "2001:db8::c000:208"}


def test_a_file_and_variables_give_them(tmp_path: Path) -> None:
    file = tmp_path / "hopscope.toml"
    file.write_text(
        '[names_from.lab]\nkind = "snmp"\nhosts = ["192.0.2.7"]\nuser = "reader"\n'
        'nodes = { "192.0.2.7" = 7 }\n'
    )
    environment = {"HOPSCOPE_NAMES_FROM__LAB__AUTH_PASSWORD": "authsecret1"}
    table = load(file, environment=environment).settings.names_from["lab"]
    assert isinstance(table, SnmpSettings)
    assert (table.devices, table.auth_password) == ({7: "192.0.2.7"}, "authsecret1")


def test_credentials_are_not_shown() -> None:
    user = {
        "kind": "snmp",
        "hosts": ["192.0.2.9"],
        "user": "reader",
        "auth_password": "authsecret1",
        "priv_password": "privsecret1",
    }
    gnmi = {"kind": "gnmi", "hosts": ["192.0.2.10"], "user": "reader", "password": "gnmisecret1"}
    tables = {"lab": HOSTS | {"community": "s3cret"}, "core": user, "spine": gnmi}
    settings = Settings.model_validate({"names_from": tables})
    assert {"s3cret", "authsecret1", "privsecret1", "gnmisecret1"} <= secrets_of(settings)
    assert not any(
        secret in str(shown_tree(settings))
        for secret in ("s3cret", "authsecret1", "privsecret1", "gnmisecret1")
    )


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (
            {"lab": {"kind": "snmp", "hosts": ["leaf-7"], "community": "x"}},
            "found 'leaf-7', expected an address",
        ),
        ({"lab": HOSTS | {"nodes": {"192.0.2.7": 0xC0000208}}}, "found two hosts of one node"),
        ({"lab": HOSTS, "core": HOSTS}, "found node 3221225991 for 192.0.2.7, which is 192.0.2.7 already"),
        ({"lab": HOSTS | {"nodes": {"192.0.2.7": -1}}}, "found node -1 of 192.0.2.7"),
        ({"lab": {"kind": "snmp", "hosts": ["192.0.2.7"]}}, "expected community"),
        ({"lab": HOSTS | {"user": "reader"}}, "expected community"),
        ({"lab": HOSTS | {"auth_password": "authsecret1"}}, "found auth_password without user"),
        (
            {"lab": {"kind": "snmp", "hosts": ["192.0.2.7"], "user": "r", "auth_password": "short"}},
            "found 5 characters",
        ),
        (
            {"lab": {"kind": "snmp", "hosts": ["192.0.2.7"], "user": "r", "priv_password": "privsecret1"}},
            "found priv_password without auth_password",
        ),
        (
            {"lab": {"kind": "netconf", "hosts": ["192.0.2.7"]}},
            "found kind 'netconf', expected one of snmp, gnmi",
        ),
        ({"lab": {"kind": "gnmi", "hosts": ["192.0.2.7"], "password": "x"}}, "found password without user"),
        ({"lab": {"kind": "gnmi", "hosts": ["192.0.2.7"], "community": "x"}}, "community"),
    ],
)
def test_what_does_not_fit_is_an_error(tables: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        Settings.model_validate({"names_from": tables})
