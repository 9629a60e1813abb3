"""Sources of frames as the user writes them: `udp://HOST:PORT?workers=2&dialect=…`,
`ring://INTERFACE?port=PORT`, `xdp://INTERFACE?port=PORT`, `mirror://INTERFACE`, `sflow://HOST:PORT`, `ipfix://HOST:PORT`,
`ipfix+tcp://HOST:PORT`.
"""

from __future__ import annotations

import difflib
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import ValidationError

from ..base.errors import HopscopeError
from ..wire.address import with_port
from .configuration.errors import error_lines
from .listen import BY_KIND, INTERFACES, ListenSettings

_FORM = (
    "expected udp://HOST:PORT, as in udp://127.0.0.1:32766?workers=2, ring://INTERFACE or mirror://INTERFACE"
)
_OPTIONS = {
    kind: tuple(
        name
        for name in names
        if name not in ("host", "interface", "nodes") and (name != "port" or kind in INTERFACES)
    )
    for kind, names in BY_KIND.items()
}
"""Options of an address by its scheme: settings that it does not say otherwise."""


class SourceError(HopscopeError):
    """A source of frames that cannot be read: what was found and what was expected."""


def parse(text: str) -> ListenSettings:
    """Settings of one listener. Options are the settings' names; `allow` takes networks with commas between.

    Raises SourceError.
    """
    split, port = _split(text)
    options = _OPTIONS[split.scheme]
    fields: dict[str, object] = {"kind": split.scheme}
    if split.scheme in INTERFACES:
        fields["interface"] = split.netloc
    else:
        fields["host"] = split.hostname
    if port is not None:
        fields["port"] = port
    allow: list[str] = []
    for name, value in parse_qsl(split.query, keep_blank_values=True):
        if name not in options:
            close = difflib.get_close_matches(name, options, n=1)
            hint = f"did you mean {close[0]}?" if close else f"options are {', '.join(options)}"
            if name == "nodes" and name in BY_KIND[split.scheme]:
                hint = "set it in [[listen]] of a file"
            raise SourceError(f"{text}: unknown option {name!r}; {hint}")
        if name == "allow":
            allow.extend(part for part in value.split(",") if part)
        elif name in fields:
            raise SourceError(f"{text}: {name} is given twice")
        else:
            fields[name] = value
    try:
        found = ListenSettings.model_validate({**fields, **({"allow": tuple(allow)} if allow else {})})
    except ValidationError as error:
        raise SourceError(f"{text}: {error_lines(error, ListenSettings)[0]}") from error
    return found


def parse_target(text: str) -> ListenSettings:
    """The UDP listener that `--to` names. Raises SourceError."""
    try:
        found = parse(text)
    except SourceError as error:
        raise SourceError(f"--to {error}") from error
    if found.kind != "udp":
        raise SourceError(f"--to {text}: expected udp://HOST:PORT, as in udp://127.0.0.1:32766")
    return found


def url(settings: ListenSettings) -> str:
    """How a listener is named in messages."""
    if settings.kind == "mirror":
        return f"mirror://{settings.interface}"
    if settings.kind in ("ring", "xdp"):
        return f"{settings.kind}://{settings.interface}?port={settings.port}"
    return f"{settings.kind}://{with_port(settings.host, settings.port)}"


def _split(text: str) -> tuple[SplitResult, int | None]:
    try:
        split = urlsplit(text)
        port = None if split.scheme in INTERFACES else split.port
    except ValueError as error:
        if text.count(":") > 2 and "]" not in text:
            raise SourceError(f"{text}: expected brackets around IPv6, as in udp://[::1]:32766") from error
        raise SourceError(f"{text}: found no port from 0 to 65535; {_FORM}") from error
    extra = split.path not in ("", "/") or split.fragment or split.username is not None
    if split.scheme not in _OPTIONS or not split.hostname or extra:
        raise SourceError(f"{text}: {_FORM}")
    return split, port
