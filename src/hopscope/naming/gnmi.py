"""Names and counters of a device by gNMI 0.8: leaves of openconfig-system and openconfig-interfaces.

They are requested by a subscription that ends at once (ONCE), which more devices support than a Get with
wildcards. Data from a device is not trusted: names are cleaned, numbers are checked, and the size of answers
is limited. A thread asks each device, because gRPC's asyncio supports only one event loop in a process.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import grpc
from finsy.proto import gnmi, gnmi_grpc

from ..base.names import Names, clean_name
from ..settings.configuration.errors import ConfigError
from ..settings.configuration.secrets import value_of
from ..settings.names_from import GnmiSettings
from ..wire.address import with_port
from .device import DEVICE_SECONDS, MAX_PORT, MAX_REASON, DeviceClient, DeviceError, PortCounters

HOST_NAMES = ("system/state/hostname", "system/config/hostname")
"""Paths of a device's name; the first one that it has is used."""
STATE = "interfaces/interface/state"
LEAVES = {
    f"{STATE}/counters/{direction}-{leaf}": f"{direction}_{name}"
    for leaf, name in (("octets", "bytes"), ("errors", "errors"), ("discards", "discards"))
    for direction in ("in", "out")
}
"""Name of the counter (`interfaces.COUNTER_NAMES`) at each path."""
ENCODINGS = (gnmi.PROTO, gnmi.JSON_IETF, gnmi.JSON)
"""Supported encodings, the most compact first."""
MAX_BYTES = 64 * 1024 * 1024
"""Size of the largest answer of a device."""
_ABSENT = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED)
"""Errors by which devices say that they have no such path."""
_OPTIONS = (("grpc.enable_http_proxy", 0),)
Leaf = tuple[str, str, Any]
"""Interface (empty if there is none), path without prefixes and keys, value."""
Answer = TypeVar("Answer")


class GnmiClient(DeviceClient):
    """Asks gNMI servers."""

    def __init__(self, key: str, settings: GnmiSettings) -> None:
        """`key`: name of the table. Raises ConfigError if a secret or a certificate is missing."""
        self._settings = settings
        self._credentials = _credentials(key, settings) if settings.tls else None
        password = value_of(f"{key}.password", settings.password)
        self._metadata = [("username", settings.user)] if settings.user else []
        if password is not None:
            self._metadata.append(("password", password))

    async def close(self) -> None:
        """Does nothing, because each request has its own connection."""

    async def _names(self, node: int, host: str) -> Names:
        leaf = "description" if self._settings.interfaces == "alias" else "name"
        return await self._asked(host, lambda session: session.names(node, leaf))

    async def _counters(self, host: str) -> PortCounters:
        return await self._asked(host, _Session.counters)

    async def _asked(self, host: str, ask: Callable[[_Session], Answer]) -> Answer:
        """The result of `ask`, which runs in a thread. Raises DeviceError."""
        channel = self._channel(host)

        def work() -> Answer:
            try:
                return ask(_Session(channel, self._metadata, self._settings.timeout_seconds))
            except grpc.RpcError as error:
                raise _rejected(error) from None

        try:
            return await asyncio.to_thread(work)
        finally:
            channel.close()  # ends the calls of the thread if nobody waits for it any more

    def _channel(self, host: str) -> Any:
        place = with_port(host, self._settings.port)
        if self._credentials is None:
            return grpc.insecure_channel(place, _OPTIONS)
        name = self._settings.server_name
        options = (*_OPTIONS, ("grpc.ssl_target_name_override", name)) if name else _OPTIONS
        return grpc.secure_channel(place, self._credentials, options)


