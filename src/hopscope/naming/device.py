"""What a device is asked, whatever protocol it speaks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import TypeVar

from ..base.errors import HopscopeError, described
from ..base.names import Names, clean_name

MAX_PORT = 0xFFFE
"""Highest ifIndex that events can name; 65535 is no port."""
MAX_REASON = 200
"""Most characters of an error that a device, or the library that reads from it, gives."""
DEVICE_SECONDS = 60.0
"""Longest time for all names, or counters, of a device."""
Answer = TypeVar("Answer")
PortCounters = dict[int, dict[str, int]]
"""Counters of a device by ifIndex and name (`interfaces.COUNTER_NAMES`); what it does not count is absent."""


class DeviceError(HopscopeError):
    """A device does not answer, or rejects the request."""


class DeviceClient(ABC):
    """Asks the devices of a table of the settings, within one event loop; `close` it."""

    async def names(self, node: int, host: str) -> Names:
        """Names of a device and its ports. Raises DeviceError."""
        return await _in_time(self._names(node, host))

    async def counters(self, host: str) -> PortCounters:
        """Counters of its interfaces. Raises DeviceError."""
        return await _in_time(self._counters(host))

    @abstractmethod
    async def _names(self, node: int, host: str) -> Names: ...

    @abstractmethod
    async def _counters(self, host: str) -> PortCounters: ...

    @abstractmethod
    async def close(self) -> None:
        """Close its sockets."""


async def _in_time(answer: Awaitable[Answer]) -> Answer:
    """The answer of a device. Raises DeviceError."""
    try:
        async with asyncio.timeout(DEVICE_SECONDS):
            return await answer
    except TimeoutError:
        raise DeviceError(f"its answer took more than {DEVICE_SECONDS:g} s") from None
    except DeviceError:
        raise
    except Exception as error:  # of the library, which reads what devices send
        raise DeviceError(clean_name(described(error).encode(), MAX_REASON)) from None
