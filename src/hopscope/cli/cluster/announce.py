"""`hopscope cluster announce`: the route of a collector, announced by ExaBGP or BIRD while it is ready."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from ...base.errors import HopscopeError
from ..options.declare import Options, option

RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class AnnounceOptions(Options):
    """What is announced, by whom, and when."""

    prefix: list[str] | None = option(
        "--prefix PREFIX", "Route that ExaBGP announces, such as 192.0.2.1/32. Repeatable."
    )
    next_hop: str = option("--next-hop ADDRESS", "Next hop of the route; self: ExaBGP's address.", "self")
    bird: str | None = option("--bird PROTOCOL", "Instead, enable and disable this protocol of BIRD.")
    url: str = option(
        "--url URL",
        "Address at which the collector says whether it is ready.",
        "http://127.0.0.1:8080/readyz",
    )
    every: float = option("--every S", "Interval between checks.", 0.5, min=0.05, max=60)
    falls: int = option("--falls N", "Failed checks after which the route is withdrawn.", 2, min=1, max=100)
    rises: int = option(
        "--rises N", "Successful checks after which the route is announced.", 2, min=1, max=100
    )


def announce(options: AnnounceOptions) -> None:
    """Announce a collector's route while its /readyz is green; withdraw it when it is not or does not answer.

    ExaBGP runs this command as a process and reads `announce route …` and `withdraw route …` from its output;
    with --bird it runs `birdc`. Changes and their reasons go to stderr. Ends on SIGTERM, or when the program
    that started it ends; the route is withdrawn.
    """
    from ...cluster.membership.route import Probe
    from ..output.running import until_stopped

    change = _bird(options.bird) if options.bird else _exabgp(_prefixes(options.prefix), options.next_hop)
    probe = Probe(options.url, rises=options.rises, falls=options.falls)
    parent, done, retry_at = os.getppid(), None, 0.0
    with until_stopped() as stop:
        while not stop.is_set() and os.getppid() == parent:
            due = time.monotonic() + options.every
            ready = probe.look()
            if ready is not done and time.monotonic() >= retry_at:
                problem = change(ready)
                _say(problem or ("announced" if ready else f"withdrawn: {probe.reason}"))
                done, retry_at = (done, due + RETRY_SECONDS) if problem else (ready, 0.0)
            stop.wait(max(0.0, due - time.monotonic()))
        if done is not False:
            change(False)
            _say("withdrawn: this command ends")


def _prefixes(given: Sequence[str] | None) -> list[str]:
    if not given:
        raise HopscopeError("nothing to announce: give --prefix, such as 192.0.2.1/32, or --bird PROTOCOL")
    for text in given:
        try:
            ip_network(text)
        except ValueError as error:
            raise HopscopeError(f"--prefix: {error}, expected a prefix such as 192.0.2.1/32") from None
    return list(given)


def _exabgp(prefixes: Sequence[str], next_hop: str) -> Callable[[bool], str]:
    def change(announced: bool) -> str:
        word = "announce" if announced else "withdraw"
        for prefix in prefixes:
            print(f"{word} route {prefix} next-hop {next_hop}", flush=True)
        return ""

    return change


def _bird(protocol: str) -> Callable[[bool], str]:
    import subprocess

    from ...cluster.membership.route import COMMAND_SECONDS, run_error

    def change(announced: bool) -> str:
        words = ("birdc", "enable" if announced else "disable", protocol)
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return run_error(words, None, "")
        except OSError as error:
            return f"{words[0]}: {error.strerror or error}"
        # birdc ends with 0 whatever BIRD has answered
        states = (f"{protocol}: already {words[1]}d", f"{protocol}: {words[1]}d")
        good = done.returncode == 0 and any(line.strip() in states for line in done.stdout.splitlines())
        return "" if good else run_error(words, done.returncode, done.stdout + done.stderr)

    return change


def _say(text: str) -> None:
    print(f"hopscope: route {text}", file=sys.stderr, flush=True)
