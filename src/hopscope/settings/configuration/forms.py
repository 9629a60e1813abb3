"""What a pattern expects, in words: of settings and of the API's parameters."""

from __future__ import annotations

import re

from ..destinations.s3 import FOLDER_IN_BUCKET

_SCHEMES = {
    "https?": "http:// or https://",
    "nats|tls": "nats:// or tls://",
    "udp|tcp|tls": "udp://, tcp:// or tls://",
    "mqtts?": "mqtt:// or mqtts://",
    "smtps?": "smtp:// or smtps://",
    "postgres(ql)?": "postgres:// or postgresql://",
}
"""How a pattern begins an address, and how people write that."""
_ENDS = {
    r"/[^\s/?#]+": " and ends with the name of a database",
    r":\d{1,5}$": " and ends with a port",
    "/?#": " and has no path",
    "?#": " and has no query",
}
"""What a pattern says about the rest of an address; the first part that it contains counts."""
_FORMS = {
    "^[0-9a-f]{16}$": "16 hexadecimal digits, as in 00c0ffee00c0ffee",
    "^[0-9a-fA-F]{16}$": "16 hexadecimal digits, as in 00c0ffee00c0ffee",
    r"^\d{1,5}-\d{1,20}$": "SHARD-SEQUENCE, as in 0-1234",
    r"^(\d{1,10}(-\d{1,10})?)?$": "a number or a range, as in 0-99",
    "^[!-~]+$": "letters, digits and punctuation of ASCII without spaces, as in hopscope",
    "^[A-Za-z0-9_-]{1,32}$": "1 to 32 letters, digits, _ and -, as in lab-1",
    "^[A-Za-z0-9_-]{1,200}$": "1 to 200 letters, digits, _ and -, as in lab-1",
    "^[A-Za-z0-9._-]{1,249}$": "1 to 249 letters, digits, ., _ and -, as in hopscope.v1.events",
    "^[A-Za-z0-9._-]*$": "letters, digits, ., _ and -, as in collector-1",
    "^[A-Za-z0-9.:_-]*$": "a host name or an IP address, as in leaf-1.example.net",
    "^[A-Za-z0-9-]*$": "the name of a header, as in X-Forwarded-User",
    "^[A-Za-z0-9-]+$": "the name of a header, as in X-Api-Key",
    "^[A-Za-z0-9][A-Za-z0-9._-]*$": "letters, digits, ., _ and - after a letter or digit, as in run-1",
    "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,31}$": "1 to 32 letters, digits, _, - and ., no . first, as in paths-1",
    "^[a-z0-9][a-z0-9_-]{0,62}$": "1 to 63 of a-z, 0-9, _ and -, with a letter or digit first, as in lab-1",
    "^[a-z_][a-z0-9_]{0,30}$": "1 to 31 of a-z, 0-9 and _, with no digit first, as in hopscope",
    "^[a-zA-Z_][a-zA-Z0-9_]*$": "letters, digits and _, with no digit first, as in site",
    "^[A-Za-z_][A-Za-z0-9_]{0,62}$": "1 to 63 letters, digits and _, with no digit first, as in hopscope",
    r"^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,3}$": (
        "up to 4 parts of letters, digits, _ and -, separated by ., as in site.hopscope"
    ),
    r"^[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64}){0,5}$": (
        "up to 6 parts of letters, digits, _, . and -, separated by /, as in site/hopscope"
    ),
    r"^[^\s,/@]+$": "HOST:PORT, as in 192.0.2.7:9092",
    r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$": "an e-mail address, as in noc@example.net",
    rf"^({FOLDER_IN_BUCKET}|[^:\x00]+)$": "a folder, or s3://BUCKET/PREFIX, as in s3://telemetry/events",
    rf"^({FOLDER_IN_BUCKET}|/[^:\x00]*)?$": "an absolute path or s3://BUCKET/PREFIX, as in s3://telemetry/lake",
    r"^(\d{1,19}-\d{1,5}-\d{1,20}|\d{1,19}-\d{1,5}-\d{1,20}-[A-Za-z0-9._-]{1,64}(@[A-Za-z0-9_-]{1,64})?)$": (
        "the `next` of a page, as in 1700000001153543383-0-864"
    ),
    r"^[^\x00-\x1f\x7f/]+$": "text without / and control characters, as in slow ports",
}
"""Every other pattern, and what matches it; a test compares the table with all settings and parameters."""


def in_words(pattern: str) -> str:
    """What matches a pattern."""
    if words := _FORMS.get(pattern):
        return words
    for scheme, words in _SCHEMES.items():
        if re.match(rf"\^\(*{re.escape(scheme)}\)?://", pattern):
            rest = next((text for part, text in _ENDS.items() if part in pattern), "")
            otherwise = ", or env:NAME, or file:PATH" if "|env:" in pattern else ""
            return f"an address that begins with {words}{rest}{otherwise}"
    return f"text that matches {pattern}"  # a destination that somebody else wrote
