"""Passes: before and after on small graphs, properties on random ones, and the interpreter that defines operations."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delassus as ds
from internals import (
    COMMUTATIVE,
    LEAVES,
    SEMANTICS,
    Builder,
    Graph,
    Op,
    arity,
    interpret,
    passes,
)
from programs import ALGEBRA, ROBOTS, SPECIAL, graphs, kernel_graph, same, table_of_operations, verify
from random_trees import some_constraints, some_mechanism
from tools import error

ALL = dict(passes.PASSES) | {"all": passes.optimise}

OPTIMISED = 1e-12
"""A kernel before and after all passes, relative to the largest entry: shared reciprocals round once more."""

QUOTIENTS = 1e-13
"""Sums, products, quotients and roots of positive numbers, where nothing cancels, at one more rounding a quotient."""


# -- before and after ----------------------------------------------------------------------------------------------


class Symbols(Builder):
    """A builder with inputs x, y, z and shorthands."""

    def __init__(self):
        super().__init__()
        self.x, self.y, self.z = (self.node(Op.INPUT, i) for i in range(3))

    def __getattr__(self, name):
        op = {"add": Op.ADD, "sub": Op.SUBTRACT, "mul": Op.MULTIPLY, "div": Op.DIVIDE, "neg": Op.NEGATE}[name]
        return lambda *operands: self.node(op, *operands)


def text(graph, k):
    """Expression of a node, inputs by letter."""
    op = Op(int(graph.op[k]))
    if op == Op.INPUT:
        return "xyz"[graph.a[k]]
    if op == Op.CONSTANT:
        return f"{graph.value[k]:g}"
    shown = [text(graph, x[k]) for x in (graph.a, graph.b, graph.c)[: arity(op)]]
    if op in COMMUTATIVE:
        shown.sort()
    sign = {Op.ADD: " + ", Op.SUBTRACT: " - ", Op.MULTIPLY: " * ", Op.DIVIDE: " / "}.get(op)
    return f"({sign.join(shown)})" if sign else f"{op.name.lower()}({', '.join(shown)})"


def after(run, make):
    """Expressions of the outputs of a graph after a pass; ``make`` returns the nodes that are its outputs."""
    build = Symbols()
    graph = run(build.graph([make(build)]))
    verify(graph)
    return [text(graph, k) for k in graph.outputs[0]]


def nodes_of(graph):
    return [
        (Op(int(op)).name, *(int(x) for x in operands if x >= 0))
        for op, *operands in zip(graph.op, graph.a, graph.b, graph.c, strict=True)
    ]


def test_common_subexpressions_are_made_once():
    """By every pass that rewrites."""
    op = np.array([Op.INPUT, Op.INPUT, Op.INPUT, Op.ADD, Op.ADD, Op.MULTIPLY, Op.SUBTRACT, Op.SUBTRACT])
    a = np.array([0, 1, 0, 0, 1, 3, 0, 1])
    b = np.array([-1, -1, -1, 1, 2, 4, 1, 0])
    graph = Graph(op, a, b, np.full(8, -1), np.zeros(8), (np.array([5, 4, 6, 7]),))
    made = passes.rewrite(graph, passes.NO_RULE)
    x, y = ("INPUT", 0), ("INPUT", 1)
    assert nodes_of(made) == [x, y, ("ADD", 0, 1), ("MULTIPLY", 2, 2), ("SUBTRACT", 0, 1), ("SUBTRACT", 1, 0)]
    assert made.outputs[0].tolist() == [3, 2, 4, 5]


def test_zeros_of_both_signs_are_two_constants():
    build = Builder()
    nodes = [build.constant(x) for x in (0.0, -0.0, 0.0, np.nan)]
    assert len(set(nodes)) == 3 and np.signbit(build.value).tolist()[:2] == [False, True]


def test_quotients_by_one_number_share_its_reciprocal():
    def make(g):
        return [g.div(g.x, g.z), g.div(g.y, g.z), *(g.div(g.constant(c), g.z) for c in (1.0, -1.0, 3.0, -0.5))]

    found = ["((1 / z) * x)", "((1 / z) * y)", "(1 / z)", "negate((1 / z))", "((1 / z) * 3)", "((1 / z) * -0.5)"]
    assert after(passes.share_reciprocals, make) == found
    build = Symbols()
    assert passes.share_reciprocals(build.graph([make(build)])).count().div == 1


@pytest.mark.parametrize(
    "divisor, expected",
    [
        (4.0, "(0.25 * x)"),
        (-0.5, "(-2 * x)"),
        (0.0, "(x / 0)"),
        (-0.0, "(x / -0)"),
        (np.nan, "(x / nan)"),
        (np.inf, "(x / inf)"),
        (5e-324, "(x / 4.94066e-324)"),  # its reciprocal is infinite
        (1e-40, "(x / 1e-40)"),  # in float32
        (1.5e308, "(x / 1.5e+308)"),  # its reciprocal has lost digits
    ],
)
def test_division_by_a_constant(divisor, expected):
    assert after(passes.share_reciprocals, lambda g: [g.div(g.x, g.constant(divisor))]) == [expected]


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda g: g.neg(g.sub(g.x, g.y)), "(y - x)"),
        (lambda g: g.add(g.x, g.neg(g.y)), "(x - y)"),
        (lambda g: g.add(g.neg(g.x), g.y), "(y - x)"),
        (lambda g: g.add(g.neg(g.x), g.neg(g.y)), "negate((x + y))"),
        (lambda g: g.sub(g.x, g.neg(g.y)), "(x + y)"),
        (lambda g: g.sub(g.neg(g.x), g.y), "negate((x + y))"),
        (lambda g: g.sub(g.neg(g.x), g.neg(g.y)), "(y - x)"),
        (lambda g: g.mul(g.neg(g.x), g.neg(g.y)), "(x * y)"),
        (lambda g: g.mul(g.neg(g.x), g.y), "negate((x * y))"),
        (lambda g: g.mul(g.neg(g.x), g.constant(-2.0)), "(2 * x)"),
        (lambda g: g.div(g.neg(g.x), g.neg(g.y)), "(x / y)"),
        (lambda g: g.div(g.constant(-1.0), g.x), "negate((1 / x))"),
        (lambda g: g.add(g.x, g.mul(g.constant(-3.0), g.y)), "(x - (3 * y))"),
        (lambda g: g.add(g.x, g.mul(g.z, g.mul(g.constant(-3.0), g.y))), "(x - ((3 * y) * z))"),
        (lambda g: g.mul(g.sub(g.x, g.mul(g.neg(g.y), g.z)), g.neg(g.neg(g.x))), "((x + (y * z)) * x)"),
        (lambda g: g.neg(g.constant(2.0)), "-2"),
        (lambda g: g.node(Op.SIN, g.neg(g.x)), "sin(negate(x))"),
    ],
)
def test_signs_are_folded(make, expected):
    found = after(passes.fold_signs, lambda g: [make(g)])
    assert sorted(found[0]) == sorted(expected), found  # sums and products in either order
    assert found[0].count("negate") == expected.count("negate") and found[0].count(" - ") == expected.count(" - ")


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda g: [g.neg(g.mul(g.constant(3.0), g.x))], ["(-3 * x)"]),
        (lambda g: [g.neg(g.div(g.constant(1.0), g.x))], ["(-1 / x)"]),
        (lambda g: [g.neg(g.mul(g.x, g.sub(g.y, g.z)))], ["((z - y) * x)"]),
        (lambda g: [g.neg(g.add(g.y, g.mul(g.constant(2.0), g.x)))], ["((-2 * x) - y)"]),
        (lambda g: [g.neg(g.mul(g.x, g.y))], ["negate((x * y))"]),
        (lambda g: (lambda p: [g.neg(p), p])(g.mul(g.constant(3.0), g.x)), ["negate((3 * x))", "(3 * x)"]),
        (lambda g: (lambda d: [g.neg(g.mul(g.x, d)), d])(g.sub(g.y, g.z)), ["negate(((y - z) * x))", "(y - z)"]),
    ],
)
def test_negations_left_are_absorbed_where_that_is_free(make, expected):
    assert after(passes.absorb_signs, make) == expected


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda g: [g.add(g.mul(g.x, g.y), g.z)], ["fma(x, y, z)"]),
        (lambda g: [g.sub(g.mul(g.x, g.y), g.z)], ["fms(x, y, z)"]),
        (lambda g: [g.sub(g.z, g.mul(g.x, g.y))], ["fnma(x, y, z)"]),
        (lambda g: [g.add(g.mul(g.x, g.y), g.mul(g.x, g.z))], ["fma(x, y, (x * z))"]),  # the first of two
        (lambda g: [g.sub(g.mul(g.x, g.y), g.mul(g.x, g.z))], ["fms(x, y, (x * z))"]),
        (lambda g: [g.add(g.mul(g.x, g.y), g.mul(g.x, g.y))], ["((x * y) + (x * y))"]),
        (lambda g: (lambda p: [g.add(p, g.z), p])(g.mul(g.x, g.y)), ["((x * y) + z)", "(x * y)"]),  # an output
        (lambda g: (lambda p: [g.add(p, g.z), g.sub(g.x, p)])(g.mul(g.x, g.y)), ["fma(x, y, z)", "fnma(x, y, x)"]),
        (lambda g: (lambda p: [g.add(p, g.z), g.neg(p)])(g.mul(g.x, g.y)), ["((x * y) + z)", "negate((x * y))"]),
        (lambda g: [g.add(g.div(g.x, g.y), g.z)], ["((x / y) + z)"]),
    ],
)
def test_products_are_fused_with_sums(make, expected):
    assert after(passes.fuse, make) == expected


def test_products_of_many_uses_stay():
    def made(n):
        build = Builder()
        product = build.node(Op.MULTIPLY, build.node(Op.INPUT, 0), build.node(Op.INPUT, 1))
        sums = [build.node(Op.ADD, product, build.node(Op.INPUT, 2 + k)) for k in range(n)]
        return passes.fuse(build.graph([sums])).count()

    most = passes.MOST_USES
    assert (made(most).fma, made(most).mul) == (most, 0) and (made(most + 1).fma, made(most + 1).mul) == (0, 1)


def test_dead_code_is_dropped():
    build = Symbols()
    kept = build.mul(build.y, build.constant(2.0))
    build.add(build.x, kept)
    made = passes.schedule(build.graph([[kept], []]))
    assert sorted(nodes_of(made)[:2]) == [("CONSTANT",), ("INPUT", 1)]
    assert nodes_of(made)[2][0] == "MULTIPLY" and len(made) == 3
    assert [group.tolist() for group in made.outputs] == [[2], []]


def test_reordering_knows_an_input_from_a_node():
    """Numbers of inputs may be larger than the graph is long."""
    build = Builder()
    far = build.node(Op.INPUT, 40)
    made = passes.schedule(build.graph([[build.node(Op.NEGATE, far)]]))
    assert nodes_of(made) == [("INPUT", 40), ("NEGATE", 0)]


def test_passes_are_named_once_and_in_order():
    names = [name for name, _ in passes.PASSES]
    assert len(set(names)) == len(names) and names[-1] == "schedule"


# -- properties on random graphs -----------------------------------------------------------------------------------

values = st.sampled_from([*SPECIAL, 0.3, -0.7, 2.0])
states = st.lists(st.lists(values, min_size=8, max_size=8), min_size=1, max_size=4).map(np.array)
some = settings(max_examples=120, deadline=None)


def flat(groups):
    return np.concatenate(groups, axis=-1)


def tidy(graph):
    """The same graph without what no output needs."""
    return passes.reorder(graph, np.flatnonzero(graph.reachable(graph.flat_outputs())).tolist())


def exposed(graph):
    """The same graph with all nodes as outputs."""
    return Graph(graph.op, graph.a, graph.b, graph.c, graph.value, (np.arange(len(graph)),))


@some
@given(graphs(), states, st.sampled_from(["float64", "float32"]))
def test_the_schedule_changes_nothing_but_order(graph, x, dtype):
    verify(graph)
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
    made = passes.schedule(graph)
    verify(made)
    before, later = flat(interpret(graph, x)), flat(interpret(made, x))
    if not (Op.COPYSIGN in graph.op and np.isnan(interpret(exposed(graph), x)[0]).any()):
        same(later, before)


@pytest.mark.slow
@some
@given(graphs(kinds=(*ALGEBRA, Op.SQRT, Op.SIN, Op.MIN, Op.MAX, Op.LESS, Op.SELECT)), states)
@pytest.mark.parametrize("name", ["sign folding", "sign absorption"])
def test_folding_keeps_every_rounding(name, graph, x):
    """Equal numbers wherever everything in the graph is finite; zeros may change their sign."""
    made = ALL[name](graph)
    verify(made)
    finite = np.isfinite(interpret(exposed(graph), x)[0]).all(axis=-1)
    assert np.array_equal(flat(interpret(made, x))[finite], flat(interpret(graph, x))[finite])


@some
@given(
    graphs(kinds=(Op.ADD, Op.MULTIPLY, Op.DIVIDE, Op.SQRT, Op.MIN, Op.MAX), constants=(1.0, 2.0, 0.3, 7.0)),
    st.integers(0, 1000),
)
def test_shared_reciprocals_keep_quotients(graph, seed):
    x = np.random.default_rng(seed).uniform(0.5, 2.0, (3, 8))
    made = passes.share_reciprocals(graph)
    verify(made)
    every = interpret(exposed(graph), x)[0]
    tame = ((every > 1e-150) & (every < 1e150)).all(axis=-1)
    before, later = (flat(interpret(g, x))[tame] for g in (graph, made))
    assert np.allclose(later, before, rtol=QUOTIENTS, atol=0)
    divisors = [int(made.a[k]) for k in np.flatnonzero(made.op == Op.DIVIDE)]
    assert all(made.value[k] == 1.0 for k in divisors)


@pytest.mark.slow
@some
@given(graphs())
@pytest.mark.parametrize("name", ["shared reciprocals", "sign folding", "schedule"])
def test_passes_are_idempotent(name, graph):
    """After what went before it in the list has run, a pass that runs twice does nothing the second time."""
    once = tidy(ALL[name](graph))
    twice = tidy(ALL[name](once))
    assert nodes_of(twice) == nodes_of(once)
    assert [g.tolist() for g in twice.outputs] == [g.tolist() for g in once.outputs]
    assert np.array_equal(twice.value, once.value, equal_nan=True)


@some
@given(graphs())
def test_no_pass_adds_operations(graph):
    """But for sharing reciprocals, which pays a multiplication a quotient."""
    plain = tidy(passes.rewrite(graph, passes.NO_RULE))
    for name in ("sign absorption", "fused sums", "schedule"):
        assert tidy(ALL[name](plain)).count().total <= plain.count().total, name


@some
@given(graphs())
def test_passes_do_not_change_what_they_are_given(graph):
    copies = [x.copy() for x in (graph.op, graph.a, graph.b, graph.c, graph.value, *graph.outputs)]
    for run in ALL.values():
        run(graph)
    for x, copy in zip((graph.op, graph.a, graph.b, graph.c, graph.value, *graph.outputs), copies, strict=True):
        assert np.array_equal(x, copy, equal_nan=True)


# -- real kernels --------------------------------------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("method", ds.OSIM_METHODS)
@pytest.mark.parametrize("seed", range(4))
def test_kernels_through_every_pass(method, seed):
    mechanism = some_mechanism(seed, 6, "floating" if seed % 2 else "fixed")
    constraints, rows = some_constraints(mechanism, most=4)
    q = mechanism.tree.random(mechanism.rng, batch=5)
    x = np.concatenate([q, *(np.broadcast_to(K.ravel(), (5, K.size)) for K in rows)], axis=-1)
    graph = kernel_graph(mechanism.tree, constraints, method)
    verify(graph)
    expected = interpret(graph, x)[0]
    n_operations = graph.count().total
    for _, run in passes.PASSES:
        graph = run(graph)
        verify(graph)
        assert error(interpret(graph, x)[0], expected) < OPTIMISED
    assert graph.count().total <= n_operations + graph.count().div * 20


def test_a_kernel_divides_once_a_pivot():
    """38 reciprocals instead of hundreds of divisions: one a joint and row that is factorised."""
    tree = ds.mechanisms.humanoid()
    feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    before = kernel_graph(tree, feet, "pv-osim")
    assert before.count().div > 200
    assert passes.optimise(before).count().div <= tree.nv + 6


def test_nan_spoils_what_depends_on_it_and_no_other_state():
    tree = ds.mechanisms.chain(4)
    graph = passes.optimise(kernel_graph(tree, [ds.Weld("link4"), ds.Weld("link1")], "pv-osimr"))
    q = tree.random(0, batch=3)
    expected = interpret(graph, q)[0]
    q[1, 3] = np.nan
    found = interpret(graph, q)[0]
    same(found[[0, 2]], expected[[0, 2]])
    assert np.array_equal(np.isnan(found[1]), expected[1] != 0)  # all but structural zeros


@pytest.mark.parametrize(
    "field, k, value, message",
    [
        ("a", 3, 3, "node 3 uses"),
        ("b", 3, 7, "node 3 uses"),
        ("a", 0, -1, "input node 0"),
        ("b", 0, 0, "input node 0"),
        ("c", 3, 0, "node 3 has too many"),
        ("op", 3, 99, "node 3 has no kind"),
        ("op", 3, Op.SELECT, "node 3 uses"),
    ],
)
def test_the_verifier_names_the_node(field, k, value, message):
    build = Symbols()
    output = build.add(build.x, build.y)
    verify(build.graph([[output]]))
    graph = build.graph([[output]])
    getattr(graph, field)[k] = value
    with pytest.raises(AssertionError, match=message):
        verify(graph)


def test_the_verifier_checks_outputs():
    build = Symbols()
    with pytest.raises(AssertionError, match="output"):
        verify(build.graph([[5]]))


def peak_alive(graph):
    """Largest number of operation results that are alive at once in the graph's order (no inputs, no constants)."""
    last = {x: k for k, (op, *operands) in enumerate(graph.nodes()) for x in operands[: arity(op)]}
    change = np.zeros(len(graph) + 1, dtype=int)
    for made, used in last.items():
        if graph.op[made] >= Op.ADD:
            change[[made, used]] += 1, -1
    return int(np.cumsum(change).max(initial=0))


