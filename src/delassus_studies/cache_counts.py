"""Instructions and cache misses of a kernel in a small C program: by the processor's counters, or simulated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from delassus.compiler.machine.cpu import Host, host
from delassus_studies.cases import Case
from delassus_studies.compile_profile import compile_cold

STATES, REPEATS = 512, 4
TIMEOUT = 300.0
LEVELS = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64")
"""The simulated caches: 32 KB each at first, 1 MB behind them."""
SIMULATED = {
    "Ir": "instructions",
    "I1mr": "I1 misses",
    "Dr": "reads",
    "D1mr": "D1 read misses",
    "Dw": "writes",
    "D1mw": "D1 write misses",
}
COUNTED = {
    "instructions:u": "instructions",
    "cycles:u": "cycles",
    "L1-icache-load-misses:u": "I1 misses",
    "L1-dcache-load-misses:u": "D1 read misses",
}

DRIVER = """
#include <stdlib.h>
void batch(long n, const double *q, double *G, double *rcond);
int main(int argc, char **argv) {{
  long n = {states}, repeats = argc > 1 ? atol(argv[1]) : 1;
  double *q = aligned_alloc(64, n * {size_in} * sizeof(double) + 64);
  double *G = aligned_alloc(64, n * {size_out} * sizeof(double) + 64);
  double *rcond = aligned_alloc(64, n * sizeof(double) + 64);
  for (long i = 0; i < n * {size_in}; ++i) q[i] = 0.001 * (double)(i % 1000);
  for (long k = 0; k < repeats; ++k) batch(n, q, G, rcond);
  return G[0] == 1.0;
}}
"""

Found = tuple[dict[str, float], str]
"""Events per state, none if they could not be had, and how they were counted or why not."""


def with_avx2() -> Host:
    """A processor of this architecture with AVX2 and no more; its code runs here if this one has its features."""
    features = "+avx2,+fma,+bmi,+bmi2"
    return replace(host(), cpu="haswell", features=features, vector_bits=256, vector_registers=16, has_fma=True)


@contextmanager
def _executable(case: Case, target: Host | None = None) -> Iterator[Path]:
    """Folder with the kernel's object code and a main program that runs it on batches, linked by gcc."""
    made = compile_cold(case, target=target)
    sizes = {"size_in": made.program.arguments[0].size, "size_out": made.program.results[0].size}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernel.o").write_bytes(made.code)
        (folder / "main.c").write_text(DRIVER.format(states=STATES, **sizes))
        command = ["gcc", "-O1", "-no-pie", "-o", "run", "main.c", "kernel.o"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        yield folder


def _missing(*programs: str) -> str:
    absent = [program for program in programs if shutil.which(program) is None]
    return f"not counted: {', '.join(absent)} not installed" if absent else ""


def count_with_perf(case: Case) -> Found:
    """Counters of the processor for the kernel as it is compiled for it: many calls less few."""
    if reason := _missing("gcc", "perf"):
        return {}, reason
    with _executable(case) as folder:
        many, few = (_perf(folder, repeats) for repeats in (100 + REPEATS, REPEATS))
    if not many or many.keys() != few.keys():
        return {}, "not counted: perf has no counters on this machine"
    return {COUNTED[e]: (many[e] - few[e]) / (100 * STATES) for e in many}, "perf"


def _perf(folder: Path, repeats: int) -> dict[str, float]:
    command = ["perf", "stat", "-x", ",", "-e", ",".join(COUNTED), "./run", str(repeats)]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=TIMEOUT)
    rows = (line.split(",") for line in done.stderr.splitlines())
    return {row[2]: float(row[0]) for row in rows if len(row) > 2 and row[2] in COUNTED and row[0].isdigit()}


def count_with_callgrind(case: Case) -> Found:
    """Valgrind's simulation. It does not know AVX-512: the kernel is compiled for AVX2, half as many lanes."""
    if reason := _missing("gcc", "valgrind"):
        return {}, reason
    with _executable(case, with_avx2()) as folder:
        command = ["valgrind", "--tool=callgrind", "--cache-sim=yes", "--toggle-collect=batch", *LEVELS]
        command += ["--callgrind-out-file=counts", "./run", str(REPEATS)]
        environment = {**os.environ, "VALGRIND_OPTS": ""}
        done = subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=TIMEOUT, env=environment)
        if done.returncode not in (0, 1) or not (folder / "counts").exists():
            return {}, f"not counted: valgrind ended with status {done.returncode}"
        text = (folder / "counts").read_text()
    names, sums = (re.search(rf"^{key}: (.*)$", text, re.M) for key in ("events", "totals"))
    if names is None or sums is None:
        return {}, "not counted: valgrind's output was not understood"
    totals = dict(zip(names[1].split(), map(float, sums[1].split()), strict=False))
    return {said: totals[e] / (REPEATS * STATES) for e, said in SIMULATED.items()}, "callgrind, AVX2, 32 KB + 32 KB"
