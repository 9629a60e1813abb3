"""Filters of frames: a text such as `udp port 4791`, which libpcap compiles, or lines of `tcpdump -ddd`."""

from __future__ import annotations

import ctypes
import ctypes.util
import struct

from ..bpf import assemble

MAX_LINES = 4096
"""Maximum length of a program (BPF_MAXINSNS)."""
_ETHERNET, _SNAPLEN, _UNKNOWN_NETMASK = 1, 262_144, 0xFFFFFFFF
_LINE_BYTES = 8


def compile_filter(text: str) -> bytes:
    """struct sock_filter [lines]; empty: all frames. Raises ValueError."""
    lines = text.replace("\n", ",").strip(", ")
    if not lines:
        return b""
    return _numbers(lines) if lines[0].isdecimal() else _by_libpcap(text)


def _numbers(text: str) -> bytes:
    """A program in the form that `tcpdump -ddd` prints, with commas between lines."""
    count, *lines = text.split(",")
    try:
        parts = [[int(number) for number in line.split()] for line in lines]
        if int(count) != len(parts) or not 0 < len(parts) <= MAX_LINES:
            raise ValueError
        return assemble([(code, true, false, constant) for code, true, false, constant in parts])
    except (ValueError, struct.error):
        raise ValueError(
            "expected the number of its lines and four numbers per line, such as 1,6 0 0 262144 "
            "(tcpdump -ddd), or a text, such as udp port 4791"
        ) from None


class _Program(ctypes.Structure):
    """struct bpf_program; its instructions have the layout of struct sock_filter."""

    _fields_ = (("count", ctypes.c_uint), ("instructions", ctypes.c_void_p))


def _by_libpcap(text: str) -> bytes:
    name = ctypes.util.find_library("pcap")
    if name is None:
        raise ValueError("expected lines of tcpdump -ddd, since libpcap, which compiles texts, is not here")
    library = ctypes.CDLL(name)
    library.pcap_open_dead.restype = ctypes.c_void_p
    library.pcap_geterr.restype = ctypes.c_char_p
    handle = ctypes.c_void_p(library.pcap_open_dead(_ETHERNET, _SNAPLEN))
    program = _Program()
    try:
        if library.pcap_compile(handle, ctypes.byref(program), text.encode(), 1, _UNKNOWN_NETMASK):
            reason = library.pcap_geterr(handle).decode(errors="replace")
            raise ValueError(f"expected a filter, such as udp port 4791: {reason}")
        found = ctypes.string_at(program.instructions, program.count * _LINE_BYTES)
        library.pcap_freecode(ctypes.byref(program))
        return found
    finally:
        library.pcap_close(handle)
