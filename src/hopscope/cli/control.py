"""`hopscope control`: the switches that a running collector reaches, and their desired state."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..base.errors import HopscopeError
from ..base.process.control_client import not_running, request
from .options.declare import Commands, argument, option
from .options.settings import CollectorOptions
from .output.printer import Format, FormatOption, print_rows

if TYPE_CHECKING:
    from ..base.names import Names

app = Commands(help="Show the switches that a running collector controls, and change what it sets on them.")
COLUMNS = ("switch", "node", "kind", "place", "state", "in_sync", "since", "failures", "error")
LINK_COLUMNS = ("switch", "port", "leads_to", "its_port", "from")
TRACKED_COLUMNS = ("src", "dst", "every")
RuleArgument = Annotated[
    list[str] | None,
    argument(
        "[KEY=VALUE]...",
        "Keys of control.watch, such as destination=192.0.2.0/24 port=5001 switches=leaf1,leaf2.",
        show_default=False,
    ),
]
FlowArgument = Annotated[
    list[str] | None, argument("[SRC DST [EVERY]]", "Addresses, and one packet in EVERY.", show_default=False)
]


@app.command()
def status(settings: CollectorOptions, form: FormatOption = Format.TABLE) -> None:
    """Print every switch: whether it is reached and in sync (has the wanted state), and its last error.

    JSON also has the wanted and the actual state. Exit status 1: a switch is not in sync. 2: no collector
    runs.
    """
    switches = request(settings.load().data, {"switches": {}})["switches"]
    if not switches:
        print("hopscope: no switches in the settings of this collector", file=sys.stderr)
    if form is Format.TABLE:
        print_rows(form, COLUMNS, _rows(switches))
    else:
        print_rows(form, tuple(switches[0]) if switches else COLUMNS, switches)
    if not all(switch["in_sync"] for switch in switches):
        raise typer.Exit(1)


@app.command()
def show(
    settings: CollectorOptions,
    switch: Annotated[str, argument("SWITCH", "Name of the switch.")],
) -> None:
    """Print as JSON the state that a switch should have (`wanted`), and the one that it has (`actual`)."""
    for each in request(settings.load().data, {"switches": {}})["switches"]:
        if each["name"] == switch:
            print(json.dumps(each, indent=2))
            return
    raise HopscopeError(f"{switch}: the collector has no such switch")


@app.command()
def watch(settings: CollectorOptions, rule: RuleArgument = None, form: FormatOption = Format.TABLE) -> None:
    """Print the rules of the watch lists; with KEY=VALUE, add a rule first.

    The first rule that matches a packet decides, and a new rule is the last one. A restart of the collector
    discards the change.
    """
    _watch(settings, {"add": [_rule(rule)]} if rule else None, form)


@app.command()
def unwatch(settings: CollectorOptions, rule: RuleArgument = None, form: FormatOption = Format.TABLE) -> None:
    """Remove the rule with exactly these values, and print the remaining ones."""
    _watch(settings, {"remove": [_rule(rule or [])]}, form)


@app.command()
def track(settings: CollectorOptions, flow: FlowArgument = None, form: FormatOption = Format.TABLE) -> None:
    """Print the tracked flows (INT-label); with SRC and DST, add one first."""
    _track(settings, {"add": [_flow(flow)]} if flow else None, form)


@app.command()
def untrack(settings: CollectorOptions, flow: FlowArgument = None, form: FormatOption = Format.TABLE) -> None:
    """Stop tracking a flow, and print the remaining ones."""
    _track(settings, {"remove": [_flow(flow or [])]}, form)


@app.command()
def topology(
    settings: CollectorOptions,
    file: Path | None = option("--file FILE", "Write the links as a topology for `hopscope simulate`."),
    form: FormatOption = Format.TABLE,
) -> None:
    """Print where the ports of switches lead, and how this is known: from the file of links, LLDP, or paths
    of flows.
    """
    from ..base.names import Names
    from ..present.collector_state import CollectorState
    from ..present.topology import topology as links_of

    loaded = settings.load()
    names = Names.load(loaded.names, loaded.data)
    links = links_of(CollectorState(loaded.data))
    if file is not None:
        ends = {(each.node, each.port): (each.next_node, each.next_port) for each in links}
        _write_topology(file, ends, names)
    rows = [
        {
            "switch": names.node_label(link.node),
            "port": names.port(link.node, link.port) or link.port,
            "leads_to": names.node_label(link.next_node) if link.next_node is not None else link.next_name,
            "its_port": ""
            if link.next_node is None or link.next_port is None
            else names.port(link.next_node, link.next_port) or link.next_port,
            "from": ",".join(link.sources) + " (disputed)" * link.disputed,
        }
        for link in links
    ]
    if not rows and not loaded.data.is_dir():
        raise HopscopeError(not_running(loaded.data))
    if not print_rows(form, LINK_COLUMNS, rows):
        print(f"hopscope: no links are known in {loaded.data}", file=sys.stderr)


def _write_topology(
    file: Path, links: Mapping[tuple[int, int], tuple[int | None, int | None]], names: Names
) -> None:
    from ..base.output import write_output
    from ..fabric.topology_file import topology_toml

    inner = {place: (node, port) for place, (node, port) in links.items() if node is not None}
    if not inner:
        raise HopscopeError("--file: no link between two switches is known yet")
    nodes = {node for (here, _), (there, _) in inner.items() for node in (here, there)}
    write_output(file, topology_toml({node: names.node_label(node) for node in nodes}, inner))


def _watch(settings: CollectorOptions, change: dict[str, Any] | None, form: Format) -> None:
    asked = {"watch": {}} if change is None else {"set_watch": change}
    rules = request(settings.load().data, asked)["watch"]
    if rules is None:
        raise HopscopeError("no control.watch: the switches keep their own watch lists")
    rows = [rule | {"switches": ",".join(rule["switches"]) or "all"} for rule in rules]
    print_rows(form, tuple(rows[0]) if rows else ("source", "destination"), rows)


def _track(settings: CollectorOptions, change: dict[str, Any] | None, form: Format) -> None:
    asked = {"tracked": {}} if change is None else {"set_tracked": change}
    print_rows(form, TRACKED_COLUMNS, request(settings.load().data, asked)["tracked"])


def _rule(words: list[str]) -> dict[str, Any]:
    """A rule of `KEY=VALUE`; the collector checks it."""
    rule: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise HopscopeError(f"{word}: expected KEY=VALUE, such as destination=192.0.2.0/24")
        rule[key] = value.split(",") if key == "switches" else value
    return rule


def _flow(words: list[str]) -> dict[str, Any]:
    if len(words) not in (2, 3):
        raise HopscopeError("expected SRC DST [EVERY], such as 10.0.0.2 10.0.1.2 100")
    return dict(zip(TRACKED_COLUMNS, words, strict=False))


def _rows(switches: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    import time

    from ..present.units import ago

    now = time.time_ns()
    for switch in switches:
        error, error_ns = switch["error"], switch["error_ns"]
        problems = [f"refuses {part}: {why}" for part, why in switch["refuses"].items()]
        if error:
            problems.append(f"{error} ({ago(now - error_ns)} ago)")
        yield {
            "switch": switch["name"],
            "node": switch["node"],
            "kind": switch["kind"],
            "place": switch["place"],
            "state": switch["state"],
            "in_sync": "yes" if switch["in_sync"] else "no",
            "since": ago(now - switch["since_ns"]),
            "failures": switch["counts"]["failures"],
            "error": "; ".join(problems),
        }
