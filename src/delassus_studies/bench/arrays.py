"""``delassus bench arrays``: kernels on arrays of JAX and PyTorch, beside the ways around and frax, in one run.

Delassus matrices of Go1 on four points, and gradients of the sum of squares of their entries. All is on one core.

With ``--dask``: blocks of states on one process of workers and on two, in one run, in turns. Each task makes a block of
states, their matrices, and the greatest entries of those, which alone travel. Beside it the same without Dask's tasks:
a loop over all blocks in each process. On one machine the scheduler and the client, which have machines of their own in
a cluster, take their time from the workers.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, environment, table
from delassus.errors import require
from delassus.runtime.threads import cores
from delassus.spatial.rotations import Array
from delassus_studies.cases import Case, benchmark_cases
from delassus_studies.peers import present
from delassus_studies.peers.compiled import ONE_THREAD, frax
from delassus_studies.timing import Calls, interleaved, pinned

ROBOT = "Go1"
"""Or the first one, where it is not installed."""

BATCHES = 1, 64, 1024
ROUNDS, SECONDS = 60, 0.005
"""Many short loops: the lowest is then of the machine alone, though others use it too."""
NUMPY = "NumPy, out="
BASES = {"matrix": NUMPY, "gradient": "cotangents, NumPy, out="}
"""What the others are compared with: the machine code, called with arrays for its results."""


def _case(quick: bool) -> Case:
    """The robot, and its constraints."""
    cases = benchmark_cases(quick)
    return next((case for case in cases if case.name.startswith(ROBOT)), cases[0])


def measure(quick: bool = False, dask: bool = False) -> Iterator[Record]:
    """Times of every call in µs, the record after each batch; or of blocks of states."""
    if dask:
        yield from _measure_blocks(quick)
        return
    case = _case(quick)
    record: Record = {**environment(), "case": case.name, "xla_flags": ONE_THREAD, "batches": {}}
    record["absent"] = [name for name in ("jax", "torch", "frax") if importlib.util.find_spec(name) is None]
    yield record
    kernel = ds.compile(case.tree, case.constraints)
    with pinned():
        for n in BATCHES[:1] if quick else BATCHES:
            record["batches"][n] = _measure_batch(case, kernel, n, 2 if quick else ROUNDS)
            yield record


def _measure_batch(case: Case, kernel: ds.Kernel, n: int, rounds: int) -> Record:
    q = case.tree.random(0, n)
    G, back = kernel(q), kernel.derivative("vjp")
    matrix: dict[str, Callable[[], object]] = {NUMPY: partial(kernel, q, out=G), "NumPy": partial(kernel, q)}
    gradient: dict[str, Callable[[], object]] = {BASES["gradient"]: partial(back, q, 2.0 * G, out=q.copy())}
    if importlib.util.find_spec("jax") is not None:
        _jax_calls(kernel, q, matrix, gradient)
        matrix |= present({"frax float64": partial(frax, case, q, "float64")})[0]
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


def _jax_calls(kernel: ds.Kernel, q: Any, matrix: dict[str, Any], gradient: dict[str, Any]) -> None:
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


def _torch_calls(kernel: ds.Kernel, q: Any, matrix: dict[str, Any], gradient: dict[str, Any]) -> None:
    import torch

    torch.set_num_threads(1)
    given, wanted = torch.from_numpy(q), torch.from_numpy(q.copy()).requires_grad_()
    matrix["PyTorch"] = partial(kernel, given)
    gradient["PyTorch, forwards and backwards"] = lambda: torch.autograd.grad((kernel(wanted) ** 2).sum(), wanted)


def tables(record: Record) -> Iterator[Table | str]:
    """Time of a call: median, lowest, what that is above the machine code's; ratio of the medians."""
    if "block" in record:
        yield from _block_tables(record)
        return
    for package in record["absent"]:
        yield f"{package} is not installed"
    yield f"{record['case']}; float64, one core; time of a call in µs"
    for n, calls in record["batches"].items():
        for what, base in BASES.items():
            own = calls[what][base]
            rows = []
            for name, times in calls[what].items():
                t, least = times["median"], times["lowest"]
                above = "" if name == base else least - own["lowest"]
                rows.append((name, t, least, above, t / own["median"]))
            heads = ("call", "median:.1f", "lowest:.1f", "above:.1f", "ratio:.2f")
            yield table(f"{what}, batch of {n}", heads, rows)


# -- blocks of states on worker processes --------------------------------------------------------------------------

STATES, BLOCK, BLOCK_ROUNDS = 10_000_000, 100_000, 5
PROCESSES = 1, 2


