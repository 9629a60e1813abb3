"""Every setting of the reference can be set: in a file, by a variable, by `--set`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic.fields import FieldInfo

from hopscope.cli.config import _value
from hopscope.settings.collector import Settings
from hopscope.settings.configuration.errors import ConfigError
from hopscope.settings.configuration.file import load, parse_set
from hopscope.settings.destinations.common import ExportSettings
from hopscope.settings.destinations.kinds import EXPORT_KINDS, METRICS_KINDS
from hopscope.settings.destinations.metrics import MetricsSettings
from hopscope.settings.names_from import DEVICE_KINDS, DeviceSettings
from hopscope.settings.section import Section, plain_type, section_of
from hopscope.settings.switches import CONTROLLED_KINDS, ControlledSettings

ROOT = Path(__file__).resolve().parents[2]
SAMPLES: dict[str, Any] = {
    "cluster.member_seconds": 12.5,
    "cluster.nats": ["nats://127.0.0.1:4222", "tls://127.0.0.1:4223"],
    "lake.catalog": "postgresql://hopscope@192.0.2.8/lake",
    "lake.data": "s3://telemetry/hopscope",
    "lake.endpoint": "https://192.0.2.8",
    "sink.adapt.factor": 2.5,
    "direct.nic.allow": ["192.0.2.0/24"],
    "direct.translator.allow": ["2001:db8::/32"],
    "label.allow": ["192.0.2.0/24", "2001:db8::/32"],
    "listen[].allow": ["192.0.2.7", "2001:db8::/32"],
    "direct.nic.hosts": ["127.0.0.3", "127.0.0.4"],
    "direct.query.collectors": ["http://192.0.2.7:8080", "data"],
    "direct.translator.collectors": ["192.0.2.7", "2001:db8::7"],
    "direct.translator.rules[].lists": "100-107",
    "direct.translator.rules[].source": "10.1.0.0/16",
    "direct.translator.unnumbered": ["192.0.2.0/24", "2001:db8::/32"],
    "direct.stores[].name": "paths",
    "direct.stores[].options": {"bytes": "1MiB", "data_bytes": 20},
    "dialects.NAME.base": "bmv2",
    "dialects.NAME.int_dscp_bit": 4,
    "dialects.NAME.marker": "aabb",
    "export.NAME.database": "fabric",
    "export.NAME.endpoint": "http://192.0.2.8:9000",
    "export.NAME.headers": {"x-tenant": "fabric"},
    "metrics.NAME.headers": {"x-tenant": "fabric"},
    "export.NAME.resource": {"deployment.environment.name": "lab"},
    "metrics.NAME.resource": {"site": "ams"},
    "export.NAME.group_by": ["node", "metric"],
    "export.NAME.kind": "influxdb",
    "export.NAME.options": {"security.protocol": "SASL_SSL"},
    "export.NAME.prefixes": ["10.1.0.0/16", "2001:db8::/32"],
    "export.NAME.servers": ["nats://192.0.2.8:4222", "tls://192.0.2.9:4222"],
    "mqtt export.NAME.url": "mqtts://192.0.2.8",
    "redis_state export.NAME.url": "redis://192.0.2.8:6379/1",
    "redis_stream export.NAME.url": "redis://192.0.2.8:6379/1",
    "export.NAME.page": "https://telemetry.example/?node=$node_id",
    "export.NAME.sender": "hopscope@telemetry.example",
    "export.NAME.to": ["noc@telemetry.example"],
    "export.NAME.url": "http://192.0.2.8:8086",
    "email export.NAME.url": "smtp://192.0.2.8:587",
    "ipfix export.NAME.url": "tcp://192.0.2.8:4739",
    "syslog export.NAME.url": "tls://192.0.2.8:6514",
    "label.listen": "127.0.0.1:7254",
    "label.redis": "redis://127.0.0.1:6379/1",
    "label.track[].src": "10.0.0.2",
    "label.track[].dst": "10.0.0.3",
    "listen[].dialect": "bmv2",
    "listen[].host": "127.0.0.2",
    "listen[].interface": "eth1",
    "listen[].kind": "mirror",
    "listen[].nodes": {"192.0.2.7": 7},
    "listen[].output": "eth2",
    "metrics.NAME.database": "fabric",
    "metrics.NAME.kind": "influxdb",
    "metrics.NAME.labels": {"site": "ams"},
    "metrics.NAME.url": "http://192.0.2.8:9090/api/v1/write",
    "names_from.NAME.kind": "gnmi",
    "names_from.NAME.auth_password": "sixteen-characters",
    "names_from.NAME.hosts": ["192.0.2.7", "2001:db8::8"],
    "names_from.NAME.nodes": {"192.0.2.7": 7},
    "names_from.NAME.priv_password": "sixteen-characters",
    "serve.host": "127.0.0.2",
    "serve.public_url": "https://telemetry.example",
    "serve.token": "sixteen-characters",
    "serve.viewer_token": "sixteen-characters",
    "serve.proxy_addresses": ["192.0.2.7", "2001:db8::/32"],
    "serve.proxy_user_header": "X-Forwarded-User",
    "serve.proxy_role_header": "X-Forwarded-Groups",
    "serve.oidc.issuer": "https://login.example/realms/noc",
    "sink.report.to": "192.0.2.1:32766",
    "control.watch[].source": "192.0.2.0/24",
    "control.watch[].destination": "2001:db8::/32",
    "control.watch[].switches": ["mine"],
    "switches.NAME.address": "192.0.2.9:9559",
    "switches.NAME.kind": "ebpf",
    "switches.NAME.url": "https://192.0.2.7:7255",
    "switches.NAME.token": "sixteen-characters",
}
"""Values of settings that are not free text, by key, or by kind of a destination and key."""
BESIDE: dict[str, dict[str, Any]] = {
    "direct.translator.collectors": {"transport": "rocev2"},
    "lake.catalog": {"data": "s3://telemetry/hopscope"},
    "lake.data": {"catalog": "postgresql://hopscope@192.0.2.8/lake"},
    "serve.oidc.issuer": {"client_id": "hopscope"},
    "serve.key_file": {"cert_file": "cert.pem"},
    "serve.proxy_user_header": {"proxy_addresses": ["192.0.2.7"]},
    "listen[].interface": {"kind": "mirror"},
    **{
        f"listen[].{name}": {"kind": "mirror", "interface": "eth1"}
        for name in ("promiscuous", "output", "keep_offloads", "ring_bytes", "filter")
    },
    "listen[].kind": {"interface": "eth1"},
    "listen[].nodes": {"kind": "ipfix"},
    "listen[].connections": {"kind": "ipfix+tcp"},
    "control.watch[].last_port": {"port": 1},
    "switches.NAME.p4info": {"program": "program.json"},
    "switches.NAME.program": {"p4info": "program.p4info.txtpb"},
    **{f"names_from.NAME.{name}": {"kind": "gnmi"} for name in DeviceSettings.model_fields},
    "names_from.NAME.password": {"user": "reader"},
    "names_from.NAME.auth_password": {"user": "reader"},
    "names_from.NAME.priv_password": {"user": "reader", "auth_password": "another-password"},
    "detect.thresholds.flow_latency.clear_below": {"raise_above": 9},
    "detect.thresholds.hop_latency.clear_below": {"raise_above": 9},
    "detect.thresholds.queue_occupancy.clear_below": {"raise_above": 9},
    "detect.thresholds.queue_congestion.clear_below": {"raise_above": 9},
    "detect.thresholds.link_utilization.clear_below": {"raise_above": 9},
    "detect.thresholds.buffer_occupancy.clear_below": {"raise_above": 9},
    "detect.switches[].hop_latency.clear_below": {"raise_above": 9},
    "detect.switches[].queue_occupancy.clear_below": {"raise_above": 9},
    "detect.switches[].queue_congestion.clear_below": {"raise_above": 9},
    "detect.switches[].link_utilization.clear_below": {"raise_above": 9},
    "detect.switches[].buffer_occupancy.clear_below": {"raise_above": 9},
}
"""What a setting needs in its table."""


def _declared(model: type[Section], above: str = "") -> Iterator[tuple[str, type[Section], FieldInfo]]:
    """Every setting that is not a table: key as in the reference, its section, its declaration."""
    for name, field in model.model_fields.items():
        key, kind = f"{above}{name}", plain_type(field.annotation)
        item: tuple[Any, ...] = get_args(kind) if get_origin(kind) in (tuple, dict) else ()
        listed = section_of(item[-1 if get_origin(kind) is dict else 0]) if item else None
        if section := section_of(kind):
            yield from _declared(section, f"{key}.")
        elif listed:
            yield from _declared(listed, f"{key}{'[]' if get_origin(kind) is tuple else '.NAME'}.")
        else:
            yield key, model, field


def sample(key: str, field: FieldInfo, kind: str = "") -> Any:
    """A valid value that is not the default."""
    for known in (f"{kind} {key}", key):
        if known in SAMPLES:
            return SAMPLES[known]
    return _of(plain_type(field.annotation), field)


def _of(kind: Any, field: FieldInfo) -> Any:
    if get_origin(kind) is tuple:
        return [_of(plain_type(get_args(kind)[0]), field)]
    if get_origin(kind) is Literal:
        return next((value for value in reversed(get_args(kind)) if value != field.default), field.default)
    if kind is bool:
        return not field.default
    if kind in (int, float):
        low = next((rule.ge for rule in field.metadata if hasattr(rule, "ge")), 1)
        return low + (low == field.default) if isinstance(low, int) and low else kind(field.default == 1) + 1
    return "text"


def nested(key: str, value: Any) -> dict[str, Any]:
    """The tree that sets a key: `[]` is a list of one table with what it requires."""
    tree: dict[str, Any] = {}
    here, path, model = tree, "", Settings
    *above, last = key.split(".")
    for part in above:
        name, listed = part.removesuffix("[]"), part.endswith("[]")
        path += f"{part}."
        inner: dict[str, Any] = {}
        here["mine" if part == "NAME" else name] = [inner] if listed else inner
        here = inner
        if part != "NAME":
            kind = plain_type(model.model_fields[name].annotation)
            model = section_of(kind) or section_of(get_args(kind)[-1 if get_origin(kind) is dict else 0])  # type: ignore[assignment]
        if part == "NAME" or get_origin(kind) is not dict:
            here.update(
                (other, sample(path + other, field))
                for other, field in model.model_fields.items()
                if field.is_required() and other != last
            )
    here.update(BESIDE.get(key, {}))
    here[last] = value
    return tree


def set_kind(tree: dict[str, Any], kind: str) -> None:
    """Give the destinations of a tree their kind, and what it requires."""
    for devices in tree.get("names_from", {}).values():
        if kind in DEVICE_KINDS:
            devices["kind"] = kind
            devices.setdefault("hosts", SAMPLES["names_from.NAME.hosts"])
            if kind == "snmp" and "user" not in devices:
                devices.setdefault("community", "reader")
    if "watch" in tree.get("control", {}):
        tree["switches"] = {"mine": {"node": 1}}
    for switch in tree.get("switches", {}).values():
        switch["kind"] = kind if kind in CONTROLLED_KINDS else switch.get("kind", "ebpf")
        for name, declared in CONTROLLED_KINDS[switch["kind"]].model_fields.items():
            if declared.is_required() and name != "kind":
                switch.setdefault(name, sample(f"switches.NAME.{name}", declared))
    for destination in [*tree.get("export", {}).values(), *tree.get("metrics", {}).values()]:
        destination["kind"] = kind
        for name, field in getattr(EXPORT_KINDS.get(kind), "model_fields", {}).items():
            if field.is_required():
                destination.setdefault(name, sample(f"export.NAME.{name}", field, kind))


def _leaves(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict) and name != "options":
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _value(value)


def _found(settings: Settings, key: str) -> Any:
    value: Any = settings.model_dump(mode="json")
    for part in key.replace("NAME", "mine").split("."):
        value = value[part.removesuffix("[]")]
        value = value[0] if part.endswith("[]") else value
    return value


DECLARED = [
    *((key, "influxdb", field) for key, _, field in _declared(Settings)),
    *(
        (f"export.NAME.{name}", kind, field)
        for kind, model in EXPORT_KINDS.items()
        for name, field in model.model_fields.items()
        if name not in ExportSettings.model_fields
    ),
    *(
        (f"metrics.NAME.{name}", kind, field)
        for kind, model in METRICS_KINDS.items()
        for name, field in model.model_fields.items()
        if name not in MetricsSettings.model_fields
    ),
    *(
        (f"names_from.NAME.{name}", kind, field)
        for kind, model in DEVICE_KINDS.items()
        for name, field in model.model_fields.items()
        if name not in DeviceSettings.model_fields
    ),
    *(
        (f"switches.NAME.{name}", kind, field)
        for kind, model in CONTROLLED_KINDS.items()
        for name, field in model.model_fields.items()
        if name not in ControlledSettings.model_fields
    ),
]
"""Key, kind of a destination, declaration."""

BOUNDED = [
    (key, kind, f"{words} {getattr(rule, name):g}", getattr(rule, name) + step)
    for key, kind, field in DECLARED
    for rule in field.metadata
    for name, step, words in (
        ("ge", -0.001, "at least"), ("gt", 0, "more than"), ("le", 1, "at most"), ("lt", 0, "less than"),
    )
    if plain_type(field.annotation) is float and isinstance(getattr(rule, name, None), int | float)
]  # fmt: skip
"""Key, kind of a destination, bound in words, value beyond it, for each bound of a float."""


def test_the_reference_has_the_same_settings() -> None:
    """What is tried below is what docs/reference/settings.md lists, but for the file of `hopscope switch`."""
    lines = (ROOT / "docs" / "reference" / "settings.md").read_text().splitlines()
    listed = [line.split("`")[1] for line in lines if line.startswith("| `") and "| table |" not in line]
    assert [key for key, _, _ in DECLARED] == [
        key for key in listed if not key.startswith(("switch.", "agent."))
    ]


@pytest.mark.parametrize(("key", "kind", "field"), DECLARED, ids=[key for key, *_ in DECLARED])
def test_a_setting_is_set_by_each_source(tmp_path: Path, key: str, kind: str, field: FieldInfo) -> None:
    """A file, a variable and `--set` give the same settings, in which the key has the value."""
    value = sample(key, field, kind)
    tree = nested(key, value)
    set_kind(tree, kind)
    leaves = list(_leaves(tree))
    file = tmp_path / "hopscope.toml"
    file.write_text("".join(f"{name} = {_value(each)}\n" for name, each in tree.items()))
    variables = {f"HOPSCOPE_{name.upper().replace('.', '__')}": _text(each) for name, each in leaves}
    flags = [parse_set(f"{name}={_text(each)}") for name, each in leaves]
    found = [load(file, (), {}), load(None, (), variables), load(None, flags, {})]
    for loaded in found:
        assert loaded.settings == found[0].settings
        assert _found(loaded.settings, key) == json.loads(json.dumps(value))
        assert loaded.origins
    assert found[0].settings != Settings()


def test_an_optional_table_is_set_by_its_keys(tmp_path: Path) -> None:
    """The table of the guide switches path sums on; a key without its required one says what is missing."""
    file = tmp_path / "hopscope.toml"
    file.write_text("[direct.translator.path_sum]\nthreshold = 500\nhops = 3\n")
    path_sum = load(
        file, [parse_set("direct.translator.path_sum.list=2")], {}
    ).settings.direct.translator.path_sum
    assert path_sum is not None
    assert (path_sum.threshold, path_sum.hops, path_sum.list) == (500, 3, 2)
    file.write_text("[direct.translator.path_sum]\nhops = 3\n")
    with pytest.raises(ConfigError, match=r"path_sum\.threshold: not set, expected a value$"):
        load(file, (), {})


@pytest.mark.parametrize(
    ("key", "kind", "bound", "value"),
    [
        *BOUNDED,
        ("label.silent_seconds", "", "at least 0", -0.001),
        ("label.silent_seconds", "", "at most 1e+09", 1e9 + 1),
    ],
    ids=[f"{key} {bound}" for key, _, bound, _ in BOUNDED] + ["least time", "longest time"],
)
def test_a_bound_holds(tmp_path: Path, key: str, kind: str, bound: str, value: float) -> None:
    """A value beyond a declared bound is rejected, though the type `Seconds` has wider bounds."""
    tree = nested(key, value)
    set_kind(tree, kind)
    file = tmp_path / "hopscope.toml"
    file.write_text("".join(f"{name} = {_value(each)}\n" for name, each in tree.items()))
    with pytest.raises(ConfigError) as caught:
        load(file, (), {})
    words, limit = bound.rsplit(" ", 1)
    found = str(caught.value).rsplit(f"expected {words} ", 1)
    assert len(found) == 2, caught.value
    assert float(found[1]) == float(limit)
