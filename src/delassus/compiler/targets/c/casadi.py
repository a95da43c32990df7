"""CasADi's calling interface in C, for what loads or links such functions: ``casadi.external``, acados.

Next to ``NAME`` it declares ``NAME_casadi``, its Jacobian ``jac_…``, if asked its cotangents ``adj1_…`` and their
Jacobian ``jac_adj1_…``, and functions of fixed names that tell numbers, names and sparsities of arguments and results.
Matrices lie column by column, a missing argument is zero, a missing result is not wanted. The sparsity of a block is
rows, columns and 1 if all entries are there, else where each column starts and the rows of entries. Nothing is
allocated, and nothing is kept between calls.

Source: CasADi's documentation, "Using the generated code".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from delassus.compiler.program.program import Program, Result
from delassus.compiler.targets.casadi import jacobian_blocks, matrix_shape
from delassus.constraints import Argument

ABOUT = (
    "For CasADi and acados: as CasADi's own C code, matrices column by column; jac_ is the Jacobian, adj1_ cotangents."
)
"""Comment of the header."""

DEFINITIONS = (
    "#ifndef casadi_int",
    "#define casadi_int long long int",
    "#endif",
    "#ifndef CASADI_SYMBOL_EXPORT",
    "#ifdef _WIN32",
    "#define CASADI_SYMBOL_EXPORT __declspec(dllexport)",
    "#else",
    "#define CASADI_SYMBOL_EXPORT",
    "#endif",
    "#endif",
)
"""Of the header: the type that whoever calls may have chosen, acados ``int``."""

_CALL = "int {name}(const double **arg, double **res, casadi_int *iw, double *w, int mem)"
_NUMBER = "casadi_int {name}_n_{way}(void)"
_NAME = "const char *{name}_name_{way}(casadi_int i)"
_SPARSITY = "const casadi_int *{name}_sparsity_{way}(casadi_int i)"
_WORK = "int {name}_work(casadi_int *sz_arg, casadi_int *sz_res, casadi_int *sz_iw, casadi_int *sz_w)"

Slot = tuple[str, tuple[int, ...]]
"""Name and sparsity of an argument or result."""


@dataclass(frozen=True, slots=True)
class Interface:
    """A function for CasADi around the C function ``state`` of one state of a program.

    ``ins`` and ``outs`` are what CasADi sees: the arrays of the program, by their names, and others that are not read
    or have no entries.
    """

    name: str
    state: str
    program: Program
    ins: Sequence[Slot]
    outs: Sequence[Slot]

    def declarations(self) -> Iterator[str]:
        """Prototypes of all functions."""
        for signature, _ in self._functions():
            yield f"CASADI_SYMBOL_EXPORT {signature};"

    def definitions(self) -> Iterator[str]:
        """All functions."""
        for signature, body in self._functions():
            yield from ("", signature, "{", *(f"    {line}".rstrip() for line in body), "}")

    def _functions(self) -> Iterator[tuple[str, list[str]]]:
        body, n_work = self._call()
        yield _CALL.format(name=self.name), body
        for way, slots in (("in", self.ins), ("out", self.outs)):
            of = {"name": self.name, "way": way}
            yield _NUMBER.format(**of), [f"return {len(slots)};"]
            yield _NAME.format(**of), _cases((f'"{name}"' for name, _ in slots), [])
            tables = [", ".join(map(str, sparsity)) for _, sparsity in slots]
            known = list(dict.fromkeys(tables))
            lines = [f"static const casadi_int s{k}[] = {{{table}}};" for k, table in enumerate(known)]
            yield _SPARSITY.format(**of), _cases((f"s{known.index(table)}" for table in tables), lines)
        sizes = {"arg": len(self.ins), "res": len(self.outs), "iw": 0, "w": n_work}
        yield _WORK.format(name=self.name), [f"if (sz_{k}) *sz_{k} = {n};" for k, n in sizes.items()] + ["return 0;"]

    def _call(self) -> tuple[list[str], int]:
        """Body of the function itself, and the numbers that it needs for what it lays out anew or nobody wants."""
        arguments, results = self.program.arguments, self.program.results
        ins, outs = ([name for name, _ in slots] for slots in (self.ins, self.outs))
        n_work, before, after, passed = 0, list[str](), list[str](), list[str]()
        for argument in arguments:
            k = ins.index(argument.name)
            n_rows, n_columns = matrix_shape(argument)
            given = f"arg[{k}] ? arg[{k}] : zeros"
            if min(n_rows, n_columns) > 1:
                before.append(f"{self.state}_transpose({n_rows}, {n_columns}, {given}, w + {n_work});")
                given, n_work = f"w + {n_work}", n_work + argument.size
            passed.append(given)
        for result in results:
            k = outs.index(result.name)
            n_rows, n_columns = matrix_shape(result)
            given = f"res[{k}] ? res[{k}] : w + {n_work}"
            if min(n_rows, n_columns) > 1:
                given = f"w + {n_work}"
                after.append(f"if (res[{k}]) {self.state}_transpose({n_columns}, {n_rows}, {given}, res[{k}]);")
            passed.append(given)
            n_work += result.size
        largest = max((a.size for a in arguments), default=0)
        call = [f"{self.state}(", *(f"    {x}{',' * (k < len(passed) - 1)}" for k, x in enumerate(passed)), ");"]
        body = [f"static const double zeros[{max(1, largest)}] = {{0}};", "", *before, *call, *after]
        unused = [x for x in ("arg", "res", "zeros") if x not in "".join(body[1:])] + ["iw", "mem"]
        return [*body, *(f"(void){x};" for x in unused), *(["(void)w;"] if not n_work else []), "return 0;"], n_work

    def transpose(self) -> list[str]:
        """Function that lays a matrix out by rows that lies by columns, if any does."""
        shapes = [*map(matrix_shape, self.program.arguments), *map(matrix_shape, self.program.results)]
        if max(map(min, shapes), default=0) <= 1:
            return []
        return [
            "",
            "/* b, n x m row by row, of a, column by column. */",
            f"static void {self.state}_transpose(int n, int m, const double *a, double *b)",
            "{",
            "    int i, j;",
            "    for (i = 0; i < n; ++i)",
            "        for (j = 0; j < m; ++j) b[i * m + j] = a[j * n + i];",
            "}",
        ]


def flattened(program: Program, jacobian: Program) -> Program:
    """The Jacobian of a program with its blocks for results: the entries that are not always zero, column by column."""
    blocks = jacobian_blocks(program, jacobian)
    results = tuple(Result(b.name, (len(b.entries),), b.entries) for b in blocks)
    return replace(jacobian, arguments=program.arguments, results=results)


def adjoint(program: Program, cotangents: Program) -> Program:
    """The cotangents of a program, by the names that CasADi has for them."""
    n = len(program.arguments)
    given = (replace(a, name=f"adj_{r.name}") for a, r in zip(cotangents.arguments[n:], program.results, strict=True))
    results = (replace(r, name=f"adj_{a.name}") for r, a in zip(cotangents.results, program.arguments, strict=True))
    return replace(cotangents, arguments=(*cotangents.arguments[:n], *given), results=tuple(results))


Function = tuple[str, Program, Sequence[Slot], Sequence[Slot]]
"""Prefix of the name, program of the C function, and what CasADi sees."""


def functions(program: Program, derivatives: Sequence[Program]) -> Iterator[Function]:
    """Functions for CasADi: a program, its Jacobian, and, where they are given, its cotangents and their Jacobian."""
    ins, outs = _slots(program.arguments), _slots(program.results)
    nothing = _unread(program.results)
    yield "", program, ins, outs
    jacobian, *second = derivatives
    yield "jac_", flattened(program, jacobian), [*ins, *nothing], _block_slots(program, jacobian)
    if second:
        cotangents, hessian = adjoint(program, second[0]), second[1]
        ins = [*ins, *nothing, *_slots(cotangents.arguments[len(ins) :])]
        yield "adj1_", cotangents, ins, _slots(cotangents.results)
        blocks = dict(_block_slots(cotangents, hessian))
        numbers = {r.name: r.size for r in program.results}
        every: list[Slot] = []
        for result in cotangents.results:
            for name, _ in ins:
                block, n_columns = f"jac_{result.name}_{name}", numbers.get(name.removeprefix("out_"), 0)
                every.append((block, blocks.get(block, (result.size, n_columns, *([0] * (n_columns + 1))))))
        yield "jac_adj1_", flattened(cotangents, hessian), [*ins, *_unread(cotangents.results)], every


def _block_slots(program: Program, jacobian: Program) -> list[Slot]:
    return [(b.name, (*b.shape, *b.starts, *b.rows)) for b in jacobian_blocks(program, jacobian)]


def _slots(arrays: Sequence[Argument | Result]) -> list[Slot]:
    return [(a.name, (*matrix_shape(a), 1)) for a in arrays]


def _unread(results: Sequence[Result]) -> list[Slot]:
    """Nominal results, which derivatives are given and do not read."""
    shapes = [(f"out_{r.name}", matrix_shape(r)) for r in results]
    return [(name, (n_rows, n_columns, *([0] * (n_columns + 1)))) for name, (n_rows, n_columns) in shapes]


def _cases(values: Iterator[str], before: list[str]) -> list[str]:
    """Body of a function that returns one of these, by its argument i."""
    cases = [f"    case {k}: return {value};" for k, value in enumerate(values)]
    return [*before, "switch (i) {", *cases, "    default: return 0;", "}"]
