"""The interface of a client that asks devices, whatever their protocol."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import TypeVar

from ..base.errors import HopscopeError, described
from ..base.names import Names, clean_name

MAX_PORT = 0xFFFE
"""Highest ifIndex that events can contain; 65535 means no port."""
MAX_REASON = 200
"""Longest error message, in characters, from a device or the library that reads from it."""
DEVICE_SECONDS = 60.0
"""Time limit for reading all names, or all counters, of a device."""
Answer = TypeVar("Answer")
PortCounters = dict[int, dict[str, int]]
"""Counters of a device by ifIndex and name (`interfaces.COUNTER_NAMES`); those that it lacks are missing."""


class DeviceError(HopscopeError):
    """A device does not answer, or rejects the request."""


class DeviceClient(ABC):
    """Asks the devices of one table of the settings, within one event loop. Call `close` at the end."""

    async def names(self, node: int, host: str) -> Names:
        """Names of a device and its ports. Raises DeviceError."""
        return await _in_time(self._names(node, host))

    async def counters(self, host: str) -> PortCounters:
        """Counters of a device's interfaces. Raises DeviceError."""
        return await _in_time(self._counters(host))

    @abstractmethod
    async def _names(self, node: int, host: str) -> Names: ...

    @abstractmethod
    async def _counters(self, host: str) -> PortCounters: ...

    @abstractmethod
    async def close(self) -> None:
        """Close its sockets."""


async def _in_time(answer: Awaitable[Answer]) -> Answer:
    """Wait for the answer of a device, at most DEVICE_SECONDS. Raises DeviceError."""
    try:
        async with asyncio.timeout(DEVICE_SECONDS):
            return await answer
    except TimeoutError:
        raise DeviceError(f"its answer took more than {DEVICE_SECONDS:g} s") from None
    except DeviceError:
        raise
    except Exception as error:  # from the library, which parses data that devices send
        raise DeviceError(clean_name(described(error).encode(), MAX_REASON)) from None
