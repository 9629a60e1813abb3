"""A P4Runtime client of a few lines, for tests: pipeline, tables, clone sessions, multicast groups."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
from finsy.proto import p4i as p4info
from finsy.proto import p4r, p4r_grpc
from google.protobuf import text_format

Match = Mapping[str, int | tuple[int, int]]
"""By the end of a key's name: a value, or (value, mask), (value, prefix length), (first, last)."""
DEVICE = 1


def _bytes(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


class P4Runtime:
    """The controller of one switch. `address`: as gRPC has it."""

    def __init__(self, address: str, info: Path, program: Path) -> None:
        rpc: Any = grpc
        self._channel = rpc.insecure_channel(address)
        rpc.channel_ready_future(self._channel).result(timeout=30)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._election = p4r.Uint128(high=0, low=1)
        self._requests: queue.Queue[Any] = queue.Queue()
        arbitration = p4r.MasterArbitrationUpdate(device_id=DEVICE, election_id=self._election)
        self._requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
        self._stream = self._stub.StreamChannel(self._sent())
        assert next(self._stream).arbitration.status.code == 0
        parse: Any = text_format.Parse
        self.info = parse(info.read_text(), p4info.P4Info())
        config = p4r.ForwardingPipelineConfig(p4info=self.info, p4_device_config=program.read_bytes())
        self._stub.SetForwardingPipelineConfig(
            p4r.SetForwardingPipelineConfigRequest(
                device_id=DEVICE, election_id=self._election, config=config,
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            ), timeout=60,
        )  # fmt: skip

    def _sent(self) -> Iterator[Any]:
        while (request := self._requests.get()) is not None:
            yield request

    def close(self) -> None:
        """End the session."""
        self._requests.put(None)
        self._channel.close()

    def _write(self, kind: int, **entity: Any) -> None:
        update = p4r.Update(type=kind, entity=p4r.Entity(**entity))
        request = p4r.WriteRequest(device_id=DEVICE, election_id=self._election, updates=[update])
        self._stub.Write(request, timeout=30)

    def _action(self, name: str, params: Mapping[str, int]) -> Any:
        found = next(action for action in self.info.actions if action.preamble.alias == name)
        assert {param.name for param in found.params} == set(params), name
        arguments = [
            p4r.Action.Param(param_id=param.id, value=_bytes(params[param.name])) for param in found.params
        ]
        return p4r.TableAction(action=p4r.Action(action_id=found.preamble.id, params=arguments))

    def _table(self, name: str) -> Any:
        return next(table for table in self.info.tables if table.preamble.alias == name)

    def _match(self, table: Any, match: Match) -> list[Any]:
        fields, left = [], dict(match)
        for field in table.match_fields:
            name = field.name.rsplit(".", 1)[-1]
            if name not in left:
                continue
            value = left.pop(name)
            made = p4r.FieldMatch(field_id=field.id)
            first, second = value if isinstance(value, tuple) else (value, (1 << field.bitwidth) - 1)
            if field.match_type == p4info.MatchField.EXACT:
                made.exact.value = _bytes(first)
            elif field.match_type == p4info.MatchField.LPM:
                made.lpm.value = _bytes(first)
                made.lpm.prefix_len = second if isinstance(value, tuple) else field.bitwidth
            elif field.match_type == p4info.MatchField.TERNARY:
                made.ternary.value, made.ternary.mask = _bytes(first), _bytes(second)
            else:
                made.range.low, made.range.high = (
                    _bytes(first),
                    _bytes(second if isinstance(value, tuple) else first),
                )
            fields.append(made)
        assert not left, f"{table.preamble.name} has no {left}"
        return fields

    def insert(self, name: str, match: Match, action: str, /, *, modify: bool = False, **params: int) -> None:
        """Add an entry, or change it."""
        table = self._table(name)
        kinds = {field.match_type for field in table.match_fields}
        ordered = bool(kinds & {p4info.MatchField.TERNARY, p4info.MatchField.RANGE})
        entry = p4r.TableEntry(
            table_id=table.preamble.id, match=self._match(table, match), action=self._action(action, params),
            priority=10 if ordered else 0,
        )  # fmt: skip
        self._write(p4r.Update.MODIFY if modify else p4r.Update.INSERT, table_entry=entry)

    def default(self, name: str, action: str, /, **params: int) -> None:
        """What a table does where no entry matches."""
        entry = p4r.TableEntry(
            table_id=self._table(name).preamble.id,
            action=self._action(action, params),
            is_default_action=True,
        )
        self._write(p4r.Update.MODIFY, table_entry=entry)

    def clone_session(self, number: int, port: int) -> None:
        """Copies of this session leave through a port."""
        replica = p4r.Replica(egress_port=port, instance=1)
        entry = p4r.CloneSessionEntry(session_id=number, replicas=[replica])
        engine = p4r.PacketReplicationEngineEntry(clone_session_entry=entry)
        self._write(p4r.Update.INSERT, packet_replication_engine_entry=engine)

    def multicast_group(self, number: int, replicas: list[tuple[int, int]]) -> None:
        """Copies of this group: (port, instance) each."""
        entry = p4r.MulticastGroupEntry(
            multicast_group_id=number,
            replicas=[p4r.Replica(egress_port=port, instance=instance) for port, instance in replicas],
        )
        engine = p4r.PacketReplicationEngineEntry(multicast_group_entry=entry)
        self._write(p4r.Update.INSERT, packet_replication_engine_entry=engine)

    def counter(self, name: str, index: int) -> int:
        """Packets of a counter."""
        found = next(counter for counter in self.info.counters if counter.preamble.alias == name)
        entry = p4r.CounterEntry(counter_id=found.preamble.id, index=p4r.Index(index=index))
        request = p4r.ReadRequest(device_id=DEVICE, entities=[p4r.Entity(counter_entry=entry)])
        for answer in self._stub.Read(request, timeout=30):
            for entity in answer.entities:
                return int(entity.counter_entry.data.packet_count)
        raise AssertionError(f"no {name} {index}")
