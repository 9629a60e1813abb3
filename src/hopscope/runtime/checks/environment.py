"""What the machine offers a collector: facts, a verdict on each, and what to do about it."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ...base.errors import HopscopeError
from ...base.plural import plural
from ...base.process import affinity
from ...history.writing.space import kept_bytes
from ...memory.data_folder import SHARED_MEMORY, check_writable
from ...memory.huge_pages import huge_share_in
from ...present.units import size
from ...settings.collector import Settings
from ...settings.configuration.secrets import unreadable
from ...settings.listen import ListenSettings
from ...settings.section import MIN_TOKEN
from ..pipeline.mode import mode_of
from ..processes.processors import check as check_processors
from ..supervisor.requirements import check_requirements
from .other_user import may_have, other_owner

LARGE = 256 << 20
"""Huge pages are advised if the tables have at least this many bytes. Decoding and detecting a report with 3
hops takes 214 ns in huge pages and 241 in small ones with 100,000 flows in 300 MiB, and 193 ns in both with
100 flows.
"""


class Verdict(StrEnum):
    """What a finding means."""

    GOOD = "good"
    ADVICE = "advice"
    """It works, but could be better."""
    BAD = "bad"
    """A collector would not start, would lose reports, or could not send its exports."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact about the machine."""

    what: str
    found: str
    verdict: Verdict = Verdict.GOOD
    advice: str = ""


NO_EVIDENCE = (
    "reports of notable events are in memory only, and a reboot loses them: make room on this disk, or lower "
    "history.evidence_bytes"
)
"""Advice if the data folder has no room for evidence."""


def findings(settings: Settings) -> Iterator[Finding]:
    """Examine everything that a collector with these settings needs."""
    yield _system()
    yield _processors(settings)
    yield from _nodes(settings)
    if not settings.listen and not settings.label.listen:
        yield Finding("listeners", "none", Verdict.BAD, "set listen or label.listen")
    for listen in settings.listen:
        yield from listener(listen)
    if settings.label.listen:
        from ..labels.process import listen_settings

        yield next(listener(listen_settings(settings.label)))
    yield from receive_buffer(settings)
    yield from _shared_memory(settings)
    yield from _data(settings)
    yield from _former_destinations(settings)
    missing = list(unreadable(settings))
    if settings.serve.enabled:
        yield page(_with_tokens(settings, {key for key, *_ in missing}))
    try:
        check_requirements(settings)
    except HopscopeError as error:
        yield Finding("settings", "cannot be used", Verdict.BAD, str(error))
    else:
        yield _names(settings)
    for key, secret, reason in missing:
        if advice := may_have(secret, settings.data):
            yield Finding(key, reason, Verdict.ADVICE, advice)
        else:
            advice = "set the variable, or make the file readable, for the user that runs the collector"
            yield Finding(key, reason, Verdict.BAD, advice)
    yield from _kernels()


def _system() -> Finding:
    found = (
        f"{platform.system()} {platform.release()}, {platform.machine()}, Python {platform.python_version()}"
    )
    if not sys.platform.startswith("linux"):
        return Finding(
            "system", found, Verdict.BAD, "collecting needs Linux; decode, replay and simulate do not"
        )
    if sys.byteorder != "little" or sys.maxsize < 2**32:
        return Finding("system", found, Verdict.BAD, "a 64-bit little-endian machine is needed")
    return Finding("system", found)


def _processors(settings: Settings) -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = settings.workers
    found = f"{cores} cores, {workers} worker{'' if workers == 1 else 's'}"
    if mode_of(settings).has_detector:
        found += " and their detector"
    if workers > cores:
        return Finding("processors", found, Verdict.ADVICE, "more workers than cores slow each other down")
    try:
        check_processors(settings)
    except HopscopeError as error:
        return Finding("processors", found, Verdict.BAD, str(error).removeprefix("processors: "))
    return Finding("processors", found)


def _nodes(settings: Settings) -> Iterator[Finding]:
    """Whether workers run where the memory of their interface is."""
    nodes = affinity.nodes()
    if len(nodes) < 2:
        return
    for interface in sorted({listen.interface for listen in settings.listen if listen.interface}):
        near = affinity.node_of(interface)
        what, found = f"NUMA node of {interface}", "unknown" if near is None else str(near)
        if near is None or set(settings.processors) & nodes[near] == set(settings.processors) != set():
            yield Finding(what, found)
        else:
            near_ones = affinity.as_list(nodes[near])
            yield Finding(
                what, found, Verdict.ADVICE, f"name some of its processors, {near_ones}, in `processors`"
            )


