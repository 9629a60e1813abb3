"""Append: nothing is lost, and nothing stays for ever."""

from __future__ import annotations


def append_age(batch: int, batches: int) -> int:
    """Later entries of its list with which the last entry of a batch is overwritten: the ring's length.

    Earlier entries of the batch go with it. A batch that was sent before it was full makes it less.
    """
    return batch * batches


def append_wait(batch: int) -> int:
    """The most later entries of its list for which an entry waits in the translator."""
    return batch - 1
