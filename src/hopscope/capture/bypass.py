"""The bypass of a sink in a wire: the kernel passes frames on while no worker does.

A program at the ingress of the input (tc, clsact) checks a heartbeat that every worker writes: a time in
nanoseconds in an array that the kernel and the workers share. While all heartbeats are younger than the
timeout, frames go to the packet sockets as usual. Once one is older, because a worker hangs, was stopped, or
was killed together with all others, frames are redirected to the output, including their INT. The program
stays loaded however its maker ends. It needs Linux 5.8 and CAP_BPF with CAP_NET_ADMIN (or root), but no
tools.

Redirected frames also reach the packet socket. `Heartbeat` tells which ones, so that none is sent twice. At
the moment of a change, a frame in transit may be duplicated or lost.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import socket
import struct
import time
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from .errors import CaptureError
from .interface import index_of

_SYSCALLS = {"x86_64": 321, "aarch64": 280}
_MAP_CREATE, _PROG_LOAD = 0, 5
_ARRAY, _MMAPABLE = 2, 1 << 10
_SCHED_CLS = 3
_NEW_QDISC, _NEW_FILTER, _DEL_FILTER = 36, 44, 45
_REQUEST, _ACK, _CREATE, _EXCLUSIVE = 0x1, 0x4, 0x400, 0x200
_CLSACT, _CLSACT_HANDLE, _INGRESS = 0xFFFFFFF1, 0xFFFF0000, 0xFFFFFFF2
_KIND, _OPTIONS = 1, 2
_BPF_FD, _BPF_NAME, _BPF_FLAGS = 6, 7, 8
_DIRECT_ACTION = 1
_TC_ACT_UNSPEC = 0xFFFFFFFF
"""Continue as if there were no filter."""
_PRIORITY, _HANDLE = 0x4853, 1
"""Priority and handle of the filter, fixed so that a later start replaces it."""
_ALL_PROTOCOLS = 0x0300  # ETH_P_ALL in network order
_NAME = b"hopscope-bypass\0"
_WINDOW = 2
"""Words after the heartbeats of a lane: begin and end (ns since 1970) of the last redirection."""
HOLD_SECONDS = 2.0
"""How long another sink's workers may take to take over before frames are redirected; rings hold this much.
"""


class Bypass:
    """Bypasses of several listeners, which share an array of heartbeats: `lanes` by `workers`."""

    def __init__(self, lanes: int, workers: int, seconds: float, map_: int | None = None) -> None:
        """`seconds`: age of a heartbeat after which frames are redirected; `map_`: the array of a sink that
        is being taken over. Raises CaptureError if the kernel does not permit it.
        """
        self.workers, self._timeout_ns = workers, int(seconds * 1e9)
        if map_ is None:
            attributes = struct.pack("<5I", _ARRAY, 4, 8 * lanes * (workers + _WINDOW), 1, _MMAPABLE)
            map_ = _bpf(_MAP_CREATE, attributes, "no shared array")
        self.map = map_
        """Descriptor of the array, for `Heartbeat`."""

    def install(self, lane: int, interface: str, output: str, workers: int) -> None:
        """Redirect frames from one interface to the other while the lane's workers do not forward. Replaces
        an earlier bypass. Raises CaptureError.
        """
        index, to = index_of(interface), index_of(output)
        first = 8 * lane * (self.workers + _WINDOW)
        code = redirect_program(self.map, first, workers, self._timeout_ns, to, _TC_ACT_UNSPEC)
        program = load_program(_SCHED_CLS, code)
        try:
            with suppress(FileExistsError):
                _request(_NEW_QDISC, _CREATE | _EXCLUSIVE, index, _CLSACT, _CLSACT_HANDLE, 0, b"clsact\0")
            options = (
                _attribute(_BPF_FD, struct.pack("<I", program))
                + _attribute(_BPF_NAME, _NAME)
                + _attribute(_BPF_FLAGS, struct.pack("<I", _DIRECT_ACTION))
            )
            info = _PRIORITY << 16 | _ALL_PROTOCOLS
            # replaces an earlier filter in one step, so that no frame comes between the two
            _request(_NEW_FILTER, _CREATE, index, _INGRESS, _HANDLE, info, b"bpf\0", options)
        except OSError as error:
            raise CaptureError(f"{interface}: no bypass ({error.strerror or error})") from error
        finally:
            os.close(program)  # the filter holds it

    def close(self) -> None:
        """Close the array; the bypasses stay."""
        os.close(self.map)


def remove(interface: str) -> None:
    """Remove the bypass of an interface, if there is one."""
    with suppress(OSError, CaptureError):
        info = _PRIORITY << 16 | _ALL_PROTOCOLS
        _request(_DEL_FILTER, 0, index_of(interface), _INGRESS, 0, info, b"bpf\0")


class Heartbeat:
    """A worker's heartbeat in a lane, and the period of redirection, which all workers share."""

    def __init__(self, map_: int, lane: int, worker: int, workers: int, seconds: float, stride: int) -> None:
        """`map_`: the array of a `Bypass` with `stride` workers; `workers`: number of workers of the lane."""
        stride += _WINDOW
        memory = mmap.mmap(map_, mmap.PAGESIZE * -(-8 * stride * (lane + 1) // mmap.PAGESIZE))
        words: npt.NDArray[np.uint64] = np.frombuffer(memory, np.uint64)[lane * stride :]
        self._lane, self._window = words[:workers], words[stride - _WINDOW : stride]
        self._worker = worker
        self._timeout_ns = int(seconds * 1e9)
        self.redirected = (0, 0)
        """Begin and end (ns since 1970) of the most recent redirection."""
        self._stopped = False

    def beat(self) -> None:
        """Write the heartbeat: this worker forwards the frames that have arrived. Notice whether frames were
        redirected until now, because of this worker's heartbeat or another's.
        """
        if self._stopped:
            return
        now = time.monotonic_ns()
        age = now - min(self._lane.tolist())
        since, until = self._window.tolist()
        if age > self._timeout_ns:
            wall = time.time_ns()
            begin = wall - age + self._timeout_ns
            if begin > until:
                since = self._window[0] = begin
            until = self._window[1] = wall
        self.redirected = since, until
        self._lane[self._worker] = now

    def stop(self) -> None:
        """Have frames redirected from now on, unless they already are because another worker stopped. Earlier
        frames still have to be forwarded.
        """
        now, wall = time.monotonic_ns(), time.time_ns()
        late = now - min(self._lane.tolist()) - self._timeout_ns
        self._stopped = True
        self._lane[self._worker] = max(0, time.monotonic_ns() - self._timeout_ns - 1)
        # the time is read afterwards: a frame that arrives in between is sent twice rather than lost
        self.redirected = wall - late if late > 0 else time.time_ns(), (1 << 63) - 1

    def hold(self) -> None:
        """Have frames wait up to HOLD_SECONDS for the worker that takes over."""
        self._stopped = True
        self._lane[self._worker] = time.monotonic_ns() + int(HOLD_SECONDS * 1e9)

    def passed(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which received frames, given by their times, the kernel has already passed on, bool [times]."""
        self.beat()  # another worker may have stopped since the last one
        begin, end = self.redirected
        if len(times) and times[0] >= end:
            return np.zeros(len(times), np.bool_)
        return (times >= begin) & (times < end)


def redirect_program(map_: int, first: int, workers: int, timeout_ns: int, to: int, pass_: int) -> bytes:
    """struct bpf_insn [lines]: redirect to the interface `to` if any heartbeat is too old, else return
    `pass_`. `first`: offset of the heartbeats in the array, bytes.
    """
    code = [
        _instruction(0x18, 6, 2, 0, map_),  # r6 = the array's value (BPF_PSEUDO_MAP_VALUE) ...
        _instruction(0, 0, 0, 0, first),  # ... from the lane's heartbeats on
        _instruction(0x85, 0, 0, 0, 5),  # r0 = bpf_ktime_get_ns()
        _instruction(0x18, 2, 0, 0, timeout_ns & 0xFFFFFFFF),
        _instruction(0, 0, 0, 0, timeout_ns >> 32),
        _instruction(0x1F, 0, 2),  # r0 -= the timeout
    ]
    for worker in range(workers):
        code.append(_instruction(0x79, 3, 6, 8 * worker))  # r3 = a heartbeat
        code.append(_instruction(0xAD, 3, 0, 2 * (workers - worker - 1) + 2))  # older: redirect
    code += [
        _instruction(0xB7, 0, 0, 0, pass_),
        _instruction(0x95),
        _instruction(0xB7, 1, 0, 0, to),
        _instruction(0xB7, 2, 0, 0, 0),
        _instruction(0x85, 0, 0, 0, 23),  # r0 = bpf_redirect(output, 0)
        _instruction(0x95),
    ]
    return b"".join(code)


def load_program(kind: int, code: bytes) -> int:
    """Descriptor of a program of this type (enum bpf_prog_type). Raises CaptureError."""
    lines, license_ = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"Apache-2.0")
    attributes = struct.pack(
        "<IIQQ", kind, len(code) // 8, ctypes.addressof(lines), ctypes.addressof(license_)
    )
    return _bpf(_PROG_LOAD, attributes, "no program")


def _instruction(code: int, to: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """struct bpf_insn."""
    return struct.pack("<BBhI", code, source << 4 | to, offset, value)


def _bpf(command: int, attributes: bytes, what: str) -> int:
    """bpf(2). Raises CaptureError."""
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        raise CaptureError(f"no bypass: not known for {platform.machine()}")
    libc = ctypes.CDLL(None, use_errno=True)
    memory = ctypes.create_string_buffer(attributes, 128)
    found = libc.syscall(number, command, memory, 128)
    if found < 0:
        error = ctypes.get_errno()
        hint = "; it needs root, or CAP_BPF and CAP_NET_ADMIN" if error in (errno.EPERM, errno.EACCES) else ""
        raise CaptureError(f"no bypass: {what} in this kernel ({os.strerror(error)}){hint}")
    return int(found)


def _attribute(kind: int, content: bytes) -> bytes:
    """struct rtattr and its content."""
    return struct.pack("<HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def _request(
    kind: int, flags: int, index: int, parent: int, handle: int, info: int, name: bytes, options: bytes = b""
) -> None:
    """A request of traffic control (rtnetlink(7), struct tcmsg). Raises OSError."""
    body = struct.pack("<BxxxiIII", 0, index, handle, parent, info) + _attribute(_KIND, name)
    if options:
        body += _attribute(_OPTIONS, options)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(struct.pack("<IHHII", 16 + len(body), kind, flags | _REQUEST | _ACK, 1, 0) + body)
        answer = netlink.recv(1 << 16)
    error = struct.unpack_from("<i", answer, 16)[0]
    if error:
        raise OSError(-error, os.strerror(-error))
