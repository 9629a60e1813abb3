"""A P4Runtime server that keeps table entries, as the specification (1.4.1) says, and forwards no packets.

Arbitration (§5), pipeline (§6), Write with an error for each update (§12.3), Read (§13). The messages are
generated from the specification's own protobuf files.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from finsy.proto import U128, p4i, p4r, p4r_grpc, rpc_code, rpc_status
from google.protobuf import any_pb2, text_format

TERNARY = "ternary"
_KINDS = {"exact": p4i.MatchField.EXACT, "ternary": p4i.MatchField.TERNARY, "range": p4i.MatchField.RANGE}
_FLOW = {
    4: [("hdr.ipv4.source", 32, "ternary"), ("hdr.ipv4.destination", 32, "ternary")],
    6: [("hdr.ipv6.source", 128, "ternary"), ("hdr.ipv6.destination", 128, "ternary")],
}
_PORTS = [("source_port", 16, "range"), ("destination_port", 16, "range")]
_START = {"instructions": 16, "hop_limit": 8, "sample": 32}
_LABEL = {"interval": 32, "shift": 8, "rest": 32, "chance": 8}
PROGRAMS: dict[str, list[tuple[str, list[tuple[str, int, str]], dict[str, dict[str, int]]]]] = {
    "int": [
        (
            f"watch_ipv{version}",
            [*_FLOW[version], (f"hdr.ipv{version}.{field}", 8, "ternary"), *_PORTS],
            {"start": _START, "report_only": {"instructions": 16, "sample": 32}},
        )
        for version, field in ((4, "protocol"), (6, "next_header"))
    ],
    "label": [
        *(
            (
                f"track_ipv{version}",
                [*_FLOW[version], ("facts.protocol", 8, "ternary"), *_PORTS],
                {"track": {"every": 32, "index": 32}},
            )
            for version in (4, 6)
        ),
        (
            "label_ports",
            [("standard.egress_port", 9, "exact")],
            {"label_port": {**_LABEL, "bytes": 16}, "last_hop": _LABEL},
        ),
        (
            "chance_table",
            [("facts.count", 8, "range"), ("scaled", 32, "range")],
            {"label_share": {"share": 32}},
        ),
    ],
}
"""Tables of the programs in `p4/` that a controller changes: (name, keys, actions with their parameters)."""


def p4info(*programs: str) -> Any:
    """P4Info of these programs' tables, with ids as p4c gives them."""
    info = p4i.P4Info()
    info.pkg_info.arch = "v1model"
    tables = [table for program in programs for table in PROGRAMS[program]]
    numbers: dict[str, int] = {}
    for number, (name, keys, actions) in enumerate(tables, 1):
        table = info.tables.add(size=1024)
        table.preamble.id = 0x02000000 + number
        table.preamble.name, table.preamble.alias = f"Ingress.{name}", name
        for at, (key, width, kind) in enumerate(keys, 1):
            table.match_fields.add(id=at, name=key, bitwidth=width, match_type=_KINDS[kind])
        for action, params in actions.items():
            if action not in numbers:
                made = info.actions.add()
                numbers[action] = made.preamble.id = 0x01000001 + len(numbers)
                made.preamble.name, made.preamble.alias = f"Ingress.{action}", action
                for place, (param, width) in enumerate(params.items(), 1):
                    made.params.add(id=place, name=param, bitwidth=width)
            table.action_refs.add(id=numbers[action])
    return info


