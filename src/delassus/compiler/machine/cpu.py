"""The processor as LLVM sees it, and machine code for it: assembly → object code → callable addresses."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

LEVEL = 1
"""Code generator's optimisation level. LLVM's own passes over the assembly are not run: the graph is clean already."""

LAST_LLVM = 22
"""Last version of LLVM that is known to have the options of `_by_parts`: it ends processes that ask for others."""

WINDOWS = {"dag-maps-huge-region": (100, 1000), "combiner-tokenfactor-inline-limit": (1, 2048)}
"""How far LLVM looks around, for our code and by default: loads and stores that its scheduler of instructions compares
with one another, and those whose lists its selection of instructions joins."""

FUSED = re.compile(r"%(\S+)( = (?:\w+ )?call (float|double) @llvm\.fma\.f(32|64)\(.*)")
"""A scalar fused operation in assembly."""

ARM = "aarch64", "arm64"
"""Beginnings of names of 64-bit ARM processors."""

OPTIMISED = 1
"""Level of LLVM's passes and its code generator for loops: 2 and 3 take longer, and what they make is not faster."""


@dataclass(frozen=True, slots=True)
class Host:
    """Processor that kernels are compiled for: its name and features as LLVM has them, its vector registers."""

    triple: str
    cpu: str
    features: str
    vector_bits: int
    vector_registers: int
    has_fma: bool

    def lanes(self, dtype: str) -> int:
        """States that one vector register holds."""
        return max(1, self.vector_bits // (64 if dtype == "float64" else 32))


@cache
def host() -> Host:
    """The processor of this process."""
    import llvmlite.binding as llvm

    if hasattr(os, "register_at_fork"):  # a child must not find LLVM in the middle of what another thread compiles
        lock = llvm.ffi.lib._lock
        os.register_at_fork(before=lock.__enter__, after_in_parent=lock.__exit__, after_in_child=lock.__exit__)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    available = llvm.get_host_cpu_features()
    triple = llvm.get_process_triple()
    arm = triple.startswith(ARM)
    widths = (("avx512f", 512), ("avx", 256), ("sse2", 128), ("neon", 128))
    bits = next((width for name, width in widths if available.get(name)), 128 if arm else 64)
    registers = 32 if arm or available.get("avx512vl") else 16
    has_fma = arm or bool(available.get("fma"))
    return Host(triple, llvm.get_host_cpu_name(), available.flatten(), bits, registers, has_fma)


def _target(cpu: Host, level: int = LEVEL) -> Any:
    import llvmlite.binding as llvm

    target = llvm.Target.from_triple(cpu.triple)
    return target.create_target_machine(cpu=cpu.cpu, features=cpu.features, opt=level, reloc="pic", codemodel="small")


def object_code(assembly: str, cpu: Host | None = None, level: int = LEVEL) -> bytes:
    """Compile LLVM assembly, for this processor if none is given; ``level`` is the code generator's."""
    import llvmlite.binding as llvm

    cpu = cpu or host()
    target = _target(cpu, level)
    module = llvm.parse_assembly(_kept_apart(assembly, cpu))
    module.verify()
    with _by_parts():
        return bytes(target.emit_object(module))


def _kept_apart(assembly: str, cpu: Host) -> str:
    """Assembly in which no fused operation is one with what negates its result.

    For ARM, LLVM takes ``-fma(x, y, z)`` for ``fma(-x, y, -z)``, which is a zero of the other sign where all is zero.
    """
    if not cpu.triple.startswith(ARM):
        return assembly
    kept = FUSED.sub(r"%fused.\1\2\n%\1 = call \3 @llvm.arithmetic.fence.f\4(\3 %fused.\1)", assembly)
    declared = (
        f"declare {kind} @llvm.arithmetic.fence.{name}({kind})" for kind, name in (("float", "f32"), ("double", "f64"))
    )
    return "\n".join([kept, *declared])


@contextmanager
def _by_parts() -> Iterator[None]:
    """Limit the windows of LLVM's selection and scheduling of instructions, whose time grows with their square.

    Assembly is in a good order already (`delassus.compiler.passes.schedule.overlap`). Options are those of the whole
    process: LLVM's lock is held, so that what others compile is as ever.
    """
    import llvmlite.binding as llvm

    if llvm.llvm_version_info[0] > LAST_LLVM:
        yield
        return
    with llvm.ffi.lib._lock:
        try:
            for name, (ours, _) in WINDOWS.items():
                llvm.set_option("", f"-{name}={ours}")
            yield
        finally:
            for name, (_, default) in WINDOWS.items():
                llvm.set_option("", f"-{name}={default}")


def optimised_code(assembly: str, cpu: Host | None = None) -> bytes:
    """Compile LLVM assembly that is not clean already, for this processor if none is given, with LLVM's own passes."""
    import llvmlite.binding as llvm

    cpu = cpu or host()
    target = _target(cpu, OPTIMISED)
    module = llvm.parse_assembly(assembly)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=OPTIMISED)
    tuning.loop_vectorization, tuning.slp_vectorization = False, True
    builder = llvm.create_pass_builder(target, tuning)
    builder.getModulePassManager().run(module, builder)
    return _emitted(module, target, cpu)


def quick_code(assembly: str, cpu: Host | None = None) -> bytes:
    """The same bits in a tenth of the time, by the passes that matter most; steps take four times as long."""
    import llvmlite.binding as llvm

    cpu = cpu or host()
    target = _target(cpu, 0)
    module = llvm.parse_assembly(assembly)
    module.verify()
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_dead_arg_elimination_pass()  # records have hundreds of items, functions take some
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return _emitted(module, target, cpu)


def _emitted(module: Any, target: Any, cpu: Host) -> bytes:
    """Object code of a module that passes have been over."""
    import llvmlite.binding as llvm

    if cpu.triple.startswith(ARM):
        module = llvm.parse_assembly(_kept_apart(str(module), cpu))
    return bytes(target.emit_object(module))


@cache
def _announce_memory() -> None:
    """Tell LLVM where the functions of C's library are that machine code calls."""
    import llvmlite.binding as llvm

    library = ctypes.cdll.msvcrt if os.name == "nt" else ctypes.CDLL(None)
    for name in ("malloc", "free", "memset"):
        llvm.add_symbol(name, cast(int, ctypes.cast(getattr(library, name), ctypes.c_void_p).value))


_ENDED: list[Any] = []
"""Code that nobody calls any more, freed where the next is made: LLVM's lock is no place for garbage to wait."""


class ObjectCode:
    """Object code in memory, ready to be called; keep it as long as its addresses are used.

    The code finds its constants by 32-bit distances, which LLVM's loader does not check. llvmlite's own memory manager
    puts all sections of an object into one piece of memory, so that they are near.
    """

    def __init__(self, payload: bytes) -> None:
        import llvmlite.binding as llvm

        _announce_memory()
        _ENDED.clear()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target(host()), use_lmm=True)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(payload))
        self._engine.finalize_object()
        weakref.finalize(self, _ENDED.append, self._engine).atexit = False
        self._known: dict[str, int] = {}

    def address(self, function: str) -> int:
        """Address of a function, for which llvmlite is asked, under its lock, once."""
        if function not in self._known:
            self._known[function] = int(self._engine.get_function_address(function))
        return self._known[function]

    def address_of_data(self, name: str) -> int:
        """Address of a global variable."""
        return int(self._engine.get_global_value_address(name))


def versions() -> str:
    """Versions that machine code depends on besides its assembly."""
    import llvmlite

    return f"python {sys.version_info[:2]}, llvmlite {llvmlite.__version__}, level {LEVEL}, small code, SLP in loops"
