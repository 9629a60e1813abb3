"""The required parts of libbpf: load an object, find its maps, attach its program to an interface."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..capture.errors import CaptureError
from .map_shape import MapShape, require_shape, shape_of

_XDP = 37  # BPF_XDP, of enum bpf_attach_type
_GENERIC = 1 << 1  # XDP_FLAGS_SKB_MODE
_NATIVE_MODES = (1, 3)  # XDP_ATTACHED_DRV, XDP_ATTACHED_HW
_BUSY = (errno.EBUSY, errno.EEXIST)
_DENIED = (errno.EPERM, errno.EACCES)
_PRIVILEGES = "it needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"


class _LinkOptions(ctypes.Structure):
    """The first fields of struct bpf_link_create_opts."""

    _fields_ = (("size", ctypes.c_size_t), ("flags", ctypes.c_uint32), ("more", ctypes.c_uint32))


class _QueryOptions(ctypes.Structure):
    """struct bpf_xdp_query_opts."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("programs", ctypes.c_uint32 * 4),
        ("mode", ctypes.c_uint8),
        ("padding", ctypes.c_uint8 * 7),
    )


class _RunOptions(ctypes.Structure):
    """struct bpf_test_run_opts."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("data", ctypes.c_char_p),
        ("data_out", ctypes.c_void_p),
        ("data_bytes", ctypes.c_uint32),
        ("data_out_bytes", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("context_out", ctypes.c_void_p),
        ("context_bytes", ctypes.c_uint32),
        ("context_out_bytes", ctypes.c_uint32),
        ("verdict", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration_ns", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("processor", ctypes.c_uint32),
        ("batch", ctypes.c_uint32),
    )


@cache
def library() -> Any:
    """The system's libbpf. Raises CaptureError."""
    try:
        found = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError as error:
        raise CaptureError("eBPF needs libbpf 1: apt install libbpf1") from error
    pointer, integer, text, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
    for name, result, arguments in (
        ("bpf_object__open_file", pointer, [text, pointer]),
        ("bpf_object__load", integer, [pointer]),
        ("bpf_object__close", None, [pointer]),
        ("bpf_object__find_map_by_name", pointer, [pointer, text]),
        ("bpf_object__find_program_by_name", pointer, [pointer, text]),
        ("bpf_map__set_max_entries", integer, [pointer, ctypes.c_uint32]),
        ("bpf_map__fd", integer, [pointer]),
        ("bpf_map__type", integer, [pointer]),
        ("bpf_map__key_size", ctypes.c_uint32, [pointer]),
        ("bpf_map__value_size", ctypes.c_uint32, [pointer]),
        ("bpf_map__max_entries", ctypes.c_uint32, [pointer]),
        ("bpf_map__map_flags", ctypes.c_uint32, [pointer]),
        ("bpf_map__update_elem", integer, [pointer, pointer, size, pointer, size, ctypes.c_uint64]),
        ("bpf_map__set_pin_path", integer, [pointer, text]),
        ("bpf_map__initial_value", pointer, [pointer, ctypes.POINTER(ctypes.c_size_t)]),
        ("bpf_program__fd", integer, [pointer]),
        ("bpf_map_update_elem", integer, [integer, text, text, ctypes.c_uint64]),
        ("bpf_map_lookup_elem", integer, [integer, text, pointer]),
        ("bpf_map_delete_elem", integer, [integer, text]),
        ("bpf_map_get_next_key", integer, [integer, text, pointer]),
        ("bpf_link_create", integer, [integer, integer, integer, pointer]),
        ("bpf_link_update", integer, [integer, integer, pointer]),
        ("bpf_tc_hook_create", integer, [pointer]),
        ("bpf_tc_attach", integer, [pointer, pointer]),
        ("bpf_tc_detach", integer, [pointer, pointer]),
        ("bpf_obj_pin", integer, [integer, text]),
        ("bpf_obj_get", integer, [text]),
        ("btf__load_vmlinux_btf", pointer, []),
        ("btf__free", None, [pointer]),
        ("btf__find_by_name_kind", ctypes.c_int32, [pointer, text, ctypes.c_uint32]),
        ("btf__type_by_id", pointer, [pointer, ctypes.c_uint32]),
        ("btf__name_by_offset", text, [pointer, ctypes.c_uint32]),
        ("bpf_prog_test_run_opts", integer, [integer, pointer]),
        ("bpf_xdp_query", integer, [integer, integer, pointer]),
        ("libbpf_set_print", pointer, [pointer]),
    ):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    found.libbpf_set_print(None)
    return found


