"""Assigns shares of keys or sources to members evenly, so that few shares move when members change."""

from __future__ import annotations

from collections.abc import Sequence

from .connection import ClusterError


def assign(names: Sequence[str], shares: int, before: Sequence[str]) -> tuple[int, ...]:
    """The number of the member of each share. Members get equal numbers of shares, give or take one, and as
    few shares as possible move away from the members in `before`. Raises ClusterError.
    """
    if not names:
        raise ClusterError("no member is left")
    if len(set(names)) < len(names):
        raise ClusterError("a member is named twice")
    if len(names) > shares:
        raise ClusterError(f"{len(names)} members, but {shares} shares: the number of shares never changes")
    had: dict[str, list[int]] = {name: [] for name in names}
    for share, holder in enumerate(before):
        if holder in had:
            had[holder].append(share)
    least, over = divmod(shares, len(names))
    order = sorted(range(len(names)), key=lambda number: -len(had[names[number]]))  # stable
    quota = {number: least + (place < over) for place, number in enumerate(order)}
    owner, left = [-1] * shares, dict(quota)
    for number, name in enumerate(names):
        held = had[name]
        keep = min(len(held), quota[number])
        for at in range(keep):  # evenly spaced, so that moved shares are not adjacent
            owner[held[(at * len(held) // keep + number) % len(held)]] = number
        left[number] -= keep
    takers, at = [number for number in left if left[number]], 0
    for share in (share for share in range(shares) if owner[share] < 0):
        at %= len(takers)
        owner[share] = takers[at]
        left[takers[at]] -= 1
        if left[takers[at]]:
            at += 1
        else:
            del takers[at]
    return tuple(owner)