def listener(listen: ListenSettings) -> Iterator[Finding]:
    """Whether reports can be received on a listener, and how efficiently."""
    from ...capture.sockets import bind_share, enable_gro
    from ...settings.source import url

    what = url(listen)
    if listen.kind == "xdp":
        yield _xdp(listen)
        return
    try:
        handle = bind_share(listen)
    except HopscopeError as error:
        yield Finding(what, "cannot listen", Verdict.BAD, str(error).removeprefix(f"{what}: "))
        return
    with handle:
        if listen.interface:
            yield Finding(what, f"can be read, in a ring of {size(listen.ring_bytes)} per worker")
            return
        yield Finding(what, "free")
        if listen.over_tcp:
            return
        if listen.gro and not enable_gro(handle):
            yield Finding(
                "UDP_GRO", "missing", Verdict.ADVICE, "Linux 5.0 takes trains of datagrams: 6 times as fast"
            )
        elif listen.gro:
            yield Finding("UDP_GRO", "there")


def _xdp(listen: ListenSettings) -> Finding:
    """Whether this kernel takes the XDP program; it is not attached: that may interrupt a link."""
    from ...bpf.program import XdpProgram
    from ...settings.source import url

    what = url(listen)
    try:
        program = XdpProgram(listen)
    except HopscopeError as error:
        return Finding(what, "cannot listen", Verdict.BAD, str(error).removeprefix(f"{what}: "))
    program.close()
    return Finding(what, f"this kernel takes the XDP program, and a ring of {size(program.ring_bytes)}")


def receive_buffer(settings: Settings) -> Iterator[Finding]:
    """Whether the kernel grants the buffer that the settings request for UDP sockets; nothing without one."""
    what = "net.core.rmem_max"
    needed_bytes = max((each.receive_buffer_bytes for each in settings.listen if each.over_udp), default=0)
    if not needed_bytes:
        return
    try:
        allowed = int(Path("/proc/sys/net/core/rmem_max").read_text())
    except (OSError, ValueError):
        yield Finding(what, "unknown")
        return
    if allowed >= needed_bytes:
        yield Finding(what, size(allowed))
    elif _may_force():
        yield Finding(what, f"{size(allowed)}, and permission to exceed it")
    else:
        yield Finding(
            what,
            f"{size(allowed)}, {size(needed_bytes)} requested",
            Verdict.ADVICE,
            f"bursts are lost when the buffer is full: sysctl -w net.core.rmem_max={needed_bytes}",
        )


def _may_force() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        try:
            handle.setsockopt(socket.SOL_SOCKET, 33, 4096)  # SO_RCVBUFFORCE
        except OSError:
            return False
        return True


def _shared_memory(settings: Settings) -> Iterator[Finding]:
    needed = mode_of(settings).state_bytes()
    folder = settings.regions or (SHARED_MEMORY if SHARED_MEMORY.is_dir() else settings.data)
    if problem := check_writable(folder):
        yield Finding(str(folder), problem, Verdict.BAD, "choose another folder with --regions")
        return
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    found = f"{size(free)} free, {size(needed)} needed"
    if free < needed:
        advice = "lower detect.flow_rows, or choose --regions on a larger one"
        yield Finding(str(folder), found, Verdict.BAD, advice)
        return
    yield Finding(str(folder), found)
    yield _pages(folder, needed)


def _pages(folder: Path, needed: int) -> Finding:
    """Whether shared memory lies in huge pages, tried with a small file."""
    what = f"pages of {folder}"
    try:
        share = huge_share_in(folder)
    except (HopscopeError, OSError) as error:
        return Finding(what, f"unknown: {error}")
    if share > 0.5:
        return Finding(what, "huge (2 MiB)")
    if needed < LARGE:
        return Finding(what, "small (4 KiB), which is enough for these tables")
    advice = "huge ones save up to a tenth of a worker's processor: "
    if folder == SHARED_MEMORY:
        advice += f"mount -o remount,huge=within_size {folder}"
    else:
        advice += "choose --regions in a tmpfs that is mounted with huge=within_size"
    return Finding(what, "small (4 KiB)", Verdict.ADVICE, advice)


