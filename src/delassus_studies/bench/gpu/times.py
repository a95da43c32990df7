"""Kernels on a device: compared with the processor, then timed, and what they reach of the device's peaks.

Data are on the device; times are by its own clock, the least of the rounds. Bytes are those of arguments and results,
operations those of the program; the peaks are what clocks and widths of the device allow.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from rich.table import Table

from delassus.cli.tables import Record, table
from delassus.spatial.rotations import Array
from delassus_studies.bench.contact.steps import WANTED
from delassus_studies.bench.gpu.check import compare, raw
from delassus_studies.bench.gpu.kernels import AIMS, DTYPES, GAIT, Timed, contact_steps, settled, timed_kernels
from delassus_studies.bench.gpu.on_device import OnDevice, facts
from delassus_studies.cases import Unavailable, benchmark_cases, random_states
from delassus_studies.gpu.predicted import H200, Device, predicted
from delassus_studies.timing import in_turn, uncached

ROLLED, FEWER = 20, 16
"""Steps of a rollout in one launch, and the part of the states that it has: all its steps are kept."""

PEER_STATES = 65_536
"""Of peers: most need memory for each world beyond its state."""

DOUBLES = {"8.0": 32, "9.0": 64, "10.0": 64}
"""Fused multiply-adds in float64 that a multiprocessor begins in a cycle, by capability; 2 on all others."""
SINGLES = {"7.5": 64, "8.0": 64}
"""The same in float32; 128 on all others."""


def device_of(told: Mapping[str, Any]) -> Device:
    """What the predictor needs of a device, by its facts: what the driver does not tell is an H200's."""
    fp32, fp64 = SINGLES.get(told["capability"], 128), DOUBLES.get(told["capability"], 2)
    rate = 2 * 1e3 * told["memory clock (kHz)"] * told["memory bus (bits)"] / 8
    return replace(H200, name=told["model"], multiprocessors=told["multiprocessors"],
                   clock=1e3 * told["clock (kHz)"], lanes={**H200.lanes, "fp32": fp32, "fp64": fp64},
                   memory_rate=rate, second_level=told["second-level cache (bytes)"])  # fmt: skip


def measure(record: Record, quick: bool, states: int, device: Any) -> Iterator[Record]:
    """All kernels in both types, then peers; the record after each."""
    record["device"], record["states"] = facts(device), states
    record["kernels"], record["peers"] = {}, {}
    yield record
    for timed in in_turn(list(timed_kernels(quick))):
        for dtype in DTYPES:
            record["kernels"][f"{timed.name}, {dtype}"] = _measure_kernel(timed, dtype, states, device, record)
            yield record
    if not quick:
        yield from _measure_peers(record)