class BpfObject:
    """An object file with one XDP program and its maps. `close`, or the end of the process, frees them."""

    def __init__(self, path: Path) -> None:
        """Raises CaptureError."""
        if not path.exists():
            raise CaptureError(
                f"this installation has no compiled {path.name}: install clang and libbpf-dev, then run "
                "`python -m hopscope.bpf.build`, or install a wheel that has it"
            )
        self._library, self._name = library(), path.name
        self._link = -1
        self._object = self._library.bpf_object__open_file(os.fsencode(path), None)
        if not self._object:
            raise CaptureError(f"{path}: {os.strerror(ctypes.get_errno())}")

    def resize(self, name: str, entries: int) -> None:
        """Set the number of entries of a map; before `load`."""
        self._library.bpf_map__set_max_entries(self._map(name), entries)

    def share(self, name: str, pin: Path) -> None:
        """Use the map pinned at `pin`, or pin this one there; before `load`. Raises CaptureError if the
        pinned map is of another version.
        """
        own, held = self._map(name), self._library.bpf_obj_get(os.fsencode(pin))
        if held >= 0:
            asked = ("type", "key_size", "value_size", "max_entries", "map_flags")
            expected = MapShape(*(int(getattr(self._library, f"bpf_map__{each}")(own)) for each in asked))
            try:
                require_shape(pin, shape_of(held), expected)
            except CaptureError:
                self.close()
                raise
            finally:
                os.close(held)
        self._library.bpf_map__set_pin_path(own, os.fsencode(pin))

    def load(self) -> None:
        """Let the kernel check and compile the program. Raises CaptureError."""
        failed = -self._library.bpf_object__load(self._object)
        if failed:
            self.close()
        if failed == errno.EPERM:
            raise CaptureError(f"this process may not load an eBPF program: {_PRIVILEGES}")
        if failed == errno.EACCES:
            raise CaptureError(
                f"the kernel's verifier rejects {self._name}: this process lacks CAP_PERFMON, or the program "
                "was compiled with an untested version of clang (tested: 14, 15, 16 and 19)"
            )
        if failed:
            raise CaptureError(f"the kernel rejects eBPF programs of this kind ({os.strerror(failed)})")

    def attach(self, program: str, index: int, *, generic: bool = False) -> bool:
        """Run the program on frames that the interface `index` receives, until `detach`. Returns True if the
        driver runs it (native), False if the network stack does (generic; forced by `generic`). Raises
        CaptureError.
        """
        for flags in (_GENERIC,) if generic else (0, _GENERIC):
            options = _LinkOptions(ctypes.sizeof(_LinkOptions), flags, 0)
            self._link = self._library.bpf_link_create(
                self.program(program), index, _XDP, ctypes.byref(options)
            )
            if self._link >= 0:
                return self._native(index)
        failed = -self._link
        if failed in _BUSY:
            name = socket.if_indextoname(index)
            raise CaptureError(
                f"{name} already has an XDP program: end the process that has attached it, such as another "
                f"collector or sink, or remove it (`ip link set dev {name} xdp off`, or `xdpgeneric off`)"
            )
        hint = f"; {_PRIVILEGES}" if failed in _DENIED else ""
        raise CaptureError(f"the interface does not accept an XDP program ({os.strerror(failed)}){hint}")

    def _native(self, index: int) -> bool:
        found = _QueryOptions(ctypes.sizeof(_QueryOptions))
        return not self._library.bpf_xdp_query(index, 0, ctypes.byref(found)) and found.mode in _NATIVE_MODES

    def program(self, name: str) -> int:
        """Descriptor of a loaded program."""
        found = self._library.bpf_object__find_program_by_name(self._object, name.encode())
        return int(self._library.bpf_program__fd(found))

    def run(
        self, program: str, frame: bytes, repeat: int = 1, context: bytes | None = None
    ) -> tuple[int, int]:
        """Run a loaded program on a frame, without an interface (BPF_PROG_TEST_RUN); returns (verdict of the
        last run, mean duration of a run, ns). Raises CaptureError.
        """
        given = ctypes.create_string_buffer(context, len(context)) if context else None
        options = _RunOptions(
            size=ctypes.sizeof(_RunOptions), data=frame, data_bytes=len(frame), repeat=repeat,
            context=ctypes.addressof(given) if given else None, context_bytes=len(given) if given else 0,
        )  # fmt: skip
        self._run(program, options)
        return options.verdict, options.duration_ns

    def changed(
        self, program: str, frame: bytes, *, room: int = 0, context: bytes | None = None
    ) -> tuple[int, bytes]:
        """`run` once; returns (verdict, resulting frame, which may be up to `room` bytes longer). `context`
        is the frame's struct __sk_buff. Raises CaptureError.
        """
        out = ctypes.create_string_buffer(len(frame) + room)
        given = ctypes.create_string_buffer(context, len(context)) if context else None
        options = _RunOptions(
            size=ctypes.sizeof(_RunOptions), data=frame, data_bytes=len(frame), repeat=1,
            data_out=ctypes.addressof(out), data_out_bytes=len(out),
            context=ctypes.addressof(given) if given else None, context_bytes=len(given) if given else 0,
        )  # fmt: skip
        self._run(program, options)
        return options.verdict, out.raw[: options.data_out_bytes]

    def _run(self, program: str, options: _RunOptions) -> None:
        failed = -self._library.bpf_prog_test_run_opts(self.program(program), ctypes.byref(options))
        if failed:
            raise CaptureError(f"the program cannot be run ({os.strerror(failed)})")

    def descriptor(self, name: str) -> int:
        """Descriptor of a loaded map."""
        return int(self._library.bpf_map__fd(self._map(name)))

    def put(self, name: str, key: int, value: int | bytes) -> None:
        """Write an entry of a loaded map; keys are 32-bit numbers, values are 32-bit numbers or bytes. Raises
        CaptureError.
        """
        size = ctypes.sizeof(ctypes.c_uint32)
        given = value.to_bytes(size, sys.byteorder) if isinstance(value, int) else value
        entry = ctypes.create_string_buffer(key.to_bytes(size, sys.byteorder) + given, size + len(given))
        at = ctypes.addressof(entry)
        failed = -self._library.bpf_map__update_elem(self._map(name), at, size, at + size, len(given), 0)
        if failed:
            raise CaptureError(f"the kernel rejects entry {key} of the map {name} ({os.strerror(failed)})")

    def constants(self) -> Any:
        """Memory of the program's constants (`.rodata`), which must be written before `load`."""
        size = ctypes.c_size_t()
        address = self._library.bpf_map__initial_value(self._map(".rodata"), ctypes.byref(size))
        return (ctypes.c_uint8 * size.value).from_address(address)

    def memory(self, name: str, nbytes: int) -> npt.NDArray[np.uint8]:
        """Memory of a loaded map with BPF_F_MMAPABLE, or of the program's variables (`.bss`): shared with it,
        uint8 [nbytes].
        """
        return np.frombuffer(mmap.mmap(self.descriptor(name), nbytes), np.uint8)

    def _map(self, name: str) -> Any:
        found = self._library.bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise KeyError(name)
        return found

    def detach(self) -> None:
        """Detach the program from its interface."""
        if self._link >= 0:
            os.close(self._link)
            self._link = -1

    def close(self) -> None:
        """Detach the program, and free it and its maps."""
        self.detach()
        if self._object:
            self._library.bpf_object__close(self._object)
            self._object = None
