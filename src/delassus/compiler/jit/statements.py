"""Statements of compiled loops, from Python's syntax tree to assembly: one function for arguments of certain types."""

from __future__ import annotations

import ast
import functools
import inspect
from collections import Counter
from collections.abc import Callable
from types import FunctionType

from delassus.compiler.jit.expressions import NOTHING_AT_ALL, Called, CompiledFunction, Expressions, returned
from delassus.compiler.jit.text import LOOP
from delassus.compiler.jit.types import (
    INT,
    NOTHING,
    ArrayOf,
    Number,
    TupleOf,
    Type,
    Value,
    items_of,
    joined,
    operands_of,
)


@functools.cache
def tree_of(function: FunctionType) -> ast.FunctionDef:
    """Syntax tree of a function."""
    lines, _ = inspect.findsource(function)
    return _functions("".join(lines))[function.__code__.co_firstlineno]


@functools.lru_cache(maxsize=256)
def _functions(source: str) -> dict[int, ast.FunctionDef]:
    """All functions of a file by their first lines, those of decorators."""
    found, left = dict[int, ast.FunctionDef](), list[ast.AST]([ast.parse(source)])
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef):
            found[min([node.lineno, *(x.lineno for x in node.decorator_list)])] = node
        left += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    return found


def _changes(node: ast.AST) -> str | None:
    """The variable that a node gives a value to."""
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None