def _measure_kernel(timed: Timed, dtype: str, n: int, device: Any, record: Record) -> Record:
    here = timed.make(dtype=dtype)
    with uncached():
        begin = time.perf_counter()
        kernel = timed.make(dtype=dtype, target="cuda")
        kernel.ptx()
        made = time.perf_counter() - begin
    values = timed.values(here, n)
    few = [x[:1].copy() for x in values]
    begin = time.perf_counter()
    first = OnDevice(kernel, few, device)
    first.launch()
    first.stream.wait()
    ready = time.perf_counter() - begin
    whole = OnDevice(kernel, values, device)
    whole.launch()
    found = whole.results()
    compared = compare(here, values, found)
    item, sizes = kernel.dtype.itemsize, [x.size for x in (*kernel.arguments, *kernel.results)]
    counted = kernel.operations
    told = {
        "error": compared.error,
        "beyond": compared.beyond,
        "faults": list(compared.faults),
        "PTX (s)": made,
        "driver and first call (s)": ready,
        "seconds": whole.seconds(),
        "bytes": item * (sum(sizes) + kernel.has_rcond),
        "operations": counted.mul + counted.add,
        "predicted": _prediction(kernel, record["device"]),
    }
    if timed.is_step:
        told["residuals"] = [_residuals(found[-1]), _residuals(raw(here, values)[0][-1])]
        part = max(1, n // FEWER)
        rolled = OnDevice(kernel, [x[:part].copy() for x in values], device, ROLLED)
        told["rolled"] = {"states": part, "seconds": rolled.seconds(), "residuals": _residuals(rolled.results()[-1])}
    return told


def _prediction(kernel: Any, told: Record) -> Record | None:
    try:
        made = predicted(kernel.program(), kernel.dtype.name, device_of(told))
    except Unavailable:
        return None
    return {"rate": made.states_per_second, "bound": made.bound_by, "registers": made.registers, "stack": made.stack}


def _residuals(found: Array) -> Record:
    """Of the largest of each step (m/s): median, 99 %, largest, and the share that is at most `WANTED`."""
    worst = np.where(np.isfinite(found), found, np.inf).max(axis=-1)
    median, high = (float(x) for x in np.quantile(worst, (0.5, 0.99)))
    return {"median": median, "p99": high, "largest": float(worst.max()), "share": float(np.mean(worst <= WANTED))}


def _measure_peers(record: Record) -> Iterator[Record]:
    from delassus_studies.peers.gpu import peers_of

    cases = [case for case in benchmark_cases() if case.name.startswith("Go1")]
    for step, case in zip(contact_steps(), cases, strict=False):
        n = min(record["states"], PEER_STATES)
        start = settled(step.name)
        pick = np.arange(n) % GAIT
        many = replace(start, q=start.q[pick], v=start.v[pick], impulses=start.impulses[pick],
                       targets=start.targets[:, pick])  # fmt: skip
        for name, time_peer in peers_of(step, many, ROLLED, case, random_states(case, n)).items():
            try:
                record["peers"][name] = {"seconds": time_peer(), "states": n}
            except Unavailable as reason:
                record["peers"][name] = {"absent": str(reason)}
            yield record


# -- tables ----------------------------------------------------------------------------------------------------------


def holds(record: Record) -> bool:
    """Whether all kernels give what the processor does."""
    return not any(found["faults"] for found in record["kernels"].values())


def tables(record: Record) -> Iterator[Table | str]:
    """The device; comparisons; rates and shares of peaks; peers."""
    told = record["device"]
    yield "; ".join(f"{name} {value}" for name, value in told.items() if name != "nvidia-smi")
    yield from told["nvidia-smi"]
    device, kernels = device_of(told), record["kernels"]
    lanes = {"float32": device.lanes["fp32"], "float64": device.lanes["fp64"]}
    width = max(map(len, kernels), default=0)
    rows: list[tuple[object, ...]] = []
    for name, found in kernels.items():
        rate = record["states"] / found["seconds"]["lowest"]
        dtype = name.rpartition(", ")[2]
        peak = 2 * lanes[dtype] * device.multiprocessors * device.clock
        made, aim = found["predicted"] or {}, AIMS.get(name.removesuffix(f", {dtype}"))
        shares = (100 * found["bytes"] * rate / device.memory_rate, 100 * found["operations"] * rate / peak)
        compared = (found["error"], 1e6 * found["beyond"])
        waits = found["PTX (s)"], found["driver and first call (s)"]
        aimed = aim if dtype == "float32" and told["model"].find("H200") >= 0 else None
        rows.append((name, *compared, rate, aimed, *shares, made.get("rate"), made.get("bound"), *waits))
    heads = ("kernel", "largest error:.1e", "of 10⁶ beyond:.0f", "states/s:.3g", "aim:.1g", "of memory:.1f %",
             "of arithmetic:.1f %", "predicted/s:.3g", "bound by", "PTX s:.1f", "ready s:.2f")  # fmt: skip
    title = f"{record['states']:,} states on the device, measured by its events"
    yield table(title, heads, rows, text=("bound by",), grows=(max(width, 44), *[8] * 10))
    for name, found in kernels.items():
        for fault in found["faults"]:
            yield f"{name}: {fault}"
    steps = [(name, found) for name, found in kernels.items() if "residuals" in found]
    rows = []
    for name, found in steps:
        own, processor = found["residuals"]
        rows.append((name, "device", *own.values(), record["states"] / found["seconds"]["lowest"]))
        rows.append((name, "processor", *processor.values(), None))
        more = found["rolled"]
        rate = more["states"] * ROLLED / more["seconds"]["lowest"]
        rows.append(
            (name, f"device, {ROLLED} steps a launch, {more['states']:,} states", *more["residuals"].values(), rate)
        )
    if rows:
        yield table("residuals of contact steps (m/s)", ("kernel", "where", "median:.1e", "99 %:.1e", "largest:.1e",
                    "share ≤ 1e-4:.4f", "steps/s:.3g"), rows, text=("where",))  # fmt: skip
    if record["peers"]:
        peers = [
            (name, found["states"], 1 / found["seconds"])
            for name, found in record["peers"].items()
            if "seconds" in found
        ]
        yield table(
            "peers, float32, one call after the other, data on the device", ("peer", "worlds:,", "states/s:.3g"), peers
        )
        for name, found in record["peers"].items():
            if "absent" in found:
                yield f"{name}: absent, {found['absent']}"