@pytest.mark.parametrize("seed", range(20))
def test_schedule_of_a_tree_is_the_best_there_is(seed):
    """As many values alive as Sethi and Ullman's number of the tree."""
    rng, build = np.random.default_rng(seed), Builder()
    parts = [(build.node(Op.INPUT, i), 0) for i in range(24)]
    while len(parts) > 1:
        rng.shuffle(parts)
        (a, least), (b, most) = sorted((parts.pop(), parts.pop()), key=lambda part: part[1])
        parts.append((build.node(Op.SUBTRACT, a, b), max(1, most, least + 1)))
    ((root, number),) = parts
    assert peak_alive(passes.schedule(build.graph([[root]]))) == number


def test_schedule_shortens_live_ranges():
    """A sum of n products, all products first, keeps n values alive; depth first it keeps three at most."""
    build = Builder()
    products = [build.node(Op.MULTIPLY, build.node(Op.INPUT, i), build.node(Op.INPUT, i + 1)) for i in range(20)]
    total = products[0]
    for p in products[1:]:
        total = build.node(Op.ADD, total, p)
    graph = build.graph([[total]])
    assert peak_alive(graph) == 20 and peak_alive(passes.schedule(graph)) <= 3
    humanoid = kernel_graph(*ROBOTS["humanoid, feet"], "efpa")
    assert peak_alive(passes.schedule(humanoid)) < peak_alive(humanoid)


