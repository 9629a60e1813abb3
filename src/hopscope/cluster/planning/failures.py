"""A seeded simulation of members that are killed, drained or added: which sources move, and how long it
takes.

Sources are placed as routers do, by a hash of each source over the next hops of a route (ECMP):

- `resilient`: the hash chooses one of many buckets, and each bucket has a member; when members change, the
  fewest buckets move (Linux: resilient nexthop groups; most switches have them).
- `threshold`: the range of the hash is cut into equal regions, one for each member (RFC 2992; Linux without
  resilient groups).
- `modulo`: hash modulo the number of members.

Times are drawn from the timers that determine them; a failure occurs at a random moment of their periods.

    sources moved       k-th missing answer of the router's probes, then the change of its route
    member gone         member_seconds after its last heartbeat
    back                restart, then start, both as given
    answers complete    it is back; until it is gone, a query waits `answer_seconds` for it
    lake caught up      its first commit after it is back

`expected` has the means in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..shares import assign
from .sizing import SizingError

Hash = Literal["resilient", "threshold", "modulo"]
Action = Literal["kill", "drain", "join"]
HASHES: tuple[Hash, ...] = ("resilient", "threshold", "modulo")
ACTIONS: tuple[Action, ...] = ("kill", "drain", "join")
Shares = npt.NDArray[np.float64]
TIMES = ("sources_moved", "member_gone", "answers_complete", "lake_caught_up")


@dataclass(frozen=True, slots=True)
class FailureModel:
    """A cluster and its timers, in seconds."""

    members: int = 100
    sources: int = 10_000
    """Switches or hosts that send reports, each with an address of its own."""
    buckets: int = 8192
    """Buckets of a resilient group."""
    rounds: int = 1000
    """How many failures of each kind are drawn."""
    seed: int = 1
    heartbeat: float = 3.0
    """`cluster.heartbeat_seconds`."""
    member: float = 10.0
    """`cluster.member_seconds`."""
    probe: float = 0.3
    """Period of the router's probes of a next hop (BFD)."""
    probes: int = 3
    """Number of unanswered probes after which a next hop is down."""
    route: float = 0.5
    """Maximum time until routers use a changed route."""
    restart: float = 5.0
    """Time until the process of a killed member (`RestartSec`), or its machine, starts again."""
    start: tuple[float, float] = (2.0, 12.0)
    """Minimum and maximum time from that start until it is ready."""
    silence: float = 10.0
    """Time without reports after which a drained member leaves."""
    every: float = 30.0
    """`lake.every_seconds`."""
    commit: float = 0.4
    """Time of a commit."""

    def checked(self) -> FailureModel:
        """This object, if its values are valid. Raises SizingError."""
        if not 2 <= self.members <= 4096:
            raise SizingError(f"members: found {self.members}, expected 2 to 4,096 to simulate failures")
        if not 1 <= self.sources <= 1_000_000:
            raise SizingError(f"sources: found {self.sources:,}, expected 1 to 1,000,000")
        if not 1 <= self.rounds <= 100_000:
            raise SizingError(f"rounds: found {self.rounds:,}, expected 1 to 100,000")
        if self.buckets < self.members + 1:
            raise SizingError(f"buckets: found {self.buckets}, expected more than the {self.members} members")
        return self


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity over all rounds."""

    mean: float
    median: float
    p99: float
    most: float

    @classmethod
    def of(cls, values: Shares) -> Spread:
        """The spread of the values of all rounds."""
        return cls(
            float(values.mean()),
            float(np.median(values)),
            float(np.quantile(values, 0.99)),
            float(values.max()),
        )


@dataclass(frozen=True, slots=True)
class Moved:
    """Sources whose member differs after a change."""

    action: Action
    hash: Hash
    share: Spread
    """Share of all sources."""
    others: Spread
    """Share of the sources of members that stayed, moved needlessly (join: beyond the new one's)."""
    ideal: float
    """The minimum share: that of the member."""
    expected: float
    """Mean in closed form."""
    fullest: Spread
    """Sources of the fullest member afterwards, relative to the mean."""


@dataclass(frozen=True, slots=True)
class Taken:
    """How long something took."""

    action: Action
    what: str
    seconds: Spread
    expected: float
    """Mean in closed form."""


@dataclass(frozen=True, slots=True)
class FailureReport:
    """Result of the simulation."""

    model: FailureModel
    moved: tuple[Moved, ...]
    taken: tuple[Taken, ...]


def simulate(model: FailureModel) -> FailureReport:
    """Draw `rounds` changes of each kind. Raises SizingError."""
    model = model.checked()
    random = np.random.default_rng(model.seed)
    moved = [_moved(model, action, kind, random) for action in ACTIONS for kind in HASHES]
    taken = [
        Taken(action, what, Spread.of(values), expected(model, action, what))
        for action in ACTIONS
        for what, values in times(model, action, random).items()
    ]
    return FailureReport(model, tuple(moved), tuple(taken))


# ------------------------------------------------------------------------------------------------ placement


def place(
    kind: Hash, hashes: npt.NDArray[np.uint64], members: Sequence[int], table: Sequence[int]
) -> npt.NDArray[np.int64]:
    """The member of each source, int64 [sources]. `hashes`: uint64 below 2^32; `members`: numbers of present
    members, in order; `table`: member of each bucket (resilient).
    """
    alive = np.array(members, np.int64)
    if kind == "resilient":
        return np.array(table, np.int64)[(hashes % np.uint64(len(table))).astype(np.int64)]
    if kind == "threshold":
        return alive[(hashes * np.uint64(len(alive)) >> np.uint64(32)).astype(np.int64)]
    return alive[(hashes % np.uint64(len(alive))).astype(np.int64)]


def _buckets(members: Sequence[int], buckets: int, before: Sequence[int]) -> list[int]:
    """Member of each bucket of a resilient group."""
    names = [str(each) for each in members]
    return [members[at] for at in assign(names, buckets, [str(each) for each in before])]


def _moved(model: FailureModel, action: Action, kind: Hash, random: np.random.Generator) -> Moved:
    before = list(range(model.members))
    table = _buckets(before, model.buckets, ())
    shares, others, fullest = (np.zeros(model.rounds) for _ in range(3))
    changed: dict[int, tuple[list[int], list[int]]] = {}
    for at in range(model.rounds):
        which = model.members if action == "join" else int(random.integers(model.members))
        if which not in changed:
            after = [*before, which] if action == "join" else [each for each in before if each != which]
            changed[which] = after, (_buckets(after, model.buckets, table) if kind == "resilient" else [])
        after, later = changed[which]
        hashes = random.integers(1 << 32, size=model.sources, dtype=np.uint64)
        old, new = place(kind, hashes, before, table), place(kind, hashes, after, later)
        own = new == which if action == "join" else old == which
        shares[at] = np.mean(old != new)
        others[at] = np.mean((old != new) & ~own)
        fullest[at] = np.bincount(new).max() * len(after) / model.sources
    return Moved(
        action, kind, Spread.of(shares), Spread.of(others), ideal(model.members, action),
        expected_moved(model.members, action, kind), Spread.of(fullest),
    )  # fmt: skip


def ideal(members: int, action: Action) -> float:
    """The minimum share of sources that has to move: those of the member that leaves or joins."""
    return 1 / (members + 1) if action == "join" else 1 / members


def expected_moved(members: int, action: Action, kind: Hash) -> float:
    """Mean share of sources that move, over all members that can leave.

    Modulo n before and m after: by the Chinese remainder theorem, all pairs of remainders are equally likely,
    and min(n, m) of the nm pairs name the same member. Threshold: the regions that overlap (RFC 2992, 3).
    """
    if kind == "resilient":
        return ideal(members, action)
    n, m = members, members + (1 if action == "join" else -1)
    if kind == "modulo":
        return 1 - 1 / max(n, m)
    if action == "join":  # the last region is the new one's
        return 1 - sum((n - i) / (n * m) for i in range(n))
    left = [sum((m - i) / (n * m) for i in range(k)) for k in range(n)]
    return 1 - sum(left[k] + left[n - 1 - k] for k in range(n)) / n


# ------------------------------------------------------------------------------------------------ times


def times(model: FailureModel, action: Action, random: np.random.Generator) -> dict[str, Shares]:
    """Seconds from a change until each of the TIMES that apply to it, float64 [rounds]."""

    def uniform(low: float, high: float) -> Shares:
        return random.uniform(low, high, model.rounds)

    route = uniform(0, model.route)
    if action == "kill":
        back = model.restart + uniform(*model.start)
        return {
            "sources_moved": uniform(0, model.probe) + (model.probes - 1) * model.probe + route,
            "member_gone": model.member - uniform(0, model.heartbeat),
            "answers_complete": back,
            "lake_caught_up": back + uniform(0, model.every) + model.commit,
        }
    if action == "drain":
        return {
            "sources_moved": route,
            "member_gone": route + model.silence + model.commit,
            "lake_caught_up": route + model.silence + model.commit,
        }
    ready = uniform(*model.start)
    return {"sources_moved": ready + route, "answers_complete": ready}


def expected(model: FailureModel, action: Action, what: str) -> float:
    """Mean of one of `times`."""
    route, back = model.route / 2, model.restart + sum(model.start) / 2
    return {
        ("kill", "sources_moved"): (model.probes - 0.5) * model.probe + route,
        ("kill", "member_gone"): model.member - model.heartbeat / 2,
        ("kill", "answers_complete"): back,
        ("kill", "lake_caught_up"): back + model.every / 2 + model.commit,
        ("drain", "sources_moved"): route,
        ("drain", "member_gone"): route + model.silence + model.commit,
        ("drain", "lake_caught_up"): route + model.silence + model.commit,
        ("join", "sources_moved"): sum(model.start) / 2 + route,
        ("join", "answers_complete"): sum(model.start) / 2,
    }[action, what]
