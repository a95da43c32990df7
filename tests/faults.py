"""Faults that `mutations.py` plants: changes of the text of one expression or statement, found in its syntax tree.

A condition always holds or never does, or lacks a part; a comparison is strict where it was not; an index or a constant
is off; a sign, an operator, an operand, a function or a branch is another one; a transpose or a statement is left out.
Docstrings, annotations, messages of errors, assertions and what Python calls for a representation stay as they are, and
so do whole numbers that modules name: most of these are sizes that no result depends on.
"""

from __future__ import annotations

import ast
import collections
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "delassus"

OTHER_COMPARISON = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OTHER_OPERATOR = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "//", ast.BitAnd: "|",
    ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip
OTHER_NAME = {
    "min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum", "cos": "sin",
    "sin": "cos", "floor": "ceil", "ceil": "floor", "argmin": "argmax", "argmax": "argmin", "vstack": "hstack",
    "hstack": "vstack", "zeros": "ones", "ones": "zeros", "sym_add": "sym_subtract", "sym_subtract": "sym_add",
    "rows_to_parent": "motions_to_child", "half_solve": "solve", "transpose": "absolute", "startswith": "endswith",
}  # fmt: skip
OTHER_TEXT = {
    "slt": "sle", "sle": "slt", "sgt": "sge", "sge": "sgt", "ult": "ule", "uge": "ugt", "olt": "ole", "ole": "olt",
    "ogt": "oge", "oge": "ogt", "une": "oeq", "oeq": "une", "eq": "ne", "add": "sub", "fadd": "fsub", "fsub": "fadd",
    "fmul": "fdiv", "udiv": "urem", "or": "and", "fneg": "freeze", "<": "<=", "<=": "<", "+": "-", "noalias": "",
}  # fmt: skip
"""In texts of `compiler`: instructions of LLVM and operators of C."""

TEXTS = re.compile(rf"(?<=[ '\"])({'|'.join(sorted(map(re.escape, OTHER_TEXT), key=len, reverse=True))})(?=[ '\"])")
NO_NUMBERS = {"strict", "slots", "frozen", "kw_only", "repr", "maxsize", "stacklevel"}
"""Keywords whose values decide nothing."""


