"""What tshark says with our dissector, as the objects of `hopscope decode`: for tests that compare both."""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

from hopscope.capture.pcap.reader import PcapReader
from hopscope.capture.pcap.writer import PcapWriter
from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import Dialect
from hopscope.wire.records import HOP_MAX, FrameBatch
from hopscope.wire.wireshark.dissector import dissector

Pairs = list[tuple[str, Any]]
"""A JSON object with all its keys: a tree of Wireshark has fields more than once."""


@lru_cache(maxsize=1)
def script() -> str:
    """The generated dissector."""
    return dissector()


class Tshark:
    """tshark with the dissector of this tree."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._script = folder / "hopscope.lua"
        self._script.write_text(script(), "utf-8")

    def run(self, capture: Path, *options: str, **preferences: str) -> str:
        """Standard output; fails where Lua did."""
        command = [self._program, "-n", "-X", f"lua_script:{self._script}", "-r", str(capture), *options]
        for name, value in preferences.items():
            command += ["-o", f"hopscope.{name}:{value}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "Lua" not in done.stderr, done.stderr
        assert "Lua Error" not in done.stdout, done.stdout[done.stdout.index("Lua Error") - 200 :][:1000]
        return done.stdout

    def about(self, what: str) -> list[str]:
        """Lines of `tshark -G`: all fields, all preferences."""
        command = [self._program, "-G", what, "-X", f"lua_script:{self._script}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    def frames(self, capture: Path, *options: str, **preferences: str) -> list[Pairs]:
        """The layers of each frame."""
        text = self.run(capture, "-T", "json", *options, **preferences)
        packets = json.loads(text, object_pairs_hook=lambda pairs: pairs)
        return [value_of(value_of(packet, "_source"), "layers") for packet in packets]

    def write(self, name: str, batch: FrameBatch) -> Path:
        """A capture of these frames."""
        path = self._folder / name
        with PcapWriter(path) as writer:
            writer.write(batch)
        return path


def value_of(pairs: Pairs, name: str) -> Any:
    """The first value of a key, None where there is none."""
    return next((value for key, value in pairs if key == name), None)


def values_of(pairs: Pairs, name: str) -> list[Any]:
    """All values of a key."""
    return [value for key, value in pairs if key == name]


def reports(layers: Pairs) -> list[dict[str, Any]]:
    """The reports, or the INT of a packet, that our dissector shows in a frame."""
    out = []
    for tree in values_of(layers, "hopscope"):
        parts = [part for part in values_of(tree, "hopscope.report.individual") if isinstance(part, list)]
        shared = [pair for pair in tree if pair[0] != "hopscope.report.individual"]
        out += [_report([*shared, *part]) for part in parts] or [_report(shared)]
    out += [_report([("hopscope.int", tree)]) for tree in values_of(layers, "hopscope.int")]
    return out


def _report(pairs: Pairs) -> dict[str, Any]:
    out: dict[str, Any] = {"report": fields(pairs, "hopscope.report.")}
    metadata = values_of(pairs, "hopscope.report.metadata")
    if metadata:
        out["metadata"] = fields(metadata[-1], "hopscope.report.metadata.")
    tree = value_of(pairs, "hopscope.int")
    if tree:
        out["int"] = fields(tree, "hopscope.int.")
        out["shim"] = fields(value_of(tree, "hopscope.int.shim") or [], "hopscope.int.shim.")
        out["int"] |= fields(value_of(tree, "hopscope.int.header") or [], "hopscope.int.")
        hops = [fields(hop, "hopscope.int.hop.") for hop in values_of(tree, "hopscope.int.hop")]
        assert [hop.pop("index") for hop in hops] == list(range(len(hops)))[::-1]
        out["hops"] = hops[::-1]
    flow = value_of(pairs, "hopscope.flow") or (value_of(tree, "hopscope.flow") if tree else None)
    if flow:
        out["flow"] = fields(flow, "hopscope.flow.")
    error = fields(pairs, "hopscope.error.") or (fields(tree, "hopscope.error.") if tree else {})
    if error:
        out["error"] = error
    return out


def fields(pairs: Pairs, prefix: str) -> dict[str, Any]:
    """Fields of one subtree: numbers as such; the first of a name."""
    out: dict[str, Any] = {}
    for key, value in pairs:
        name = key.removeprefix(prefix)
        if key.startswith(prefix) and isinstance(value, str) and "." not in name:
            out.setdefault(name, _number(value))
        elif key.startswith("hopscope.int.domain."):
            out[key.removeprefix("hopscope.int.")] = value
    return out


def _number(text: str) -> Any:
    """A number as such; bytes and text stay text."""
    try:
        return int(text, 0)
    except ValueError:
        return text


def decoded(capture: Path, dialect: Dialect) -> list[dict[str, Any]]:
    """What our decoder says of a capture."""
    out: list[dict[str, Any]] = []
    for batch in PcapReader(str(capture)):
        out += report_objects(decode_plain(batch, dialect), batch, dialect)
    return out


def assert_agrees(ours: dict[str, Any], shown: dict[str, Any]) -> None:
    """Fail with the first field in which the decoder and the dissector differ."""
    if "error" in ours or "error" in shown:
        assert "error" in ours, shown
        assert "error" in shown, ours
        said = ours["error"]
        assert (shown["error"]["reason"], shown["error"]["place"]) == (said["reason"], said["at"]), (
            ours,
            shown,
        )
        assert f"(byte {shown['error']['byte']})" in said["detail"], (ours, shown)
        return
    if "report" in ours:
        _assert_report(ours, shown)
    if "flow" in ours:
        _assert_flow(ours["flow"], shown["flow"])
    assert ("int" in ours) == ("int" in shown), (ours, shown)
    if "int" in ours:
        assert_int(ours["int"], shown["int"])
        assert_hops([hop for hop in ours["hops"] if not hop.get("in_report")], shown["hops"])


def _assert_report(ours: dict[str, Any], shown: dict[str, Any]) -> None:
    want, got = dict(ours["report"]), shown["report"]
    metadata = shown.get("metadata", {})
    assert (got["layout"], got["kind"], got["index"]) == (
        want.pop("version"),
        want.pop("kind"),
        ours["index"],
    )
    own = want.pop("metadata")
    _assert_domain(want.pop("extras", {}), metadata)
    if "drop_reason" in want and "queue_id" in metadata:
        metadata = dict(metadata)
        if "queue_id" not in own:
            assert want["queue_id"] in (metadata.pop("queue_id"), None)
        got = {**got, "drop_reason": metadata.pop("drop_reason"), "queue_id": want["queue_id"]}
    elif "queue_id" in want:
        got = {**got, "queue_id": metadata["queue_id"]}
    if want.get("ingress_time", 0) != got.get("ingress_time", 0):
        got = {**got, "ingress_time": metadata["ingress_time"]}
    flags = dict.fromkeys(("dropped", "congested", "tracked", "intermediate"), 0)  # none without a header
    _assert_values(want, {key: {**flags, **got}[key] for key in want})
    _assert_values(own, _hop(metadata))


def _assert_flow(ours: dict[str, Any], shown: dict[str, Any]) -> None:
    got = {key.removesuffix("6"): value for key, value in shown.items()}
    assert {key: ours[key] for key in ("src", "dst", "proto")} == {
        key: got[key] for key in ("src", "dst", "proto")
    }
    assert (ours.get("sport"), ours.get("dport")) == (got.get("sport"), got.get("dport"))
    around = {**got, "layers": str(got.get("layers", "")).split()}
    for key in ("vlan", "tunnel_id", "layers"):
        if key in ours:
            assert _unordered(around[key]) == _unordered(ours[key]), key


def _unordered(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def assert_hops(ours: list[dict[str, Any]], shown: list[dict[str, Any]]) -> None:
    """The same hops, in path order."""
    assert len(ours) == len(shown)
    for ours_hop, shown_hop in zip(ours, shown, strict=True):
        if "residence_time" in shown_hop:
            _assert_hop_of_ifa(ours_hop, shown_hop)
            continue
        _assert_domain(ours_hop.pop("extras", {}), shown_hop)
        _assert_values(ours_hop, _hop(shown_hop))


def _assert_hop_of_ifa(ours: dict[str, Any], shown: dict[str, Any]) -> None:
    """The same hop of IFA: every key that `decode` prints, and no queue where a node writes none."""
    want = dict(ours)
    extras = want.pop("extras")
    assert want == {key: shown[key] for key in want}
    assert extras.keys() == {"ttl", "queue_bytes", "pool_cells"}
    _assert_values(extras, {key: shown[key] for key in extras})
    assert ("queue_occupancy" in shown) == ("queue_occupancy" in ours) == ("queue_id" in ours)


def assert_int(ours: dict[str, Any], shown: dict[str, Any]) -> None:
    """The same header, by the keys that `decode` prints."""
    if ours["version"] == "ifa":
        names = {"version": "layout", "mode": "mode", "carrier": "carrier", "inband": "inband"}
        names["hop_limit"] = "hop_limit"
        assert ours == {key: shown[name] for key, name in names.items()}
        assert shown["hop_size"] == 32
        return
    got = {**shown, "instructions": shown.get("meaning", shown["instructions"])}
    assert (got["layout"], got["mode"]) == (_number(ours["version"]), ours["mode"])
    assert (got["carrier"], got["instructions"]) == (ours["carrier"], int(ours["instructions"], 0))
    _assert_domain(ours.get("extras", {}), got)
    if "hop_words" in ours:
        assert got["hop_size"] == 4 * ours["hop_words"]
        remaining = max(got.get("max_hops", 0) - got.get("total_hops", 0), 0)
        assert got.get("remaining_hops", remaining) == ours["remaining_hops"]
    for name in ("hops_exceeded", "mtu_exceeded", "domain_id", "ds_instruction", "ds_flags"):
        if name in ours:
            assert got.get(name, 0) == _value(ours[name]), name


def _assert_domain(extras: dict[str, Any], shown: dict[str, Any]) -> None:
    """Domain-specific metadata that no domain explains: the same bytes, the source's own last."""
    if extras and extras.keys() <= {"ds", "ds_source"}:
        said = str(shown.get("domain_specific", "")).replace(":", "")
        assert said == extras.get("ds", "") + extras.get("ds_source", "")
    for name, value in extras.items():
        if name not in ("ds", "ds_source"):
            said = str(shown[f"domain.{name}"]).replace(":", "")
            assert value in (said, None if set(said) == {"f"} else int(said, 16)), name


