"""Secrets: where settings say that they are, settings as they may be shown, texts without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ..collector import Settings
from ..destinations.shown import WEBHOOKS, secret, shown, shown_webhook
from ..section import is_reference, is_secret
from .errors import ConfigError

SET = "(set)"
"""Shown in place of a secret."""
HIDDEN = "***"
"""What `Scrubber` puts in place of a secret."""
_LEAST = 4
"""Shortest secret that is looked for in texts, in characters: shorter ones are in many words."""
_OPTION = re.compile(r"^\.export\.[^.]+\.options\.")
"""An option of a client library, which may be a secret whatever its name."""
_USERINFO = re.compile(r"(\w://)[^\s/@\"']+@")
_ASSIGNED = re.compile(
    r"((?:password|passwd|community|token|secret|api[_-]?key|authorization|cookie)[\"']?\s*[:=]\s*"
    r"(?:Bearer |Basic |Token )?[\"']?)(?!\(set\)|env:|file:|\*\*\*|None\b|null\b)[^\s\"',;&]+",
    re.IGNORECASE,
)


def value_of(key: str, text: str | None) -> str | None:
    """The secret of a setting, which may name a variable or a file. Raises ConfigError if that is missing."""
    if text is None:
        return None
    try:
        return secret(text)
    except OSError as error:
        raise ConfigError(f"{key}: {text}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def unreadable(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Secrets in use whose variable or file cannot be read now: key of the setting, its value, and why."""
    enabled = {
        ".serve.": settings.serve.enabled,
        ".serve.oidc.": settings.serve.oidc.enabled,
        ".cluster.": settings.cluster.enabled,
        ".lake.": settings.lake.enabled,
    }
    unused = tuple(section for section, on in enabled.items() if not on)
    for path, text in _references(settings.model_dump(mode="json"), ""):
        key = path.removeprefix(".")
        try:
            value_of(key, None if path.startswith(unused) else text)
        except ConfigError as error:
            yield key, text, str(error).removeprefix(f"{key}: ")


def _references(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Path and text of every value that names its variable or file; a path begins with a dot."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            below = f"{path}.{key}"
            if isinstance(each, Mapping | list):
                yield from _references(each, below)
            elif isinstance(each, str) and is_reference(each):
                hook = key == "url" and value.get("kind") in WEBHOOKS
                if hook or is_secret(below) or _OPTION.search(below):
                    yield below, each
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _references(each, f"{path}[{at}]")


def shown_tree(settings: Settings) -> dict[str, Any]:
    """All settings as for TOML; a secret is `(set)`, or the name of its variable or file, and of URLs the
    parts that hold secrets are left out.
    """
    return _shown(settings.model_dump(mode="json"), "")


def _shown(value: Any, path: str) -> Any:
    """A value of the tree of settings; `path` begins with a dot."""
    if isinstance(value, dict):
        hook = value.get("kind") in WEBHOOKS
        return {
            key: shown_webhook(each) if hook and key == "url" else _shown(each, f"{path}.{key}")
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_shown(each, path) for each in value]
    if not isinstance(value, str) or not value:
        return value
    if is_secret(path):
        return value if is_reference(value) else SET
    if "://" in value:
        return shown(value)
    return value


def secrets_of(
    settings: Settings | Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> frozenset[str]:
    """Every secret of settings, or of a file's tables, and of the environment: passwords, tokens, parts of
    URLs.
    """
    tree = settings.model_dump(mode="json") if isinstance(settings, Settings) else settings
    found = set(_secrets(tree, ""))
    found |= {value for name, value in environment.items() if is_secret(name.lower())}
    return frozenset(text for text in found if len(text) >= _LEAST and not is_reference(text))


def _secrets(tree: Any, path: str) -> Iterator[str]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _secrets(value, f"{path}.{key}")
        if tree.get("kind") in WEBHOOKS:
            yield from _keys_of(str(tree.get("url", "")))
    elif isinstance(tree, list):
        for value in tree:
            yield from _secrets(value, path)
    elif isinstance(tree, str) and is_secret(path):
        if not is_reference(tree):
            yield tree
        with suppress(ValueError, OSError):
            yield secret(tree)
    elif isinstance(tree, str) and "://" in tree:
        with suppress(ValueError):
            parts = urlsplit(tree)
            hidden = [parts.password or "", parts.query, *(value for _, value in parse_qsl(parts.query))]
            for text in hidden:
                yield from {text, unquote(text)}


def _keys_of(url: str) -> Iterator[str]:
    """The path of a webhook's URL, and its parts, which are keys of some services."""
    with suppress(ValueError, OSError):
        path = urlsplit(secret(url)).path
        for text in (path.strip("/"), *path.split("/")[2:]):
            yield from {text, unquote(text)}


class Scrubber:
    """Takes secrets out of texts: those that are known, and what looks like one."""

    def __init__(self, secrets: frozenset[str]) -> None:
        longest_first = sorted(secrets, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """The text with `***` in place of every secret."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _USERINFO.sub(rf"\1{HIDDEN}@", text)
        return _ASSIGNED.sub(rf"\1{HIDDEN}", text)
