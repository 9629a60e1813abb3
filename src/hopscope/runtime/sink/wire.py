"""Forwarding by an XDP program: when it is possible, and the packet heads that the sink receives."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from ...bpf.ring import FRAMES
from ...bpf.wire_heads import WireHeads
from ...bpf.wire_layout import PASSED, UNREAD_PROTOCOLS, WireCount
from ...bpf.wire_program import WireProgram, knows
from ...capture.errors import CaptureError
from ...capture.interface import has_carrier, mtu_of
from ...capture.netlink import follow_links, have_changed
from ...capture.ring.offload import driver_of, features, kind_of
from ...settings.listen import ListenSettings
from ...settings.sink import SinkSettings
from ...wire.dialect import Dialect
from ...wire.records import FrameBatch
from .forward import Count

_LOOK_NS = 100_000_000
_GATHER_NS = 4_000_000
"""How long heads gather. They are not urgent, and the overhead of a batch equals about 100 heads."""
_PARAVIRTUAL = ("virtio_net", "vmxnet3", "hv_netvsc", "vif", "xen_netfront")
"""Drivers of virtual machines' cards, whose host may leave checksums incomplete."""
_TAGS = (("rx-vlan-hw-parse", "tx-vlan-hw-insert"), ("rx-vlan-stag-hw-parse", "tx-vlan-stag-hw-insert"))
"""Pairs of features: the first takes a VLAN tag out of a frame, the second puts it back."""
_FORWARDED = WireCount.FORWARDED, WireCount.STRIPPED, WireCount.KEPT
_TOTALS = {
    "frames_total": _FORWARDED,
    "forwarded_frames_total": _FORWARDED,
    "other_frames_total": (WireCount.FORWARDED,),
    "stripped_packets_total": (WireCount.STRIPPED,),
    "unverified_packets_total": (WireCount.UNVERIFIED,),
}
"""Counters of all frames of a sink, including those that workers receive and forward."""


def obstacle(listen: ListenSettings, sink: SinkSettings, dialects: Sequence[Dialect]) -> str:
    """Why an XDP program cannot forward the frames of a listener as its worker would; empty: it can.

    The kernel stores segmentation, checksum and VLAN tag outside the frame if the sender left them to a card;
    the program does not see them. Between veth pairs they travel with a redirected frame; a card sends the
    frame without them.
    """
    if len(dialects) > 1:
        return "dialect auto: a program needs to know the dialect"
    if not knows(dialects[0]):
        return f"dialect {dialects[0].name}: neither DSCP nor port announces all INT"
    if (protocol := dialects[0].ifa_protocol) in UNREAD_PROTOCOLS:
        return f"dialect {dialects[0].name}: the program does not read IP protocol {protocol}, that of IFA"
    if listen.workers > 1:
        return "several workers share the interface"
    if listen.filter:
        return "the filter of the listener"
    if listen.keep_offloads:
        return "keep_offloads: frames may come merged"
    if sink.report.to and sink.report.when != "flow":
        return "reports of packets and events hold whole packets"
    try:
        return _obstacle_between(listen.interface, listen.output)
    except CaptureError as error:
        return str(error)


def problem(listen: ListenSettings, sink: SinkSettings, dialects: Sequence[Dialect]) -> str:
    """`obstacle`, or why the kernel does not take the program; empty: none."""
    found = obstacle(listen, sink, dialects)
    if not found:
        try:
            WireProgram(dialects[0], ring_bytes=1 << 16).close()
        except CaptureError as error:
            found = str(error)
    return found


def _obstacle_between(interface: str, output: str) -> str:
    kinds = kind_of(interface), kind_of(output)
    if kinds == ("veth", "veth"):
        return ""
    if any(kinds):
        return f"{interface} and {output} are neither both network cards nor both ends of veth pairs"
    for name in (interface, output):
        if driver_of(name) in _PARAVIRTUAL:
            return f"{name}: checksums of a paravirtual card may be incomplete"
    mine, theirs = features(interface), features(output)
    for taken, put in _TAGS:
        if taken in mine and mine[taken].active and not (put in theirs and theirs[put].active):
            return f"{interface} takes VLAN tags out of frames, {output} does not put them back"
    return ""


