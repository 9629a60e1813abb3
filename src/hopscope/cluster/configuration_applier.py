"""The part of the process that applies the cluster's configuration to this member via its control socket."""

from __future__ import annotations

from dataclasses import asdict

from ..base.process import control_client as control
from .configuration import Configurations, Revision
from .connection import ClusterError
from .membership.members import as_text
from .process import Context, Part


class ConfigurationApplier(Part):
    """`configuration`: applies each new revision, all or nothing; the record states the revision in force."""

    name = "configuration"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.seconds = context.settings.cluster.heartbeat_seconds
        self._configurations = Configurations(context.connection)

    def start(self) -> None:
        """Subscribe to changes; each turn also checks, since messages may be lost."""
        self._configurations.follow(lambda: self.context.wake(self.name))

    def turn(self) -> None:
        """Apply the newest revision, unless this member already has it."""
        context = self.context
        newest = self._configurations.newest()
        has = self._applied(newest)
        problem = ""
        if not newest.number and has:
            problem = f"NATS has lost the configuration: revision {has} stays in force until a new one is set"
        elif newest.number != has:
            problem = self._apply(newest)
            has = has if problem else newest.number
        said = {"revision": has, "revision_problem": problem}
        context.shown["configuration"] = {"configuration": {"newest": newest.number, **said}}
        if {**context.own, **said} != context.own:
            context.own.update(said)
            context.changed = True
            context.wake("members")

    def _applied(self, newest: Revision) -> int:
        """The revision that the collector has; 0: none, or a different one with the same number as the
        newest, since numbers restart if NATS has lost its buckets.
        """
        try:
            answer = control.request(self.context.data, {"cluster": {}})["cluster"]
        except control.ControlError as error:
            raise ClusterError(str(error)) from None
        other = answer["limits"] != asdict(newest.configuration.limits)
        if answer["cluster"] != self.context.settings.cluster.name or (
            other and answer["revision"] == newest.number
        ):
            return 0
        return int(answer["revision"])

    def _apply(self, revision: Revision) -> str:
        """Apply a revision; returns why that failed; empty: it succeeded."""
        if revision.problem:
            return f"revision {revision.number} cannot be read: {revision.problem}"
        request = {
            "cluster": self.context.settings.cluster.name,
            "revision": revision.number,
            "limits": asdict(revision.configuration.limits),
        }
        by = revision.configuration.by
        try:
            control.request(self.context.data, {"set_cluster": request, **({"by": by[:200]} if by else {})})
        except control.RejectedError as error:
            return as_text(f"revision {revision.number}: {error}")
        except control.ControlError as error:
            raise ClusterError(str(error)) from None
        return ""
