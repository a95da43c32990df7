"""A GPU's grids on the host: the assembly that PTX is made of, compiled for this processor, its threads one by one.

A thread has a stack of its own, and runs until it waits for its warp; when all of a warp wait, they go on in another
order: forwards, backwards, or drawn by a seed. So what is read before it is written, by lack of a wait, is wrong in one
of them. Stacks and shared memory are NaN at the start, and are followed by bytes that nothing may write.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from functools import lru_cache

import numpy as np

from internals import ptx_module
from programs import loaded

device_module, ptx = ptx_module.device_module, ptx_module.ptx

WARP = 32
GUARD = 4096
"""Bytes before and behind what kernels may write."""

STACK = 1 << 16
"""Bytes of a thread's stack beyond its variables."""

CONTEXT = 4096
"""Bytes that hold a context of the C library, at least."""

POISON = 0xFFF5
"""NaN of both number types, in parts of two bytes."""

SHARED = 227 << 10
"""Most bytes of shared memory of a block."""

SPECIAL = ("tid", "ctaid", "ntid", "nctaid")
"""Registers that tell a thread which one it is, in one dimension."""

HOST = """
declare i32 @swapcontext(ptr, ptr)
@nvvm.main = global [{context} x i8] zeroinitializer, align 64
@nvvm.context = global ptr null
@nvvm.arguments = global ptr null
@nvvm.status = global ptr null

define void @nvvm.bar.warp.sync(i32 %mask) noinline {{
  %status = load ptr, ptr @nvvm.status
  store i32 %mask, ptr %status
  %own = load ptr, ptr @nvvm.context
  call i32 @swapcontext(ptr %own, ptr @nvvm.main)
  ret void
}}

define void @nvvm.thread() {{
  %status = load ptr, ptr @nvvm.status
  %given = load ptr, ptr @nvvm.arguments
{loads}
  call void @kernel({operands})
  store i32 0, ptr %status
  %own = load ptr, ptr @nvvm.context
  call i32 @swapcontext(ptr %own, ptr @nvvm.main)
  ret void
}}
"""

C = ctypes.PyDLL(None)
C.swapcontext.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
C.makecontext.restype = None


class Misuse(AssertionError):
    """What a device would do without a word, or as it likes."""


