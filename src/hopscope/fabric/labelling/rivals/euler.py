"""Fewest trails that pass every edge of a graph once, of about equal length.

Virtual edges join the odd vertices in pairs, Hierholzer's algorithm finds a circuit in time linear in the
edges, and cutting it at the virtual edges leaves half as many trails as there were odd vertices: fewer are
impossible. Trails that meet in a vertex can exchange their remainders, which shortens long ones.
"""

from __future__ import annotations

from collections.abc import Sequence

Edge = tuple[int, int]
"""An edge: its two vertices."""
Trail = list[tuple[int, bool]]
"""Edges in order, each with whether it is traversed from its first vertex to its second."""


def euler_trails(vertices: int, ends: Sequence[Edge]) -> tuple[list[Trail], int]:
    """The fewest trails that pass every edge once, and the number of odd vertices.

    `ends` are the two vertices of each edge. A connected component has one circuit, or half as many trails
    as it has odd vertices.
    """
    incident: list[list[int]] = [[] for _ in range(vertices)]
    both = list(ends)
    for edge, (low, high) in enumerate(ends):
        incident[low].append(edge)
        incident[high].append(edge)
    odd = [vertex for vertex in range(vertices) if len(incident[vertex]) % 2]
    part = _parts(vertices, ends)
    waiting: dict[int, int] = {}
    for vertex in odd:  # each component has an even number of odd vertices
        other = waiting.pop(part[vertex], None)
        if other is None:
            waiting[part[vertex]] = vertex
        else:
            incident[other].append(len(both))
            incident[vertex].append(len(both))
            both.append((other, vertex))
    passed = [False] * len(both)
    trails: list[Trail] = []
    for start in [*odd, *range(vertices)]:
        circuit = _circuit(start, incident, both, passed)
        trails += _cut(circuit, len(ends))
    return trails, len(odd)


def _parts(vertices: int, ends: Sequence[Edge]) -> list[int]:
    """Number of the connected component of each vertex."""
    above = list(range(vertices))

    def top(vertex: int) -> int:
        while above[vertex] != vertex:
            above[vertex] = above[above[vertex]]
            vertex = above[vertex]
        return vertex

    for low, high in ends:
        above[top(low)] = top(high)
    return [top(vertex) for vertex in range(vertices)]


def _circuit(start: int, incident: list[list[int]], ends: Sequence[Edge], passed: list[bool]) -> Trail:
    """Hierholzer's algorithm: edges, in order, of a circuit through all unvisited edges of `start`'s
    component.
    """
    stack: list[tuple[int, int, bool]] = [(start, -1, True)]
    found: Trail = []
    while stack:
        vertex, edge, ahead = stack[-1]
        while incident[vertex] and passed[incident[vertex][-1]]:
            incident[vertex].pop()
        if incident[vertex]:
            following = incident[vertex].pop()
            passed[following] = True
            low, high = ends[following]
            stack.append((high, following, True) if low == vertex else (low, following, False))
        else:
            stack.pop()
            if edge >= 0:
                found.append((edge, ahead))
    return found[::-1]


def _cut(circuit: Trail, real: int) -> list[Trail]:
    """The circuit cut at its virtual edges, whose numbers are `real` and above."""
    first = next((at for at, (edge, _) in enumerate(circuit) if edge >= real), None)
    if first is None:
        return [circuit] if circuit else []
    trails: list[Trail] = [[]]
    for edge, ahead in circuit[first + 1 :] + circuit[:first]:
        if edge >= real:
            trails.append([])
        else:
            trails[-1].append((edge, ahead))
    return [trail for trail in trails if trail]


def balance(trails: list[Trail], ends: Sequence[Edge]) -> list[Trail]:
    """The same edges on the same number of trails, whose longest one is as short as exchanges can make it."""
    kept = [list(trail) for trail in trails]
    for _ in range(20 * len(kept)):
        kept.sort(key=len)
        if not kept or not any(_exchange(kept, other, ends) for other in range(len(kept) - 1)):
            return kept
    return kept


def _exchange(trails: list[Trail], other: int, ends: Sequence[Edge]) -> bool:
    """Exchange the remainders of the last, longest trail and another after a common vertex, if both become
    shorter.
    """
    long, short = trails[-1], trails[other]
    at = {vertex: place for place, vertex in enumerate(_vertices(short, ends))}
    best, found = len(long), None
    for place, vertex in enumerate(_vertices(long, ends)):
        if vertex in at:
            longest = max(place + len(short) - at[vertex], at[vertex] + len(long) - place)
            if longest < best:
                best, found = longest, (place, at[vertex])
    if found is None:
        return False
    cut, into = found
    trails[-1], trails[other] = long[:cut] + short[into:], short[:into] + long[cut:]
    return True


def _vertices(trail: Trail, ends: Sequence[Edge]) -> list[int]:
    """The vertices that a trail passes, one more than its edges."""
    edge, ahead = trail[0]
    return [ends[edge][0 if ahead else 1], *(ends[edge][1 if ahead else 0] for edge, ahead in trail)]
