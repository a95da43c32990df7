"""``delassus bench arrays``: kernels on arrays of JAX and PyTorch, beside the ways around and frax, in one run.

Delassus matrices of Go1 on four points, and gradients of the sum of squares of their entries. All is on one core.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

from delassus.runtime.compile import compile
from delassus.runtime.kernel import Kernel
from delassus_studies.cases import Case, benchmark_cases
from delassus_studies.peers_compiled import ONE_THREAD, frax
from delassus_studies.tables import table
from delassus_studies.timing import Calls, Record, environment, interleaved, pinned

ROBOT = "Go1"
"""Or the first one, where it is not installed."""

BATCHES = 1, 64, 1024
ROUNDS, SECONDS = 60, 0.005
"""Many short loops: the lowest is then of the machine alone, though others use it too."""
NUMPY = "NumPy, out="
BASES = {"matrix": NUMPY, "gradient": "cotangents, NumPy, out="}
"""What the others are compared with: the machine code, called with arrays for its results."""


def case_of(quick: bool) -> Case:
    """The robot, and its constraints."""
    cases = benchmark_cases(quick)
    return next((case for case in cases if case.name.startswith(ROBOT)), cases[0])


def measure(quick: bool = False) -> Iterator[Record]:
    """Times of every call in µs; the record after each batch."""
    case = case_of(quick)
    record: Record = {**environment(), "case": case.name, "xla_flags": ONE_THREAD, "batches": {}}
    record["absent"] = [name for name in ("jax", "torch", "frax") if importlib.util.find_spec(name) is None]
    yield record
    kernel = compile(case.tree, case.constraints)
    with pinned():
        for n in BATCHES[:1] if quick else BATCHES:
            record["batches"][n] = _measure_batch(case, kernel, n, 2 if quick else ROUNDS)
            yield record


def _measure_batch(case: Case, kernel: Kernel, n: int, rounds: int) -> Record:
    q = case.tree.random(0, n)
    G, back = kernel(q), kernel.derivative("vjp")
    matrix: dict[str, Callable[[], object]] = {NUMPY: partial(kernel, q, out=G), "NumPy": partial(kernel, q)}
    gradient: dict[str, Callable[[], object]] = {BASES["gradient"]: partial(back, q, 2.0 * G, out=q.copy())}
    if importlib.util.find_spec("jax") is not None:
        _jax_calls(kernel, q, matrix, gradient)
        peer = frax(case, q, "float64")
        if peer.call is not None:
            matrix[peer.name] = peer.call
    if importlib.util.find_spec("torch") is not None:
        _torch_calls(kernel, q, matrix, gradient)
    return {what: _times(calls, rounds) for what, calls in (("matrix", matrix), ("gradient", gradient))}


def _times(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, Record]:
    """Times of calls, so many in a loop that a loop takes `SECONDS`; short and long ones apart."""
    found: dict[str, Record] = {}
    once = {name: interleaved({name: (call, 1)}, 1)[name]["median"] for name, call in calls.items()}
    for repeats in sorted({_repeats(t) for t in once.values()}):
        group: Calls = {name: (call, 1) for name, call in calls.items() if _repeats(once[name]) == repeats}
        found |= interleaved(group, rounds, repeats)
    return {name: found[name] for name in calls}


def _repeats(microseconds: float) -> int:
    """Power of ten."""
    return int(10 ** np.clip(np.round(np.log10(1e6 * SECONDS / microseconds)), 0, 4))


def _jax_calls(kernel: Kernel, q: Any, matrix: dict[str, Any], gradient: dict[str, Any]) -> None:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def around(method: str) -> Callable[[Any], Any]:
        """The kernel by `jax.pure_callback`."""

        def one(q: Any) -> Any:
            made = jax.ShapeDtypeStruct((*q.shape[:-1], *kernel.results[0].shape), q.dtype)
            return jax.pure_callback(lambda q: kernel(np.asarray(q)), made, q, vmap_method=method)

        batched: Callable[[Any], Any] = jax.vmap(one)
        return batched

    def total(q: Any) -> Any:
        return jnp.sum(kernel(q) ** 2)

    given = jnp.asarray(q)
    for calls, name, function in (
        (matrix, "jax.jit", kernel),
        (matrix, "pure_callback, whole batch", around("broadcast_all")),
        (matrix, "pure_callback, state by state", around("sequential")),
        (matrix, "jax.jit of x + 1", lambda q: q + 1.0),
        (gradient, "jax.jit of jax.grad", jax.grad(total)),
    ):
        run = jax.jit(function)
        calls[name] = partial(_ready, run, given)


def _ready(run: Callable[[Any], Any], given: Any) -> None:
    run(given).block_until_ready()


def _torch_calls(kernel: Kernel, q: Any, matrix: dict[str, Any], gradient: dict[str, Any]) -> None:
    import torch

    torch.set_num_threads(1)
    given, wanted = torch.from_numpy(q), torch.from_numpy(q.copy()).requires_grad_()
    matrix["PyTorch"] = partial(kernel, given)
    gradient["PyTorch, forwards and backwards"] = lambda: torch.autograd.grad((kernel(wanted) ** 2).sum(), wanted)


def tables(record: Record) -> Iterator[Table | str]:
    """Time of a call: median, lowest, what that is above the machine code's; ratio of the medians."""
    for package in record["absent"]:
        yield f"{package} is not installed"
    yield f"{record['case']}; float64, one core; time of a call in µs"
    for n, calls in record["batches"].items():
        for what, base in BASES.items():
            own = calls[what][base]
            rows = []
            for name, times in calls[what].items():
                t, least = times["median"], times["lowest"]
                above = "" if name == base else f"{least - own['lowest']:.1f}"
                rows.append((name, f"{t:.1f}", f"{least:.1f}", above, f"{t / own['median']:.2f}"))
            yield table(f"{what}, batch of {n}", ("call", "median", "lowest", "above", "ratio"), rows)
