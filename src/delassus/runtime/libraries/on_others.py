"""Kernels on other arrays of the processor's memory, as the Python array API has them, by DLPack: nothing is copied.

Those in a GPU's memory go to kernels for GPUs without this (`delassus.runtime.cuda.calls`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from delassus.errors import ConfigurationError


def call(kernel: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Results of a kernel, as arrays of the library that those given are of: one, or a tuple of several."""
    spaces = [x.__array_namespace__() for x in (*given, *named.values()) if _is_other(x)]
    if any(space is not spaces[0] for space in spaces):
        came = " and ".join(sorted({space.__name__ for space in spaces}))
        raise ConfigurationError("kernel", "arrays of one library", f"some of {came}", "Convert them.")
    found = kernel(*map(_numpy, given), **{name: _numpy(x) for name, x in named.items()})
    if isinstance(found, tuple):
        return kernel.returned([spaces[0].from_dlpack(x) for x in found])
    return spaces[0].from_dlpack(found)


def _is_other(x: Any) -> bool:
    return hasattr(x, "__array_namespace__") and not isinstance(x, np.ndarray | np.generic)


def _numpy(x: Any) -> Any:
    """The array as one of NumPy; what is of no library stays."""
    if not _is_other(x):
        return x
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        wanted, came = "an array in the processor's memory", f"{type(x).__name__}: {error}"
        raise ConfigurationError("kernel", wanted, came, "Move it there, or compile with target='cuda'.") from None