@dataclass(frozen=True)
class Fault:
    """A change of the bytes ``start`` to ``end`` of a file, on a line of a block; see `Blocks`."""

    file: str
    line: int
    block: str
    kind: str
    start: int
    end: int
    before: str
    after: str

    @property
    def key(self) -> str:
        """Tells faults apart."""
        return f"{self.file}:{self.start}:{self.end}:{self.after}"

    def planted(self) -> bytes:
        """Text of the file with the fault."""
        text = (PACKAGE / self.file).read_bytes()
        return text[: self.start] + self.after.encode() + text[self.end :]

    def is_valid(self) -> bool:
        """Whether Python can read the file with it."""
        try:
            compile(self.planted(), self.file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return True


def _may_leave(node: ast.stmt) -> bool:
    """Whether what follows a statement may not run."""
    return not hasattr(node, "decorator_list") and any(
        isinstance(x, ast.Return | ast.Continue | ast.Break | ast.Raise) for x in ast.walk(node)
    )


class Blocks:
    """Blocks of statements of a file by key, ``function/number``, and the block that each node is in.

    A block ends behind a statement inside of which a function may return, or a round of a loop end. Functions that the
    library compiles from their source (``@compiled``, ``@inlined``) are one block each.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.starts: dict[str, tuple[list[ast.stmt], ast.stmt]] = {}
        self.of: dict[ast.AST, str] = {}
        self.compiled: dict[str, str] = {}
        self._counts: collections.Counter[str] = collections.Counter()
        self._body(tree.body, "", None)

    def _body(self, body: list[ast.stmt], function: str, whole: str | None) -> None:
        key, first = whole, 0
        for k, node in enumerate(body):
            if whole is None and (key is None or (first < k and _may_leave(body[k - 1]))):
                key, first = f"{function}/{self._counts[function]}", k
                self._counts[function] += 1
                self.starts[key] = body, node
            self._visit(node, function, key, whole)

    def _visit(self, node: ast.AST, function: str, key: str, whole: str | None) -> None:
        self.of[node] = key
        inner, inside = function, whole
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = f"{function}.{node.name}".strip(".")
            if {"compiled", "inlined"} & {ast.unparse(d) for d in node.decorator_list}:
                inside = f"{inner}/0"
                self.compiled[inner] = inside
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self._body(value, inner, inside)
            else:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self._visit(child, function, key, inside)


class Faults:
    """All faults of a file."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_bytes()
        self.file = path.relative_to(PACKAGE).as_posix()
        self.lines = [0, *itertools.accumulate(len(line) for line in self.text.splitlines(keepends=True))]
        tree = ast.parse(self.text)
        self.blocks = Blocks(tree)
        self.found: dict[str, Fault] = {}
        for node in tree.body:
            self._visit(node, at_top=True)

    def at(self, before: str, after: str) -> Fault:
        """The fault that puts one text in the place of another, which stands once in the file."""
        start = self.text.index(before.encode())
        end = start + len(before.encode())
        assert self.text.count(before.encode()) == 1, (self.file, before)
        around = [node for node in self.blocks.of if hasattr(node, "lineno") and self._span(node)[0] <= start]
        node = max((x for x in around if self._span(x)[1] > start), key=lambda x: self._span(x)[0])
        line = 1 + self.text[:start].count(b"\n")
        return Fault(self.file, line, self.blocks.of[node], "shortcut", start, end, before, after)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self.lines[node.lineno - 1] + node.col_offset
        return start, self.lines[node.end_lineno - 1] + node.end_col_offset

    def _source(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.text[start:end].decode()

    def _add(self, kind: str, node: ast.AST, after: str, span: tuple[int, int] | None = None) -> None:
        start, end = span or self._span(node)
        before = self.text[start:end].decode(errors="replace")
        fault = Fault(self.file, node.lineno, self.blocks.of[node], kind, start, end, before, after)
        if after == before:
            return
        self.found.setdefault(fault.key, fault)

    def _is_placed(self, node: ast.AST) -> bool:
        """Whether a node is where it says it is; in f-strings before Python 3.12 not all are."""
        try:
            return ast.dump(ast.parse(f"({self._source(node)})", mode="eval").body) == ast.dump(node)
        except (SyntaxError, UnicodeDecodeError):
            return False

    def _visit(self, node: ast.AST, at_top: bool = False, in_text: bool = False) -> None:
        """Faults of a node and of what is in it."""
        if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.FunctionDef):
            if node.name in ("__repr__", "__str__", "__dir__"):
                return
            parts = [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        elif isinstance(node, ast.ClassDef):
            parts = node.body
        elif isinstance(node, ast.AnnAssign):
            parts = [node.value] if node.value else []
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        elif isinstance(node, ast.Assign) and any(ast.unparse(t).startswith("__") for t in node.targets):
            return
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        elif isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
            parts = [node.test, *node.orelse]  # what else is in it makes the message
        else:
            parts = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.keyword) and node.arg in NO_NUMBERS:
            return
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("warn", "cast", "TypeVar"):
            return
        is_text = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        if is_text and not in_text and self.file.startswith("compiler/"):
            self._texts(node)
        if hasattr(node, "lineno") and (not in_text or (isinstance(node, ast.expr) and self._is_placed(node))):
            self._changes(node, at_top)
        stays = at_top and isinstance(node, ast.Assign | ast.AnnAssign | ast.Tuple | ast.UnaryOp | ast.BinOp)
        for child in parts:
            self._visit(child, stays, in_text or isinstance(node, ast.JoinedStr))

    def _texts(self, node: ast.AST) -> None:
        start, end = self._span(node)
        for match in TEXTS.finditer(text := self.text[start:end].decode(errors="replace")):
            first, last = (start + len(text[:at].encode()) for at in match.span())
            self._add("text", node, OTHER_TEXT[match[0]], (first, last))

    def _between(self, left: ast.AST, right: ast.AST, other: str) -> tuple[str, tuple[int, int]]:
        """Text of an operator between two operands with another in its place, and where it is."""
        start, end = self._span(left)[1], self._span(right)[0]
        gap = self.text[start:end].decode()
        return re.sub(r"(not\s+in|is\s+not|[a-z]+|[<>=!+*/%&|@-]+)", other, gap, count=1), (start, end)

    def _changes(self, node: ast.AST, at_top: bool) -> None:
        add, source = self._add, self._source
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                for a, op, b in zip([left, *others], ops, others, strict=False):
                    add("comparison", node, *self._between(a, b, OTHER_COMPARISON[type(op)]))
            case ast.BoolOp(values=values, op=op):
                own, other = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                for k, value in enumerate(values):
                    rest = [source(v) for v in values if v is not value]
                    add("condition", value, f"({f' {own} '.join(rest)})", self._span(node))
                    if k:
                        add("condition", value, *self._between(values[k - 1], value, other))
            case ast.If(test=test) | ast.IfExp(test=test):
                add("condition", test, "True")
                add("condition", test, "False")
            case ast.While(test=test):
                add("condition", test, "False")
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                for test in (test for generator in node.generators for test in generator.ifs):
                    add("condition", test, "True")
            case ast.UnaryOp(op=ast.Not(), operand=x):
                add("condition", node, source(x))
            case ast.UnaryOp(op=ast.USub(), operand=x):
                add("sign", node, source(x))
            case ast.BinOp(left=a, op=op, right=b):
                if type(op) in OTHER_OPERATOR:
                    add("operator", node, *self._between(a, b, OTHER_OPERATOR[type(op)]))
                if isinstance(op, ast.Sub | ast.Div | ast.MatMult | ast.FloorDiv):
                    gap = self.text[self._span(a)[1] : self._span(b)[0]].decode()
                    add("operand", node, f"{source(b)}{gap}{source(a)}")
                elif isinstance(op, ast.Add | ast.Mult):
                    add("operand", b, source(a))
            case ast.AugAssign(target=a, op=op, value=b):
                if type(op) in OTHER_OPERATOR:
                    add("operator", node, *self._between(a, b, f"{OTHER_OPERATOR[type(op)]}="))
            case ast.Constant(value=bool(x)):
                add("constant", node, str(not x))
            case ast.Constant(value=int(x)):
                if not at_top:
                    add("constant", node, str(x + 1))
            case ast.Constant(value=float(x)):
                add("constant", node, "1.0" if x == 0.0 else repr(1000.0 * x if at_top else 2.0 * x))
            case ast.Attribute(value=value, attr="T"):
                add("transpose", node, source(value))
            case ast.Attribute(value=value, attr=name) if name in OTHER_NAME:
                add("function", node, OTHER_NAME[name], (self._span(node)[1] - len(name), self._span(node)[1]))
            case ast.Name(id=name) if name in OTHER_NAME:
                add("function", node, OTHER_NAME[name])
            case ast.Call(func=ast.Name(id="range"), args=[*_, end]):
                add("index", end, f"{source(end)} - 1")
            case ast.Call(args=[a, b, *_]) if not any(isinstance(x, ast.Starred) for x in (a, b)):
                gap = self.text[self._span(a)[1] : self._span(b)[0]].decode()
                add("operand", a, f"{source(b)}{gap}{source(a)}", (self._span(a)[0], self._span(b)[1]))
            case ast.Subscript(value=value, slice=ast.Name() | ast.BinOp() as k):
                if ast.unparse(value) not in ("list", "dict", "set", "tuple", "Callable"):
                    add("index", k, f"{source(k)} - 1")
            case ast.Slice(lower=a, upper=b):
                for k in (a, b):
                    if k is not None and not isinstance(k, ast.Constant):
                        add("index", k, f"{source(k)} + 1")
            case ast.Expr(value=ast.Call()) | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                if not at_top:
                    add("statement", node, "pass")
            case ast.Continue():
                add("branch", node, "break")
            case ast.Break():
                add("branch", node, "continue")
