"""Counters of logins, of changes, and of requests that were refused because of their sender, or failed."""

from ..base.counter import Counter, family
from ..memory.counter_region import CounterFile

ACCESS_COUNTERS = CounterFile("access.counters", "access counters", 1, (
    *family(
        "access_logins_total", "Logins, by result.", "result", ("right", "wrong", "locked_out", "busy"),
    ),
    *family(
        "access_refused_total",
        "Requests that were refused: for another host, from a page of another site, without the CSRF "
        "token, without a login, or with a role that does not permit them.",
        "reason",
        ("host", "origin", "csrf", "login", "role"),
    ),
    Counter(
        "access_changes_total",
        "Changes that were made over HTTP or by `hopscope users`; each is in the audit log.",
    ),
    Counter(
        "serve_failures_total",
        "Requests and live values that ended in an internal error of the server; its log states each cause.",
    ),
))  # fmt: skip
