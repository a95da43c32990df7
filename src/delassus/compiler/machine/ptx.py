"""PTX of a kernel: assembly for threads → what a driver compiles for its GPU."""

from __future__ import annotations

from delassus.compiler.program.program import Program
from delassus.compiler.targets.llvm.loops import pointers
from delassus.compiler.targets.llvm.threads import PITCH, WAIT, WARP, threads_module

TRIPLE = "nvptx64-nvidia-cuda"

ARCHITECTURE = "sm_75"
"""Oldest GPUs that are supported; the driver compiles PTX of these for all later ones."""

THREADS = 64
"""Threads of a block. Registers bound how many warps a multiprocessor holds: blocks of few leave few of them idle."""

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
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=architecture, opt=3)
    module.data_layout = str(machine.target_data)
    module.verify()
    return str(machine.emit_assembly(module))
