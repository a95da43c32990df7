"""Programs for the tests of the targets, what the interpreter makes of them, and graphs drawn at random."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import struct
import sys
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import strategies as st

import delassus as ds
from internals import (
    LEAVES,
    OSIM_ALGORITHMS,
    Argument,
    Evaluated,
    Graph,
    ObjectCode,
    Op,
    Program,
    Result,
    arity,
    host,
    interpret_program,
    laid_out,
    llvm_module,
    object_code,
    optimise,
    trace,
)

SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.75,
    -3.5,
    np.inf,
    -np.inf,
    np.nan,
    -np.nan,
    5e-324,
    -5e-324,
    1e-45,
    1e308,
    -1e308,
    1e-308,
)
"""Values that operations treat in their own way: zeros, infinities, NaN, denormals, values next to overflow."""

K = np.random.default_rng(5).normal(size=(4, 6))
ROBOTS = {
    "arm, weld": (ds.mechanisms.chain(5), [ds.Weld("link5")]),
    "arm, point and given rows": (
        ds.mechanisms.chain(6),
        [ds.Point("link3"), ds.Rows("link6", 4), ds.Rows("link2", 1)],
    ),
    "arm, rows and a loop": (ds.mechanisms.chain(5), [ds.Rows("link5", K), ds.Hinge("link2", "link4")]),
    "humanoid, feet": (ds.mechanisms.humanoid(), [ds.Weld("left_foot"), ds.Weld("right_foot")]),
}
"""Robots and constraints for kernels of the Delassus matrix."""


def kernel_graph(tree, constraints, method):
    """Graph of one triangle of the Delassus matrix, as traced."""
    graph = trace(tree, constraints, OSIM_ALGORITHMS[method]).graph()
    return replace(graph, outputs=graph.outputs[-1:])  # without the groups of the phases


def verify(graph):
    """Check the invariants of a graph; raises `AssertionError` naming the node."""
    n = len(graph)
    for k, (op, *operands) in enumerate(graph.nodes()):
        assert op in set(Op), f"node {k} has no kind"
        used = arity(op)
        if op == Op.INPUT:
            assert operands[0] >= 0 and operands[1:] == [-1, -1], f"input node {k}"
            continue
        assert all(0 <= x < k for x in operands[:used]), f"node {k} uses a node that is not before it"
        assert all(x == -1 for x in operands[used:]), f"node {k} has too many operands"
    assert all(0 <= x < n for x in graph.flat_outputs()), "an output is no node"


def mirrored(m):
    """For each entry of a symmetric matrix, its position in the lower triangle, row by row."""
    return tuple(max(i, j) * (max(i, j) + 1) // 2 + min(i, j) for i in range(m) for j in range(m))


def delassus_program(name, tree, constraints, method, comment=()):
    """The Delassus matrix of a robot, optimised and scheduled."""
    arguments = [Argument("q", (tree.nq,), "configuration, rad and m")]
    for i, c in enumerate(constraints):
        if c.rows is None:
            arguments.append(Argument(f"K{i}", (c.size, 6), "rows [linear; angular] on the link's body frame"))
    m = sum(c.size for c in constraints)
    result = Result("G", (m, m), mirrored(m), "Delassus matrix")
    return Program(name, optimise(kernel_graph(tree, constraints, method)), tuple(arguments), (result,), comment)


def plain_program(graph, *sizes, name="plain", entries=None):
    """A graph whose arguments have ``sizes``, with one result of all outputs, or of ``entries`` of these each."""
    entries = entries or [range(sum(len(group) for group in graph.outputs))]
    arguments = tuple(Argument(f"x{k}" if k else "x", (size,)) for k, size in enumerate(sizes))
    results = tuple(Result(f"y{k}" if k else "y", (len(some),), tuple(some)) for k, some in enumerate(entries))
    return Program(name, graph, arguments, results)


def reference(program, *arguments):
    """Results of a program by the interpreter; arguments have leading batch axes."""
    flat = [x.reshape(*x.shape[: x.ndim - len(a.shape)], -1) for x, a in zip(arguments, program.arguments, strict=True)]
    outputs = np.concatenate(interpret_program(program, np.concatenate(flat, axis=-1)), axis=-1)
    return [outputs[..., list(r.entries)].reshape(*outputs.shape[:-1], *r.shape) for r in program.results]


def loaded(text, level=1):
    """Machine code of assembly for this processor, ready to be called."""
    return ObjectCode(object_code(text, level=level))


def object_for(text, level=1, **processor):
    """Object code of assembly for a processor that is as this one, but for what is said."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return object_code(text, replace(host(), **processor), level)


elf = pytest.mark.skipif(sys.platform != "linux", reason="reads objects of ELF systems")


