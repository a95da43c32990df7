"""C99 of a program: one header and one source file that need nothing but ``math.h``, for one state or a batch.

Every operation becomes one ``const`` variable, in the graph's order, so that a compiler that fuses nothing (gcc under
``-std=c99``) computes what the interpreter does, rounding by rounding. Long programs are cut into static functions,
because compilers take more than linear time for a function; the values that cross a cut lie in a workspace on the
stack, whose slots are used again as soon as their values are no longer needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from delassus.algorithms.inputs import Argument
from delassus.compiler.cut import Part, cut, operands_of
from delassus.compiler.emit.c_text import Scalar, comment, identifier, literal
from delassus.compiler.program import Program, Result
from delassus.spatial.graph import Op

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
    Op.ATAN2: "atan2{f}({0}, {1})",
    Op.FABS: "fabs{f}({0})",
    Op.COPYSIGN: "copysign{f}({0}, {1})",
    Op.MIN: "fmin{f}({0}, {1})",
    Op.MAX: "fmax{f}({0}, {1})",
    Op.LESS: "{0} < {1} ? 1.0{f} : 0.0{f}",
    Op.LESS_EQUAL: "{0} <= {1} ? 1.0{f} : 0.0{f}",
    Op.EQUAL: "{0} == {1} ? 1.0{f} : 0.0{f}",
    Op.NOT_EQUAL: "{0} != {1} ? 1.0{f} : 0.0{f}",
    Op.NOT: "{0} == 0.0{f} ? 1.0{f} : 0.0{f}",
    Op.AND: "({0} != 0.0{f} && {1} != 0.0{f}) ? 1.0{f} : 0.0{f}",
    Op.OR: "({0} != 0.0{f} || {1} != 0.0{f}) ? 1.0{f} : 0.0{f}",
    Op.SELECT: "{0} != 0.0{f} ? {1} : {2}",
}


def c_source(program: Program, dtype: Scalar = "double") -> tuple[str, str]:
    """C99 of a program.

    Parameters
    ----------
    program : Program
    dtype : {"double", "float"}
        Type of all numbers; constants are printed exactly, after rounding to it.

    Returns
    -------
    header, source : str
        ``NAME.h`` and ``NAME.c``, where NAME is ``identifier(program.name)``. They declare and define
        ``void NAME(const double *q, …, double *G)`` for one state and ``void NAME_batch(size_t n, …)`` for n states
        that lie one after the other. Arrays are row-major and must not overlap.
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
        self.program, self.scalar = program, scalar
        self.suffix = "f" if scalar == "float" else ""
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
        flat = [int(k) for group in program.graph.outputs for k in group]
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
        parts, n_slots = cut(self.program.graph, self.goals, UNCUT, PART)
        if len(parts) == 1:
            lines += self._function(_signature(f"static {state}", self.declared), self.parameters, parts[0], True)
        else:
            workspace = [*self.declared, f"{self.scalar} *w"]
            for k, part in enumerate(parts):
                signature = _signature(f"static {self.name}_part{k}", workspace)
                lines += self._function(signature, [*self.parameters, "w"], part, k == 0)
            calls = (f"{self.name}_part{k}({', '.join([*self.parameters, 'w'])});" for k in range(len(parts)))
            lines += _block(
                _signature(f"static {state}", self.declared), [f"{self.scalar} w[{max(n_slots, 1)}];", "", *calls]
            )
        shifted = (f"{x} + {array.size} * i" for x, array in zip(self.parameters, self.arrays, strict=True))
        loop = ["size_t i;", "", "for (i = 0; i < n; ++i) {", f"    {state}({', '.join(shifted)});", "}"]
        lines += _block(_signature(self.name, self.declared), [f"{state}({passed});"])
        lines += _block(_signature(f"{self.name}_batch", ["size_t n", *self.declared]), loop)
        return "\n".join(lines) + "\n"

    def _function(self, signature: str, parameters: list[str], part: Part, first: bool) -> list[str]:
        statements = [*(self._leaves() if first else ()), *self._statements(part)]
        named = set(re.findall(r"[A-Za-z_]\w*(?=\[)", "\n".join(statements)))
        unused = (f"(void){name};" for name in parameters if name not in named)  # else compilers warn
        return _block(signature, [*statements, *unused])

    def _leaves(self) -> Iterator[str]:
        """Results that are constants or inputs."""
        for k, goals in self.goals.items():
            if self.program.graph.op[k] < Op.ADD:
                yield from (f"{goal} = {self._leaf(k)};" for goal in goals)

    def _statements(self, part: Part) -> Iterator[str]:
        """Each operation where it stands, its operands from elsewhere just before it, results as soon as known."""
        graph, here = self.program.graph, set(part.nodes)
        for k in part.nodes:
            operands = operands_of(graph, k)
            for x in operands:
                if x not in here and graph.op[x] != Op.CONSTANT:
                    here.add(x)
                    yield f"const {self.scalar} t{x} = {f'w[{part.loads[x]}]' if x in part.loads else self._leaf(x)};"
            shown = (self._operand(x) for x in operands)
            yield f"const {self.scalar} t{k} = {_EXPRESSIONS[int(graph.op[k])].format(*shown, f=self.suffix)};"
            if k in part.stores:
                yield f"w[{part.stores[k]}] = t{k};"
            yield from (f"{goal} = t{k};" for goal in self.goals.get(k, ()))

    def _leaf(self, k: int) -> str:
        graph = self.program.graph
        is_input = graph.op[k] == Op.INPUT
        return self.inputs[int(graph.a[k])] if is_input else literal(float(graph.value[k]), self.scalar)

    def _operand(self, k: int) -> str:
        if self.program.graph.op[k] != Op.CONSTANT:
            return f"t{k}"
        text = self._leaf(k)
        return f"({text})" if text.startswith("-") else text


def _block(signature: str, statements: Iterable[str]) -> list[str]:
    return ["", signature, "{", *(f"    {line}".rstrip() for line in statements), "}"]


def _signature(name: str, parameters: list[str]) -> str:
    storage, _, name = name.rpartition(" ")
    return f"{storage} void {name}({', '.join(parameters) or 'void'})".lstrip()


def _elements(arrays: Iterable[Argument | Result], names: Iterable[str]) -> list[str]:
    return [f"{name}[{k}]" for array, name in zip(arrays, names, strict=True) for k in range(array.size)]
