"""Makes text safe for CSV that people open in a spreadsheet, which would run `=HYPERLINK(…)` as a formula.

Some texts come from strangers: names of hosts, browsers, labels. `lib/export.js` of the console has the same
rule.
"""

from __future__ import annotations

import re

_BEGINNINGS = frozenset("=+-@\t\r\n＝＋－＠")
"""Characters with which a formula may begin (OWASP, CSV Injection); the wide forms in East Asian Excel."""
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def escape_formula(text: str) -> str:
    """A text as a cell of CSV: with an apostrophe before it if a spreadsheet would run it as a formula."""
    if text[:1] in _BEGINNINGS and len(text) > 1 and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
