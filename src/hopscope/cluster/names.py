"""Names of a cluster's buckets, streams and subjects in NATS."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterNames:
    """What NATS calls the parts of the cluster `name`."""

    name: str

    @property
    def members(self) -> str:
        """Bucket of living members, by name; a record that is not renewed is gone after `member_seconds`."""
        return f"hopscope-{self.name}-members"

    @property
    def known(self) -> str:
        """Bucket of all members that were ever there, by name, until they are forgotten."""
        return f"hopscope-{self.name}-known"

    @property
    def configuration(self) -> str:
        """Bucket of the configuration, with its history."""
        return f"hopscope-{self.name}-config"

    @property
    def drains(self) -> str:
        """Bucket of what is wanted of members, and of how far they are (`drain`)."""
        return f"hopscope-{self.name}-drains"

    @property
    def owners(self) -> str:
        """Bucket of the table of owners of keys."""
        return f"hopscope-{self.name}-owners"

    @property
    def events(self) -> str:
        """Stream of events."""
        return f"hopscope-{self.name}-events"

    def subject(self, *parts: str) -> str:
        """A subject, as `hopscope.NAME.ask`."""
        return ".".join(("hopscope", self.name, *parts))


def token(member: str) -> str:
    """A member's name as one part of a subject."""
    return member.replace(".", "=")
