"""PTX → machine code of a GPU, by `ptxas`: the compiler that drivers hold too."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from delassus_studies.cases import Unavailable

DEVICE = "sm_90"
"""Architecture that is assembled for: H100 and H200."""

PLACES = {"ptxas": "cuda_nvcc/bin", "nvdisasm": "cu13/bin"}
"""Where in the packages named ``nvidia`` programs lie: those of ``nvidia-cuda-nvcc-cu12``, ``nvidia-cuda-nvdisasm``."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """Machine code of a kernel and what `ptxas` says of it.

    Attributes
    ----------
    code : bytes
        The file that a driver loads (cubin).
    registers : int
        Of 32 bits, that a thread holds.
    stack : int
        Bytes of local memory of a thread: its workspace, and what is spilled.
    spilled : tuple of int
        Bytes that `ptxas` stores and loads for want of registers, all functions together.
    size : int
        Bytes of instructions.
    seconds : float
        That assembling took.
    """

    code: bytes
    registers: int
    stack: int
    spilled: tuple[int, int]
    size: int
    seconds: float


@cache
def program_at(name: str) -> str:
    """Path of ``ptxas`` or ``nvdisasm``, of a package or of an installed toolkit; raises `Unavailable`."""
    spec = find_spec("nvidia")
    folders = [] if spec is None or spec.submodule_search_locations is None else [*spec.submodule_search_locations]
    for folder in folders:
        path = Path(folder) / PLACES[name] / name
        if path.is_file():
            return str(path)
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"needs {name}: pip install nvidia-cuda-nvcc-cu12 nvidia-cuda-nvdisasm")
    return found


def assembled(ptx: str, architecture: str = DEVICE) -> Assembled:
    """Assemble PTX; raises `Unavailable` without `ptxas`, and `CalledProcessError` with what it complains of."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        command = [program_at("ptxas"), "-v", f"-arch={architecture}", str(source), "-o", str(target)]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, "ptxas", done.stdout, done.stderr)
        code = target.read_bytes()
    said = done.stdout + done.stderr
    stores, loads = (sum(map(int, re.findall(rf"(\d+) bytes spill {kind}", said))) for kind in ("stores", "loads"))
    (registers,) = re.findall(r"Used (\d+) registers", said)
    stack = re.search(r"(\d+) bytes cumulative stack size", said)
    size = _section_size(code, b".text.kernel")
    return Assembled(code, int(registers), int(stack[1]) if stack else 0, (stores, loads), size, seconds)


def _section_size(code: bytes, wanted: bytes) -> int:
    """Bytes of a section of an ELF file of 64 bits."""

    def number(at: int, width: int) -> int:
        return int.from_bytes(code[at : at + width], "little")

    table, each, count, names = number(0x28, 8), number(0x3A, 2), number(0x3C, 2), number(0x3E, 2)
    start_of_names = number(table + names * each + 0x18, 8)
    for k in range(count):
        header = table + k * each
        name = start_of_names + number(header, 4)
        if code[name : code.index(b"\0", name)] == wanted:
            return number(header + 0x20, 8)
    raise AssertionError(f"no section {wanted!r}")
