"""Code of a request, made when it is first called: from the cache, or made and stored there."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from math import prod

from delassus.compiler.evaluator import Evaluated, laid_out
from delassus.compiler.machine import cache as disk
from delassus.compiler.machine.background import Job, maker, mode, one_at_a_time
from delassus.compiler.machine.cache import sources
from delassus.compiler.machine.cpu import ObjectCode, host, object_code, versions
from delassus.compiler.program.program import Program
from delassus.compiler.targets.llvm.module import llvm_module
from delassus.quantities.pipeline import make_program
from delassus.quantities.request import Request
from delassus.spatial.trace.graph import OperationCount, undisturbed
from delassus.version import __version__

LINE = 64
"""Bytes of a cache line."""


class KnownProgram:
    """What is known of the program of a request: made when that is first asked for, and kept in the cache.

    Attributes
    ----------
    operations : OperationCount
        Of one state's program.
    has_rcond : bool
        Whether the program makes the reciprocal condition of each state.
    error_dtype : str
        In which type the program estimates errors by what solutions miss, if it does.
    """

    def __init__(self, asked: Request, dtype: str, reason: str = "") -> None:
        """``reason`` is said where it takes long."""
        self._asked, self._dtype = asked, dtype
        self._scalar = "double" if dtype == "float64" else "float"
        self._what = f"{asked.title} of {asked.tree.name}{reason}"
        self._program: Program | None = None
        *operations, self.has_rcond, self.error_dtype = json.loads(self._found_facts())
        self.operations = OperationCount(*operations)

    def _found_facts(self) -> bytes:
        key = _key(self._asked, self._dtype)
        return disk.fetch(key, lambda: _facts(self._made_program()), f"the program of {self._what}")

    def _made_program(self) -> Program:
        """The program, which is kept until all code is made of it."""
        self._program = undisturbed(make_program)(self._asked, dtype=self._dtype)
        return self._program


def _facts(program: Program) -> bytes:
    facts = [*astuple(program.count()), any(r.hidden for r in program.results), program.error_dtype]
    return json.dumps(facts).encode()


class MachineCode(KnownProgram):
    """Machine code of a request: for states one by one, and for lanes, each made when it is first asked for.

    Both are kept in the cache.

    Attributes
    ----------
    lanes : int
        States that a vector register holds, and from which on they are taken by lanes.
    spans : array of two integers
        Addresses of the functions ``span`` for fewer states than there are lanes, and for at least as many; each is 0
        until it is made.
    """

    def __init__(self, asked: Request, dtype: str, lanes: int, reason: str = "", wait: bool | None = True) -> None:
        """``wait``: whether calls wait for machine code, or the evaluator answers until it is there; None: for good."""
        self.lanes, self._wait, self._asking = lanes, wait, [0, 0]  # processes that have asked for code
        self._codes: list[ObjectCode | None] = [None, None]
        self._evaluated: Evaluated | None = None
        self._instructions = b""
        self.spans, self.judging = (ctypes.c_int64 * 2)(), (ctypes.c_int64 * 2)()
        super().__init__(asked, dtype, reason)

    def _found_facts(self) -> bytes:
        if self._wait is not None:
            return super()._found_facts()
        facts, self._instructions = self._laid_out()  # the evaluator alone runs it: one file instead of two
        return facts

    def of(self, states: int) -> ObjectCode | Evaluated:
        """What runs so many states, one at least, and no others than are alike: function ``span``."""
        by_lanes = states >= self.lanes
        code = self._codes[by_lanes]
        if code is not None:
            return code
        if self._wait is None and self._evaluated is not None and self.spans[by_lanes]:
            return self._evaluated
        how = "never" if self._wait is None else mode(self._wait)
        return self.compiled(states) if how == "wait" else self._meanwhile(by_lanes, how)

    def _meanwhile(self, by_lanes: bool, how: str) -> ObjectCode | Evaluated:
        """What runs until there is machine code, which is asked for once a process, unless it is in the cache."""
        if how == "background" and self._asking[by_lanes] != os.getpid():
            self._asking[by_lanes] = os.getpid()
            lanes = self.lanes if by_lanes else 1
            found = disk.load(key_of(self._asked, self._dtype, lanes))
            if found is not None:
                return self._taken(by_lanes, found)
            make = partial(object_code_of, self._asked, self._dtype, lanes)
            maker().ask(Job(make, partial(self._made_elsewhere, by_lanes)))
        evaluated = self._evaluator()
        self.spans[by_lanes] = evaluated.address("span")
        if (code := self._codes[by_lanes]) is not None:  # it came meanwhile
            self.spans[by_lanes] = code.address("span")
        return code or evaluated

    def _made_elsewhere(self, by_lanes: bool, made: bytes) -> None:
        with one_at_a_time():
            self._taken(by_lanes, made)

    def place(self, states: int) -> int:
        """Address of the address of ``span`` for so many states: that of machine code as soon as there is some."""
        self.of(states)
        return ctypes.addressof(self.spans) + ctypes.sizeof(ctypes.c_int64) * (states >= self.lanes)

    def take_judge(self, judge: MachineCode, bytes_of_state: int) -> None:
        """Let calls judge flagged states by other code of as many lanes, as soon as that is made."""
        if (code := judge._codes[1]) is not None and not self.judging[0]:
            self._judge = code, ctypes.create_string_buffer(self.lanes * bytes_of_state + LINE)  # as long as this
            self.judging[1] = (ctypes.addressof(self._judge[1]) + LINE - 1) & -LINE
            self.judging[0] = code.address("span")

    def compiled(self, states: int) -> ObjectCode:
        """Machine code for so many states: functions ``batch`` and ``span``."""
        by_lanes = states >= self.lanes
        code = self._codes[by_lanes]
        if code is None:
            with one_at_a_time():
                code = self._codes[by_lanes] or self._taken(by_lanes, self.objects(self.lanes if by_lanes else 1))
        return code

    def _evaluator(self) -> Evaluated:
        """The program as the evaluator runs it."""
        with one_at_a_time():
            if self._evaluated is None:
                content = self._instructions or self._laid_out()[1]
                self._instructions = b""
                asked = self._asked
                sizes = [a.size for a in asked.arguments] + [prod(asked.shape_of(o)) for o in asked.outputs]
                sizes += [1] * self.has_rcond
                self._evaluated = Evaluated(content, tuple(sizes), len(asked.arguments), self._dtype)
                if self._wait is None:
                    self._program = None
            return self._evaluated

    def _laid_out(self) -> tuple[bytes, bytes]:
        """Facts, and the program as the evaluator takes it, from the cache or made and stored there."""

        @undisturbed
        def make() -> bytes:
            program = self._program or self._made_program()
            return _facts(program) + b"\n" + laid_out(program)

        key = _key(self._asked, self._dtype, target="evaluator")
        content = disk.fetch(key, make, f"the program of {self._what}", is_lasting=False)
        facts, _, instructions = content.partition(b"\n")
        return facts, instructions

    def _taken(self, by_lanes: bool, content: bytes) -> ObjectCode:
        made = self._codes[by_lanes] = ObjectCode(content)
        self.spans[by_lanes], _ = map(made.address, ("span", "batch"))  # later, nobody waits for LLVM's lock
        if all(self._codes) or self.lanes == 1:
            self._program = None
        return made

    def objects(self, lanes: int) -> bytes:
        """Object code by so many lanes, from the cache or made and stored there."""
        what = f"{self._what}, for {'batches' if lanes > 1 else 'one state'}"
        return disk.fetch(key_of(self._asked, self._dtype, lanes), partial(self._objects, lanes), what)

    def _objects(self, lanes: int) -> bytes:
        cpu, program = host(), self._program or self._made_program()
        assembly = undisturbed(llvm_module)(program, self._scalar, lanes, cpu.vector_registers, cpu.has_fma)
        return object_code(assembly)


def object_code_of(asked: Request, dtype: str, lanes: int) -> bytes:
    """Object code of a request, as another process makes it."""
    return MachineCode(asked, dtype, lanes).objects(lanes)


class DeviceCode(KnownProgram):
    """PTX of a request, for an architecture and all later ones; kept in the cache, whatever the processor is."""

    def ptx(self, architecture: str) -> str:
        """The text, made when it is first asked for."""
        with one_at_a_time():
            key = key_of_ptx(self._asked, self._dtype, architecture)
            found = disk.fetch(key, lambda: self._text(architecture), f"{self._what}, for GPUs")
            self._program = None
        return found.decode()

    def _text(self, architecture: str) -> bytes:
        from delassus.compiler.machine.ptx import device_module, ptx

        program = self._program or self._made_program()
        return ptx(undisturbed(device_module)(program, self._scalar), architecture).encode()


def is_known(asked: Request, fact: str, find: Callable[[], bool]) -> bool:
    """Whether a fact holds of a request, which takes long to find: from the cache, or found and stored there."""
    key, what = _key(asked, "", fact=fact), f"the program of {asked.title} of {asked.tree.name}"
    return disk.fetch(key, lambda: b"%d" % find(), what, is_lasting=False) == b"1"


def key_of(asked: Request, dtype: str, lanes: int) -> str:
    """Key of machine code for this processor: all that it depends on."""
    this = host()
    return _key(asked, dtype, lanes=lanes, processor=f"{this.triple} {this.cpu} {this.features}")


def key_of_ptx(asked: Request, dtype: str, architecture: str) -> str:
    """Key of PTX for an architecture, the same whatever this processor is."""
    return _key(asked, dtype, target="cuda", architecture=architecture)


def _key(asked: Request, dtype: str, **machine: str | int) -> str:
    """Key of code for a machine, or of what is known of a program, which is the same for all."""
    package = f"delassus {__version__} {sources()}, {versions()}"
    return disk.cache_key(**asked.describe(), dtype=dtype, **machine, versions=package)
