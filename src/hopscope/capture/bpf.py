"""Classic BPF programs of sockets (linux/filter.h, bpf_common.h) that choose the worker of a packet."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence

LD_W_ABS, LD_H_ABS, LD_B_ABS, LD_H_IND, LDX_MSH = 0x20, 0x28, 0x30, 0x48, 0xB1
JEQ_K, JSET_K, RET_K = 0x15, 0x45, 0x06
_TAX, _RET_A, _RSH_K, _XOR_X, _MUL_K, _MOD_K, _JA = 0x07, 0x16, 0x74, 0xAC, 0x24, 0x94, 0x05
_NET = 0xFFF0_0000  # SKF_NET_OFF: offsets from the IP header

Line = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


def assemble(lines: Sequence[Line]) -> bytes:
    """struct sock_filter [lines]. Raises struct.error."""
    return b"".join(struct.pack("<HBBI", *line) for line in lines)


NOTHING = assemble([(RET_K, 0, 0, 0)])
"""A program that accepts no packet."""


def _folded(ip: int, offsets: Sequence[int]) -> list[Line]:
    """XOR of the words at these offsets from the IP header."""
    lines: list[Line] = [(LD_W_ABS, 0, 0, ip + offsets[0])]
    for offset in offsets[1:]:
        lines += [(_TAX, 0, 0, 0), (LD_W_ABS, 0, 0, ip + offset), (_XOR_X, 0, 0, 0)]
    return lines


def _by_words(ip: int, four: Sequence[int], six: Sequence[int], workers: int) -> list[Line]:
    """Return a hash of words of the IP header of version 4 or 6, below `workers`; 0 for anything else."""
    of_four, of_six = _folded(ip, four), _folded(ip, six)
    return [
        (LD_B_ABS, 0, 0, ip),
        (_RSH_K, 0, 0, 4),
        (JEQ_K, 2, 0, 4),
        (JEQ_K, 2 + len(of_four), 0, 6),
        (RET_K, 0, 0, 0),
        *of_four,
        (_JA, 0, 0, len(of_six)),
        *of_six,
        (_MUL_K, 0, 0, 0x9E3779B1),
        (_RSH_K, 0, 0, 16),
        (_MOD_K, 0, 0, workers),
        (_RET_A, 0, 0, 0),
    ]


def source_worker(ip: int, workers: int) -> list[Line]:
    """Return the worker of a packet, a hash of its source address; `ip`: offset of its IP header."""
    return _by_words(ip, (12,), (8, 12, 16, 20), workers)


def by_source(workers: int) -> bytes:
    """Program that returns the worker of a datagram: a hash of its source address."""
    return assemble(source_worker(_NET, workers))


def by_addresses(workers: int) -> bytes:
    """Program that returns the worker of a frame: a hash of both addresses, the same in both directions."""
    return assemble(_by_words(_NET, (12, 16), range(8, 40, 4), workers))


def attach(handle: socket.socket, level: int, option: int, code: bytes) -> None:
    """Attach a program to a socket through this option. Raises OSError."""
    buffer = ctypes.create_string_buffer(code, len(code))
    handle.setsockopt(level, option, struct.pack("<H6xQ", len(code) // 8, ctypes.addressof(buffer)))
