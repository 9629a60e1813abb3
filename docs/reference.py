"""Write docs/reference/ and the table of shell completion from the code.

Run `python docs/reference.py` after a change; `tests/test_docs.py` fails when a page differs from what this
would write.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from hopscope.settings.agent import AgentSettings
from hopscope.settings.configuration.descriptions import descriptions, member_descriptions
from hopscope.settings.destinations.common import ExportSettings
from hopscope.settings.destinations.kinds import EXPORT_KINDS, METRICS_KINDS
from hopscope.settings.destinations.metrics import MetricsSettings
from hopscope.settings.names_from import DEVICE_KINDS, DeviceSettings
from hopscope.settings.section import plain_type
from hopscope.settings.switches import CONTROLLED_KINDS, ControlledSettings
from hopscope.switch.settings import SwitchSettings

FOLDER = Path(__file__).parent / "reference"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    def clean(cell: str) -> str:
        return " ".join(cell.split()).replace("|", "\\|")

    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(clean(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _type_name(annotation: object) -> str:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _type_name(typing.get_args(annotation)[0])
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(annotation))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_name(a) for a in typing.get_args(annotation))
    if origin is tuple:
        return f"list of {_type_name(typing.get_args(annotation)[0])}"
    if origin is dict:
        return "tables"
    if annotation is type(None):
        return "none"
    return getattr(annotation, "__name__", str(annotation)).lower()


def _nested(annotation: object) -> tuple[type[BaseModel], str] | None:
    """Give the settings model inside an annotation, and `[]` where it is a list of them, `.NAME` where names
    lead to them.
    """
    annotation = plain_type(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is dict:
        named = plain_type(arguments[1])
        return (named, ".NAME") if isinstance(named, type) and issubclass(named, BaseModel) else None
    if arguments and isinstance(arguments[0], type) and issubclass(arguments[0], BaseModel):
        return arguments[0], "[]"
    return None


def _settings_rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, ...]]:
    about = descriptions(model)
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        if nested := _nested(field.annotation):
            yield (f"`{key}{nested[1]}`", "table", "", about[name])
            yield from _settings_rows(nested[0], f"{key}{nested[1]}.")
            continue
        if field.default is PydanticUndefined:
            default = "user's data folder" if key == "data" else "required"
        else:
            default = "none" if field.default is None else f"`{field.default}`"
        yield (f"`{key}`", _type_name(field.annotation), default, about[name])


def settings() -> str:
    """Every setting."""
    from hopscope.settings.collector import Settings

    return (
        "# Settings\n\nA setting is a key of the TOML file (`hopscope collect --config FILE`) or an "
        "environment variable: `detect.flow_rows` is `HOPSCOPE_DETECT__FLOW_ROWS`. "
        "Without `--config` and `HOPSCOPE_CONFIG`, the file is `hopscope.toml` in the current folder, else "
        "`~/.config/hopscope/config.toml`; a `hopscope.toml` of another user is an error. "
        "Flags win over the environment, the "
        "environment over the file, the file over the defaults. `[]` marks a list of tables (`[[listen]]`), "
        "`NAME` a name that you choose (`[dialects.mine]`); a variable has `_` for `-` in a name of the "
        "file: `HOPSCOPE_EXPORT__ON_CALL__URL` is `url` of `[export.on-call]`. In a variable or `--set`, the "
        "words of a list "
        "are separated by spaces or commas; other lists and tables are written as in TOML: "
        '`--set \'direct.stores=[{name = "paths", primitive = "append"}]\'`. '
        "An unknown key is an error.\n\n"
        + _table(("key", "type", "default", "meaning"), list(_settings_rows(Settings)))
        + "\n## Destinations\n\nA destination `[export.NAME]` has these additional settings, by `kind`.\n"
        + "".join(_settings_of_kind(kind, model) for kind, model in EXPORT_KINDS.items())
        + "\n## Destinations of metrics\n\n"
        "A destination `[metrics.NAME]` has these additional settings, by `kind`.\n"
        + "".join(
            _settings_of_kind(kind, model, MetricsSettings, "metrics")
            for kind, model in METRICS_KINDS.items()
        )
        + "\n## Devices queried for names and counters\n\n"
        "A table `[names_from.NAME]` has these additional settings, by `kind`.\n"
        + "".join(
            _settings_of_kind(kind, model, DeviceSettings, "names_from")
            for kind, model in DEVICE_KINDS.items()
        )
        + "\n## Switches that the controller reaches\n\n"
        "A table `[switches.NAME]` has these additional settings, by `kind`.\n"
        + "".join(
            _settings_of_kind(kind, model, ControlledSettings, "switches")
            for kind, model in CONTROLLED_KINDS.items()
        )
        + "\n## INT on Linux interfaces\n\n"
        "The file of `hopscope switch` has the table `[switch]`.\n\n"
        + _table(("key", "type", "default", "meaning"), list(_settings_rows(SwitchSettings, "switch.")))
        + "\nFor `hopscope switch serve`, the same file also has the table `[agent]`.\n\n"
        + _table(("key", "type", "default", "meaning"), list(_settings_rows(AgentSettings, "agent.")))
    )


def _settings_of_kind(
    kind: str, model: type[BaseModel], common: type[BaseModel] = ExportSettings, table: str = "export"
) -> str:
    rows = [
        row
        for row in _settings_rows(model, f"{table}.NAME.")
        if row[0].strip("`").rpartition(".")[2] not in common.model_fields
    ]
    about = inspect.getdoc(model) or ""
    return f"\n### {kind}\n\n{about}\n\n" + _table(("key", "type", "default", "meaning"), rows)


def counters() -> str:
    """Every counter."""
    from hopscope.cluster.counters import CLUSTER_COUNTERS
    from hopscope.control.counters import CONTROL_COUNTERS
    from hopscope.detect.counters import COUNTERS
    from hopscope.direct.counters import TRANSLATOR_COUNTERS
    from hopscope.export import counters as exports
    from hopscope.history.counters import HISTORY_COUNTERS
    from hopscope.labels import records as label_records
    from hopscope.labels.counters import LABEL_COUNTERS
    from hopscope.lake.counters import LAKE_COUNTERS
    from hopscope.naming.counters import NAMES_COUNTERS
    from hopscope.operators.counters import ACCESS_COUNTERS
    from hopscope.rdma.counters import NIC_COUNTERS
    from hopscope.switch.labels.layout import LabelCount
    from hopscope.switch.layout import ReportCount, SwitchCount

    def table(counted: typing.Any) -> str:
        rows = [(f"`{c.metric}`", f"`{c.label[0]}={c.label[1]}`" if c.label else "", c.help) for c in counted]
        return _table(("counter", "label", "meaning"), rows)

    return (
        "# Counters\n\nEvery worker counts these. `/metrics`, `hopscope top` and the summary at the end of a "
        "program show their sums.\n\n"
        + table(COUNTERS)
        + "\n## The translator of direct telemetry access\n\n"
        "They include those of its RoCEv2 connections.\n\n"
        + table(TRANSLATOR_COUNTERS.counters)
        + "\n## Labels (INT-label)\n\n"
        "Counted by the process that receives labels, if `label.listen` is set.\n\n"
        + table(LABEL_COUNTERS.counters)
        + "\n## History\n\nCounted by the process that archives history.\n\n"
        + table(HISTORY_COUNTERS.counters)
        + "\n## Devices queried for names and counters\n\n"
        "Counted by the process that queries these devices, if `names_from` is set.\n\n"
        + table(NAMES_COUNTERS.counters)
        + "\n## Switches that the controller reaches\n\n"
        "Counted by the controller, if `switches` is set.\n\n"
        + table(CONTROL_COUNTERS.counters)
        + "\n## HTTP requests\n\nCounted by the process that serves the API.\n\n"
        + table(ACCESS_COUNTERS.counters)
        + "\n## Several collectors\n\n"
        "Counted by the process that takes part in a cluster, if `cluster.nats` is set.\n\n"
        + table(CLUSTER_COUNTERS.counters)
        + "\n## The lake\n\n"
        "Counted by the process that writes events into the lake, if `lake.catalog` is set.\n\n"
        + table(LAKE_COUNTERS.counters)
        + "\n## Switch ports of a fabric on this machine\n\n"
        "`hopscope fabric status --format json` prints them for each port.\n\n"
        + _table(
            ("counter", "meaning"),
            [
                (f"`{name.lower()}`", text)
                for name, text in member_descriptions(label_records.PortCounter).items()
            ],
        )
        + "\n## INT on Linux interfaces\n\n"
        "`hopscope switch status` prints them: packets that leave this machine, and its reports.\n\n"
        + _table(
            ("counter", "meaning"),
            [(f"`{name.lower()}`", text) for name, text in member_descriptions(SwitchCount).items()]
            + [
                (f"`reports_{name.lower()}`", text) for name, text in member_descriptions(ReportCount).items()
            ],
        )
        + "\nWith INT-label, packets that leave through `switch.interfaces` and `switch.hosts`:\n\n"
        + _table(
            ("counter", "meaning"),
            [(f"`label_{name.lower()}`", text) for name, text in member_descriptions(LabelCount).items()],
        )
        + "\n## The software NIC\n\n"
        + table(NIC_COUNTERS.counters)
        + "\n## Exports\n\nEach destination has its own; the label `destination` is its name in the "
        "settings. `hopscope_export_up` is 1 if the last delivery succeeded.\n\n"
        + _table(
            ("counter", "label", "meaning"),
            [(f"`hopscope_export_{name}`", "", text) for name, text in exports.EXPORTS]
            + [
                (
                    "`hopscope_export_lost_total`",
                    f"`reason={reason}`",
                    f"Events, or samples of metrics, lost: {text}.",
                )
                for _, reason, text in exports.LOST
            ],
        )
    )


def _enum_table(enumeration: typing.Any) -> str:
    docs = member_descriptions(enumeration)
    return _table(
        ("name", "code", "meaning"),
        [(f"`{m.label}`", str(int(m)), docs.get(m.name, "")) for m in enumeration],
    )


def reject_reasons() -> str:
    """Every reason for a rejection, and every header."""
    from hopscope.wire import reasons

    return (
        "# Reject reasons\n\nA frame on a report port that cannot be read is rejected with one of these "
        "reasons and the header at which reading stopped. The same names are in `hopscope decode`, in "
        "`/metrics` "
        '(`hopscope_rejected_reports_total{reason="…"}`) and on the console.\n\n## Reasons\n\n'
        + _enum_table(reasons.Reason)
        + "\n## Headers\n\n"
        + _enum_table(reasons.Place)
        + "\n## DTA reports\n\nWhy a translator rejects a report.\n\n"
        + _enum_table(reasons.DtaReason)
        + "\n## RoCEv2 packets\n\nWhy the software NIC rejects a packet.\n\n"
        + _enum_table(reasons.RoceReason)
        + "\n## Frames of a sink\n\nWhy a sink does not forward a frame "
        '(`hopscope_forward_drops_total{reason="…"}`).\n\n' + _enum_table(reasons.DropReason)
    )


def _field_comments(module: typing.Any, record: str) -> dict[str, str]:
    """Comments after the fields of a record's declaration."""
    if record == "HOP":
        return {column.name: column.doc for column in module.HOP_COLUMNS}
    lines = Path(module.__file__).read_text().split(f"\n{record} = ", 1)[1].split("\n)\n", 1)[0].splitlines()
    found = (re.match(r'\s*\("(\w+)", .*\),\s*# (.*)', line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def _record_table(module: typing.Any, record: str) -> str:
    dtype: np.dtype[typing.Any] = getattr(module, record)
    assert dtype.fields is not None
    comments = _field_comments(module, record)
    rows = []
    for name in dtype.names or ():
        field, offset = dtype.fields[name][:2]
        shape = f" × {field.shape[0]}" if field.shape else ""
        kind = "records" if field.base.names else field.base.name
        rows.append((f"`{name}`", str(offset), f"{kind}{shape}", comments.get(name, "")))
    return _table(("field", "byte", "type", "meaning"), rows)


def events() -> str:
    """Every kind of event, every metric, and the record."""
    from hopscope.detect import records
    from hopscope.detect.sink import records as sink

    return (
        "# Events\n\n## Kinds\n\n"
        + _enum_table(records.Kind)
        + "\n## Metrics\n\n"
        + _enum_table(records.Metric)
        + f"\n## The record\n\nRings, journals and segments hold this record: {records.EVENT.itemsize} "
        f"bytes, little-endian, version {records.EVENT_VERSION}. "
        "Addresses are IPv6, or IPv4 as ::ffff:a.b.c.d. For an event about a hop, `switch_ns` is the hop's "
        "egress time, or else its ingress time. For any other event, it is the time in the report's header, "
        "or else that of the last hop.\n\n"
        + _record_table(records, "EVENT")
        + "\n## Events of the sink\n\nThey are in a separate [ring](../guides/rings.md), in the record "
        "[SINK_EVENT](records.md#sink_event); `types` has a bit for each.\n\n"
        + _enum_table(sink.Type)
        + "\n## Eviction reasons\n\n`reason` in [EVICTED](records.md#evicted).\n\n"
        + _enum_table(sink.EvictionReason)
    )


def records() -> str:
    """The record blocks that pass between rooms."""
    from hopscope.detect import records as state
    from hopscope.detect.sink import records as sink
    from hopscope.rdma import records as rdma
    from hopscope.wire import observation
    from hopscope.wire import records as wire
    from hopscope.wire.dta import records as dta
    from hopscope.wire.roce import records as roce

    parts = ["# Records\n\nFixed-width records, little-endian, as in the library and in regions.\n"]
    for module, names in (
        (wire, ("FRAME", "REPORT", "HOP")),
        (dta, ("DTA",)),
        (roce, ("ROCE",)),
        (observation, ("OBSERVATION",)),
        (rdma, ("VERB", "NOTICE")),
        (
            state,
            (
                "FLOW_ROW",
                "FLOW",
                "HOP_STATE",
                "PORT",
                "SOURCE",
                "THRESHOLD",
                "SWITCH_THRESHOLDS",
                "DISTRIBUTION",
            ),
        ),
        (sink, ("SINK_EVENT", "EVICTED", "EVICTED_HOP")),
    ):
        for name in names:
            size = getattr(module, name).itemsize
            parts.append(f"\n## {name}\n\n{size} bytes.\n\n{_record_table(module, name)}")
    return "".join(parts)


def commands() -> str:
    """Every command's help."""
    os.environ.update(COLUMNS="100", NO_COLOR="1", TERM="dumb")
    import click
    import typer

    from hopscope.cli.application import build

    root = typer.main.get_command(build())
    parts = ["# Commands\n\nThe text of every command's `--help`.\n"]

    def walk(command: typing.Any, path: str) -> None:
        context = click.Context(command, info_name=path, terminal_width=100, max_content_width=100)
        parts.append(f"\n## {path}\n\n{_command_help(command, context)}")
        if hasattr(command, "list_commands"):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                if not child.hidden:
                    walk(child, f"{path} {name}")

    walk(root, "hopscope")
    return "".join(parts)


def completion() -> str:
    """Commands, options and words of their values, from which shells complete a line."""
    import click
    import typer

    from hopscope.cli.application import build
    from hopscope.cli.options.values import WORDS

    entries = []

    def words(parameter: typing.Any, context: typing.Any) -> list[str] | str | None:
        if parameter.metavar in WORDS:
            return parameter.metavar
        found = [item.value for item in parameter.shell_complete(context, "") if item.type == "plain"]
        return found or None

    def option(parameter: typing.Any, context: typing.Any) -> tuple[object, ...]:
        value = False if parameter.is_flag else words(parameter, context)
        return [*parameter.opts, *parameter.secondary_opts], value, parameter.multiple, parameter.help or ""

    def walk(command: typing.Any, path: str) -> None:
        context = click.Context(command, info_name=path)
        shown = [each for each in command.get_params(context) if not getattr(each, "hidden", False)]
        help = json.dumps(command.get_short_help_str(200), ensure_ascii=False)
        arguments = [words(each, context) for each in shown if each.param_type_name == "argument"]
        options = [
            option(each, context)
            for each in shown
            if each.param_type_name == "option" and each.name != "help"
        ]
        entries.append(
            f'{json.dumps(path)}: {{"help": {help}, "arguments": {json.dumps(arguments)}, '
            f'"options": {_lines(options)}}}'
        )
        if hasattr(command, "list_commands"):
            for name in command.list_commands(context):
                walk(command.get_command(context, name), f"{path} {name}".strip())

    walk(typer.main.get_command(build()), "")
    placeholders = [f"{json.dumps(name)}: {_lines(WORDS[name]())}" for name in WORDS]
    tables = (
        f'"{name}": {{\n' + ",\n".join(lines) + "\n}"
        for name, lines in (("words", placeholders), ("commands", entries))
    )
    return "{\n" + ",\n".join(tables) + "\n}\n"


def _lines(values: typing.Iterable[object]) -> str:
    """A JSON array with a line for each value, so that changes of several merge."""
    return "[\n" + ",\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "\n]"


def _command_help(command: typing.Any, context: typing.Any) -> str:
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        names = ", ".join(f"`{o}`" for o in [*parameter.opts, *parameter.secondary_opts])
        if parameter.param_type_name == "argument":
            names = f"`{(parameter.metavar or parameter.name).upper()}`"
        rows.append((names, getattr(parameter, "help", None) or ""))
    text = (command.help or "").strip() + "\n"
    return text + ("\n" + _table(("option", "meaning"), rows) if rows else "")


_MODES = {
    "NONE": "No telemetry in the packet.",
    "MD": "INT-MD: each node adds its metadata to a stack in the packet.",
    "DESTINATION": "Destination-type INT: rejected as `unsupported`, since nothing defines its contents.",
    "MX": "INT-MX: the packet carries instructions only; each node reports its own metadata (a postcard).",
    "IOAM_PREALLOCATED": "IOAM trace into space that the source allocated; in JSON `preallocated`.",
    "IOAM_INCREMENTAL": "IOAM trace that grows at each node; in JSON `incremental`.",
    "IOAM_DEX": "IOAM direct export: instructions only, as in INT-MX; in JSON `dex`.",
    "IFA": "IFA: hops in the packet, or in a copy of it.",
}
_CARRIERS = {
    "NONE": "No telemetry in the packet.",
    "TCP": "After the TCP header, signalled by DSCP, DSCP bit, port or marker.",
    "UDP": "After the UDP header, signalled by DSCP, DSCP bit, port or marker.",
    "GRE": "GRE with the protocol type of INT, whether the source added GRE (G = 1) or not.",
    "VXLAN_GPE": "VXLAN-GPE with a next protocol of INT.",
    "GENEVE": "A Geneve option of INT's class.",
    "IPV6_OPTION": "An option of IPv6 hop-by-hop or destination options (IOAM).",
    "IP_PROTOCOL": "An IP protocol of its own, before TCP or UDP (IFA).",
    "UDP_INSERTED": "A UDP header that the source inserted in front of TCP.",
}
_LAYERS = {
    "VLAN": "A VLAN tag (802.1Q).",
    "QINQ": "Two or more VLAN tags (802.1ad, 0x9100).",
    "MPLS": "MPLS labels.",
    "GRE": "GRE, also with Ethernet in it.",
    "VXLAN": "VXLAN.",
    "VXLAN_GPE": "VXLAN-GPE with a packet in it.",
    "GENEVE": "Geneve.",
    "GTP_U": "GTP-U.",
    "IP_IN_IP": "IP directly in IP.",
    "ERSPAN": "ERSPAN type I, II or III, with its GRE.",
}
_REPORTS = (
    ("0.5", "`REPORT_0_5`", "Ver 0, or Ver 1 with NProto 0 to 2; drop, switch-local headers; INT 0.5 inside"),
    ("1.0", "`REPORT_1_0`", "Ver 1 with Length 4 or more; optional metadata by RepMdBits; INT 1.0 inside"),
    ("2.0", "`GROUP_2_0`", "Ver 2; a group of individual reports with main contents, optional and domain-"
     "specific metadata; INT 2.x inside"),
    ("none", "", "`--packets`, or a mirror port: a packet with INT, IOAM or IFA that is not in a report"),
)  # fmt: skip
_INTS = (
    ("2015", "`MD_0_4`", "a bottom-of-stack bit in each word; only with a dialect that enables it"),
    ("0.4", "`MD_0_4`", "2 bits of version, instruction count"),
    ("0.5", "`MD_0_5`", "instruction count, total hop count, a tail after the stack"),
    ("1.0", "`MD_1_0`", "hop size in words, remaining hops, 32-bit timestamps"),
    ("2.x", "`MD_2_0`", "2.0 and 2.1, which share number and layout: domains, 64-bit timestamps"),
    ("2.1 MX", "`MX_2_1`", "instructions only"),
    ("IOAM", "`IOAM_TRACE`", "RFC 9197 traces and RFC 9326 direct export in IPv6 options"),
    ("IFA 2.0", "`IFA`", "draft-kumar-ippm-ifa-08; IP protocol 253, then TCP or UDP"),
)  # fmt: skip


def formats() -> str:
    """Every version, mode, carrier, dialect, header and field."""
    from hopscope.wire import reasons
    from hopscope.wire import records as wire

    parts = [
        "# Formats\n\nEverything that Hopscope reads, generated from the tables that its decoders use. "
        "[The guide](../guides/formats.md) explains how to use it, and [reject reasons](reject-reasons.md) "
        "why something is rejected.\n",
        "\n## Reports\n\n" + _table(("version", "header", "what"), list(_REPORTS)),
        "\n## INT, IOAM and IFA\n\n" + _table(("version", "header", "what"), list(_INTS)),
    ]
    for title, enumeration, texts in (
        ("Modes", wire.Mode, _MODES),
        ("Carriers", wire.Carrier, _CARRIERS),
        ("Layers around the packet", wire.Layer, _LAYERS),
    ):
        rows = [(f"`{one.name.lower()}`", str(int(one)), texts[one.name]) for one in enumeration]
        parts.append(f"\n## {title}\n\n{_table(('name', 'code', 'meaning'), rows)}")
    parts += [_dialects(), _headers(), _bits()]
    for title, listed in (("Reject reasons", reasons.Reason), ("Headers of rejections", reasons.Place)):
        names = ", ".join(f"`{one.label}`" for one in listed if one)
        parts.append(f"\n## {title}\n\n{names}: [their meaning](reject-reasons.md).\n")
    return "".join(parts)


def _dialects() -> str:
    from hopscope.wire import dialect as module
    from hopscope.wire.dialect import DEFAULT, DIALECTS, LAYOUTS

    fields = [name for name in module.Dialect.__dataclass_fields__ if name not in ("name", "about")]
    rows = []
    for one in DIALECTS.values():
        differs = [
            _rule(name, getattr(one, name))
            for name in fields
            if name != "clock" and getattr(one, name) != getattr(DEFAULT, name)
        ]
        rows.append((f"`{one.name}`", one.about, "; ".join(differs) or "nothing", _clock(one.clock)))
    meanings = _field_docs(Path(module.__file__), "Dialect")
    rules = [(f"`{name}`", _plain(name, getattr(DEFAULT, name)), meanings[name]) for name in fields]
    return (
        "\n## Dialects\n\n"
        + _table(("name", "who sends it", "differs in", "clock"), rows)
        + "\n## Layouts\n\nAny dialect may have them, after a colon, as in `spec:swapped:times-64`; "
        "`--dialect auto` tries them if no dialect fits.\n\n"
        + _table(("name", "meaning"), [(f"`{name}`", text) for name, text in LAYOUTS.items()])
        + "\n## Fields of a dialect\n\nThe third column has the specifications' value, or Hopscope's choice "
        "where they leave it open. The [setting](settings.md) `dialects.NAME` changes most of them.\n\n"
        + _table(
            ("field", "meaning", "in `spec`"), [(name, meaning, value) for name, value, meaning in rules]
        )
    )


def _rule(name: str, value: object) -> str:
    from hopscope.wire import layout

    if name == "items":
        kinds = ("INT 0.5", "INT 1.0", "INT 2.x", "own metadata 1.0", "own metadata 2.0", "drop header 0.5",
                 "switch-local header 0.5", "INT 0.4", "INT of 2015")  # fmt: skip
        assert isinstance(value, tuple)
        changed = [
            f"{kinds[kind]} bit {bit}: {_parts(item)}"
            for kind, items in value
            for bit, item in enumerate(items)
            if item is not layout.KIND_ITEMS[kind][bit]
        ]
        return "; ".join(changed) or "another hop size for the same items"
    return f"`{name}` {_plain(name, value)}"


_HEXADECIMAL = {
    "int_dscp", "int_ports", "inserted_udp_ports", "gre_protocol", "gpe_protocols", "geneve_classes",
}  # fmt: skip
"""Fields whose numbers are known in hexadecimal."""


def _plain(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        return f"`{value.hex()}`" if value else "none"
    if isinstance(value, int):
        return f"{value:#04x}" if name in _HEXADECIMAL else str(value)
    if isinstance(value, tuple):
        if value and hasattr(value[0], "domain_id"):
            return ", ".join(f"domain 0x{one.domain_id:04x}" for one in value)
        if name in ("first_bytes", "shims"):
            value = tuple((f"{one[0]:#04x}", *one[1:]) for one in value)
        each = [f"({_plain('', one)})" if isinstance(one, tuple) else _plain(name, one) for one in value]
        return f"{each[0]} to {each[-1]}" if len(each) > 8 else ", ".join(each) or "none"
    return _clock(value) if hasattr(value, "unit_ns") else str(value)


def _clock(clock: typing.Any) -> str:
    unit = {1: "ns", 1000: "us"}.get(clock.unit_ns, f"{clock.unit_ns} ns")
    parts = [unit]
    if clock.bits:
        parts.append(f"wraps at {clock.bits} bits")
    if clock.epoch == "unix":
        parts.append("since 1970")
    if clock.latency == "timestamps":
        parts.append("latency from timestamps")
    if clock.comparable:
        parts.append("synchronous")
    return ", ".join(parts)


def _field_docs(source: Path, class_name: str) -> dict[str, str]:
    """Docstrings below the fields of a dataclass."""
    import ast

    tree = ast.parse(source.read_text())
    body = next(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == class_name).body
    docs: dict[str, str] = {}
    for statement, follower in itertools.pairwise(body):
        field = statement.target if isinstance(statement, ast.AnnAssign) else None
        text = follower.value if isinstance(follower, ast.Expr) else None
        if isinstance(field, ast.Name) and isinstance(text, ast.Constant):
            docs[field.id] = str(text.value)
    return docs


def _headers() -> str:
    from hopscope.wire.catalog import HEADERS

    parts = [
        "\n## Headers\n\nBit 0 is the most significant bit of the first byte; everything is big-endian.\n"
    ]
    for name, header in HEADERS.items():
        rows = [(f"`{f.name}`", str(f.at), str(f.bits), f.unit, f.doc) for f in header.fields]
        parts.append(
            f"\n### {header.name}\n\n`{name}`, {header.size} bytes; {header.spec}.\n\n"
            + _table(("field", "bit", "width", "unit", "meaning"), rows)
        )
    return "".join(parts)


def _parts(item: typing.Any) -> str:
    return " + ".join(f"{f.name} {f.bits}" for f in item.fields.fields)


def _bits() -> str:
    from hopscope.wire import layout

    forms = (
        ("INT 0.4 and 0.5", layout.HOP_0_5), ("INT 1.0", layout.HOP_1_0), ("INT 2.x", layout.HOP_2_0),
        ("INT of 2015", layout.HOP_2015), ("Report 1.0, its own", layout.OWN_1_0[:6]),
        ("Report 2.0, its own", layout.OWN_2_0),
    )  # fmt: skip
    rows = [
        (str(bit), *(_parts(items[bit]) if bit < len(items) else "" for _, items in forms))
        for bit in range(16)
    ]
    trace = [(str(bit), _parts(item), str(item.size)) for bit, item in enumerate(layout.IOAM_NODE)]
    return (
        "\n## Bits of an instruction bitmap\n\nBit 0 is the most significant; numbers are "
        "widths in bits. `reserved` is skipped.\n\n"
        + _table(("bit", *(name for name, _ in forms)), rows)
        + "\n## Bits of an IOAM trace type\n\nBit 22 adds an opaque state snapshot of its "
        "own length.\n\n" + _table(("bit", "fields", "bytes"), trace)
    )


def event_block() -> str:
    """The Avro schema of messages on buses."""
    from hopscope.export.buses.format import SCHEMA

    return json.dumps(SCHEMA, indent=1) + "\n"


def sql() -> str:
    """The views of SQL."""
    from hopscope.history.schema import CLUSTER_COLUMNS, EXAMPLES, VIEWS, Column

    def table(columns: typing.Iterable[Column]) -> str:
        rows = [(f"`{each.name}`", each.type, each.unit, each.meaning) for each in columns]
        return _table(("column", "type", "unit", "meaning"), rows)

    parts = [
        "# SQL\n\nThe views that `hopscope query sql`, `POST /api/v0/sql` and the page Ask query, in the SQL "
        "of [DuckDB](https://duckdb.org/docs/stable/sql/introduction). Latencies are in ns; other values are "
        "in the unit that the source sends. Times are in UTC and have no zone, those of `now()` and "
        "`current_timestamp` included; `::TIMESTAMP` makes such a time of one with a zone.\n"
    ]
    parts += [f"## `{view.name}`\n\n{view.meaning}\n\n{table(view.columns)}" for view in VIEWS]
    parts.append(
        "Queries of all members (`scope=cluster`) see two more columns in `events`:\n\n"
        + table(CLUSTER_COLUMNS)
    )
    parts.append("## Queries to begin with\n")
    parts += [f"{each.title}:\n\n```sql\n{each.sql}\n```\n" for each in EXAMPLES]
    return "\n".join(parts)


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings,
    "counters.md": counters,
    "reject-reasons.md": reject_reasons,
    "formats.md": formats,
    "events.md": events,
    "records.md": records,
    "sql.md": sql,
    "commands.md": commands,
    "event-block.avsc": event_block,
    "../../src/hopscope/cli/completion.json": completion,
}
"""Files, relative to docs/reference/, and what is in them."""


def main() -> int:
    """Write every page; with `--check`, only say which would change."""
    check = "--check" in sys.argv[1:]
    stale = []
    FOLDER.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        text, path = make(), FOLDER / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
    print("\n".join(stale) or "nothing to do")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