# -- the interpreter -----------------------------------------------------------------------------------------------


def quotient(a, b):
    if b != 0 or math.isnan(a):
        return a / b if b != 0 else math.nan
    return math.nan if a == 0 else math.copysign(math.inf, math.copysign(1, a) * math.copysign(1, b))


def of_finite(function):
    return lambda x: function(x) if math.isfinite(x) else math.nan


def smaller(a, b):
    return b if math.isnan(a) or b < a else a


def larger(a, b):
    return b if math.isnan(a) or b > a else a


def rounded_once(x, y, z):
    """``x y + z`` by fractions."""
    if not all(map(math.isfinite, (x, y, z))) or not x or not y:
        return z if math.isinf(z) and math.isfinite(x) and math.isfinite(y) else x * y + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact) or (-0.0 if exact < 0 else 0.0)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


IEEE = {
    Op.ADD: lambda a, b: a + b,
    Op.SUBTRACT: lambda a, b: a - b,
    Op.MULTIPLY: lambda a, b: a * b,
    Op.DIVIDE: quotient,
    Op.NEGATE: lambda a: -a,
    Op.SQRT: lambda a: math.nan if a < 0 else math.sqrt(a),
    Op.SIN: of_finite(math.sin),
    Op.COS: of_finite(math.cos),
    Op.COPYSIGN: lambda a, b: math.copysign(a, 1.0 if math.isnan(b) else b),
    Op.MIN: smaller,
    Op.MAX: larger,
    Op.LESS: lambda a, b: float(a < b),
    Op.SELECT: lambda condition, a, b: a if condition else b,
    Op.FMA: rounded_once,
    Op.FMS: lambda a, b, c: rounded_once(a, b, -c),
    Op.FNMA: lambda a, b, c: rounded_once(-a, b, c),
}
"""The same operations on Python's numbers, which are IEEE 754 doubles."""