class FunctionBody(Expressions):
    """A function for arguments of certain types.

    A variable has the widest type of what is assigned to it. The body is translated until types stay: once, or twice.
    What is assigned once, and not in a branch or a loop, is no variable but a name.
    """

    def __init__(
        self,
        name: str,
        loop: CompiledFunction,
        arguments: list[Type],
        call: Callable[[CompiledFunction, list[Type]], Called],
        checked: bool,
    ) -> None:
        super().__init__(loop.function, call, checked)
        self.loop = loop
        tree = tree_of(loop.function)
        nodes = list(ast.walk(tree))
        self._returns = any(isinstance(node, ast.Return) and node.value is not None for node in nodes)
        self._known: Type | None = None if self._returns else NOTHING
        self._ends, self._held = list[tuple[str, str]](), list[str]()
        names = [argument.arg for argument in tree.args.args]
        self._changed = Counter(map(_changes, nodes))
        whole = (statement for statement in tree.body if isinstance(statement, ast.Assign | ast.AnnAssign))
        self._once = {name for x in whole for name in map(_changes, ast.walk(x)) if self._changed[name] == 1} - {*names}
        while True:
            before = (dict(self.kinds), self._known, self.allocates)
            self.slots, self.lines, self.places, self.products, self._names = [], [], {}, {}, 0
            self.fixed, self._held, self._widened = {}, [], False
            for variable, kind in self.kinds.items():
                self._reserve(variable, kind)
            self._take(names, arguments)
            for statement in tree.body:
                self.statement(statement)
            if before == (self.kinds, self._known, self.allocates) or not (self._widened or self.allocates):
                break
        assert self._known is not None
        self.called = Called(name, self._whole(name, arguments, self._known), self._known, self.allocates)

    def _reserve(self, variable: str, kind: Type) -> None:
        self.places[variable] = [self.slot(llvm) for llvm in operands_of(kind)]

    def _take(self, names: list[str], arguments: list[Type]) -> None:
        """Arguments become variables, if they change."""
        at = 0
        for name, kind in zip(names, arguments, strict=True):
            size = len(operands_of(kind))
            value = Value(kind, tuple(f"%a{k}" for k in range(at, at + size)))
            if name in self._changed:
                self.assign(name, value)
            else:
                self.fixed[name] = value
            at += size

    def _whole(self, name: str, arguments: list[Type], result: Type) -> str:
        kinds = [llvm for kind in arguments for llvm in operands_of(kind)]
        operands = [f"{llvm} %a{k}" for k, llvm in enumerate(kinds)]
        attributes = "alwaysinline nounwind" if self.loop.is_inlined else "nounwind"
        if result == NOTHING:
            if self.allocates:
                self.release([])
            self.lines.append("ret void")
        else:
            self.lines.append("unreachable")
        lines = list(self.slots)
        if self.allocates:
            operands.insert(0, "ptr %heap")
            lines.append("%mark = load ptr, ptr %heap")
            lines += [f"store ptr null, ptr {place}" for place in self._holders()]
        head = f"define internal {returned(operands_of(result))} @{name}({', '.join(operands)}) {attributes} {{"
        return "\n".join([head, "entry:", *lines, *self.lines, "}"])

    def _holders(self) -> list[str]:
        """Stack slots in which variables keep addresses of arrays."""
        return [
            place
            for name, kind in self.kinds.items()
            for llvm, place in zip(operands_of(kind), self.places[name], strict=True)
            if llvm == "ptr"
        ]

    # -- statements --------------------------------------------------------------------------------------------------

    def statement(self, node: ast.stmt) -> None:
        """Instructions for a statement; errors say where it is."""
        self.line = node.lineno
        try:
            method = getattr(self, f"_{type(node).__name__}", None)
            if method is None:
                raise TypeError(f"{type(node).__name__} is not compiled")
            method(node)
        except (TypeError, KeyError, IndexError, AssertionError) as error:
            if "line " in str(error):
                raise
            file = inspect.getsourcefile(self.function)
            raise TypeError(f"{file}, line {node.lineno}, {ast.unparse(node)[:80]}: {error}") from error

    def assign(self, name: str, value: Value) -> None:
        """Give a variable a value, and a type that holds it; none to ``_``, which is not read."""
        if name == "_":
            return
        if name in self._once:
            self.fixed[name] = value
            for x in value.operands:  # sums are rounded with products of their own expression alone
                self.products.pop(x, None)
            self._held += [x for llvm, x in zip(operands_of(value.type), value.operands, strict=True) if llvm == "ptr"]
            return
        before = self.kinds.get(name)
        kind = value.type if before is None else joined(before, value.type)
        if kind != before:
            self._widened = self._widened or before is not None
            self.kinds[name] = kind
            self._reserve(name, kind)
        self.keep(self.converted(value, kind), self.places[name])

    def assign_to(self, target: ast.expr, value: Value) -> None:
        """Give a value to a name, to names of a tuple, or to a place of an array."""
        if isinstance(target, ast.Name):
            self.assign(target.id, value)
        elif isinstance(target, ast.Tuple):
            if not isinstance(value.type, TupleOf) or len(value.type.items) != len(target.elts):
                raise TypeError(f"{len(target.elts)} names for {value.type}")
            for item, part in zip(target.elts, items_of(value), strict=True):
                self.assign_to(item, part)
        elif isinstance(target, ast.Subscript):
            if isinstance(target.slice, ast.Slice):
                whole = self.value(target.value)
                if not isinstance(whole.type, ArrayOf) or not isinstance(value.type, Number):
                    raise TypeError(f"{value.type} in a part of {whole.type}")
                self.each(whole, lambda _: value)
                return
            place = self.place(target)
            assert isinstance(place.type, ArrayOf)
            if place.type.ndim:
                raise TypeError(f"{value.type} in place of {place.type}")
            self.store(place, value)
        else:
            raise TypeError(f"values for {type(target).__name__} are not compiled")

    def _Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.assign_to(target, value)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign_to(node.target, self.value(node.value))

    def _AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            place = self.place(node.target)
            self.store(place, self.binary(node.op, self.load(place), node.value))
        else:
            self.assign_to(node.target, self.binary(node.op, self.value(node.target), node.value))

    def _Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _Pass(self, node: ast.Pass) -> None:
        pass

    def _Return(self, node: ast.Return) -> None:
        value = NOTHING_AT_ALL if node.value is None else self.value(node.value)
        before, self._known = self._known, value.type if self._known is None else joined(self._known, value.type)
        self._widened = self._widened or self._known != before is not None
        value = self.converted(value, self._known)
        kinds = operands_of(self._known)
        if self.allocates:
            self.release([x for llvm, x in zip(kinds, value.operands, strict=True) if llvm == "ptr"])
        if not kinds:
            self.leave("ret void")
            return
        if len(kinds) == 1:
            self.leave(f"ret {kinds[0]} {value.operands[0]}")
            return
        whole, kind = "poison", returned(kinds)
        for k, (llvm, x) in enumerate(zip(kinds, value.operands, strict=True)):
            whole = self.do(f"insertvalue {kind} {whole}, {llvm} {x}, {k}")
        self.leave(f"ret {kind} {whole}")

    def _If(self, node: ast.If) -> None:
        yes, no, end = self.label(), self.label(), self.label()
        self.branch(self.truth(self.value(node.test)), yes, no)
        for statement in node.body:
            self.statement(statement)
        self.lines += [f"br label %{end}", f"{no}:"]
        for statement in node.orelse:
            self.statement(statement)
        self.begin(end)

    def _repeat(self, statements: list[ast.stmt], onward: str, end: str) -> None:
        """The body of a loop, which goes on at ``onward``; arrays that it made and no variable holds are given back."""
        before = self.made
        self._ends.append((onward, end))
        for statement in statements:
            self.statement(statement)
        self._ends.pop()
        self.begin(onward)
        if self.made > before:
            self.release([*self._held, *(self.do(f"load ptr, ptr {place}") for place in self._holders())])

    def _While(self, node: ast.While) -> None:
        head, body, onward, end = self.label(), self.label(), self.label(), self.label()
        self.begin(head)
        self.branch(self.truth(self.value(node.test)), body, end)
        self._repeat(node.body, onward, end)
        self.lines += [f"br label %{head}, {LOOP}", f"{end}:"]

    def _Break(self, node: ast.Break) -> None:
        self.leave(f"br label %{self._ends[-1][1]}")

    def _Continue(self, node: ast.Continue) -> None:
        self.leave(f"br label %{self._ends[-1][0]}")

    def _For(self, node: ast.For) -> None:
        step = 1
        if isinstance(node.iter, ast.Call) and self.object_of(node.iter.func) is range:
            bounds = list(node.iter.args)
            if len(bounds) == 3:
                step = ast.literal_eval(bounds.pop())
            limits = [self.number(bound, INT) for bound in bounds]
            first, last = limits if len(limits) == 2 else ("0", limits[0])
            self._count(node, first, last, step, lambda k: Value(INT, (k,)))
            return
        over = self.value(node.iter)
        self.assign(f"over {node.lineno}", over)  # held as long as the loop lasts
        if isinstance(over.type, ArrayOf):

            def item(k: str) -> Value:
                place = self.part(over, [k])
                assert isinstance(place.type, ArrayOf)
                return place if place.type.ndim else self.load(place)

            self._count(node, "0", over.operands[1], 1, item)
        elif isinstance(over.type, TupleOf) and over.type.items:
            places, kind = self.spread(over)
            self._count(node, "0", str(len(over.type.items)), 1, lambda k: self.gathered(places, kind, k))
        else:
            raise TypeError(f"a loop over {over.type}")

    def _count(self, node: ast.For, first: str, last: str, step: int, item: Callable[[str], Value]) -> None:
        """A loop over numbers; what it counts with is not the variable, which the body may change."""
        head, body, onward, end, at = self.label(), self.label(), self.label(), self.label(), self.slot("i64")
        self.lines.append(f"store i64 {first}, ptr {at}")
        self.begin(head)
        k = self.do(f"load i64, ptr {at}")
        self.branch(self.do(f"icmp {'slt' if step > 0 else 'sgt'} i64 {k}, {last}"), body, end)
        self.assign_to(node.target, item(k))
        self._repeat(node.body, onward, end)
        k = self.do(f"load i64, ptr {at}")
        self.lines += [
            f"store i64 {self.do(f'add nsw i64 {k}, {step}')}, ptr {at}",
            f"br label %{head}, {LOOP}",
            f"{end}:",
        ]
