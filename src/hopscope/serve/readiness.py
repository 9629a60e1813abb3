"""Whether every component of a collector is ready, and if not, why."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from ..base.plural import plural
from ..base.process import control_client as control
from ..cluster.membership.drain_request import remembered
from ..cluster.status import read_status
from ..detect.counters import DETECTOR
from ..direct.counters import TRANSLATOR_COUNTERS
from ..export.counters import LOST, health_of, names_of, read_counters
from ..history.files.names import damaged_files
from ..history.writing.space import free_bytes, kept_bytes, low_bytes
from ..lake.status import read_status as read_lake_status
from ..memory.data_folder import read_owner
from ..present.collector_state import CollectorState
from ..present.events import when_seconds
from ..present.units import size
from .access.tls import Certificate

FULL = 0.875
"""Above this share of rows in use, new keys replace others."""


@dataclass(frozen=True, slots=True)
class Component:
    """A process, an interface, the regions, history, tables, or a destination of an export."""

    name: str
    ready: bool
    detail: str
    restarts: int = 0
    advice: str = ""
    """What to do if it is not ready or was restarted; empty: nothing."""


_START = "start one with `hopscope collect`, or name its data folder with --data"
_REGIONS = "see the log, or wait: it may be starting"


def _component(name: str, ready: bool, detail: str, advice: str) -> Component:
    """A component that has advice only while it is not ready."""
    return Component(name, ready, detail, advice="" if ready else advice)


def components(state: CollectorState, folder: Path) -> list[Component]:
    """The components that must all be ready: supervisor, processes, interfaces, the detector's queues,
    regions, and history; a member of a cluster must not be drained.
    """
    return [
        *processes(folder),
        *detector(state),
        regions(state, folder),
        history(state, folder),
        *drained(folder),
    ]


def processes(folder: Path) -> list[Component]:
    """The supervisor, its processes, and the interfaces of listeners."""
    owner = read_owner(folder)
    if not owner:
        return [Component("supervisor", False, "no collector has run on this data folder", advice=_START)]
    try:
        answer = control.request(folder, {"status": {}})
    except control.ControlError as error:
        return [Component("supervisor", False, str(error), advice=_START)]
    parts = [Component("supervisor", True, f"pid {owner.get('pid')}")]
    for process in answer.get("processes", ()):
        alive, restarts = bool(process.get("alive")), process.get("restarts", 0)
        state = f"pid {process.get('pid')}" if alive else "not running"
        if process.get("stopped"):
            state = "left stopped for a while, since it ended again and again"
        detail = f"{state}, {restarts} restarts"
        if process.get("last_error"):
            detail += f", last error: {process['last_error']}"
        alive |= process.get("name") == "standby"  # readiness does not depend on it
        advice = "it was restarted: see the log" if alive and restarts else "" if alive else "see the log"
        if process.get("starting"):
            alive, detail, advice = False, f"{state}, starting", "wait; the log says what it waits for"
        parts.append(Component(str(process.get("name")), alive, detail, restarts, advice))
    for interface in answer.get("interfaces", ()):
        name, there = f"interface {interface.get('name')}", bool(interface.get("ready"))
        detail = str(interface.get("detail"))
        advice = "bring it up, or make it again" if not there else ""
        if there and detail != "present":
            advice = "bring it up, and look at the cable and the other end"
        parts.append(Component(name, there, detail, advice=advice))
    return parts


def certificate(found: Certificate | None) -> list[Component]:
    """Not ready if a renewed certificate cannot be used, so that the old one stays in use."""
    if found is None:
        return []
    return [Component("certificate", not found.problem, found.problem or str(found.files[0]))]


def detector(state: CollectorState) -> list[Component]:
    """Ready while the detector takes all reports of its workers; empty without a detector."""
    counters = state.counters()
    if DETECTOR not in counters.processes:
        return []
    detail = f"{plural(counters['detector_waiting_reports'], 'report')} waiting for it"
    if lost := counters["detector_lost_reports_total"]:
        detail += f"; {lost:,} were lost"
    return [
        _component(
            "queues of the detector",
            not counters["detector_queue_full"],
            detail,
            "raise detect.queue_reports, or sample less",
        )
    ]


def regions(state: CollectorState, folder: Path) -> Component:
    """Ready once the workers (or the label process, if there are none) have made their regions."""
    workers, problems = state.workers(), state.problems
    if problems:
        return Component("regions", False, "; ".join(problems.values()), advice=_REGIONS)
    takes_labels = state.labels.about() is not None
    if not workers and (read_owner(folder).get("listen") or not takes_labels):
        return Component("regions", False, "no worker has made its regions", advice=_REGIONS)
    parts = []
    if workers:
        last = max((int(rows["last_ns"].max()) for rows in (state.sources(),) if len(rows)), default=0)
        if last:
            received = f"last report {(time.time_ns() - last) / 1e9:.1f} s ago"
        else:  # a sink has no sources
            count = state.counters()["reports_total"]
            received = plural(count, "report") if count else "no report yet"
        parts.append(f"{plural(len(workers), 'worker')}, {received}")
    if takes_labels:
        parts.append(f"{plural(len(state.labels.ports()), 'port')} with labels")
    return Component("regions", True, "; ".join(parts))


def history(state: CollectorState, folder: Path) -> Component:
    """Ready while the disk accepts events, including those of labels; has advice before the disk is full."""
    journal = folder / "journal"
    if not os.access(journal, os.R_OK):
        return Component(
            "history", False, f"{journal} cannot be read", advice="check the permissions of the data folder"
        )
    free = free_bytes(journal)
    detail = f"{size(free)} free on its disk"
    to_disk = state.to_disk()
    if to_disk.failing:
        detail += f"; it accepts no events, {to_disk.waiting:,} wait in memory"
    if to_disk.lost:
        detail += f"; {to_disk.lost:,} were lost"
    if damaged := damaged_files(folder):
        detail += f"; {plural(len(damaged), 'damaged file')} set aside"
    keep_free = (read_owner(folder).get("retention") or {}).get("keep_free", "1%")
    if to_disk.failing:
        advice = "free space on its disk"
    elif free >= low_bytes(journal, keep_free):
        advice = ""
    elif not kept_bytes(journal, keep_free):
        advice = "free space on its disk, or set history.keep_free: while it is 0, history fills the disk up"
    else:
        advice = "free space on its disk: other files fill it faster than old history is deleted"
    return Component("history", not to_disk.failing, detail, advice=advice)


def clock(folder: Path) -> list[Component]:
    """The system's clock, if it was found implausible at startup. Readiness does not depend on it."""
    problem = read_owner(folder).get("clock_problem")
    advice = "set the clock, and start the collector again"
    return [Component("clock", False, str(problem), advice=advice)] if problem else []