class P4Device(p4r_grpc.P4RuntimeServicer):  # type: ignore[misc]
    """One device with tables. `start` it; `stop` ends all sessions."""

    def __init__(self, info: Any = None, device_id: int = 1) -> None:
        self.config = p4r.ForwardingPipelineConfig()
        if info is not None:
            self.config.p4info.CopyFrom(info)
        self.device_id = device_id
        self.entries: dict[bytes, Any] = {}
        """Entries by table, match and priority."""
        self.writes = 0
        self.problem: grpc.StatusCode | None = None
        """What every Read is answered with, if it is set."""
        self._lock = threading.Lock()
        self._sessions: dict[int, tuple[int, queue.Queue[Any]]] = {}
        self._server: grpc.Server | None = None
        self.port = 0

    def start(self, port: int = 0, certificates: grpc.ServerCredentials | None = None) -> None:
        """Listen on loopback."""
        self._server = grpc.server(ThreadPoolExecutor(16), options=(("grpc.so_reuseport", 0),))
        p4r_grpc.add_P4RuntimeServicer_to_server(self, self._server)
        place = f"127.0.0.1:{port}"
        if certificates is None:
            self.port = self._server.add_insecure_port(place)
        else:
            self.port = self._server.add_secure_port(place, certificates)
        self._server.start()

    def stop(self) -> None:
        """End it, and all sessions."""
        if self._server is not None:
            for _, told in list(self._sessions.values()):
                told.put(None)
            self._server.stop(0).wait()
            self._server = None

    def insert(self, text: str) -> None:
        """Put an entry there, as another controller would: a TableEntry in protobuf's text format."""
        entry = text_format.Parse(text, p4r.TableEntry())
        self.entries[_key(entry)] = entry

    @property
    def primary(self) -> int:
        """Highest election id; 0: no session."""
        return max((election for election, _ in self._sessions.values()), default=0)

    # ---------------------------------------------------------------------------------- the service

    def Capabilities(self, request: Any, context: Any) -> Any:  # noqa: N802
        return p4r.CapabilitiesResponse(p4runtime_api_version="1.4.1")

    def StreamChannel(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        told: queue.Queue[Any] = queue.Queue()
        me = id(told)

        def follow() -> None:
            try:
                for request in requests:
                    if request.HasField("arbitration"):
                        self._arbitrate(me, request.arbitration, told)
            except grpc.RpcError:
                pass
            told.put(None)

        threading.Thread(target=follow, daemon=True).start()
        try:
            while (message := told.get()) is not None:
                if isinstance(message, grpc.StatusCode):
                    context.abort(message, "election id is already used by another session")
                yield message
        finally:
            with self._lock:
                was = self.primary
                self._sessions.pop(me, None)
                if self.primary != was:
                    self._announce()

    def _arbitrate(self, me: int, asked: Any, told: queue.Queue[Any]) -> None:
        election = U128.decode(asked.election_id)
        with self._lock:
            others = {each for number, (each, _) in self._sessions.items() if number != me}
            if asked.device_id != self.device_id:
                told.put(grpc.StatusCode.NOT_FOUND)
            elif election in others:
                told.put(grpc.StatusCode.INVALID_ARGUMENT)
            else:
                was = self.primary
                self._sessions[me] = election, told
                if self.primary != was:
                    self._announce()
                else:
                    told.put(self._update(election))

    def _announce(self) -> None:
        """Tell every session who is primary."""
        for election, told in self._sessions.values():
            told.put(self._update(election))

    def _update(self, election: int) -> Any:
        code = rpc_code.OK if election == self.primary else rpc_code.ALREADY_EXISTS
        update = p4r.MasterArbitrationUpdate(
            device_id=self.device_id,
            election_id=U128.encode(self.primary),
            status=rpc_status.Status(code=code),
        )
        return p4r.StreamMessageResponse(arbitration=update)

    def GetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        if not self.config.p4info.tables:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "No forwarding pipeline config is set")
        return p4r.GetForwardingPipelineConfigResponse(config=self.config)

    def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._admit(request, context)
        self.config.CopyFrom(request.config)
        self.entries.clear()
        return p4r.SetForwardingPipelineConfigResponse()

    def Read(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        if self.problem is not None:
            context.abort(self.problem, "not today")
        tables = {entity.table_entry.table_id for entity in request.entities}
        with self._lock:
            found = [entry for entry in self.entries.values() if entry.table_id in tables]
        for entry in found:  # one message for each: the client has to join them
            yield p4r.ReadResponse(entities=[p4r.Entity(table_entry=entry)])

    def Write(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._admit(request, context)
        self.writes += 1
        with self._lock:
            found = [self._update_entry(update) for update in request.updates]
        if any(error.canonical_code for error in found):
            status = rpc_status.Status(code=rpc_code.UNKNOWN, message="some updates failed")
            for error in found:
                packed = any_pb2.Any()
                packed.Pack(error)
                status.details.append(packed)
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            context.abort(grpc.StatusCode.UNKNOWN, "some updates failed")
        return p4r.WriteResponse()

    def _update_entry(self, update: Any) -> Any:
        entry = update.entity.table_entry
        key, (code, text) = _key(entry), self._fault(entry)
        there = key in self.entries
        if code:
            return p4r.Error(canonical_code=code, message=text)
        if update.type == p4r.Update.INSERT and there:
            return p4r.Error(canonical_code=rpc_code.ALREADY_EXISTS, message="there is such an entry")
        if update.type != p4r.Update.INSERT and not there:
            return p4r.Error(canonical_code=rpc_code.NOT_FOUND, message="there is no such entry")
        if update.type == p4r.Update.DELETE:
            del self.entries[key]
        else:
            self.entries[key] = entry
        return p4r.Error()

    def _fault(self, entry: Any) -> tuple[int, str]:
        """What the specification forbids (§9.1): unknown tables, wrong priorities, keys of everything."""
        table = next((each for each in self.config.p4info.tables if each.preamble.id == entry.table_id), None)
        if table is None:
            return rpc_code.NOT_FOUND, "there is no such table"
        kinds = {each.id: each for each in table.match_fields}
        needs_priority = any(each.match_type != p4i.MatchField.EXACT for each in table.match_fields)
        if bool(entry.priority) != needs_priority:
            return rpc_code.INVALID_ARGUMENT, f"priority {entry.priority}"
        if not needs_priority and {each.field_id for each in entry.match} != kinds.keys():
            return rpc_code.INVALID_ARGUMENT, "an exact key is missing"
        for each in entry.match:
            full = (1 << kinds[each.field_id].bitwidth) - 1
            if each.HasField("ternary"):
                value, mask = (
                    int.from_bytes(part, "big") for part in (each.ternary.value, each.ternary.mask)
                )
                if not mask or value & ~mask:
                    return rpc_code.INVALID_ARGUMENT, f"ternary {value:#x} mask {mask:#x}"
            if each.HasField("range"):
                low, high = _number(each.range.low), _number(each.range.high)
                if low > high or (low, high) == (0, full) or high > full:
                    return rpc_code.INVALID_ARGUMENT, f"range {low}..{high}"
        return 0, ""

    def _admit(self, request: Any, context: Any) -> None:
        if request.device_id != self.device_id:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such device")
        if U128.decode(request.election_id) != self.primary:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not primary")


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _key(entry: Any) -> bytes:
    match = sorted(each.SerializeToString(deterministic=True) for each in entry.match)
    return bytes(f"{entry.table_id}/{entry.priority}/", "ascii") + b"|".join(match)
