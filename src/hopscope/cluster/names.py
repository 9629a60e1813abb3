"""Names of a cluster's buckets, streams and subjects in NATS."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterNames:
    """Names in NATS of the parts of the cluster `name`."""

    name: str

    @property
    def members(self) -> str:
        """Bucket of living members, by name; a record expires after `member_seconds` without renewal."""
        return f"hopscope-{self.name}-members"

    @property
    def known(self) -> str:
        """Bucket of all members that ever were present, by name, until they are forgotten."""
        return f"hopscope-{self.name}-known"

    @property
    def configuration(self) -> str:
        """Bucket of the configuration, with its history."""
        return f"hopscope-{self.name}-config"

    @property
    def drains(self) -> str:
        """Bucket of requests to members, and of their progress (`drain`)."""
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
        """A subject, such as `hopscope.NAME.ask`."""
        return ".".join(("hopscope", self.name, *parts))


def token(member: str) -> str:
    """A member's name as one part of a subject."""
    return member.replace(".", "=")