def undefined(payload):
    """Names that object code of an ELF system takes from elsewhere."""
    assert payload[:5] == b"\x7fELF\x02"
    (at,), (size, n) = struct.unpack_from("<Q", payload, 0x28), struct.unpack_from("<2H", payload, 0x3A)
    sections = [struct.unpack_from("<2IQ3Q2I", payload, at + size * k) for k in range(n)]
    for _, kind, _, _, start, length, link, _ in sections:
        if kind == 2:  # symbols
            names = sections[link][4]
            for name, *_, section, _, _ in struct.iter_unpack("<I2BH2Q", payload[start : start + length]):
                if name and not section:
                    yield payload[names + name :].partition(b"\0")[0].decode()


def by_llvm(program, dtype, lanes, level=1, has_fma=True):
    """A program as machine code of so many lanes."""
    text = llvm_module(program, "double" if dtype == "float64" else "float", lanes, 16, has_fma)
    return Runs(program, dtype, loaded(text, level))


class Runs:
    """A program by machine code, or by the evaluator, as a function of arrays of its arguments (n, …)."""

    def __init__(self, program, dtype, code=None):
        self.program, self.dtype = program, np.dtype(dtype)
        sizes = tuple(x.size for x in (*program.arguments, *program.results))
        self.code = code or Evaluated(laid_out(program), sizes, len(program.arguments), dtype)
        kinds = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        self.span = ctypes.CFUNCTYPE(None, *kinds)(self.code.address("span"))

    def __call__(self, *arguments, first=0, n=None, behind=False):
        """``n`` states from the ``first`` on; others of the results stay 77."""
        given = [at_a_wall(np.ascontiguousarray(x, self.dtype), behind) for x in arguments]
        states = len(given[0])
        found = [at_a_wall(np.full((states, *r.shape), 77, self.dtype), behind) for r in self.program.results]
        places = (ctypes.c_int64 * len([*given, *found]))(*(x.ctypes.data for x in (*given, *found)))
        self.span(places, first, states - first if n is None else n)
        return found


HAS_FMA = host().has_fma
"""Whether this processor multiplies and adds at once."""

FUSING = ("-mfma",) if HAS_FMA and host().triple.startswith("x86_64") else ()
"""Flags with which C fuses what this processor can."""


def same(actual, expected):
    """Equal to the bit; all NaN are one."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(actual), nan)
    differ = ~nan & ((actual != expected) | (np.signbit(actual) != np.signbit(expected)))
    assert not differ.any(), (np.flatnonzero(differ.ravel()), actual[differ][:5], expected[differ][:5])


def table_of_operations():
    """One node of every kind on three inputs, and all combinations of special values of these."""
    kinds = [op for op in Op if op not in LEAVES]
    n = len(kinds)
    op = np.array([Op.INPUT] * 3 + kinds, dtype=np.int64)
    operands = [np.array([0, 1, 2] + [0] * n), np.full(n + 3, -1), np.full(n + 3, -1)]
    for k, kind in enumerate(kinds):
        for i in range(arity(kind)):
            operands[i][3 + k] = i
    graph = Graph(op, *operands, np.zeros(n + 3), (np.arange(3, n + 3),))
    return kinds, graph, np.array(list(itertools.product(SPECIAL, repeat=3)))


ALGEBRA = (Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.DIVIDE, Op.NEGATE)


@st.composite
def graphs(draw, kinds=tuple(op for op in Op if op not in LEAVES), constants=(0.0, -0.0, 1.0, -1.0, 2.0, -0.5, 3.0)):
    """Random graphs with repeated nodes, constants, dead code, and leaves as outputs; inputs are 0, 1, 2, 7."""
    nodes = [(Op.INPUT, i, -1, -1, 0.0) for i in (7, 0, 1, 2)]
    nodes += [(Op.CONSTANT, -1, -1, -1, draw(st.sampled_from(constants))) for _ in range(draw(st.integers(0, 4)))]
    for _ in range(draw(st.integers(1, 25))):
        kind = draw(st.sampled_from(kinds))
        operands = [draw(st.integers(0, len(nodes) - 1)) for _ in range(arity(kind))]
        nodes.append((kind, *[*operands, -1, -1][:3], 0.0))
    op, a, b, c, value = zip(*nodes, strict=True)
    groups = draw(st.lists(st.lists(st.integers(0, len(nodes) - 1), max_size=4), min_size=1, max_size=3))
    arrays = [np.array(x, dtype=np.int64) for x in (op, a, b, c)]
    return Graph(*arrays, np.array(value, dtype=float), tuple(np.array(g, dtype=np.int64) for g in groups))


def draw(program, tree, rng, batch):
    """Configurations, and the rows that are given at call time."""
    rows = [rng.normal(size=(*batch, *a.shape)) for a in program.arguments[1:]]
    return [tree.random(rng, batch=batch), *rows]


def at_a_wall(x, behind=False):
    """Copy of an array that ends, or if it is ``behind`` begins, where memory ends that may be read and written."""
    if os.name != "posix":
        return x.copy()
    page = mmap.PAGESIZE
    room = -(-max(x.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, room + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for wall in (start, start + page + room):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(wall), ctypes.c_size_t(page), 0) == 0
    made = np.frombuffer(memory, x.dtype, x.size, page + (0 if behind else room - x.nbytes)).reshape(x.shape)
    made[...] = x
    return made
