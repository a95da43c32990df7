"""PTX of a kernel: assembly for threads → what a driver compiles for its GPU."""

from __future__ import annotations

from pathlib import Path

from delassus.compiler.program.program import Program, Result
from delassus.compiler.targets.c.text import Scalar, identifier
from delassus.compiler.targets.llvm.loops import pointers
from delassus.compiler.targets.llvm.threads import PITCH, WAIT, WARP, threads_module
from delassus.constraints import Argument
from delassus.model.check import written

TRIPLE = "nvptx64-nvidia-cuda"

ARCHITECTURE = "sm_75"
"""Oldest GPUs that are supported; the driver compiles PTX of these for all later ones."""

LEVEL = 1
"""Level of LLVM's code generator: 2 and 3 take a fifth longer, and `ptxas` makes as many instructions of it."""

THREADS = 64
"""Threads of a block. Registers bound how many warps a multiprocessor holds: blocks of few leave few of them idle."""

MOST_STATES = 2**32 - 1
"""Of a launch: the entry counts threads in 32 bits."""

ENTRY = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare void @llvm.nvvm.bar.warp.sync(i32) convergent

@tiles = external addrspace(3) global [0 x {scalar}], align 16

define ptx_kernel void @kernel(i64 %n, i64 %steps, {scalar} %least, {arrays}) {{
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %size = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %lane = and i32 %thread, {last}
  %before = mul i32 %block, %size
  %in.block = sub i32 %thread, %lane
  %in.block.wide = zext i32 %in.block to i64
  %before.wide = zext i32 %before to i64
  %start = add i64 %before.wide, %in.block.wide
  %outside = icmp sge i64 %start, %n
  br i1 %outside, label %done, label %within
within:
  %at = mul i32 %in.block, {pitch}
  %tile.shared = getelementptr {scalar}, ptr addrspace(3) @tiles, i32 %at
  %tile = addrspacecast ptr addrspace(3) %tile.shared to ptr
  call void @run(i64 %n, i64 %steps, {scalar} %least, {operands}, i64 %start, i32 %lane, ptr %tile)
  br label %done
done:
  ret void
}}
"""


def shared_bytes(threads: int, item: int) -> int:
    """Bytes of shared memory of a block of so many threads, for numbers of ``item`` bytes: a tile for each warp."""
    return threads * PITCH * item


def write_ptx(program: Program, folder: str | Path, scalar: Scalar) -> Path:
    """Write ``NAME.ptx``, with the signature of its entry at its head, into a folder, which is made if need be."""
    path = Path(folder) / f"{identifier(program.name)}.ptx"
    told = "\n".join(f"// {line}".rstrip() for line in (*program.comment, *_use(program, scalar)))
    text = f"{told}\n{ptx(device_module(program, scalar))}"
    with written(path, "file") as part:
        part.write_text(text, encoding="utf-8", newline="\n")
    return path


def _use(program: Program, scalar: Scalar) -> list[str]:
    """How the entry is launched."""
    arrays: list[Argument | Result] = [*program.arguments, *program.results]
    pairs = "".join(f", ptr {a.name}, int64 {a.name}_step" for a in arrays)
    return [
        f"kernel(int64 n, int64 steps, {scalar} least{pairs})",
        "n states, row-major, one after the other; steps of time, 1 for one call; least is not read;",
        "..._step: numbers from one time step of an array to the next, or 0.",
        f"Blocks have {WARP} threads or a multiple, a state each, and threads * {PITCH} * sizeof({scalar}) bytes",
        "of dynamic shared memory.",
        *(f"{a.name} {a.shape}: {a.meaning}" for a in arrays),
    ]


def device_module(program: Program, scalar: str) -> str:
    """Assembly of a kernel for threads, with its entry for GPUs."""
    arrays = pointers(program)
    entry = ENTRY.format(
        scalar=scalar,
        arrays=", ".join(f"ptr addrspace(1) {p}.there, i64 {p}.step" for p in arrays),
        last=WARP - 1,
        pitch=PITCH,
        operands=", ".join(f"ptr {p}, i64 {p}.step" for p in arrays),
    )
    casts = "".join(f"  {p} = addrspacecast ptr addrspace(1) {p}.there to ptr\n" for p in arrays)
    text = threads_module(program, scalar).replace(WAIT, "call void @llvm.nvvm.bar.warp.sync(i32 -1)")
    return text + entry.replace("within:\n", "within:\n" + casts)


def ptx(assembly: str, architecture: str = ARCHITECTURE) -> str:
    """PTX of assembly, for GPUs of an architecture and all later ones."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(assembly)
    module.triple = TRIPLE
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=architecture, opt=LEVEL)
    module.data_layout = str(machine.target_data)
    module.verify()
    return str(machine.emit_assembly(module))
