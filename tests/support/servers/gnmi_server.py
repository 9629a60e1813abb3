"""A gNMI server of a device with two interfaces: grpc's server, and the protocol's generated messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from finsy.proto import gnmi, gnmi_grpc

COUNTS = {"in-octets": 1 << 40, "out-octets": 7, "in-errors": 1, "out-errors": 2, "in-discards": 3}
"""Counters of the first interface of `Device`, which does not count `out-discards`."""


class Device(gnmi_grpc.gNMIServicer):  # type: ignore[misc]
    """A switch with two interfaces; the second has neither description nor counters."""

    def __init__(self, encoding: int = gnmi.PROTO, credentials: tuple[str, str] | None = None) -> None:
        self.encoding, self.credentials = encoding, credentials
        self.system: dict[str, Any] = {"state": {"hostname": "leaf-7"}}
        self.interfaces: dict[str, dict[str, Any]] = {
            "Ethernet1": {
                "ifindex": 1,
                "name": "Ethernet1",
                "description": "to core",
                "counters": dict(COUNTS),
            },
            "Ethernet2": {"ifindex": 2, "name": "Ethernet2"},
        }

    def start(self, certificates: grpc.ServerCredentials | None = None) -> tuple[grpc.Server, int]:
        """A server that runs, and its port."""
        server = grpc.server(ThreadPoolExecutor(4))
        gnmi_grpc.add_gNMIServicer_to_server(self, server)
        if certificates is None:
            port = server.add_insecure_port("127.0.0.1:0")
        else:
            port = server.add_secure_port("127.0.0.1:0", certificates)
        server.start()
        return server, port

    def Capabilities(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._admit(context)
        return gnmi.CapabilityResponse(supported_encodings=[self.encoding], gNMI_version="0.8.0")

    def Subscribe(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        self._admit(context)
        wanted = next(requests).subscribe
        assert wanted.mode == gnmi.SubscriptionList.ONCE
        assert wanted.encoding == self.encoding
        for each in wanted.subscription:
            assert each.path.origin == "openconfig"
            names = [element.name for element in each.path.elem]
            if names[0] == "system":
                if "hostname" not in self.system.get(names[1], {}):
                    context.abort(grpc.StatusCode.NOT_FOUND, "no such path")
                yield self._answer(names, None, self.system[names[1]]["hostname"])
                continue
            assert each.path.elem[1].key == {"name": "*"}
            for interface, state in self.interfaces.items():
                if names[3] in state:
                    yield self._answer(names, interface, state[names[3]])
        yield gnmi.SubscribeResponse(sync_response=True)

    def _admit(self, context: Any) -> None:
        sent = dict(context.invocation_metadata())
        if self.credentials not in (None, (sent.get("username"), sent.get("password"))):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong user or password")

    def _answer(self, names: list[str], interface: str | None, value: Any) -> Any:
        """PROTO: a leaf an update; JSON: a tree, with modules before names and numbers of 64 bits as text."""
        elements = [gnmi.PathElem(name=name) for name in names]
        if interface is not None:
            elements[1].key["name"] = interface
        if self.encoding != gnmi.PROTO:
            if isinstance(value, dict):
                value = {f"openconfig-interfaces:{key}": str(count) for key, count in value.items()}
            tree = gnmi.TypedValue(json_ietf_val=json.dumps(value).encode())
            update = gnmi.Update(path=gnmi.Path(elem=elements[2:]), val=tree)
            return self._notified(gnmi.Path(elem=elements[:2]), [update])
        leaves = value.items() if isinstance(value, dict) else [(None, value)]
        updates = []
        for name, leaf in leaves:
            path = [*elements, gnmi.PathElem(name=name)] if name else elements
            typed = gnmi.TypedValue(**{"string_val" if isinstance(leaf, str) else "uint_val": leaf})
            updates.append(gnmi.Update(path=gnmi.Path(elem=path), val=typed))
        return self._notified(gnmi.Path(), updates)

    def _notified(self, prefix: Any, updates: list[Any]) -> Any:
        return gnmi.SubscribeResponse(update=gnmi.Notification(timestamp=1, prefix=prefix, update=updates))
