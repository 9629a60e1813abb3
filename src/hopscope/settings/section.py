"""What all settings share: the base of a section, and types of values."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from ..wire.address import network, number_of


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError(f"found {value}, expected a power of two, such as {1 << value.bit_length()}")
    return value


def _never(value: object) -> object:
    """TOML has no null: the word `never` switches a limit off."""
    return None if value in ("never", "") else value


PowerOfTwo = Annotated[int, AfterValidator(_power_of_two)]
MAX_LIMIT = 2**63 - 1
LIMIT_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_LIMIT}, {"const": "never"}]
}
"""A limit, as JSON schema."""
Limit = Annotated[
    Annotated[int, Field(ge=0, le=MAX_LIMIT)] | None, BeforeValidator(_never), WithJsonSchema(LIMIT_SCHEMA)
]
"""Limit of a metric; None: never."""
MIN_SECONDS, MAX_SECONDS = 1e-6, 1e9


def _measurable(value: float) -> float:
    if value < 0:
        raise PydanticKnownError("greater_than_equal", {"ge": 0.0})
    if 0 < value < MIN_SECONDS:
        raise PydanticKnownError("greater_than_equal", {"ge": MIN_SECONDS})
    if value > MAX_SECONDS:
        raise PydanticKnownError("less_than_equal", {"le": MAX_SECONDS})
    return value


def _describe_seconds(schema: dict[str, Any]) -> None:
    if "exclusiveMinimum" not in schema:
        schema.setdefault("minimum", 0)
    schema.setdefault("maximum", MAX_SECONDS)


Seconds = Annotated[float, AfterValidator(_measurable), Field(json_schema_extra=_describe_seconds)]
"""0, or a time from a microsecond to thirty years: in ns it is not 0, and fits 64 bits.

A validator checks this, since bounds of the type would replace narrower ones of a field.
"""


TableName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
"""Name that the user gives to a table, such as `lab` in `[export.lab]`."""


def of_kind(kinds: Mapping[str, type[BaseModel]]) -> BeforeValidator:
    """Reads a table as the settings of the kind that it names, one of `kinds`."""

    def read(values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return kinds[kind_of(values, kinds)].model_validate(values)

    return BeforeValidator(read)


def kind_of(values: Mapping[str, object], kinds: Iterable[str]) -> str:
    """The kind that a table names. Raises ValueError if it names none of `kinds`."""
    kind = values.get("kind")
    if isinstance(kind, str) and kind in kinds:
        return kind
    found = "no kind" if kind is None else f"kind {kind!r}"
    raise ValueError(f"found {found}, expected one of {', '.join(kinds)}")


def _free_space(value: object) -> object:
    """Bytes, or a percentage of the file system, such as `5%`."""
    try:
        if isinstance(value, str) and value.endswith("%"):
            share = float(value.removesuffix("%"))
            if 0 <= share <= 90:
                return value if share else 0
        elif isinstance(value, int | str) and not isinstance(value, bool) and int(value) >= 0:
            return int(value)
    except ValueError:
        pass
    raise ValueError(
        f"found {value!r}, expected bytes, such as 1000000000, or a percentage up to 90, such as 5%"
    )


FreeSpace = Annotated[Annotated[int, Field(ge=0)] | str, BeforeValidator(_free_space)]
"""Free space of a file system: bytes, or a percentage of its size such as `5%`."""


def _number(value: object) -> object:
    """The integer of a text, whose prefix may name its base, such as `0x17`; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return int(value, 0)
    except ValueError:
        raise ValueError(f"found {value!r}, expected a number, such as 23 or 0x17") from None


def hexadecimal(value: str) -> str:
    """Hexadecimal digits, with or without 0x."""
    digits = value.removeprefix("0x")
    try:
        size = len(bytes.fromhex(digits))
    except ValueError:
        size = 0
    if not 1 <= size <= 8:
        raise ValueError(f"found {value!r}, expected 1 to 8 bytes in hexadecimal, such as aaaaaaaabbbbbbbb")
    return digits


def _number_schema(most: int) -> WithJsonSchema:
    number = {"type": "integer", "minimum": 0, "maximum": most}
    return WithJsonSchema({"anyOf": [number, {"type": "string", "pattern": r"^\s*(0[xX])?[0-9a-fA-F]+\s*$"}]})


Port = Annotated[Annotated[int, Field(ge=0, le=65535)], BeforeValidator(_number), _number_schema(65535)]
Number16 = Port
"""16 bits: a port, a protocol type, a class, an id."""
Number8 = Annotated[Annotated[int, Field(ge=0, le=255)], BeforeValidator(_number), _number_schema(255)]
Dscp = Annotated[Annotated[int, Field(ge=0, le=63)], BeforeValidator(_number), _number_schema(63)]


