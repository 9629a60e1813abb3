"""CSV that people open in a spreadsheet: text that it would run as a formula, such as `=HYPERLINK(…)`.

Text of telemetry comes from strangers: names of hosts, browsers, labels.  `lib/export.js` of the console has
the same rule.
"""

from __future__ import annotations

import re

_BEGINNINGS = frozenset("=+-@\t\r\n＝＋－＠")
"""What a formula may begin with (OWASP, CSV Injection); the wide forms in East Asian versions of Excel."""
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def inert(text: str) -> str:
    """Text as a cell of CSV: a number as it is, and after an apostrophe what would be run."""
    if text[:1] in _BEGINNINGS and len(text) > 1 and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
