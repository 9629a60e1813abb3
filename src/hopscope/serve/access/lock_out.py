"""How long a login must wait after failures, which are counted by client, by user, and by both.

Each failure makes the wait longer. Counts by client stop a guesser, whatever names it tries. Counts by user
slow down guesses from many clients; their delay is small, and absent where that user has logged in before, so
that no one can lock out a user for good. A login is counted as a failure when it begins, so that concurrent
guesses are counted, too. Names of unknown users are counted like any other.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

FORGET_SECONDS = 3600.0
"""A count is reset if no failure occurs for this long."""
MAX_COUNTS = 16_384
"""Maximum number of counts of each kind; the one with the oldest failure makes room."""


@dataclass(frozen=True)
class Policy:
    """After `free` failures, a wait of 1 s, which each further failure doubles, up to `most_seconds`."""

    free: int
    most_seconds: float

    def wait_seconds(self, failures: int) -> float:
        """How long after its last failure the next login may begin."""
        over = failures - self.free
        return 0.0 if over < 0 else min(self.most_seconds, 2.0 ** min(over, 30))


CLIENT = Policy(free=20, most_seconds=900)
CLIENT_AND_USER = Policy(free=5, most_seconds=900)
USER = Policy(free=50, most_seconds=15)


@dataclass
class _Count:
    failures: int = 0
    last: float = 0.0


class LockOut:
    """Failures of the last hour. `clock`: a monotonic clock in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[Policy, OrderedDict[tuple[str, ...], _Count]] = {
            policy: OrderedDict() for policy in (CLIENT, CLIENT_AND_USER, USER)
        }

    def begin(self, address: str, user: str | None = None, *, known: bool = False) -> float:
        """Begin a login; `known`: this user has logged in from this address before. Returns 0, or the seconds
        for which logins are locked out; such a login is not counted.
        """
        now, keys = self._clock(), self._keys(address, user)
        waits = (
            count.last + policy.wait_seconds(count.failures) - now
            for policy, key in keys
            if not (known and policy is USER)
            if (count := self._counts[policy].get(key)) and now - count.last < FORGET_SECONDS
        )
        if (wait := max(waits, default=0.0)) > 0:
            return wait
        for policy, key in keys:
            self._add(policy, key, now)
        return 0.0

    def succeeded(self, address: str, user: str | None = None) -> None:
        """A login succeeded: take back the failure that was counted when it began. Other failures stay, since
        a client that knows one password must not clear the count of its guesses at others.
        """
        for policy, key in self._keys(address, user):
            count = self._counts[policy].get(key)
            if count is None:
                continue
            count.failures -= 1
            if policy is CLIENT_AND_USER or count.failures <= 0:
                del self._counts[policy][key]

    def _keys(self, address: str, user: str | None) -> list[tuple[Policy, tuple[str, ...]]]:
        place = network_of(address)
        if user is None:
            return [(CLIENT, (place,))]
        name = user.lower()[:64]
        return [(CLIENT, (place,)), (CLIENT_AND_USER, (place, name)), (USER, (name,))]

    def _add(self, policy: Policy, key: tuple[str, ...], now: float) -> None:
        counts = self._counts[policy]
        count = counts.pop(key, None)
        if count is None or now - count.last >= FORGET_SECONDS:
            count = _Count()
        count.failures, count.last = count.failures + 1, now
        counts[key] = count
        if len(counts) > MAX_COUNTS:
            counts.popitem(last=False)


def network_of(address: str) -> str:
    """The network of one client: an IPv4 address, or a /64 of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