def _data(settings: Settings) -> Iterator[Finding]:
    what = f"data folder {settings.data}"
    if problem := check_writable(settings.data):
        advice = "choose another folder with --data"
        if who := other_owner(settings.data):
            advice += f", or check as its user: `sudo -u {who} hopscope check`"
        yield Finding(what, problem, Verdict.BAD, advice)
        return
    folder = settings.data
    while not folder.exists():
        folder = folder.parent
    free, needed_bytes = shutil.disk_usage(folder).free, settings.history.keep_bytes
    found = f"writable, {size(free)} free, history.keep_bytes {size(needed_bytes)}"
    if not free:
        yield Finding(what, found, Verdict.BAD, "make room, or choose another folder with --data")
    elif free < (evidence := mode_of(settings).evidence_bytes()):
        yield Finding(what, f"{found}, history.evidence_bytes {size(evidence)}", Verdict.ADVICE, NO_EVIDENCE)
    elif free < needed_bytes:
        advice = "old segments are deleted earlier: when history.keep_free is left"
        if not kept_bytes(folder, settings.history.keep_free):
            advice = "history fills the disk up: lower history.keep_bytes, or set history.keep_free"
        yield Finding(what, found, Verdict.ADVICE, advice)
    else:
        yield Finding(what, found)


def _former_destinations(settings: Settings) -> Iterator[Finding]:
    """Destinations that have saved positions, but are not in the settings."""
    from ...export.positions import FOLDER, read_positions

    folder = settings.data / FOLDER
    try:
        names = {path.stem for path in folder.glob("*.positions")}.difference(settings.destinations)
    except PermissionError:  # the finding of the data folder reports it
        return
    if not names:
        return
    from ...history.follow import ends_of

    ends = ends_of(settings.data)
    for name in sorted(names):
        positions = read_positions(settings.data, name)
        if positions is None:
            continue
        waiting = sum(max(0, end - int(positions[shard])) for shard, end in ends.items())
        yield Finding(
            f"export.{name}", f"not in the settings; {plural(waiting, 'event')} of history not sent to it",
            Verdict.ADVICE,
            f"if its name has changed, rename {folder}/{name}.* while the collector is stopped; "
            "if it does not come back, delete them",
        )  # fmt: skip


def page(settings: Settings) -> Finding:
    """Whether the API and the console can be served."""
    from ...serve.server import bind

    what = settings.serve.address
    try:
        bind(settings.serve, settings.data).close()
    except HopscopeError as error:
        return Finding(what, "cannot listen", Verdict.BAD, str(error))
    except PermissionError as error:
        return Finding(
            what, f"{error.filename}: {error.strerror}", Verdict.ADVICE, "check as the collector's user"
        )
    return Finding(what, "free")


def _with_tokens(settings: Settings, missing: Collection[str]) -> Settings:
    """The settings with placeholders for missing secrets of the page, which have findings of their own."""
    serve, any_text = settings.serve, "-" * MIN_TOKEN
    given: dict[str, object] = {
        name: any_text for name in ("token", "viewer_token") if f"serve.{name}" in missing
    }
    if "serve.oidc.client_secret" in missing:
        given["oidc"] = serve.oidc.model_copy(update={"client_secret": any_text})
    return settings.model_copy(update={"serve": serve.model_copy(update=given)})


def _names(settings: Settings) -> Finding:
    from ...base.names import Names

    if settings.names is None and not settings.names_from:
        return Finding("names", "none: nodes and ports are shown by number")
    names = Names.load(settings.names, settings.data)
    return Finding("names", f"{plural(len(names.nodes), 'node')}, {plural(len(names.ports), 'port')}")


def _kernels() -> Iterator[Finding]:
    from ...base.kernels.kernel_cache import cache_folder, foreign
    from ..warmup import PARTS, is_compiled

    folder = cache_folder()
    if folder.exists() and (reason := foreign(folder.stat())):
        advice = "its kernels are not used: delete it, or set HOPSCOPE_KERNEL_CACHE"
        yield Finding("kernels", f"{folder} {reason}", Verdict.ADVICE, advice)
    elif problem := check_writable(folder):
        yield Finding(
            "kernels", problem, Verdict.ADVICE, "set HOPSCOPE_KERNEL_CACHE, or every start compiles"
        )
    for part, steps in PARTS.items():
        missing = [step for step in steps if not is_compiled(step)]
        if not missing:
            yield Finding(f"kernels of {part}", "compiled")
        else:
            yield Finding(
                f"kernels of {part}",
                f"not compiled: {', '.join(missing)}",
                Verdict.ADVICE,
                f"run `hopscope warmup {part}`, or wait at the first start",
            )
