"""Append: nothing is lost, and nothing stays for ever."""

from __future__ import annotations


def append_age(batch: int, batches: int) -> int:
    """Later entries of its list after which an entry may be overwritten: the ring but one batch.

    The write that fills a ring's oldest batch replaces all of it at once.
    """
    return batch * (batches - 1)


def append_wait(batch: int) -> int:
    """The most later entries of its list for which an entry waits in the translator."""
    return batch - 1
