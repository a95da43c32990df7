"""C99 of a program: one header and one source file that need nothing but ``math.h``, for one state or a batch.

Every operation becomes one ``const`` variable, in the graph's order, so that a compiler that fuses nothing (gcc under
``-std=c99``) computes what the interpreter does, rounding by rounding. Long programs are cut into static functions,
because compilers take more than linear time for a function; the values that cross a cut lie in a workspace on the
stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from delassus.algorithms.inputs import Argument
from delassus.compiler.allocate import Act, Step, allocate
from delassus.compiler.emit.c_text import Scalar, comment, identifier, literal
from delassus.compiler.program import Program, Result
from delassus.spatial.graph import Op, arity

UNCUT = 4000
"""Longest program, in operations, that stays one function."""

PART = 2000
"""Operations of one function of a longer program."""

_EXPRESSIONS: dict[int, str] = {
    Op.ADD: "{0} + {1}",
    Op.SUBTRACT: "{0} - {1}",
    Op.MULTIPLY: "{0} * {1}",
    Op.DIVIDE: "{0} / {1}",
    Op.NEGATE: "-{0}",
    Op.SQRT: "sqrt{f}({0})",
    Op.SIN: "sin{f}({0})",
    Op.COS: "cos{f}({0})",
    Op.COPYSIGN: "copysign{f}({0}, {1})",
    Op.MIN: "fmin{f}({0}, {1})",
    Op.MAX: "fmax{f}({0}, {1})",
    Op.LESS: "{0} < {1} ? 1.0{f} : 0.0{f}",
    Op.SELECT: "{0} != 0.0{f} ? {1} : {2}",
}


def c_source(program: Program, dtype: Scalar = "double") -> tuple[str, str]:
    """Header and source of a program, with all numbers of type ``dtype``.

    With NAME as of ``identifier(program.name)``, they declare and define ``void NAME(const double *q, …, double *G)``
    for one state, and ``void NAME_batch(size_t n, …)`` for n states that lie one after the other.
    """
    text = _Text(program, dtype)
    return text.header(), text.source()


def write_c(program: Program, folder: str | Path, dtype: Scalar = "double") -> tuple[Path, Path]:
    """Write ``NAME.h`` and ``NAME.c`` (see `c_source`) into a folder, which is made if need be; returns their paths.

    Raises
    ------
    OSError
        The folder cannot be made or written to.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name = identifier(program.name)
    paths = folder / f"{name}.h", folder / f"{name}.c"
    for path, text in zip(paths, c_source(program, dtype), strict=True):
        path.write_text(text, encoding="utf-8", newline="\n")
    return paths


