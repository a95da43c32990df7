"""Speed of a kernel on a GPU that is not here: what each part of the device needs for a state, by counted instructions.

The rate is the least of what each part allows, and never reached by any; instructions come from a cache that holds
`Device.instruction_cache` bytes, and beyond it from the second level, for each warp anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from delassus.compiler.machine.ptx import THREADS, device_module, ptx, shared_bytes
from delassus.compiler.program.program import Program
from delassus.compiler.targets.llvm.rows import tiles_of
from delassus.compiler.targets.llvm.threads import WARP
from delassus_studies.gpu.assembled import Assembled, assembled
from delassus_studies.gpu.sass import Work, beyond_cache, functions_of, work


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU: multiprocessors with four schedulers each, clocks in Hz, rates in bytes/s, memory in bytes.

    ``lanes`` are threads that begin an instruction of a class in a cycle of a multiprocessor.
    """

    name: str
    multiprocessors: int
    clock: float
    lanes: Mapping[str, int]
    memory_rate: float
    second_level: int
    second_level_rate: float
    first_level: int = 256 * 1024
    registers: int = 65_536
    most_warps: int = 64
    instruction_cache: int = 128 * 1024


H200 = Device(
    "H200",
    132,
    1.98e9,
    {"fp32": 128, "fp64": 64, "integer": 64, "special": 16, "convert": 16, "control": 64, "uniform": 64},
    4.8e12,
    50 * 1024 * 1024,
    5.5e12,
)

INSTRUCTION = 16
"""Bytes of an instruction."""

ACCESS = 128
"""Bytes that a multiprocessor loads or stores in a cycle."""

CARVED = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)
"""Kibibytes of the first level that can be shared memory; the rest is cache."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a kernel needs and how fast it should be.

    Attributes
    ----------
    registers : int
        Of a thread.
    spills : tuple of int
        Bytes that `ptxas` stores and loads for want of registers, in all functions.
    stack : int
        Bytes of local memory of a thread.
    code_bytes : int
    local_bytes : tuple of float
        Bytes of local memory that a state stores and loads; our workspace and spills.
    instructions : dict
        That run for a state, by class, all passes of loops.
    warps : int
        Resident on a multiprocessor.
    bounds : dict
        States/s that each part of the device allows.
    states_per_second : float
        The least of these.
    bound_by : str
        Which part that is.
    seconds : float
        That `ptxas` took.
    """

    registers: int
    spills: tuple[int, int]
    stack: int
    code_bytes: int
    local_bytes: tuple[float, float]
    instructions: Mapping[str, float]
    warps: int
    bounds: Mapping[str, float]
    states_per_second: float
    bound_by: str
    seconds: float


def predicted(program: Program, dtype: str, device: Device = H200) -> Prediction:
    """Speed of a program as a kernel for threads, one step a launch, all passes of its loops run.

    ``dtype`` is "float32" or "float64". Raises `delassus_studies.cases.Unavailable` without `ptxas` and `nvdisasm`.
    """
    scalar, item = ("float", 4) if dtype == "float32" else ("double", 8)
    made = assembled(ptx(device_module(program, scalar)))
    done = work(functions_of(made.code), _passes(program))
    warps = resident_warps(made.registers, shared_bytes(THREADS, item), device)
    bounds = _bounds(program, made, done, warps, item, device)
    bound_by = min(bounds, key=bounds.__getitem__)
    local = done.bytes.get("local store", 0.0), done.bytes.get("local load", 0.0)
    return Prediction(
        made.registers,
        made.spilled,
        made.stack,
        made.size,
        local,
        done.instructions,
        warps,
        bounds,
        bounds[bound_by],
        bound_by,
        made.seconds,
    )


def resident_warps(registers: int, shared: int, device: Device) -> int:
    """Warps that a multiprocessor holds, of blocks of `THREADS` with so many bytes of shared memory."""
    of_block, each = THREADS // WARP, -(-registers // 8) * 8 * WARP
    by_registers = device.registers // 4 // each * 4 // of_block  # each scheduler has a quarter of them
    by_shared = CARVED[-1] * 1024 // (shared + 1024)
    return min(by_registers, by_shared, device.most_warps // of_block) * of_block


def _passes(program: Program) -> dict[str, int]:
    """Passes of the loop that is in a function, by its name."""
    passes = {f"thread_stage{k}_loop": stage.passes for k, stage in enumerate(program.before)}
    for kind, sizes in (("a", [a.size for a in program.arguments]), ("r", [r.size for r in program.results])):
        for k, size in enumerate(sizes):
            passes[f"copy_{kind}{k}"] = len(tiles_of(size, min(size, WARP))) if size else 0
    return passes


def _bounds(program: Program, made: Assembled, done: Work, warps: int, item: int, device: Device) -> dict[str, float]:
    """States/s by each part of the device."""
    rate = device.multiprocessors * device.clock * WARP  # states/s of a warp in a cycle of a multiprocessor
    all_instructions = sum(done.instructions.values())
    bounds = {"issue": rate * 4 / all_instructions, "latency": rate * warps / done.cycles}
    for kind, lanes in device.lanes.items():
        if done.instructions.get(kind):
            bounds[kind] = rate * lanes / WARP / done.instructions[kind]
    bounds["loads and stores"] = rate * ACCESS / WARP / sum(done.bytes.values())
    carved = next(k for k in CARVED if k * 1024 >= warps * WARP // THREADS * (shared_bytes(THREADS, item) + 1024))
    beyond = beyond_cache(done.places, (device.first_level - carved * 1024) / (warps * WARP))
    arrays = (program.n_inputs + sum(result.size for result in program.results)) * item
    fetched = all_instructions * INSTRUCTION / WARP * max(0.0, 1 - device.instruction_cache / made.size)
    bounds["second-level cache"] = device.second_level_rate / (arrays + beyond + fetched)
    resident = made.stack * warps * WARP * device.multiprocessors
    to_memory = beyond * max(0.0, 1 - device.second_level / resident) if resident else 0.0
    bounds["memory"] = device.memory_rate / (arrays + to_memory)
    return bounds
