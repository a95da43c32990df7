"""C99 of a program: one header and one source file that need nothing but ``math.h``, for one state or a batch.

Operations are in the graph's order, what is used once inside of what uses it. Compilers are told to fuse nothing but
what the program says: the numbers are those of all targets, rounding by rounding. Long programs are cut into static
functions, because compilers take more than linear time for a function; the values that cross a cut lie in a workspace
on the stack.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from delassus.compiler.passes.allocate import Act, allocate
from delassus.compiler.program.batched_calls import CallRows, c_table
from delassus.compiler.program.program import Program, Result, Stage
from delassus.compiler.targets.c.casadi import ABOUT, DEFINITIONS, Interface, functions
from delassus.compiler.targets.c.functions import FUSED, HEAD, NEGATED, definitions
from delassus.compiler.targets.c.text import Scalar, comment, identifier, literal
from delassus.constraints import Argument
from delassus.errors import ConfigurationError
from delassus.model.check import written
from delassus.spatial.trace.operations import CALL, OPERATIONS, PRODUCT, SUM, Op, arity

GATHERED = 40
"""Values of a result that stages have set from which on they are copied in a loop."""

STACK = 1 << 20
"""Bytes of an array of values that wait, up to which it is on the stack; a longer one is allocated in each call."""

UNCUT = 4000
"""Longest program, in operations, that stays one function."""

PART = 2000
"""Operations of one function of a longer program."""

NAME = 4
"""Usual length of a name."""

DEEPEST, LONGEST = 12, 100
"""Bounds on expressions, in operations within one another and in characters, for compilers and for people."""


def c_source(program: Program, dtype: Scalar = "double", derivatives: Sequence[Program] = ()) -> tuple[str, str]:
    """Header and source of a program, with all numbers of type ``dtype``.

    With NAME as of ``identifier(program.name)``, they declare and define ``void NAME(const double *q, …, double *G)``
    for one state, and ``void NAME_batch(size_t n, …)`` for n states that lie one after the other. With ``derivatives``,
    the program of the Jacobian, or that, of cotangents and of their Jacobian, they have ``NAME_casadi``, too, CasADi's
    calling interface of all.
    """
    text = _Text(program, dtype)
    if not derivatives:
        return text.header(), text.source()
    declared, defined = [f"/* {ABOUT} */", *DEFINITIONS], list[str]()
    for prefix, made, ins, outs in functions(program, derivatives):
        inner = _Text(replace(made, name=f"{text.name}_{prefix}".rstrip("_")), dtype) if prefix else text
        interface = Interface(f"{prefix}{text.name}_casadi", f"{inner.name}_state", made, ins, outs)
        declared += interface.declarations()
        defined += [*(inner.functions() if prefix else ()), *interface.transpose(), *interface.definitions()]
    return text.header(declared), text.source(defined)


def write_c(
    program: Program, folder: str | Path, dtype: Scalar = "double", derivatives: Sequence[Program] = ()
) -> tuple[Path, Path]:
    """Write ``NAME.h`` and ``NAME.c`` (see `c_source`) into a folder, which is made if need be; returns their paths.

    Raises
    ------
    ConfigurationError
        Derivatives, and numbers of type float: CasADi's are double.
    FileError
        The folder cannot be made or written to: an `OSError`. What was there stays as it was.
    """
    if derivatives and dtype != "double":
        raise ConfigurationError(
            "casadi", "0 with float32", "derivatives", "CasADi's numbers are double: take float64."
        )
    folder = Path(folder)
    name = identifier(program.name)
    paths = folder / f"{name}.h", folder / f"{name}.c"
    texts = c_source(program, dtype, derivatives)
    with written(paths[0], "header") as header, written(paths[1], "source") as source:
        for part, text in zip((header, source), texts, strict=True):
            part.write_text(text, encoding="utf-8", newline="\n")
    return paths


class _Text:
    """Text of the header and of the source of a program."""

    def __init__(self, program: Program, scalar: Scalar) -> None:
        self.program, self.scalar = program, scalar
        self.name = identifier(program.name)
        self.arrays: tuple[Argument | Result, ...] = (*program.arguments, *program.results)
        taken: list[str] = [self.name, f"{self.name}_batch", f"{self.name}_state"]
        for array in self.arrays:
            taken.append(identifier(array.name, taken))
        self.parameters = taken[3:]
        n = len(program.arguments)
        types = [f"const {scalar} *"] * n + [f"{scalar} *"] * len(program.results)
        self.declared = [kind + name for kind, name in zip(types, self.parameters, strict=True)]
        inputs = _elements(program.arguments, self.parameters[:n])
        inputs += [f"s[{k}]" for k in range(program.n_values)]
        self.sections = []
        for k, stage in enumerate(program.before):
            self.sections.append(_Section(f"stage{k}_", stage, scalar, inputs))
        flat, nodes = program.graph.flat_outputs(), program.graph.nodes()
        ends, self.gathered = list[tuple[int, str]](), dict[str, list[int]]()
        for name, result in zip(self.parameters[n:], program.results, strict=True):
            entries = [flat[k] for k in result.entries]
            set_before = [nodes[k][0] == Op.INPUT and nodes[k][1] >= program.n_inputs for k in entries]
            if sum(set_before) >= GATHERED:
                self.gathered[name] = [
                    nodes[k][1] - program.n_inputs if x else 0 for k, x in zip(entries, set_before, strict=True)
                ]
            else:
                set_before = [False] * len(entries)
            ends += [(k, f"{name}[{i}]") for i, k in enumerate(entries) if not set_before[i]]
        self.sections.append(_Section("", Stage(program.graph, ()), scalar, inputs, ends))
        self.shared = {
            "s": program.n_values,
            "r": max(len(x.copies) for x in self.sections),
            "w": max(x.n_slots for x in self.sections),
        }
        self.allocated = [x for x, size in self.shared.items() if size * (8 if scalar == "double" else 4) > STACK]

    def header(self, further: Sequence[str] = ()) -> str:
        """``NAME.h``, with further declarations."""
        guard = f"{self.name}_h".upper()
        n = len(self.program.arguments)
        kept = "A call allocates memory, without which results are NaN" if self.allocated else "Nothing is allocated"
        about = [
            *self.program.comment,
            "",
            *self._layout("Arguments, for one state:", 0, n),
            *self._layout("Results, for one state:", n, len(self.arrays)),
            "",
            f"Arrays are row-major and must not overlap. {kept}, and nothing is kept between calls.",
        ]
        lines = [
            *comment(about),
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stddef.h>",
            "",
            "/* Numbers in each array, for one state. */",
            *self._sizes(),
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
            *further,
            *([""] if further else []),
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            "#endif",
        ]
        return "\n".join(lines) + "\n"

    def _sizes(self) -> Iterator[str]:
        for name, array in zip(self.parameters, self.arrays, strict=True):
            yield f"#define {self.name.upper()}_SIZE_{name} {array.size}"

    def _layout(self, title: str, start: int, stop: int) -> Iterator[str]:
        if start < stop:
            yield title
        for name, array in zip(self.parameters[start:stop], self.arrays[start:stop], strict=True):
            shape = " x ".join(str(n) for n in array.shape) or "one number"
            yield f"  {name}: {self.scalar}[{array.size}], {shape}{array.meaning and f'; {array.meaning}'}"

    def source(self, further: Iterable[str] = ()) -> str:
        """``NAME.c``, with further functions. All call a static one, which no symbol of another library can replace."""
        lines = [
            *comment(self.program.comment),
            f'#include "{self.name}.h"',
            "",
            *(("#include <stdlib.h>", "#include <string.h>", "") if self.allocated else ()),
            *HEAD,
        ]
        state, passed = f"{self.name}_state", ", ".join(self.parameters)
        shifted = (f"{x} + {array.size} * i" for x, array in zip(self.parameters, self.arrays, strict=True))
        loop = ["size_t i;", "", "for (i = 0; i < n; ++i) {", f"    {state}({', '.join(shifted)});", "}"]
        body = [*self.functions(), *_block(_signature(self.name, self.declared), [f"{state}({passed});"])]
        body += _block(_signature(f"{self.name}_batch", ["size_t n", *self.declared]), loop)
        body += further
        return "\n".join([*lines, *definitions(body, self.scalar), *body]) + "\n"

    def functions(self) -> list[str]:
        """Static functions, the last one for one state."""
        lines, body, state, shared = list[str](), list[str](), f"{self.name}_state", self.shared
        kinds = dict(zip(self.parameters, self.declared, strict=True))
        kinds |= {name: f"{self.scalar} *{name}" for name in shared} | {"row": "const int *row"}
        used = set[str]()
        for section in self.sections:
            if section.rows is not None:
                table = section.rows.c_table(f"{self.name}_{section.name}rows", self.program.n_inputs)
                lines += ["", *table]
            if section is self.sections[-1]:
                for result, places in self.gathered.items():
                    lines += ["", *c_table(f"{self.name}_{result}_from", str(len(places)), places)]
                    loop = f"for (k = 0; k < {len(places)}; ++k)"
                    body.append(f"{loop} {result}[k] = s[{self.name}_{result}_from[k]];")
                    used |= {result, "s"}
            calls = list[str]()
            for k in range(len(section.parts)):
                statements, named = self._statements(section, k)
                used |= named
                if len(self.sections) == len(section.parts) == 1:
                    body = statements
                    break
                function, operands = f"{self.name}_{section.name}part{k}", [name for name in kinds if name in named]
                lines += _block(_signature(f"static {function}", [kinds[name] for name in operands]), statements)
                calls.append(f"{function}({', '.join(operands)});")
            run = list(section.passes(self.name, calls))
            if section.unless is not None:
                run = [f"if ({section.unless} == 0) {{", *(f"    {line}" for line in run), "}"]
            body += run
        needed = {name: size for name, size in shared.items() if name in used and size}
        arrays = [
            f"{self.scalar} *{name} = ({self.scalar} *)malloc({size} * sizeof({self.scalar}));"
            if name in self.allocated
            else f"{self.scalar} {name}[{size}];"
            for name, size in needed.items()
        ]
        if self.gathered or any(section.copies or section.rows for section in self.sections):
            arrays.append("int k;")
        unused = [f"(void){name};" for name in self.parameters if name not in used]  # else compilers warn
        if held := [name for name in needed if name in self.allocated]:
            none = zip(self.parameters[-len(self.program.results) :], self.program.results, strict=True)
            body = [
                f"if ({' && '.join(held)}) {{",
                *(f"    {line}" for line in body),
                "} else {",
                *(f"    memset({name}, 255, {result.size} * sizeof({self.scalar}));" for name, result in none),
                "}",
                *(f"free({name});" for name in held),
            ]
        body = [*arrays, *([""] if arrays else []), *body, *unused]
        return lines + _block(_signature(f"static {state}", self.declared), body)

    def _statements(self, section: _Section, part: int) -> tuple[list[str], set[str]]:
        """Statements of a part, and the arrays that they name."""
        statements = [*(section.leaves() if not part else ()), *section.statements(part)]
        named = set(re.findall(r"[A-Za-z_]\w*(?=\[)", "\n".join(statements)))
        if section.rows is None:
            return statements, named
        pointers = section.rows.c_pointers(self.scalar)
        return [*(x for k, x in enumerate(pointers) if f"p{k}" in named), *statements], named | {"s", "row"}


class _Section:
    """A stage of a program, or its last part: ``ends`` are pairs of its nodes and of where their values go.

    Of a loop, ``copies`` say what is set at the end of a pass, and from where; ``rows``, where the values of calls are.
    """

    def __init__(
        self, name: str, stage: Stage, scalar: Scalar, inputs: list[str], ends: Iterable[tuple[int, str]] | None = None
    ) -> None:
        graph = stage.graph
        self.name, self.scalar, self.inputs, self.times = name, scalar, inputs, stage.times
        self.unless = None if stage.unless is None else inputs[stage.unless]
        self.nodes, self.numbers, outputs = graph.nodes(), graph.value.tolist(), graph.flat_outputs()
        self.rows = CallRows(stage) if stage.calls else None
        goals = [inputs[target] for target in stage.targets]
        if self.rows is not None:
            columns = [self.rows.c_place(k) for k in range(len(self.rows.places))]
            self.inputs, goals = columns[: self.rows.n_given], columns[self.rows.n_given :]
        made = [f"r[{k}]" for k in range(len(goals))] if stage.is_loop else goals
        self.copies = list(zip(goals, made, strict=True)) if stage.is_loop else []
        self.goals: dict[int, list[str]] = {}  # where the value of a node is stored
        for k, goal in zip(outputs, made, strict=True) if ends is None else ends:
            self.goals.setdefault(k, []).append(goal)
        length = len(graph) if graph.count().total <= UNCUT else PART
        # registers are the business of the compiler of C
        self.parts, self.n_slots = allocate(graph, self.goals, len(graph), max(1, length))

    def passes(self, program: str, calls: Sequence[str]) -> Iterator[str]:
        """Run the parts, by these calls: those of a loop until its last pass or until its values have stopped."""
        if self.rows is not None:
            yield from self.rows.c_loop(f"{program}_{self.name}rows", calls)
            return
        if not self.copies:
            yield from calls
            return
        yield f"for (k = 0; k < {self.times} && {self.copies[-1][0]} == 0; ++k) {{"
        yield from (f"    {line}" for line in calls)
        yield from (f"    {value} = {made};" for value, made in self.copies)
        yield "}"

    def leaves(self) -> Iterator[str]:
        """Outputs that are constants or inputs."""
        for k, goals in self.goals.items():
            if self.nodes[k][0] < Op.ADD:
                yield from (f"{goal} = {self._place(k)};" for goal in goals)

    def statements(self, part: int) -> Iterator[str]:
        """Operations where they stand, outputs as soon as known; what is used once is written where it is used."""
        suffix, steps = "f" if self.scalar == "float" else "", self.parts[part]
        pairs = self._pairs([k for act, k, _ in steps if act == Act.COMPUTE])
        taking = (k for act, k, _ in steps if act == Act.COMPUTE and k not in pairs.values())
        uses = Counter(x for k in taking for x in self._operands(k))
        stored = {k: slot for act, k, slot in steps if act == Act.STORE}
        anew = set(stored.values())
        inside: dict[int, tuple[str, int, int]] = {}  # expressions without names, how deep they are, how they bind
        names: dict[int, str] = {}
        number = count()
        for act, k, slot in steps:
            if act == Act.STORE:
                yield f"w[{slot}] = {inside.pop(k)[0] if k in inside else names[k]};"
                continue
            deep, binds, goals = 0, CALL, self.goals.get(k, [])
            if act == Act.LOAD:
                text = self._place(k) if slot < 0 else f"w[{slot}]"
                if (slot < 0 or slot not in anew) and self._is_shorter(text, uses[k] - 1):
                    names[k] = text
                    continue
            else:
                if k in names:  # the second of a pair
                    yield from (f"{goal} = {names[k]};" for goal in goals)
                    continue
                op = self.nodes[k][0]
                known = [inside.pop(x) if x in inside else (self._named(x, names), 0, CALL) for x in self._operands(k)]
                for at in NEGATED.get(op, ()):
                    if self.nodes[self._operands(k)[at]][0] in FUSED:
                        known[at] = f"ds_kept({known[at][0]})", known[at][1], CALL
                if k in pairs:
                    both = {x: f"t{next(number)}" for x in sorted((k, pairs[k]), key=lambda x: self.nodes[x][0])}
                    names |= both
                    sine, cosine = both.values()
                    yield f"{self.scalar} {sine}, {cosine};"
                    yield f"ds_sincos({known[0][0]}, &{sine}, &{cosine});"
                    yield from (f"{goal} = {names[k]};" for goal in goals)
                    continue
                binds = OPERATIONS[op].binds
                text = OPERATIONS[op].c.format(*_within(op, known), f=suffix)
                if goals and self._is_shorter(goals[0], uses[k]):
                    yield f"{' = '.join(goals)} = {text};"
                    names[k] = goals[0]
                    continue
                deep = 1 + max(depth for _, depth, _ in known)
                if uses[k] == (k not in stored) and not goals and deep < DEEPEST and len(text) < LONGEST:
                    inside[k] = text, deep, binds
                    continue
            names[k] = f"t{next(number)}"
            yield f"const {self.scalar} {names[k]} = {text};"
            if act == Act.COMPUTE:
                yield from (f"{goal} = {names[k]};" for goal in goals)

    def _pairs(self, computed: Sequence[int]) -> dict[int, int]:
        """The second one of each sine and cosine of one angle by the first one."""
        first, pairs = dict[int, int](), dict[int, int]()
        for k in computed:
            if self.nodes[k][0] in (Op.SIN, Op.COS):
                before = first.setdefault(self.nodes[k][1], k)
                if self.nodes[before][0] != self.nodes[k][0]:
                    pairs.setdefault(before, k)
        return pairs

    def _is_shorter(self, place: str, times: int) -> bool:
        """Whether to write where a value is so many times more is shorter than to give it a name.

        Of calls it counts as longer: compilers do not know that pointers lead to different places.
        """
        return not times or (
            self.rows is None and times * (len(place) - NAME) < len(f"const {self.scalar} t = {place};")
        )

    def _operands(self, k: int) -> list[int]:
        op, *operands = self.nodes[k]
        return operands[: arity(op)]

    def _place(self, k: int) -> str:
        """Expression that reads an input, a constant or an output."""
        op, index, *_ = self.nodes[k]
        if op == Op.CONSTANT:
            return literal(float(self.numbers[k]), self.scalar)
        return self.inputs[index] if op == Op.INPUT else self.goals[k][0]

    def _named(self, k: int, names: Mapping[int, str]) -> str:
        """An operand that has a name, or a constant."""
        if k in names:
            return names[k]
        text = self._place(k)
        return f"({text})" if text.startswith("-") else text


def _within(op: int, operands: Sequence[tuple[str, int, int]]) -> Iterator[str]:
    """Operands as they stand in an operation, in parentheses where C would read something else."""
    binds = OPERATIONS[op].binds
    for k, (text, _, own) in enumerate(operands):  # equals hold from left to right
        fits = binds == CALL or own > binds or (own == binds and k == 0 and binds in (SUM, PRODUCT))
        yield text if fits else f"({text})"


def _block(signature: str, statements: Iterable[str]) -> list[str]:
    return ["", signature, "{", *(f"    {line}".rstrip() for line in statements), "}"]


def _signature(name: str, parameters: list[str]) -> str:
    storage, _, name = name.rpartition(" ")
    return f"{storage} void {name}({', '.join(parameters) or 'void'})".lstrip()


def _elements(arrays: Iterable[Argument | Result], names: Iterable[str]) -> list[str]:
    return [f"{name}[{k}]" for array, name in zip(arrays, names, strict=True) for k in range(array.size)]
