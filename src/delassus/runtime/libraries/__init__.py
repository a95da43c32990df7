"""Calls of kernels with arrays of other libraries, which nothing imports before an array of theirs has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from delassus.errors import ConfigurationError, shown
from delassus.model.check import OTHERS, UNMASKED, is_masked, real_array
from delassus.runtime.arrays import Rollout
from delassus.runtime.libraries import on_dask, on_jax, on_others, on_torch

MODULES: Mapping[str, Any] = {"JAX": on_jax, "PyTorch": on_torch, "Dask": on_dask, OTHERS: on_others}
"""Modules with a ``call``, most with a ``rollout``, by the names of `delassus.model.check.LIBRARIES`."""


def call(kernel: Any, libraries: set[str], given: Sequence[Any], named: Mapping[str, Any], is_plain: bool) -> Any:
    """Call of a kernel with arrays of other libraries, and results of the same; ``is_plain``: with arrays alone."""
    if is_plain and len(libraries) == 1:
        (library,) = libraries
        known = [a.name for a in kernel.arguments]
        some = [_as_array(kernel, name, x) for name, x in zip(known, given, strict=False)]
        others = {name: _as_array(kernel, name, x) for name, x in named.items()}
        return MODULES[library].call(kernel, [*some, *given[len(some) :]], others)
    names = " and ".join(sorted(libraries))
    if not is_plain:
        came = "out, threads, return_status or return_error"
        advice = "Leave them out, or call with NumPy arrays."
        raise ConfigurationError("kernel", f"arrays alone, of {names}", came, advice)
    raise ConfigurationError("kernel", "arrays of one library", f"some of {names}", "Convert them.")


def rollout_elsewhere(library: str, asked: Rollout) -> Any:
    """Rollout with arrays of another library."""
    for name, x in {**asked.start, **asked.fixed, "controls": asked.controls}.items():
        _refuse_masked(name, x)
    return MODULES[library].rollout(asked)


def _refuse_masked(name: str, x: Any) -> None:
    if is_masked(x):
        raise ConfigurationError(name, "numbers none of which is masked", shown(x), UNMASKED)


def _as_array(kernel: Any, name: str, x: Any) -> Any:
    """A list or tuple of numbers, beside arrays, as an array of the kernel's type; all else as it is, unless masked."""
    _refuse_masked(name, x)
    if not isinstance(x, list | tuple):
        return x
    array = real_array(x)
    if array is None:
        raise ConfigurationError(name, "an array of numbers", shown(x), "Pass numbers.")
    return array.astype(kernel.dtype)