def poisoned(size, guard=GUARD):
    """NaN bytes, so many, between two guards; an address that is a multiple of 256 bytes at ``guard`` of them."""
    memory = np.full((size + 2 * guard + 258) // 2, POISON, np.uint16).view(np.uint8)
    before = -(memory.ctypes.data + guard) % 256
    return memory[before : before + size + 2 * guard]


def check_guards(memory, size, name, guard=GUARD):
    """What is around memory of `poisoned` is as it was."""
    for where, part in (("before", memory[:guard]), ("behind", memory[guard + size :])):
        odd = (guard + size) % 2 if where == "behind" else 0
        if (part[odd : (len(part) - odd) // 2 * 2 + odd].view(np.uint16) != POISON).any():
            raise Misuse(f"{name}: {where} it was written")


class Kernel:
    """Entry ``kernel`` of assembly for a device.

    Attributes
    ----------
    types : list of str
        Of its parameters, as LLVM names them.
    """

    def __init__(self, assembly: str) -> None:
        (given,) = re.findall(r"define ptx_kernel void @kernel\((.*?)\)\s*\{", assembly)
        self.types = [re.match(r"\w+(?: addrspace\(1\))?", p.strip())[0] for p in given.split(", ")]
        self.uses_tiles = "@tiles = external" in assembly
        variables = re.findall(r"= alloca (float|double|i\d+), i64 (\d+)", assembly)
        self.stack = STACK + sum(int(n) * 8 for _, n in variables)
        self._code = loaded(on_host(assembly, self.types))
        self._threads: list[tuple[mmap.mmap, np.ndarray, int, ctypes.Array]] = []

    def _thread(self, k):
        """Stack and context of the k-th thread of a block."""
        while len(self._threads) <= k:
            stack = mmap.mmap(-1, self.stack)
            array = np.frombuffer(stack, np.uint16)
            self._threads.append((stack, array, array.ctypes.data, ctypes.create_string_buffer(CONTEXT + 64)))
        return self._threads[k]

    def _start(self, k):
        _, array, address, buffer = self._thread(k)
        array[:] = POISON
        context = (ctypes.addressof(buffer) + 63) & ~63
        C.getcontext(ctypes.c_void_p(context))
        fields = (ctypes.c_size_t * 5).from_address(context)  # flags, link, and of the stack address, flags, size
        fields[1], fields[2], fields[3], fields[4] = 0, address, 0, self.stack
        C.makecontext(ctypes.c_void_p(context), ctypes.c_void_p(self._code.address("nvvm.thread")), 0)
        return context

    def launch(self, grid, block, shared, arguments, order=None):
        """Run a grid. ``arguments`` are bytes of 8 or less each; ``order`` draws an order of a number of threads."""
        if block % WARP:
            raise Misuse(f"threads of a block, {block}, are not whole warps")
        if len(arguments) != len(self.types):
            raise Misuse(f"the kernel has {len(self.types)} parameters; {len(arguments)} came")
        values = (ctypes.c_char * (8 * len(arguments)))(*b"".join(x.ljust(8, b"\0") for x in arguments))
        self._set("arguments", ctypes.addressof(values))
        for name, value in (("ntid", block), ("nctaid", grid)):
            self._set(name, value)
        for k in range(grid):
            self._set("ctaid", k)
            self._block(block, shared, order or (lambda n: range(n)))

    def _set(self, name, value):
        kind = ctypes.c_int32 if name in SPECIAL else ctypes.c_void_p
        kind.from_address(self._code.address_of_data(f"nvvm.{name}")).value = value

    def _block(self, block, shared, order):
        """All threads of a block, from wait to wait."""
        tiles = poisoned(SHARED)
        if self.uses_tiles:
            self._set("tiles", tiles.ctypes.data + GUARD)
        status = (ctypes.c_int32 * block)(*[-1] * block)
        contexts = [self._start(k) for k in range(block)]
        waiting = np.ones(block, bool)
        where = {name: self._code.address_of_data(f"nvvm.{name}") for name in ("tid", "context", "status", "main")}
        tid = ctypes.c_int32.from_address(where["tid"])
        context, at = (ctypes.c_void_p.from_address(where[name]) for name in ("context", "status"))
        while waiting.any():
            for warp in order(block // WARP):
                if not waiting[warp * WARP]:
                    continue
                for lane in order(WARP):
                    k = int(warp * WARP + lane)
                    tid.value, context.value, at.value = k, contexts[k], ctypes.addressof(status) + 4 * k
                    C.swapcontext(where["main"], contexts[k])
                now = {status[warp * WARP + lane] for lane in range(WARP)}
                if now not in ({-1}, {0}):
                    raise Misuse("threads of a warp wait for others that are gone, or not for the whole warp")
                waiting[warp * WARP : warp * WARP + WARP] = now == {-1}
        check_guards(tiles, shared, "shared memory")
        if any((array[: GUARD // 2] != POISON).any() for _, array, _, _ in self._threads[:block]):
            raise Misuse("a thread's stack is full")


def on_host(assembly, types):
    """Assembly for this processor of a kernel's for a device."""
    text = assembly.replace("@llvm.nvvm.", "@nvvm.").replace("define ptx_kernel void", "define void")
    text = re.sub(r"^declare .*@nvvm\..*\n", "", text, flags=re.M)
    text = re.sub(r"@tiles = external addrspace\(3\) global .*\n", "@nvvm.tiles = global ptr null\n", text)
    text = re.sub(
        r"^(.*= getelementptr \w+, ptr addrspace\(3\) )@tiles,",
        "  %tiles.there = load ptr, ptr @nvvm.tiles\n"
        "  %tiles.shared = addrspacecast ptr %tiles.there to ptr addrspace(3)\n"
        r"\1%tiles.shared,",
        text,
        flags=re.M,
    )
    loads = []
    for k, kind in enumerate(types):
        loads += [f"  %p{k}.at = getelementptr i64, ptr %given, i32 {k}", f"  %p{k} = load {kind}, ptr %p{k}.at"]
    operands = ", ".join(f"{kind} %p{k}" for k, kind in enumerate(types))
    text += HOST.format(context=CONTEXT, loads="\n".join(loads), operands=operands)
    for name in SPECIAL:
        text += f"@nvvm.{name} = global i32 0\n"
        text += f"define i32 @nvvm.read.ptx.sreg.{name}.x() {{\n  %k = load i32, ptr @nvvm.{name}\n  ret i32 %k\n}}\n"
    return text


@lru_cache(maxsize=32)
def kernel_of(assembly):
    """The entry of assembly for a device, compiled."""
    return Kernel(assembly)


def orders(seed):
    """Order of so many threads, drawn by a seed: forwards, backwards, or any."""
    if seed < 2:
        return lambda n: range(n)[:: 1 - 2 * seed]
    rng = np.random.default_rng(seed)
    return lambda n: rng.permutation(n).tolist()


@lru_cache(maxsize=32)
def assembly_of(program, dtype):
    """Assembly of a program for a device."""
    return device_module(program, "double" if dtype == "float64" else "float")


def emulate(program, arguments, steps=1, least=-np.inf, threads=64, seed=0, chained=None, assembly=None):
    """Results of a program's kernel, hidden ones too, at arguments (n, …), or (steps, n, …).

    ``chained`` are arrays (steps + 1, n, …) by the names of arguments, of which each step takes a row and writes the
    next, the result of that name and ``_next``.
    """
    dtype, item, chained = arguments[0].dtype, arguments[0].itemsize, chained or {}
    n = arguments[0].shape[arguments[0].ndim - 1 - len(program.arguments[0].shape)]
    if assembly is None:
        assembly = assembly_of(program, dtype.name)
    kernel = kernel_of(assembly)
    memories, results, values = [], [], [n, steps, dtype.type(least)]

    def hold(x):
        """Memory with a guard, that has the numbers of an array."""
        memory = poisoned(x.nbytes)
        memory[GUARD : GUARD + x.nbytes] = x.reshape(-1).view(np.uint8)
        memories.append((memory, x))
        return memory.ctypes.data + GUARD

    addresses = {name: hold(x) for name, x in chained.items()}
    for a, x in zip(program.arguments, arguments, strict=True):
        assert x.dtype == dtype and x.flags.c_contiguous
        if a.name in chained:
            values += [addresses[a.name], n * a.size]
        else:
            values += [hold(x), n * a.size if x.size == steps * n * a.size and steps > 1 else 0]
    inputs = len(memories)
    for r in program.results:
        name = r.name.removesuffix("_next")
        if name in chained:
            values += [addresses[name] + n * r.size * item, n * r.size]
        else:
            results.append(np.full((*([steps] if steps > 1 else []), n, *r.shape), np.nan, dtype))
            values += [hold(results[-1]), n * r.size if steps > 1 else 0]
    given = [v.tobytes() if isinstance(v, np.generic) else v.to_bytes(8, "little") for v in values]
    kernel.launch(-(-n // threads), threads, threads * 33 * item, given, orders(seed))
    for k, (memory, x) in enumerate(memories):
        found = memory[GUARD : GUARD + x.nbytes]
        if len(chained) <= k < inputs:
            assert (found == x.reshape(-1).view(np.uint8)).all(), "an argument was written"
        x.reshape(-1).view(np.uint8)[:] = found
        check_guards(memory, x.nbytes, f"memory of {x.nbytes} bytes")
    return results
