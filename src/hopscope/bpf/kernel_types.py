"""Queries of the kernel's type information (BTF)."""

from __future__ import annotations

import ctypes
from functools import cache

from .libbpf import library

_ENUM = 6  # BTF_KIND_ENUM
_FUNCTION = 12  # BTF_KIND_FUNC
_HEAD = 3  # 32-bit words of struct btf_type
_LENGTH = 0xFFFF  # of its second word: members


@cache
def enumeration(name: str) -> dict[str, int]:
    """Names and numbers of an enumeration; empty: the kernel lacks it, or has no type information."""
    libbpf = library()
    types = libbpf.btf__load_vmlinux_btf()
    if not types:
        return {}
    try:
        number = libbpf.btf__find_by_name_kind(types, name.encode(), _ENUM)
        if number <= 0:
            return {}
        at = libbpf.btf__type_by_id(types, number)
        count = (ctypes.c_uint32 * _HEAD).from_address(at)[1] & _LENGTH
        words = (ctypes.c_uint32 * (2 * count)).from_address(at + 4 * _HEAD)
        return {
            libbpf.btf__name_by_offset(types, words[2 * each]).decode(): words[2 * each + 1]
            for each in range(count)
        }
    finally:
        libbpf.btf__free(types)


@cache
def has_function(name: str) -> bool:
    """Whether this kernel has a function, by its type information."""
    libbpf = library()
    types = libbpf.btf__load_vmlinux_btf()
    if not types:
        return False
    found = libbpf.btf__find_by_name_kind(types, name.encode(), _FUNCTION)
    libbpf.btf__free(types)
    return bool(found > 0)
