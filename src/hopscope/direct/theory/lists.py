"""Append: the lifetime and the delay of entries."""

from __future__ import annotations


def append_age(batch: int, batches: int) -> int:
    """Later entries of its list after which the last entry of a batch is overwritten: the ring's length.

    Earlier entries of the batch are overwritten with it. Batches sent before they were full shorten this age.
    """
    return batch * batches


def append_wait(batch: int) -> int:
    """Maximum later entries of its list for which an entry waits in the translator."""
    return batch - 1