def tables(state: CollectorState) -> list[Component]:
    """Ready while there is room for new keys. Readiness does not depend on it: strangers can fill tables."""
    fill = state.fill()
    if not fill:
        return []
    counters = state.counters()
    names = {"ports": "queues and ports", "sources": "sources", "distributions": "distributions"}
    shares = ", ".join(f"{names[table]} {share:.0%}" for table, share in fill.items())
    detail = f"{shares} in use"
    if rejected := sum(counters[f"{table}_table_full_total"] for table in ("port", "source", "distribution")):
        detail += f"; {rejected:,} values and reports were not tracked"
    if evicted := counters["port_evictions_total"] + counters["source_evictions_total"]:
        detail += f"; {evicted:,} rows went to sources with fewer"
    if flows := counters["flow_evictions_total"]:
        detail += f"; {flows:,} live flows made room for others"
    if evicted := counters["distribution_evictions_total"]:
        detail += f"; {evicted:,} distributions made room for others"
    advice = "raise detect.ports or detect.sources, or limit who sends"
    return [_component("tables", max(fill.values()) < FULL, detail, advice)]


def reporters(stores: Path) -> list[Component]:
    """Ready while a translator tracks the sequence numbers of all reporters; not required."""
    counters = TRANSLATOR_COUNTERS.read(stores)
    untracked = counters["dta_untracked_total"]
    if not counters["dta_datagrams_total"]:
        return []
    detail = f"sequence numbers of {untracked:,} reports were not checked"
    advice = "there are more reporters than can be tracked: limit who sends"
    return [_component("reporters", not counters["dta_reporters_full"], detail, advice)]


