"""Output of the demo: lines with times while it runs, then a summary and the proof."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.status import Status

WIDTH = 11
"""Of the first column."""


class Story:
    """Lines on stderr with the seconds since the start; on a terminal also what the demo waits for."""

    def __init__(self) -> None:
        from rich.console import Console

        self.began = time.monotonic()
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.began

    def say(self, what: str, text: str, style: str = "") -> None:
        """Print one line: a subject of one or two words, and a text."""
        from rich.text import Text

        line = Text(f"{self.seconds:5.1f} s  ", "dim")
        line.append(f"{what:<{WIDTH}} ", style or "bold")
        line.append(text)
        self._console.print(line)

    def title(self, text: str) -> None:
        """A line without a time."""
        self._console.print(f"[bold]{text}[/bold]" if sys.stderr.isatty() else text)

    def wait(self, text: str) -> None:
        """Show what the demo waits for, only on a terminal."""
        if not self._console.is_terminal:
            return
        if self._status is None:
            self._status = self._console.status(text, spinner="dots")
            self._status.start()
        self._status.update(text)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def rows_of(shards: list[Mapping[str, Any]]) -> Iterator[str]:
    """A table of the proof."""
    head = ("member", "shard", "in the lake", "distinct", "mark", "tail", "given", "")
    cells = [
        (
            each["member"], str(each["shard"]), f"{each['lake']:,}", f"{each['distinct']:,}",
            f"{each['mark']:,}", f"{each['tail']:,}", f"{each['end']:,}",
            "whole, each once" if each["holds"] else "DOES NOT HOLD",
        )
        for each in shards
    ]  # fmt: skip
    widths = [max(len(row[at]) for row in (head, *cells)) for at in range(len(head))]
    for row in (head, *cells):
        first, *middle, last = (
            f"{text:>{width}}" if 0 < at < len(head) - 1 else f"{text:<{width}}"
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(("  " + first, *middle, last)).rstrip()


def summary(result: Mapping[str, Any]) -> Iterator[str]:
    """The end of the demo as text."""
    killed, back, proof = result["killed"], result["started_again"], result["proof"]
    name = killed["member"]
    yield f"After SIGKILL of {name} (all its processes)"
    yield f"  {killed['withdrawn_seconds']:6.2f} s  its route was withdrawn"
    yield (
        f"  {killed['moved_seconds']:6.2f} s  all of its {killed['sources']} switches reached others; "
        f"{killed['others_moved']} of the other {killed['others']} switches moved"
    )
    yield f"  {killed['gone_seconds']:6.2f} s  the cluster counted it as missing"
    yield f"  {killed['answered_seconds']:6.2f} s  the first answer of the cluster named it"
    yield (
        f"  {killed['slowest_answer_seconds']:6.2f} s  took the slowest of {killed['answers']} answers of "
        f"the cluster; {killed['named']} of them named {name}"
    )
    yield f"After it was started again ({killed['down_seconds']:.1f} s later)"
    yield f"  {back['received_seconds']:6.2f} s  it received again"
    yield f"  {back['lake_seconds']:6.2f} s  the lake had all events that it had at the kill"
    yield f"  {back['complete_seconds']:6.2f} s  answers of the cluster were complete again"
    others = f"{back['others_moved']} moved between others" if back["others_moved"] else "no other moved"
    yield (
        f"  {back['sources_seconds']:6.2f} s  switches sent to it again: {back['sources']} of {back['of']}; "
        f"{others}"
    )
    reports = result["reports"]
    yield "Reports"
    yield f"  {reports['sent']:>11,} sent by {result['switches']} switches"
    yield f"  {reports['received']:>11,} received"
    yield f"  {reports['lost']:>11,} lost on their way to {name}, dead, before its route was withdrawn"
    yield "Events, in the lake, and those after its marks in the members' own history"
    yield from rows_of(proof["shards"])
    seen = result["seen"]
    yield (
        f"  {seen['in_lake']:,} of the {seen['events']:,} events that {name} itself had answered with "
        "right before the kill are in the lake"
    )
    yield (
        f"Nothing is missing, nothing is there twice: {proof['events']:,} events given, "
        f"{proof['lake'] + proof['tails']:,} found."
        if result["holds"]
        else "The proof FAILED: see the lines above."
    )
