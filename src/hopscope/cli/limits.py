"""`hopscope limits`: the limits of a running collector or sink."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..base.errors import HopscopeError
from ..base.process.control_client import not_running, request
from .options.declare import Commands, argument, option
from .options.settings import CollectorOptions
from .output.printer import Format, FormatOption, print_rows

if TYPE_CHECKING:
    from ..base.names import Names
    from ..present.collector_state import LimitsInForce

app = Commands(help="Show and change the limits of a running collector or sink.")
NodeOption = Annotated[
    list[str] | None, option("--node -n NODE", "Only this switch, by id or name. Repeatable.")
]
COLUMNS = ("switch", "metric", "change", "raise_above", "clear_below")


@app.command()
def show(
    settings: CollectorOptions,
    form: FormatOption = Format.TABLE,
    toml: bool = option("--toml", "Print them as settings, for the configuration file.", False),
) -> None:
    """Print the limits in force.

    A switch has rows for metrics with limits of its own; limits that it inherits are in parentheses. Exit
    status 2: no collector runs.
    """
    folder, names = _opened(settings)
    found = _in_force(folder)
    if toml:
        print("\n".join(_toml(found)))
    else:
        _print(found, names, form)


@app.command()
def set(
    settings: CollectorOptions,
    changes: Annotated[
        list[str],
        argument(
            "METRIC.LIMIT=VALUE",
            "Such as hop_latency.raise_above=50us or queue_occupancy.change=never; with --node also "
            "`general`, "
            "for the limit of all switches.",
        ),
    ],
    node: NodeOption = None,
) -> None:
    """Change limits now, in all workers.

    LIMIT is change, raise_above or clear_below. All other limits stay. A restart of the collector returns to
    its settings; `limits show --toml` prints the lines to write there. Exit status 2: nothing was changed.
    """
    folder, names = _opened(settings)
    given: dict[str, dict[str, Any]] = {}
    for text in changes:
        metric, limit, value = parse_change(text)
        given.setdefault(metric, {})[limit] = value
    nodes = node_texts(node, names)
    wanted: dict[str, Any] = {"switches": dict.fromkeys(nodes, given)} if nodes else {"general": given}
    request(folder, {"set_limits": wanted})
    _print(_in_force(folder), names, Format.TABLE)
    print("Not saved: `hopscope limits show --toml` prints them for the configuration file.", file=sys.stderr)


@app.command()
def reset(
    settings: CollectorOptions,
    metrics: list[str] | None = argument(
        "METRIC", "Only these metrics, and only their limits for all switches.", None
    ),
    node: NodeOption = None,
) -> None:
    """Return to the limits of the settings: all, or those of METRIC or of a switch.

    Exit status 2: nothing was changed.
    """
    folder, names = _opened(settings)
    wanted = {"metrics": list(metrics or ()), "switches": node_texts(node, names)}
    request(folder, {"reset_limits": {name: each for name, each in wanted.items() if each}})
    _print(_in_force(folder), names, Format.TABLE)


def _opened(settings: CollectorOptions) -> tuple[Path, Names]:
    from ..base.names import Names

    loaded = settings.load()
    return loaded.data, Names.load(loaded.names, loaded.data)


def node_texts(given: list[str] | None, names: Names) -> list[str]:
    """Node ids of switches, given by id or name."""
    from .options.filters import node_ids

    return [str(node) for node in node_ids(given or (), names)]


def _in_force(folder: Path) -> LimitsInForce:
    from ..present.collector_state import CollectorState

    found = CollectorState(folder).limits()
    if found is None:
        raise HopscopeError(not_running(folder))
    return found


def parse_change(text: str) -> tuple[str, str, int | str | None]:
    """Metric, limit and value of `hop_latency.raise_above=50us`; the collector checks them."""
    from ..base.quantities import seconds
    from ..settings.configuration.errors import did_you_mean
    from ..settings.limits import SWITCH_METRICS

    key, equals, value = text.partition("=")
    metric, dot, limit = key.strip().partition(".")
    value = value.strip()
    if not (equals and dot and value):
        raise HopscopeError(f"{text}: expected METRIC.LIMIT=VALUE, such as hop_latency.raise_above=50us")
    if value == "never":
        return metric, limit, None
    if value == "general" or value.isdecimal():
        return metric, limit, int(value) if value.isdecimal() else value
    if metric.endswith("latency"):
        return metric, limit, round(seconds(f"{key}:", value) * 1e9)
    if metric not in (metrics := ("flow_latency", *SWITCH_METRICS)):
        hint = did_you_mean(metric, metrics) or f"; expected {', '.join(metrics)}"
        raise HopscopeError(f"{text}: unknown metric {metric!r}{hint}")
    raise HopscopeError(f"{text}: found {value!r}, expected a whole number or `never`")


def _print(found: LimitsInForce, names: Names, form: Format) -> None:
    from ..present.units import ago

    print_rows(form, COLUMNS, _rows(found, names, plain=form is not Format.TABLE))
    if found.change is not None and form is Format.TABLE:
        import time

        age = ago(time.time_ns() - found.change.time_ns)
        print(f"\nchanged {age} ago by {found.change.author}")


def _rows(found: LimitsInForce, names: Names, *, plain: bool) -> Iterator[dict[str, Any]]:
    """Rows with the keys COLUMNS; `plain`: limits as numbers (None: never), with a list `inherited`."""
    from ..settings.limits import LIMITS, SWITCH_METRICS, SwitchMetricLimits

    general = found.limits.general
    for metric in found.metrics:
        limits = getattr(general, metric)
        values = {name: _value(metric, getattr(limits, name), plain) for name in LIMITS}
        yield {"switch": None if plain else "all", "metric": metric, **values}
    for switch in found.limits.switches:
        for metric in SWITCH_METRICS:
            own, limits = getattr(switch, metric), switch.resolved(general, metric)
            if own == SwitchMetricLimits():
                continue
            inherited = [name for name in LIMITS if getattr(own, name) is None]
            row: dict[str, Any] = {"switch": switch.node if plain else names.node_label(switch.node)}
            row["metric"] = metric
            for name in LIMITS:
                text = _value(metric, getattr(limits, name), plain)
                row[name] = text if plain or name not in inherited else f"({text})"
            yield row | ({"inherited": inherited} if plain else {})


def _value(metric: str, value: int | None, plain: bool) -> int | str | None:
    from ..present.units import duration

    if plain:
        return value
    if value is None:
        return "never"
    return duration(value) if metric.endswith("latency") else str(value)


def _toml(found: LimitsInForce) -> Iterator[str]:
    """Limits as `config check` accepts them."""
    from .config import toml_lines

    general = found.limits.general.model_dump()
    detect: dict[str, Any] = {"thresholds": {name: general[name] for name in found.metrics}}
    if found.limits.switches:
        detect["switches"] = [switch.given() for switch in found.limits.switches]
    yield from toml_lines({"detect": detect}, {})