def drained(folder: Path) -> list[Component]:
    """Not ready while the member is drained by `hopscope cluster drain`."""
    if not remembered(folder).drained:
        return []
    return [
        Component(
            "drain",
            False,
            "drained: switches are to send to other members",
            advice="`hopscope cluster drain --undo` lets it take reports again",
        )
    ]


def cluster(regions: Path) -> list[Component]:
    """The cluster as this member sees it: ready while NATS answers and all members are present and ready,
    with the newest configuration and a correct clock. Readiness does not depend on it: this collector goes on
    alone.
    """
    status = read_status(regions)
    if not status:
        return []
    problems = [status["problem"]] if status["problem"] else []
    problems += [f"{each['name']} is missing" for each in status["missing"]]
    newest = status["configuration"]["newest"]
    for each in status["members"]:
        if each["revision_problem"]:
            problems.append(f"{each['name']} has revision {each['revision']}: {each['revision_problem']}")
        elif each["revision"] != newest:
            problems.append(f"{each['name']} has revision {each['revision']}, not {newest}")
        if not each["ready"] and each["state"] == "live":
            problems.append(f"{each['name']} is not ready")
        if clock := status.get("clocks", {}).get(each["name"]):
            problems.append(f"{each['name']}: {clock}")
    since = f" since {when_seconds(status['since_ns'])}"
    state = {"joined": "joined", "away": f"local only{since}"}.get(status["state"], status["state"] + since)
    detail = f"{state}, {len(status['members'])} present, revision {newest} of the configuration"
    ready = status["state"] == "joined" and not problems
    advice = "see `hopscope cluster status`; this collector goes on alone meanwhile"
    return [_component(f"cluster {status['cluster']}", ready, "; ".join([detail, *problems]), advice)]


def lake(regions: Path) -> list[Component]:
    """The lake as this member sees it: whether it takes events, and how many events are only on the local
    disk. Readiness does not depend on it: local history has the events meanwhile.
    """
    status = read_lake_status(regions)
    if not status:
        return []
    waiting, seconds = status["lag_events"], status["lag_seconds"]
    detail = f"{status['place']}, {plural(waiting, 'event')} on this disk alone"
    if waiting:
        detail += f", for {seconds:.0f} s"
    if status["lost_events"]:
        detail += f", {status['lost_events']:,} lost before they were committed"
    problems = [status["maintenance"]["problem"], *status["maintenance"]["notes"]]
    if status["problem"]:
        problems.insert(0, f"failing since {when_seconds(status['since_ns'])}: {status['problem']}")
    problems = [problem for problem in problems if problem]
    return [
        _component(
            "shared history",
            status["state"] == "writing" and not problems,
            "; ".join([detail, *problems]),
            "check the catalog and the object store; events are kept on this disk meanwhile",
        )
    ]


def exports(folder: Path) -> list[Component]:
    """Destinations of exports, on which readiness does not depend."""
    rows = read_counters(folder)
    parts = []
    for label, row in zip(names_of(rows), rows, strict=True):
        health = health_of(row)
        lost = {reason: int(row[counter]) for counter, reason, _ in LOST if row[counter]}
        detail = f"{bytes(row['place']).decode('utf-8', 'replace')}, {sum(lost.values()):,} lost"
        if lost:
            detail += f" ({', '.join(f'{count:,} {reason}' for reason, count in lost.items())})"
        advice = ""
        if not health.ok:
            detail += f", failing since {when_seconds(health.since_ns)}: {health.problem}"
            advice = "check its address and the program there"
        elif "expired" in lost:
            advice = "raise history.keep_days or history.keep_bytes: events were deleted before it took them"
        parts.append(Component(label, health.ok, detail, advice=advice))
    return parts


def everything(
    state: CollectorState, folder: Path, stores: Path, tls: Certificate | None = None
) -> tuple[list[Component], list[Component]]:
    """Components that must be ready, and all others; `tls`: the server's certificate."""
    shown = [
        *clock(folder),
        *tables(state),
        *reporters(stores),
        *exports(folder),
        *cluster(state.regions),
        *lake(state.regions),
        *certificate(tls),
    ]
    return components(state, folder), shown
