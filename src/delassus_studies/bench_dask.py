"""``delassus bench arrays --dask``: blocks of states on one process of workers and on two, in one run, in turns.

Each task makes a block of states of Go1, their Delassus matrices, and the greatest entries of those, which alone
travel. Beside it the same without Dask's tasks: a loop over all blocks in each process. On one machine the scheduler
and the client, which have machines of their own in a cluster, take their time from the workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

from delassus.errors import require
from delassus.model.rotations import Array
from delassus.model.tree import Tree
from delassus.runtime.compile import compile
from delassus.runtime.kernel import Kernel
from delassus_studies.bench_arrays import case_of
from delassus_studies.tables import table
from delassus_studies.timing import Record, cores, environment

STATES, BLOCK = 10_000_000, 100_000
PROCESSES = 1, 2
ROUNDS = 5


def measure(quick: bool = False) -> Iterator[Record]:
    """Seconds of every round, of the clock and of the processor; the record after each round."""
    require("distributed", "dask", "worker processes")
    from dask.distributed import Client, LocalCluster

    case, blocks = case_of(quick), 4 if quick else STATES // BLOCK
    record: Record = {**environment(), "case": case.name, "states": blocks * BLOCK, "block": BLOCK, "cores": cores()}
    record["rounds"] = []
    yield record
    kernel = compile(case.tree, case.constraints)
    with ExitStack() as stack:
        clients = []
        for n in PROCESSES:
            local = LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=":0", memory_limit=0)
            clients.append(stack.enter_context(Client(stack.enter_context(local), set_as_default=False)))
        for n, client in zip(PROCESSES, clients, strict=True):  # so that every process has the kernel
            _by_loops(client, case.tree, kernel, n)
        for _ in range(1 if quick else ROUNDS):
            found = {}
            for name, way in WAYS.items():
                runs = [_timed(client, partial(way, client, case.tree, kernel, blocks)) for client in clients]
                found[name] = [run for run, _ in runs]
                assert all(np.array_equal(result, runs[0][1]) for _, result in runs)
            record["rounds"].append(found)
            yield record


def _timed(client: Any, call: Callable[[], Array]) -> tuple[Record, Array]:
    """Seconds of the clock, of all workers' processors and of that of this process; and the result."""
    clocks = (time.perf_counter, lambda: sum(client.run(time.process_time).values()), time.process_time)
    before = [clock() for clock in clocks]
    result = call()
    after = [clock() for clock in clocks]
    names = ("seconds", "workers", "scheduler and client")
    return {name: b - a for name, a, b in zip(names, before, after, strict=True)}, result


def _states(tree: Tree, block_id: tuple[int, int]) -> Array:
    return tree.random(block_id[0], BLOCK)


def _by_tasks(client: Any, tree: Tree, kernel: Kernel, blocks: int) -> Array:
    import dask.array as da

    chunks, meta = ((BLOCK,) * blocks, (tree.nq,)), np.empty((0, 0))
    q = da.map_blocks(partial(_states, tree), chunks=chunks, meta=meta)
    found: Array = client.compute(kernel(q).max(axis=0)).result()
    return found


def _by_loops(client: Any, tree: Tree, kernel: Kernel, blocks: int) -> Array:
    workers = list(client.run(time.process_time))
    shares = [range(k, blocks, len(workers)) for k in range(len(workers))]
    tasks = [
        client.submit(_loop, tree, kernel, share, workers=worker, pure=False)
        for share, worker in zip(shares, workers, strict=True)
    ]
    return np.asarray(np.max(client.gather(tasks), axis=0))


def _loop(tree: Tree, kernel: Kernel, blocks: Iterable[int]) -> Array:
    return np.asarray(np.max([kernel(tree.random(k, BLOCK), threads=1).max(axis=0) for k in blocks], axis=0))


WAYS: dict[str, Callable[..., Array]] = {"tasks of Dask": _by_tasks, "a loop in each": _by_loops}


def tables(record: Record) -> Iterator[Table | str]:
    """Every run, and the medians of what two processes make of twice the rate of one."""
    rows, parts = [], dict[str, list[float]]()
    for number, found in enumerate(record["rounds"], 1):
        for name, runs in found.items():
            for n, run in zip(PROCESSES, runs, strict=True):
                part = runs[0]["seconds"] / (n * run["seconds"])
                parts.setdefault(name, []).append(part)
                rate = record["states"] / run["seconds"] / 1e6
                spent = (f"{run[what]:.2f}" for what in ("seconds", "workers", "scheduler and client"))
                rows.append((name, f"{number}", f"{n}", *spent, f"{rate:.2f}", f"{100 * part:.0f} %" if n > 1 else ""))
    title = f"{record['case']}: {record['states']:,} states in blocks of {record['block']:,}, {record['cores']} core(s)"
    heads = ("blocks are", "round", "processes", "s", "workers", "others", "10⁶/s", "of twice")
    yield table(title, heads, rows, grows=(max(map(len, WAYS)), *[1] * (len(heads) - 1)))
    yield "s: of the clock; workers, others: processor time of all workers, and of scheduler and client"
    if record["rounds"]:
        medians = (f"{name} {100 * np.median(x[1::2]):.0f} %" for name, x in parts.items())
        yield f"two processes, of twice the rate of one, medians: {', '.join(medians)}"