class _Text:
    """Both files of a program."""

    def __init__(self, program: Program, scalar: Scalar) -> None:
        self.program, self.scalar, self.nodes = program, scalar, program.graph.nodes()
        self.name = identifier(program.name)
        self.arrays: tuple[Argument | Result, ...] = (*program.arguments, *program.results)
        taken: list[str] = [self.name, f"{self.name}_batch", f"{self.name}_state"]
        for array in self.arrays:
            taken.append(identifier(array.name, taken))
        self.parameters = taken[3:]
        n = len(program.arguments)
        types = [f"const {scalar} *"] * n + [f"{scalar} *"] * len(program.results)
        self.declared = [kind + name for kind, name in zip(types, self.parameters, strict=True)]
        self.inputs = _elements(program.arguments, self.parameters[:n])
        flat = program.graph.flat_outputs()
        self.goals: dict[int, list[str]] = {}  # where the value of a node is stored
        entries = chain.from_iterable(result.entries for result in program.results)
        for goal, entry in zip(_elements(program.results, self.parameters[n:]), entries, strict=True):
            self.goals.setdefault(flat[entry], []).append(goal)

    def header(self) -> str:
        """``NAME.h``."""
        guard = f"{self.name}_h".upper()
        n = len(self.program.arguments)
        about = [
            *self.program.comment,
            "",
            *self._layout("Arguments, for one state:", 0, n),
            *self._layout("Results, for one state:", n, len(self.arrays)),
            "",
            "Arrays are row-major and must not overlap. Nothing is allocated, and nothing is kept between calls.",
        ]
        lines = [
            *comment(about),
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stddef.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            "/* One state. */",
            f"{_signature(self.name, self.declared)};",
            "",
            "/* n states, one after the other in every array. */",
            f"{_signature(f'{self.name}_batch', ['size_t n', *self.declared])};",
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            "#endif",
        ]
        return "\n".join(lines) + "\n"

    def _layout(self, title: str, start: int, stop: int) -> Iterator[str]:
        if start < stop:
            yield title
        for name, array in zip(self.parameters[start:stop], self.arrays[start:stop], strict=True):
            shape = " x ".join(str(n) for n in array.shape) or "one number"
            yield f"  {name}: {self.scalar}[{array.size}], {shape}{array.meaning and f'; {array.meaning}'}"

    def source(self) -> str:
        """``NAME.c``. Both entry points call a static function, which no symbol of another library can replace."""
        lines = [*comment(self.program.comment), f'#include "{self.name}.h"', "", "#include <math.h>"]
        state, passed = f"{self.name}_state", ", ".join(self.parameters)
        graph = self.program.graph
        length = len(graph) if graph.count().total <= UNCUT else PART
        allocation = allocate(graph, self.goals, len(graph), max(1, length))  # registers are the compiler's business
        parts = allocation.parts
        if len(parts) == 1:
            lines += self._function(_signature(f"static {state}", self.declared), self.parameters, parts[0], True)
        else:
            workspace = [*self.declared, f"{self.scalar} *w"]
            for k, part in enumerate(parts):
                signature = _signature(f"static {self.name}_part{k}", workspace)
                lines += self._function(signature, [*self.parameters, "w"], part, k == 0)
            calls = (f"{self.name}_part{k}({', '.join([*self.parameters, 'w'])});" for k in range(len(parts)))
            space = f"{self.scalar} w[{max(allocation.n_slots, 1)}];"
            lines += _block(_signature(f"static {state}", self.declared), [space, "", *calls])
        shifted = (f"{x} + {array.size} * i" for x, array in zip(self.parameters, self.arrays, strict=True))
        loop = ["size_t i;", "", "for (i = 0; i < n; ++i) {", f"    {state}({', '.join(shifted)});", "}"]
        lines += _block(_signature(self.name, self.declared), [f"{state}({passed});"])
        lines += _block(_signature(f"{self.name}_batch", ["size_t n", *self.declared]), loop)
        return "\n".join(lines) + "\n"

    def _function(self, signature: str, parameters: list[str], part: list[Step], first: bool) -> list[str]:
        statements = [*(self._leaves() if first else ()), *self._statements(part)]
        named = set(re.findall(r"[A-Za-z_]\w*(?=\[)", "\n".join(statements)))
        unused = (f"(void){name};" for name in parameters if name not in named)  # else compilers warn
        return _block(signature, [*statements, *unused])

    def _leaves(self) -> Iterator[str]:
        """Results that are constants or inputs."""
        for k, goals in self.goals.items():
            if self.nodes[k][0] < Op.ADD:
                yield from (f"{goal} = {self._place(k)};" for goal in goals)

    def _statements(self, part: list[Step]) -> Iterator[str]:
        """Each operation where it stands, its operands from elsewhere just before it, results as soon as known."""
        suffix = "f" if self.scalar == "float" else ""
        for act, k, slot in part:
            if act == Act.STORE:
                yield f"w[{slot}] = t{k};"
            elif act == Act.LOAD:
                yield f"const {self.scalar} t{k} = {self._place(k) if slot < 0 else f'w[{slot}]'};"
            else:
                op, *operands = self.nodes[k]
                shown = (self._operand(x) for x in operands[: arity(op)])
                yield f"const {self.scalar} t{k} = {_EXPRESSIONS[op].format(*shown, f=suffix)};"
                yield from (f"{goal} = t{k};" for goal in self.goals.get(k, ()))

    def _place(self, k: int) -> str:
        """Where the value of an input, a constant or an output is read."""
        op, index, *_ = self.nodes[k]
        if op == Op.CONSTANT:
            return literal(float(self.program.graph.value[k]), self.scalar)
        return self.inputs[index] if op == Op.INPUT else self.goals[k][0]

    def _operand(self, k: int) -> str:
        if self.nodes[k][0] != Op.CONSTANT:
            return f"t{k}"
        text = self._place(k)
        return f"({text})" if text.startswith("-") else text


def _block(signature: str, statements: Iterable[str]) -> list[str]:
    return ["", signature, "{", *(f"    {line}".rstrip() for line in statements), "}"]


def _signature(name: str, parameters: list[str]) -> str:
    storage, _, name = name.rpartition(" ")
    return f"{storage} void {name}({', '.join(parameters) or 'void'})".lstrip()


def _elements(arrays: Iterable[Argument | Result], names: Iterable[str]) -> list[str]:
    return [f"{name}[{k}]" for array, name in zip(arrays, names, strict=True) for k in range(array.size)]