def reached_at(host: str) -> str:
    """Where this machine reaches what listens at `host`: loopback for every address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_and_port(text: str, *, least: int = 0) -> tuple[str, int]:
    """Host and port of `127.0.0.1:7254`, `[::1]:7254` or `collector:7254`; `least`: the lowest port. Raises
    ValueError.
    """
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (
        not bare
        or re.search(r"[][/@\s]", bare)
        or (":" in bare) != (bare != host)
        or not (port.isascii() and port.isdecimal() and least <= int(port) <= 65535)
    ):
        raise ValueError(f"found {text!r}, expected HOST:PORT with a port from {least} to 65535")
    return bare, int(port)


def _network(text: str) -> str:
    network(text)
    return text


Network = Annotated[str, AfterValidator(_network)]
"""A network or an address, such as `192.0.2.0/24`."""


def _address(*, least: int) -> AfterValidator:
    """Accepts host and port, or an empty text."""

    def check(text: str) -> str:
        if text:
            host_and_port(text, least=least)
        return text

    return AfterValidator(check)


Receiver = Annotated[str, _address(least=1)]
"""Host and port to send to, or empty."""
ListenAddress = Annotated[str, _address(least=0)]
"""Host and port to listen on, or empty."""


_SECRET = re.compile(
    r"(^|[._])((auth_|priv_)?password|community|token|secret|passphrase|key\.pem|oauthbearer\.config|headers\.[^.]+)$"
)
_REFERENCES = ("env:", "file:")


def is_secret(key: str) -> bool:
    """Whether the value of a setting, or of a variable in lower case, is shown nowhere."""
    return _SECRET.search(key) is not None


def is_reference(text: str) -> bool:
    """Whether a secret is named, as `env:NAME` or `file:PATH`, and not given."""
    return text.startswith(_REFERENCES)


def _sixteen(text: str) -> str:
    if not is_reference(text) and len(text) < MIN_TOKEN:
        raise ValueError(f"found {len(text)} characters, expected {MIN_TOKEN} or more")
    return text


MIN_TOKEN = 16
"""Shortest token that the API accepts, in characters."""
Token = Annotated[str, AfterValidator(_sixteen)]


def _dotted(values: Any) -> Any:
    """Texts by name; in TOML, a name with dots is a table in a table."""
    if not isinstance(values, dict):
        return values
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= {f"{name}.{rest}": each for rest, each in _dotted(value).items()}
        else:
            found[name] = str(value).lower() if isinstance(value, bool | int) else value
    return found


DottedNames = BeforeValidator(_dotted, json_schema_input_type=dict[str, Any])
"""Of a table of texts whose names, chosen by the user, may have dots."""


class Section(BaseModel):
    """A table of the configuration file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _of_its_type(cls, value: object, info: ValidationInfo) -> object:
        """`true` is no number, and an empty text no path: it would be the current folder."""
        kind = plain_type(cls.model_fields[str(info.field_name)].annotation)
        given: list[object] = [value]
        while get_origin(kind) is tuple:
            kind = plain_type(get_args(kind)[0])
            given = [item for each in given if isinstance(each, list | tuple) for item in each]
        if kind in (int, float) and any(isinstance(each, bool) for each in given):
            raise PydanticKnownError("int_type" if kind is int else "float_type")
        if value == "" and kind is Path:
            raise PydanticCustomError("path_type", "expected a path")
        return value


def device_number(text: str) -> int:
    """The address of a device as 128 bits. Raises ValueError."""
    try:
        return number_of(text)
    except ValueError:
        raise ValueError(f"found {text!r}, expected an address, such as 192.0.2.7") from None


def _node_ids(nodes: dict[str, int]) -> dict[str, int]:
    for text, node in nodes.items():
        device_number(text)
        if not 0 <= node < 1 << 32:
            raise ValueError(f"found node {node} of {text}, expected 0 to {(1 << 32) - 1}")
    return nodes


NodeIds = Annotated[dict[str, int], DottedNames, AfterValidator(_node_ids)]
"""Node ids of devices by address."""


def plain_type(annotation: Any) -> Any:
    """The type of a setting, without what it is annotated with, and without None."""
    while get_origin(annotation) in (Annotated, Union, UnionType):
        annotation = get_args(annotation)[0]
    return annotation


def section_of(annotation: Any) -> type[Section] | None:
    """The section that a setting is, though it may be None; None: it is a value or a list."""
    kind = plain_type(annotation)
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def item_section(annotation: Any) -> type[Section] | None:
    """The section of the items of a list, or of tables by name; None: they are values."""
    kind = plain_type(annotation)
    return section_of(get_args(kind)[-1 if get_origin(kind) is dict else 0]) if get_args(kind) else None


def parsed(annotation: Any, text: str) -> Any:
    """The text of a variable or a flag as a setting of this type takes it: lists and tables as in TOML, or a
    list of words. Raises ValueError.
    """
    kind = plain_type(annotation)
    is_table, is_list = get_origin(kind) is dict or section_of(kind), get_origin(kind) is tuple
    if (is_table and text.startswith("{")) or (is_list and text.startswith(("[", "{"))):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"expected a value as in TOML: {error}") from None
    if is_list and item_section(kind) is None:
        return text.replace(",", " ").split()
    return text
