"""What is wrong with a running collector, why, and what to do about it."""

from __future__ import annotations

import os
import shlex
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from ...base.version import VERSION
from ...detect.counters import INDEX
from ...detect.evidence.region import FOLDER
from ...labels.counters import LABEL_COUNTERS
from ...memory.data_folder import read_owner
from ...present.collector_state import CollectorState
from ...present.counter_advice import WARNINGS, advice_of
from ...present.units import ago, size
from ...serve import readiness
from ...settings.collector import Settings
from ..pipeline.summary import LABEL_LOST, LOST, family
from .environment import NO_EVIDENCE, Finding, Verdict, receive_buffer
from .other_user import other_owner

BUSY = 0.8
"""A worker that is busy for more than this share of the time may lose bursts."""
SHARED_MEMORY_FREE_BYTES = 16 << 20
PAGE_SECONDS = 5.0
"""Time for the page to answer."""


def examine(settings: Settings, seconds: float) -> Iterator[Finding]:
    """Examine the collector of `settings.data`; rates are over `seconds`.

    Of the settings, only the requested socket buffer matters; all other facts come from the collector.
    """
    folder = settings.data
    if (who := other_owner(folder)) and not os.access(folder, os.R_OK | os.X_OK):
        advice = f"run it as its user: `sudo -u {who} {_doctor_of(folder)}`"
        yield Finding("collector", f"{folder}: Permission denied", Verdict.BAD, advice)
        return
    state = CollectorState(folder, fresh_seconds=0)
    owner = read_owner(folder)
    parts = readiness.processes(folder)
    if not parts[0].ready:
        yield Finding("collector", parts[0].detail, Verdict.BAD, parts[0].advice)
        return
    state.counters()
    time.sleep(seconds)
    yield _collector(owner)
    yield from map(_of, parts[1:])
    yield from _reports(state, folder, owner)
    yield from _losses(state, seconds)
    yield _busy(state)
    yield _of(readiness.history(state, folder))
    yield from _evidence(folder)
    yield from map(_of, readiness.clock(folder))
    for part in readiness.tables(state):
        yield _of(part, Verdict.ADVICE)
    yield from map(_of, (*readiness.detector(state), *readiness.exports(folder)))
    if owner.get("api"):
        yield _page(str(owner["api"]), owner.get("pid"), folder)
    if any(str(each).partition(":")[0] in ("udp", "sflow", "ipfix") for each in owner.get("listen", ())):
        yield from receive_buffer(settings)
    yield _shared_memory(folder)


def _collector(owner: Mapping[str, object]) -> Finding:
    started = int(str(owner.get("started_ns") or time.time_ns()))
    found = f"version {owner.get('version')}, pid {owner.get('pid')}, for {ago(time.time_ns() - started)}"
    if owner.get("version") != VERSION:
        return Finding(
            "collector", found, Verdict.ADVICE, f"this program is version {VERSION}: restart the collector"
        )
    return Finding("collector", found)


def _of(part: readiness.Component, otherwise: Verdict = Verdict.BAD) -> Finding:
    """A component; `otherwise`: the verdict if it is not ready."""
    verdict = otherwise if not part.ready else Verdict.ADVICE if part.advice else Verdict.GOOD
    return Finding(part.name, part.detail, verdict, part.advice)


def _reports(state: CollectorState, folder: Path, owner: Mapping[str, object]) -> Iterator[Finding]:
    """Whether reports arrive, and whether a source has become silent."""
    part = readiness.regions(state, folder)
    if not part.ready:
        yield Finding("reports", part.detail, Verdict.BAD, part.advice)
        return
    sources = state.sources()
    listening = owner.get("listen")
    if listening and not len(sources) and not state.counters()["reports_total"]:
        urls = [str(each) for each in (listening if isinstance(listening, list) else [listening])]
        if all(url.startswith("mirror:") for url in urls):
            advice = f"no INT, IFA or IOAM arrived at {', '.join(urls)}: check its source and the dialect"
        else:
            tries = "`hopscope simulate --to` tries it; check firewall and listen.allow"
            advice = f"send them to {', '.join(urls)}; {tries}"
        yield Finding("reports", part.detail, Verdict.ADVICE, advice)
    else:
        yield Finding("reports", part.detail)
    if silent := int(np.count_nonzero(sources["silent"])):
        yield Finding(
            "sources", f"{silent} of {len(sources)} silent", Verdict.ADVICE,
            "`hopscope query events --kind silent` lists them",
        )  # fmt: skip