class WireListener:
    """Receives the heads of the INT packets that an XDP program forwards, for a worker to decode.

    Frames that the program does not forward go to the `RingListener` of the same interface. So do all frames
    while the program is being loaded: the kernel verifies it for 0.2 s, on a busy machine for seconds. It is
    attached once that listener has caught up, so that it overtakes few frames.
    """

    def __init__(
        self,
        settings: ListenSettings,
        dialect: Dialect,
        count: Count,
        caught_up: Callable[[], bool],
        *,
        strip: bool = True,
        required: bool = False,
    ) -> None:
        """`required`: if the program cannot be loaded, raise an error instead of doing without it."""
        self.settings = settings
        self._dialect, self._strip, self._required = dialect, strip, required
        self._count, self._caught_up = count, caught_up
        self._index = self._due_ns = self._next_ns = 0
        self._finished = False
        self._counted = dict.fromkeys((*_TOTALS, "frame_bytes_total"), 0)

    def open(self) -> None:
        """Load the kernel, and begin to load the program, in a thread."""
        self.buffer_bytes = 1 << (self.settings.ring_bytes // 4 - 1).bit_length()
        """Bytes of the ring."""
        self._heads = WireHeads()
        self._links = follow_links()
        self._program: WireProgram | None = None
        loader = ThreadPoolExecutor(1, "wire")
        self._loading: Future[WireProgram] = loader.submit(
            WireProgram, self._dialect, strip=self._strip, ring_bytes=self.buffer_bytes
        )
        loader.shutdown(wait=False)

    def receive(self) -> FrameBatch | None:
        """Up to 4096 heads; None if there are none. Valid until the next call. Raises CaptureError."""
        now = time.monotonic_ns()
        # until it knows, the program sends frames to an output that is down, which the kernel drops
        if have_changed(self._links) or now >= self._due_ns:
            self._due_ns = now + _LOOK_NS
            self._take()
            self._look()
        if self._program is None or (now < self._next_ns and not self._finished):
            return None
        batch = self._heads.receive()
        if batch is None or len(batch) < FRAMES:
            self._next_ns = now + _GATHER_NS
        return batch

    def _take(self) -> None:
        """Take the program from the thread once it is loaded."""
        if self._program is not None or self._finished or not self._loading.done():
            return
        try:
            program = self._loading.result()
        except CaptureError:
            if self._required:
                raise
            self._finished = True
            return
        self._heads.map(program.ring, program.ring_bytes)
        self._program = program

    def _look(self) -> None:
        """Attach the program when it is due or an interface was recreated; follow changes of the output."""
        if self._program is None or self._finished or not (self._index or self._caught_up()):
            return
        with suppress(OSError, CaptureError):  # an interface is gone
            index = socket.if_nametoindex(self.settings.interface)
            if index != self._index:
                self._program.detach()
                self._program.attach(self.settings.interface)
                self._index = index
            self._program.aim(self.settings.output)
        self._program.turn_on(self._mtu())

    def _mtu(self) -> int:
        """The output's MTU; 0 if the output is gone, is down or has no carrier."""
        with suppress(OSError):
            if has_carrier(self.settings.output, self._links):
                return mtu_of(self.settings.output, self._links)
        return 0

    def _tell(self, counts: Mapping[WireCount, int], forwarded_bytes: int) -> None:
        """Add the frames that the program has forwarded since the last call to the counters of all frames."""
        totals = {key: sum(counts[outcome] for outcome in outcomes) for key, outcomes in _TOTALS.items()}
        totals["frame_bytes_total"] = forwarded_bytes
        for key, total in totals.items():
            self._count(key, total - self._counted[key])
        self._counted = totals

    def finish(self) -> None:
        """Detach the program; heads that it has already sent up are still received."""
        self._finished = True
        if self._program is not None:
            self._program.detach()

    def counts(self) -> dict[str, int]:
        """Frames since `open` by outcome, by key of `detect.counters`."""
        if self._program is None:
            return {}
        counts = self._program.counts()
        self._tell(counts, self._program.forwarded_bytes)
        return {
            "wire_unchanged": counts[WireCount.FORWARDED] + counts[WireCount.KEPT],
            "wire_stripped": counts[WireCount.STRIPPED],
            "wire_lost": counts[WireCount.LOST_HEAD],
            **{f"wire_{reason.label}": counts[reason] for reason in PASSED},
        }

    def fileno(self) -> int:
        """Descriptor of a socket that wakes a worker when an interface changes; frames do not wake it."""
        return self._links.fileno()

    def notes(self) -> list[str]:
        """A line for the log at the start."""
        lane = f"{self.settings.interface} to {self.settings.output}"
        return [f"{lane}: an XDP program forwards plain frames, the ring all others"]

    def close(self) -> None:
        """Detach the program and free it."""
        with suppress(CaptureError):
            self._loading.result().close()
        self._links.close()