ROUNDED = {Op.SIN, Op.COS}
"""Operations whose last bits a mathematical library chooses."""


def test_every_operation_has_a_meaning():
    assert set(SEMANTICS) == set(IEEE) == set(Op) - LEAVES


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_operations_on_special_values(dtype):
    kinds, graph, x = table_of_operations()
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    found = interpret(graph, x)[0]
    assert found.dtype == dtype
    for column, kind in enumerate(kinds):
        expected = np.array([IEEE[kind](*map(float, row[: arity(kind)])) for row in x])
        with np.errstate(all="ignore"):
            expected = expected.astype(dtype)
        if kind in ROUNDED:
            expected[np.abs(x[:, 0]) > 1e9] = np.nan  # they reduce no such angles
            assert np.allclose(found[:, column], expected, rtol=4 * np.finfo(dtype).eps, atol=0, equal_nan=True), kind
        else:
            same(found[:, column], expected)


def test_shapes_and_types_of_the_interpreter():
    build = Symbols()
    less = build.node(Op.LESS, build.x, build.constant(0.1))
    graph = build.graph([[less, build.constant(0.1), build.z], []])
    for dtype in (np.float64, np.float32):
        for shape in ((), (0,), (5,), (2, 0, 3), (2, 3)):
            first, second = interpret(graph, np.zeros((*shape, 3), dtype))
            assert first.shape == (*shape, 3) and second.shape == (*shape, 0)
            assert first.dtype == second.dtype == dtype
    with pytest.raises(AssertionError):
        interpret(graph, np.zeros(3, dtype=int))


@pytest.mark.parametrize("value", [0.1, -0.0, np.inf, np.nan, 1e308])
def test_constants_in_float32_are_rounded_once(value):
    build = Builder()
    graph = build.graph([[build.constant(value)]])
    with np.errstate(over="ignore"):
        same(interpret(graph, np.zeros((2, 0), np.float32))[0], np.full((2, 1), np.float32(value)))