class _Session:
    """Requests to one device over one connection; all methods may raise grpc.RpcError and DeviceError."""

    def __init__(self, channel: grpc.Channel, metadata: list[tuple[str, str]], timeout: float) -> None:
        """Connects, within `timeout` seconds."""
        self._stub, self._metadata = gnmi_grpc.gNMIStub(channel), metadata
        found = self._stub.Capabilities(gnmi.CapabilityRequest(), timeout=timeout, metadata=metadata)
        known = [encoding for encoding in ENCODINGS if encoding in found.supported_encodings]
        if not known:
            raise DeviceError("it has none of the encodings PROTO, JSON_IETF and JSON")
        self._encoding = known[0]

    def names(self, node: int, leaf: str) -> Names:
        """Names of the device and its ports. The name of a port is the leaf `leaf`
        of its interface's state.
        """
        numbers: dict[str, int] = {}
        texts: dict[str, str] = {}
        for interface, path, value in self._leaves(f"{STATE}/ifindex", f"{STATE}/{leaf}"):
            if path == f"{STATE}/ifindex":
                numbers[interface] = _number(value)
            elif path == f"{STATE}/{leaf}":
                texts[interface] = _text(value)
        ports = {
            (node, port): text
            for interface, port in numbers.items()
            if 0 < port <= MAX_PORT and (text := texts.get(interface) or _text(interface))
        }
        name = self._host_name()
        return Names({node: name} if name else {}, ports)

    def counters(self) -> PortCounters:
        """Counters of all interfaces."""
        numbers: dict[str, int] = {}
        counters: dict[str, dict[str, int]] = {}
        for interface, path, value in self._leaves(f"{STATE}/ifindex", f"{STATE}/counters"):
            if path == f"{STATE}/ifindex":
                numbers[interface] = _number(value)
            elif path in LEAVES and (count := _number(value)) >= 0:
                counters.setdefault(interface, {})[LEAVES[path]] = count
        return {
            port: counters[interface]
            for interface, port in numbers.items()
            if 0 < port <= MAX_PORT and interface in counters
        }

    def _host_name(self) -> str:
        """Name of the device; empty if it has none."""
        for path in HOST_NAMES:
            name = ""
            try:
                for _, found, value in self._leaves(path):
                    if found == path:
                        name = _text(value)
            except grpc.RpcError as error:
                if error.code() not in _ABSENT:
                    raise
            if name:
                return name
        return ""

    def _leaves(self, *paths: str) -> Iterator[Leaf]:
        """Request the leaves below these paths."""
        subscriptions = [gnmi.Subscription(path=_path(path)) for path in paths]
        request = gnmi.SubscriptionList(
            subscription=subscriptions, mode=gnmi.SubscriptionList.ONCE, encoding=self._encoding
        )
        call = self._stub.Subscribe(
            iter([gnmi.SubscribeRequest(subscribe=request)]), timeout=DEVICE_SECONDS, metadata=self._metadata
        )
        size = 0
        for answer in call:
            if answer.sync_response:
                break
            size += answer.ByteSize()
            if size > MAX_BYTES:
                raise DeviceError(f"its answer has more than {MAX_BYTES:,} bytes")
            yield from leaves_of(answer.update)
        call.cancel()


def leaves_of(notification: Any) -> Iterator[Leaf]:
    """Leaves of a notification, whose values are scalars or JSON trees."""
    for update in notification.update:
        elements = [*notification.prefix.elem, *update.path.elem]
        keys = (
            part.key["name"] for part in elements if _bare(part.name) == "interface" and "name" in part.key
        )
        interface = next(keys, "")
        path = "/".join(_bare(part.name) for part in elements)
        kind = update.val.WhichOneof("value")
        value: Any = getattr(update.val, kind) if kind else None
        tree = json.loads(value) if kind in ("json_val", "json_ietf_val") else value
        yield from _below(interface, path, tree)


def _below(interface: str, path: str, value: Any) -> Iterator[Leaf]:
    """Leaves of a JSON tree; each item of a list of interfaces has the key `name`."""
    if isinstance(value, list):
        for item in value:
            yield from _below(interface, path, item)
    elif isinstance(value, dict):
        if path == "interfaces/interface":
            interface = str(value.get("name", interface))
        for key, below in value.items():
            yield from _below(interface, f"{path}/{_bare(key)}" if path else _bare(key), below)
    else:
        yield interface, path, value


def _bare(name: str) -> str:
    """A name without the prefix of its module, such as `openconfig-interfaces:`."""
    return name.rpartition(":")[2]


def _path(path: str) -> Any:
    """A path of OpenConfig; it selects all interfaces."""
    keys = {"interface": {"name": "*"}}
    elements = [gnmi.PathElem(name=name, key=keys.get(name, {})) for name in path.split("/")]
    return gnmi.Path(origin="openconfig", elem=elements)


def _text(value: Any) -> str:
    return clean_name(value.encode("utf-8", "replace")) if isinstance(value, str) else ""


def _number(value: Any) -> int:
    """A 64-bit number, which JSON_IETF writes as text (RFC 7951 §6.1); -1 if the value is not a number."""
    if isinstance(value, str) and len(value) <= 20 and value.isascii() and value.isdecimal():
        value = int(value)
    return value if type(value) is int and 0 <= value < 1 << 64 else -1


def _rejected(error: Any) -> DeviceError:
    code = error.code().name.lower().replace("_", " ")
    reason = clean_name((error.details() or "").encode("utf-8", "replace"), MAX_REASON)
    return DeviceError(f"{code}: {reason}".rstrip(": "))


def _credentials(key: str, settings: GnmiSettings) -> grpc.ChannelCredentials:
    own, own_key = settings.cert_file, settings.key_file or settings.cert_file
    return grpc.ssl_channel_credentials(
        _read(f"{key}.ca_file", settings.ca_file) if settings.ca_file else _system_certificates(),
        _read(f"{key}.key_file", own_key) if own_key else None,
        _read(f"{key}.cert_file", own) if own else None,
    )


def _read(key: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{key}: {file}: {error.strerror}") from None


def _system_certificates() -> bytes | None:
    """The system's CA certificates (PEM), which gRPC does not use by itself; None: use those of gRPC."""
    places = ssl.get_default_verify_paths()
    if places.cafile:
        return Path(places.cafile).read_bytes()
    found = sorted(Path(places.capath).glob("*.0")) if places.capath else []
    return b"\n".join(path.read_bytes() for path in found if path.is_file()) or None