def _hop(shown: dict[str, Any]) -> dict[str, Any]:
    """Fields of a hop under the names of JSON."""
    hop = {key: value for key, value in shown.items()
           if key not in ("bottom", "domain_specific") and not key.startswith("domain.")}  # fmt: skip
    congestion = hop.pop("congestion_queue_id", None)
    if congestion is not None and _ones(hop.get("queue_id", 0)) and _ones(hop.get("queue_occupancy", 0)):
        hop["queue_id"] = congestion
    elif congestion is not None:
        hop.setdefault("queue_id", congestion)
    return hop


def _ones(value: int) -> bool:
    """Whether all bits of a field are ones: a value that is unavailable."""
    return value > 0 and (value + 1).bit_count() == 1


def _assert_values(ours: dict[str, Any], shown: dict[str, Any]) -> None:
    assert ours.keys() == shown.keys(), (ours, shown)
    for key, value in ours.items():
        if value is None:
            assert _ones(shown[key]), (key, ours, shown)
        else:
            assert min(shown[key], HOP_MAX.get(key, 1 << 64)) == _value(value), (key, ours, shown)


def _value(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return int(value, 0) if isinstance(value, str) else value


def assert_capture_agrees(tshark: Tshark, capture: Path, dialect: Dialect, **preferences: str) -> int:
    """Every report of a capture is shown as it is decoded, and nothing else is; how many there are."""
    shown = [
        (number, one)
        for number, layers in enumerate(tshark.frames(capture, dialect=dialect.name, **preferences))
        for one in reports(layers)
    ]
    ours = decoded(capture, dialect)
    assert [one["packet"] for one in ours] == [number for number, _ in shown]
    for one, (_, said) in zip(ours, shown, strict=True):
        assert_agrees(one, said)
    return len(ours)