def _measure_blocks(quick: bool) -> Iterator[Record]:
    """Seconds of every round, of the clock and of the processor; the record after each round."""
    require("distributed", "dask", "worker processes")
    from dask.distributed import Client, LocalCluster

    case, blocks = _case(quick), 4 if quick else STATES // BLOCK
    record: Record = {**environment(), "case": case.name, "states": blocks * BLOCK, "block": BLOCK, "cores": cores()}
    record["rounds"] = []
    yield record
    kernel = ds.compile(case.tree, case.constraints)
    with ExitStack() as stack:
        clients = []
        for n in PROCESSES:
            local = LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=":0", memory_limit=0)
            clients.append(stack.enter_context(Client(stack.enter_context(local), set_as_default=False)))
        for n, client in zip(PROCESSES, clients, strict=True):  # so that every process has the kernel
            _by_loops(client, case.tree, kernel, n)
        for _ in range(1 if quick else BLOCK_ROUNDS):
            found = {}
            for name, way in WAYS.items():
                runs = [_clocked(client, partial(way, client, case.tree, kernel, blocks)) for client in clients]
                found[name] = [run for run, _ in runs]
                assert all(np.array_equal(result, runs[0][1]) for _, result in runs)
            record["rounds"].append(found)
            yield record


def _clocked(client: Any, call: Callable[[], Array]) -> tuple[Record, Array]:
    """Seconds of the clock, of all workers' processors and of that of this process; and the result."""
    clocks = (time.perf_counter, lambda: sum(client.run(time.process_time).values()), time.process_time)
    before = [clock() for clock in clocks]
    result = call()
    after = [clock() for clock in clocks]
    names = ("seconds", "workers", "scheduler and client")
    return {name: b - a for name, a, b in zip(names, before, after, strict=True)}, result


def _states(tree: ds.Tree, block_id: tuple[int, int]) -> Array:
    return tree.random(block_id[0], BLOCK)


def _by_tasks(client: Any, tree: ds.Tree, kernel: ds.Kernel, blocks: int) -> Array:
    import dask.array as da

    chunks, meta = ((BLOCK,) * blocks, (tree.nq,)), np.empty((0, 0))
    q = da.map_blocks(partial(_states, tree), chunks=chunks, meta=meta)
    found: Array = client.compute(kernel(q).max(axis=0)).result()
    return found


def _by_loops(client: Any, tree: ds.Tree, kernel: ds.Kernel, blocks: int) -> Array:
    workers = list(client.run(time.process_time))
    shares = [range(k, blocks, len(workers)) for k in range(len(workers))]
    tasks = [
        client.submit(_loop, tree, kernel, share, workers=worker, pure=False)
        for share, worker in zip(shares, workers, strict=True)
    ]
    return np.asarray(np.max(client.gather(tasks), axis=0))


def _loop(tree: ds.Tree, kernel: ds.Kernel, blocks: Iterable[int]) -> Array:
    return np.asarray(np.max([kernel(tree.random(k, BLOCK), threads=1).max(axis=0) for k in blocks], axis=0))


WAYS: dict[str, Callable[..., Array]] = {"tasks of Dask": _by_tasks, "a loop in each": _by_loops}


def _block_tables(record: Record) -> Iterator[Table | str]:
    """Every run, and the medians of what two processes make of twice the rate of one."""
    rows, parts = [], dict[str, list[float]]()
    for number, found in enumerate(record["rounds"], 1):
        for name, runs in found.items():
            for n, run in zip(PROCESSES, runs, strict=True):
                part = runs[0]["seconds"] / (n * run["seconds"])
                parts.setdefault(name, []).append(part)
                spent = run["seconds"], run["workers"], run["scheduler and client"]
                rate = record["states"] / run["seconds"] / 1e6
                rows.append((name, number, n, *spent, rate, 100 * part if n > 1 else ""))
    title = f"{record['case']}: {record['states']:,} states in blocks of {record['block']:,}, {record['cores']} core(s)"
    heads = ("blocks are", "round", "processes", "s:.2f", "workers:.2f", "others:.2f", "10⁶/s:.2f", "of twice:.0f %")
    yield table(title, heads, rows, grows=(max(map(len, WAYS)), *[1] * (len(heads) - 1)))
    yield "s: of the clock; workers, others: processor time of all workers, and of scheduler and client"
    if record["rounds"]:
        medians = (f"{name} {100 * np.median(x[1::2]):.0f} %" for name, x in parts.items())
        yield f"two processes, of twice the rate of one, medians: {', '.join(medians)}"
