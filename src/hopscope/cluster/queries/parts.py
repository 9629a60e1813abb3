"""Splits answers into messages that NATS accepts: compressed and numbered, the last one marked."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..connection import MORE, Reply

ANSWER_BYTES = 32 * 1024**2
"""Longest answer of a member, before compression."""
HEADER_BYTES = 2048
"""Kept free in each message for its headers."""
STATUS = "hopscope-status"
"""Header: HTTP status. Only in the first message, like all headers below except PART."""
NAME = "hopscope-answer"
"""Header: random, the same in all parts of one answer."""
PART = "hopscope-part"
"""Header: number of the part, 0 first."""
_LEVEL = 1


class DamagedAnswerError(ValueError):
    """An answer is damaged; the message is one line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a member."""

    status: int
    """HTTP status: for any other than 200, `body` is one line of text."""
    body: bytes


def too_large(size: int) -> Answer:
    """Replaces an answer of `size` bytes or more."""
    text = f"its answer has {size / 1024**2:.0f} MiB, more than {ANSWER_BYTES >> 20} MiB: ask for less"
    return Answer(413, text.encode())


def split(answer: Answer, name: str, largest: int) -> Iterator[tuple[dict[str, str], bytes]]:
    """Headers and body of each message; `largest`: maximum size of a message in bytes."""
    if len(answer.body) > ANSWER_BYTES:
        answer = too_large(len(answer.body))
    body = zlib.compress(answer.body, _LEVEL)
    size = max(1024, largest - HEADER_BYTES)
    for number, at in enumerate(range(0, len(body), size)):
        headers = {NAME: name, PART: str(number), STATUS: str(answer.status)}
        if at + size < len(body):
            headers[MORE] = "1"
        yield headers, body[at : at + size]


def join(replies: Sequence[Reply]) -> Answer | None:
    """The answer of one member, from its messages in the order of arrival; None: it is incomplete. If there
    are several answers, the one completed first counts. Raises DamagedAnswerError.
    """
    parts: dict[str, list[Reply]] = {}
    for reply in replies:
        some = parts.setdefault(reply.headers.get(NAME, ""), [])
        some.append(reply)
        if MORE in reply.headers:
            continue
        if [each.headers.get(PART) for each in some] != [str(number) for number in range(len(some))]:
            raise DamagedAnswerError("parts of its answer are missing")
        return Answer(_status(some[0].headers.get(STATUS, "")), _expanded(some))
    return None


def _status(text: str) -> int:
    if re.fullmatch("[1-5][0-9][0-9]", text) is None:
        raise DamagedAnswerError(f"its answer has the status {text[:20]!r}")
    return int(text)


def _expanded(parts: Sequence[Reply]) -> bytes:
    expander = zlib.decompressobj()
    try:
        body = expander.decompress(b"".join(part.body for part in parts), ANSWER_BYTES + 1)
    except zlib.error as error:
        raise DamagedAnswerError(f"its answer is damaged: {error}") from None
    if len(body) > ANSWER_BYTES:
        raise DamagedAnswerError(f"its answer has more than {ANSWER_BYTES >> 20} MiB")
    if not expander.eof:
        raise DamagedAnswerError("its answer is damaged: it ends too early")
    return body
