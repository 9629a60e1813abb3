"""Calls of kernels by other kernels that are not compiled with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

RESULT, ARGUMENTS = 1, 4
"""Words of a call: its first result, and its first argument. An array takes a word for its address, and one
for each length.
"""


class Call:
    """A `jit.linked` kernel and its arguments, which `jit.invoke` passes to it. The caller may change words.

    Python passes an array to a kernel in 100 to 200 ns, and in much more after a pause, when the objects have
    left the caches. Words are read at once.
    """

    def __init__(self, kernel: Any, *arguments: Any) -> None:
        """Raises TypeError for an array whose items are not adjacent."""
        words = [kernel.address(*arguments), 0, 0, 0]
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                words += argument.ctypes.data, *argument.shape
            else:
                words.append(int(argument))
        self.words: npt.NDArray[np.uint64] = np.array(words, np.uint64)
        self._arguments = arguments  # their memory must stay