def _losses(state: CollectorState, seconds: float) -> Iterator[Finding]:
    """Counters of losses: bad if they are rising now, advice if they rose earlier."""
    now, rates = state.counters(), state.rates(seconds)
    counts = {key: now[key] for key in INDEX} | LABEL_COUNTERS.read(state.regions)
    lost = False
    for key, text in {**LOST, **LABEL_LOST}.items():
        count, rate = counts[key], rates[key] if key in INDEX else 0.0
        if count:
            lost = True
            yield Finding("lost", f"{count:,} {text}{_now(rate)}", _rising(rate), advice_of(key))
    if rejected := family(counts, "rejected_reports_total"):
        rate = sum(rates[f"rejected_reports_total.{reason}"] for reason in rejected)
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in rejected.items())
        yield Finding(
            "rejected", f"{reasons}{_now(rate)}", _rising(rate), advice_of("rejected_reports_total")
        )
    if not lost and not rejected:
        yield Finding("lost", "nothing lost, nothing rejected")
    if dropped := family(counts, "forward_drops_total"):
        rate = sum(rates[f"forward_drops_total.{reason}"] for reason in dropped)
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        yield Finding(
            "not forwarded", f"{reasons}{_now(rate)}", _rising(rate), advice_of("forward_drops_total")
        )
    for key, (text, advice) in WARNINGS.items():
        if counts[key]:
            yield Finding("counters", f"{counts[key]:,} {text}{_now(rates[key])}", Verdict.ADVICE, advice)


def _now(rate: float) -> str:
    return f", {rate:,.0f}/s now" if rate > 0 else ""


def _rising(rate: float) -> Verdict:
    return Verdict.BAD if rate > 0 else Verdict.ADVICE


def _busy(state: CollectorState) -> Finding:
    rates, processes = state.rates(), len(state.counters().processes)
    share = rates["busy_ns_total"] / 1e9 / max(1, processes)
    found = f"{share:.0%} of the time, {rates['reports_total']:,.0f} reports/s"
    if share > BUSY:
        return Finding("workers busy", found, Verdict.BAD, "raise listen.workers, or sample less")
    return Finding("workers busy", found)


def _evidence(folder: Path) -> Iterator[Finding]:
    """A finding if the disk has no room for the copies of evidence that are still to be made."""
    needed = 0
    for region in (folder / "regions").glob("worker-*.evidence"):
        copy, nbytes = folder / FOLDER / region.name, region.stat().st_size
        if not copy.exists() or copy.stat().st_size != nbytes:
            needed += nbytes
    if needed > (free := shutil.disk_usage(folder).free):
        yield Finding("evidence", f"{size(free)} free, {size(needed)} needed", Verdict.ADVICE, NO_EVIDENCE)


def _doctor_of(folder: Path) -> str:
    return f"hopscope doctor --data {shlex.quote(str(folder))}"


def _page(url: str, process: object, folder: Path) -> Finding:
    """Whether the page of a process answers. Its certificate is not checked: it holds the name that browsers
    use.
    """
    begin, unverified = time.monotonic(), ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"{url}healthz", timeout=PAGE_SECONDS, context=unverified):
            pass
    except (OSError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", error)
        if _in_other_network(process):
            found = "not reachable from this network namespace"
            advice = f"nsenter --net=/proc/{process}/ns/net {_doctor_of(folder)}"
            return Finding(url, found, Verdict.ADVICE, advice)
        return Finding(url, f"no answer: {reason}", Verdict.BAD, "see the log of the process `serve`")
    return Finding(url, f"answers in {1000 * (time.monotonic() - begin):.0f} ms")


def _in_other_network(process: object) -> bool:
    """Whether a process has another network namespace; False if that cannot be read (of another user)."""
    with suppress(OSError):
        return not Path("/proc/self/ns/net").samefile(f"/proc/{process}/ns/net")
    return False


def _shared_memory(folder: Path) -> Finding:
    regions = (folder / "regions").resolve()
    free_bytes = shutil.disk_usage(regions).free
    found = f"{size(free_bytes)} free"
    if free_bytes < SHARED_MEMORY_FREE_BYTES:
        return Finding(
            str(regions.parent), found, Verdict.BAD, "free some: a restarted worker needs room for its tables"
        )
    return Finding(str(regions.parent), found)
