"""Calls of kernels with arrays of other libraries, which nothing imports before an array of theirs has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from delassus.errors import ConfigurationError


def call(kernel: Any, libraries: set[str], given: Sequence[Any], named: Mapping[str, Any], is_plain: bool) -> Any:
    """Call of a kernel with arrays of other libraries, and results of the same; ``is_plain``: with arrays alone."""
    names = " and ".join(sorted(libraries))
    if not is_plain:
        came = "out, threads, return_status or return_error"
        advice = "Leave them out, or call with NumPy arrays."
        raise ConfigurationError("kernel", f"arrays alone, of {names}", came, advice)
    if len(libraries) > 1:
        raise ConfigurationError("kernel", "arrays of one library", f"some of {names}", "Convert them.")
    if "JAX" in libraries:
        from delassus.runtime import on_jax

        return on_jax.call(kernel, given, named)
    from delassus.runtime import on_torch

    return on_torch.call(kernel, given, named)
