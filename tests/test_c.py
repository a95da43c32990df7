"""C99 and CasADi: compiled without a warning, and equal to the interpreter."""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delassus as ds
from delassus.compiler.targets.c.text import comment, identifier, literal
from internals import (
    Argument,
    Builder,
    Graph,
    Op,
    Program,
    Result,
    c,
    c_source,
    casadi_function,
    example_robot_files,
    file_header,
    llvm_module,
    machine,
    make_program,
    write_c,
)
from programs import (
    FUSING,
    ROBOTS,
    SPECIAL,
    Runs,
    by_llvm,
    delassus_program,
    draw,
    elf,
    graphs,
    host,
    kernel_graph,
    laid_out,
    object_for,
    plain_program,
    reference,
    same,
    table_of_operations,
    undefined,
)
from random_trees import some_constraints, some_mechanism
from test_evaluator import TraceOps, of_an_arm, of_loops, of_negated_sums, of_operations, of_products
from tools import ROUND_OFF, error, on_a_full_disk, requested, traced

GCC, FOR_ARM, ARM = map(shutil.which, ("gcc", "aarch64-linux-gnu-gcc", "qemu-aarch64"))
needs_gcc = pytest.mark.skipif(GCC is None, reason="gcc is not installed")
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", *FUSING)
GOLDEN = Path(__file__).parent / "golden"
REGENERATE = "DELASSUS_REGENERATE_GOLDEN"

SINGLE = 2e-5
"""float32 against the float32 interpreter, relative to the largest entry: their sines differ in the last place."""


class Compiled:
    """Functions of a generated C file, for arrays with one batch axis or none."""

    def __init__(self, program, folder, dtype="float64", flags=("-O1",), compiler=GCC):
        self.program, self.dtype = program, np.dtype(dtype)
        header, source = write_c(program, folder, "double" if dtype == "float64" else "float")
        library = Path(folder) / f"{source.stem}_{dtype}.so"
        command = [compiler, *STRICT, *flags, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert outcome.returncode == 0 and not outcome.stderr, outcome.stderr
        loaded = ctypes.CDLL(str(library))
        self.one, self.batch = loaded[source.stem], loaded[f"{source.stem}_batch"]
        self.one.restype = self.batch.restype = None
        assert header.name == f"{source.stem}.h"

    def __call__(self, *arguments):
        given = [np.ascontiguousarray(a, self.dtype) for a in arguments]
        first, shape = given[0], self.program.arguments[0].shape
        batch = first.shape[: first.ndim - len(shape)]
        results = [np.full((*batch, *r.shape), 77, self.dtype) for r in self.program.results]
        pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (*given, *results)]
        if batch:
            self.batch(ctypes.c_size_t(batch[0]), *pointers)
        else:
            self.one(*pointers)
        return results


# -- operations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O3", "-march=native")], ids=" ".join)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_operations_on_special_values(tmp_path, dtype, flags, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    kinds, graph, x = table_of_operations()
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    program = plain_program(graph, 3)
    (found,), (expected,) = Compiled(program, tmp_path, dtype, flags, compiler)(x), reference(program, x)
    for column in range(len(kinds)):
        same(found[:, column], expected[:, column])


@needs_gcc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_constants_are_exact(tmp_path, dtype):
    """As results, and as operands of either sign."""
    numbers = [*SPECIAL, 0.1, -1 / 3, np.pi, 1e22, 123456789.0, 2.0**-1060, -1.7e308, 3.4028235677973366e38, 1e-46]
    build = Builder()
    x = build.node(Op.INPUT, 0)
    constants = [build.constant(v) for v in numbers]
    outputs = [*constants, *(build.node(op, x, k) for op in (Op.SUBTRACT, Op.MULTIPLY) for k in constants)]
    program = plain_program(build.graph([outputs]), 1)
    state = np.array([[-1.0], [0.5]], dtype)
    same(Compiled(program, tmp_path, dtype)(state)[0], reference(program, state)[0])


@needs_gcc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zeros_of_negated_sums_have_their_sign(tmp_path, dtype):
    """GCC negates a fused sum by negating its product and its summand, unless it is kept from that."""
    program, (x,) = of_negated_sums()
    same(Compiled(program, tmp_path, dtype)(x.astype(dtype))[0], reference(program, x.astype(dtype))[0])


@pytest.mark.slow
@needs_gcc
@settings(max_examples=25, deadline=None)
@given(
    graph=graphs(),
    seed=st.integers(0, 1000),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_random_graphs(tmp_path_factory, graph, seed, dtype):
    """Repeated operands, constants anywhere, leaves as results, dead code, no result at all: no warning, equal bits."""
    x = np.random.default_rng(seed).choice([*SPECIAL, 0.3, -0.7, 2.0], (40, 8))
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    program = plain_program(graph, 8)
    (expected,), (found,) = reference(program, x), Compiled(program, tmp_path_factory.mktemp("c"), dtype)(x)
    same(found, expected)


@pytest.mark.parametrize("dtype", ["double", "float"])
def test_each_angle_is_reduced_once(dtype):
    """One call gives its sine and its cosine, whichever comes first."""
    ops = TraceOps()
    x, y, z = ops.vector(3)
    made = [ops.cos(x), ops.sin(x), ops.sin(x * y), ops.cos(x * y), ops.sin(y), ops.cos(z) * ops.cos(z)]
    _, source = c_source(plain_program(ops.graph([[*map(ops.number, made)]]), 3), dtype)
    body = source[source.index("static void plain_state") :]
    assert [body.count(f"ds_{name}(") for name in ("sincos", "sin", "cos")] == [2, 1, 1]
    _, source = c_source(traced(ds.mechanisms.chain(3), (), "mass_matrix"), dtype)
    assert len(re.findall(r"ds_(sin|cos|sincos)\((?!double|float)", source)) == 2  # the first joint turns all


# -- processors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compilers_that_round_as_they_like_are_refused(tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    _, source = write_c(traced(ds.mechanisms.chain(1), (), "mass_matrix"), tmp_path)
    for flags in ([], ["-Ofast"], ["-O2", "-ffast-math"]):
        command = [compiler, *STRICT, *flags, "-c", str(source), "-o", str(tmp_path / "made.o")]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (outcome.returncode != 0) == bool(flags) == ("each rounding" in outcome.stderr), outcome.stderr


@elf
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_programs_call_nothing_whose_numbers_differ_elsewhere(lanes, dtype):
    """Of libraries: with all operations, by machine code and by the evaluator, also of the oldest processors; as C."""
    program, scalar = plain_program(table_of_operations()[1], 3), "double" if dtype == "float64" else "float"
    for has_fma, processor in ((True, {}), (False, {"cpu": "generic", "features": ""})):
        for text in (llvm_module(program, scalar, lanes, 16, has_fma), machine(scalar, lanes, has_fma)):
            assert {*undefined(object_for(text, level=0, **processor))} <= {"malloc", "free"}
    called = set(re.findall(r"\b(?!ds_)(\w+)\(", re.sub(r"/\*.*?\*/|#.*", "", c_source(program, scalar)[1])))
    called -= {"defined", "__asm__", "for", "if", "plain", "plain_state", "plain_batch", "UINT32_C", "UINT64_C"}
    assert called == {f"{name}{'f' * (scalar == 'float')}" for name in ("sqrt", "fma", "copysign")}  # exact everywhere


@pytest.mark.slow
@needs_gcc
@pytest.mark.skipif(not FUSING, reason="needs x86")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_processors_that_fuse_nothing(tmp_path, monkeypatch, dtype):
    """They round products, then sums, and reduce angles by shorter numbers: all machines alike."""
    arm, rng = ds.mechanisms.chain(3), np.random.default_rng(0)
    program = traced(arm, [ds.Point("link3")], "dynamics", dtype)
    x = [y.astype(dtype) for y in (arm.random(rng, batch=33), *rng.normal(size=(2, 33, 3)))]
    fused = Runs(program, dtype)(*x)
    expected = Compiled(program, tmp_path, dtype, ("-O3", "-mno-fma"))(*x)
    assert any((y != z).any() for y, z in zip(expected, fused, strict=True))
    monkeypatch.setattr(type(host()), "has_fma", False)
    for run in (Runs(program, dtype), *(by_llvm(program, dtype, lanes, has_fma=False) for lanes in (1, 4))):
        for y, wanted in zip(run(*x), expected, strict=True):
            same(y, wanted)


DRIVER = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
{declared}
static number given[{n_given}], found[{n_found}];

int main(int argc, char **argv)
{{
    void *arrays[] = {{{arrays}}};
    FILE *file = fopen(argv[1], "rb");

    if (argc != 3 || fread(given, sizeof(number), {n_given}, file) != {n_given})
        return 1;
    fclose(file);
    {call};
    file = fopen(argv[2], "wb");
    fwrite(found, sizeof(number), {n_found}, file);
    return fclose(file);
}}
"""
"""Program that reads arguments, calls a function, and writes results."""


class OnArm:
    """A program by emulated machine code for arm64, as a function of arrays of its arguments (n, …)."""

    def __init__(self, program, folder, dtype, made, call, declared=""):
        """``made``: source files, or object code; ``call``: of the function, with ``n`` states of ``arrays``."""
        self.program, self.folder, self.dtype, self.made = program, folder, np.dtype(dtype), made
        self._call, number = call, "double" if dtype == "float64" else "float"
        self._declared = f"typedef {number} number;\n{declared}"

    def __call__(self, *arguments):
        flags, n = self.made if isinstance(self.made, list) else ["made.o"], len(arguments[0])
        if isinstance(self.made, bytes):
            (self.folder / "made.o").write_bytes(self.made)
        sizes = [n * x.size for x in (*self.program.arguments, *self.program.results)]
        n_given = sum(x.size for x in arguments)
        places = [f"given + {k}" for k in np.cumsum([0, *sizes])[:-1]]
        places = [f"found + {int(x.split()[-1]) - n_given}" if k >= len(arguments) else x for k, x in enumerate(places)]
        driver = DRIVER.format(
            declared=self._declared, n_given=n_given, n_found=sum(sizes) - n_given, arrays=", ".join(places),
            call=self._call.replace("ARRAYS", ", ".join(places)).replace("STATES", str(n)),
        )  # fmt: skip
        (self.folder / "driver.c").write_text(driver)
        np.concatenate([x.astype(self.dtype).ravel() for x in arguments]).tofile(self.folder / "given")
        for command in (
            [FOR_ARM, "-static", "driver.c", *flags, "-o", "made", "-lm"], [ARM, "./made", "given", "found"],
        ):  # fmt: skip
            subprocess.run(command, cwd=self.folder, check=True, timeout=120)
        parts = np.split(np.fromfile(self.folder / "found", self.dtype), np.cumsum(sizes[len(arguments) :])[:-1])
        return [x.reshape(n, *r.shape) for x, r in zip(parts, self.program.results, strict=True)]


def numbers_of(kind, name, values):
    """An array in C."""
    return f"static {kind} {name}[] = {{{', '.join(map(str, values))}}};\n"


def on_arm(program, folder, dtype):
    """Emulated machines: C by two levels of gcc, lanes of machine code, the evaluator."""
    scalar, bits = ("double", 64) if dtype == "float64" else ("float", 32)
    processor = {"triple": "aarch64-linux-gnu", "cpu": "generic", "features": "", "vector_bits": 128}
    header, source = write_c(program, folder, scalar)
    for flags in (["-O0"], ["-O3"]):
        call = f"{source.stem}_batch(STATES, ARRAYS)"
        yield OnArm(program, folder, dtype, [str(source), *flags], call, f'#include "{header}"')
    span = "void span(void **arrays, int64_t first, int64_t n);"
    for lanes, level in ((1, 1), (2, 0), (4, 1)):
        text = llvm_module(program, scalar, lanes, 32, True)
        made = object_for(text, level=level, **processor)
        yield OnArm(program, folder, dtype, made, "span(arrays, 0, STATES)", span)
    head, _, body = laid_out(program).partition(b"\n")
    n_places, n_constants, n_code = json.loads(head)
    with np.errstate(over="ignore"):
        constants = np.frombuffer(body[: 8 * n_constants]).astype(dtype).view(f"u{bits // 8}")
    code, results = np.split(np.frombuffer(body[8 * n_constants :], dtype=np.int32), [n_code])
    sizes = [x.size for x in (*program.arguments, *program.results)]
    declared = numbers_of("int32_t", "code", code) + numbers_of("int32_t", "results", results)
    declared += numbers_of(f"uint{bits}_t", "constants", [*constants, 0]) + numbers_of("int64_t", "sizes", sizes)
    declared += "void span(int64_t *program, void **arrays, int64_t first, int64_t n);\n"
    fields = "(int64_t)code", "(int64_t)constants", n_constants, n_places, "(int64_t)results", "(int64_t)sizes"
    record = ", ".join(map(str, (*fields, len(sizes), len(program.arguments), 16)))
    made = object_for(machine(scalar, 128 // bits, True), **processor)
    yield OnArm(program, folder, dtype, made, f"span((int64_t[]){{{record}}}, arrays, 0, STATES)", declared)


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.skipif(FOR_ARM is None or ARM is None, reason="needs gcc for arm64 and qemu")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("make", [of_operations, of_products, of_negated_sums, of_an_arm, of_loops])
def test_arm64(tmp_path, make, dtype):
    """Emulated: C, machine code of any lanes and the evaluator give the interpreter's bits."""
    program, x = make()
    with np.errstate(over="ignore"):
        x = [y.astype(dtype) for y in x]
    wanted = reference(program, *x)
    for run in on_arm(program, tmp_path, dtype):
        for y, right in zip(run(*x), wanted, strict=True):
            same(y, right)


# -- kernels -------------------------------------------------------------------------------------------------------


@pytest.mark.turns(5)
@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("seed", "method"), enumerate(ds.OSIM_METHODS))
def test_kernels_equal_the_interpreter(tmp_path, seed, method, dtype):
    """Of random mechanisms, by every method: batches, one state, symmetry, and what direct calls say."""
    mechanism = some_mechanism(seed, 5, "floating" if seed % 2 else "fixed")
    tree, (constraints, rows) = mechanism.tree, some_constraints(mechanism, most=3)
    program = delassus_program(f"random {method}", tree, constraints, method)
    function = Compiled(program, tmp_path, dtype, ("-O2",) if method.startswith("pv") else ("-O0",))
    arguments = [x.astype(dtype) for x in (tree.random(mechanism.rng, batch=3), *(np.stack([r] * 3) for r in rows))]
    (found,), (expected,) = function(*arguments), reference(program, *arguments)
    same(found, expected)
    same(function(*(a[1] for a in arguments))[0], found[1])
    assert np.array_equal(found, np.swapaxes(found, -1, -2))
    if dtype == "float64":
        assert error(found, ds.delassus(tree, constraints, arguments[0], method=method, rows=arguments[1:])) < 1e-9


@needs_gcc
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_batches(tmp_path, n):
    tree = ds.mechanisms.chain(3)
    program = delassus_program("arm", tree, [ds.Point("link3"), ds.Rows("link2", 2)], "efpa")
    arguments = draw(program, tree, np.random.default_rng(n), (n,))
    function = Compiled(program, tmp_path)
    (found,) = function(*arguments)
    for k in range(n):
        same(found[k], function(*(a[k] for a in arguments))[0])


@needs_gcc
@pytest.mark.parametrize(("what", "modes", "dtype"), [
    ("contact_step_derivatives", (), "float64"), ("contact_step", ("vjp",), "float32"),
])  # fmt: skip
def test_derivatives_of_contact_steps(tmp_path, what, modes, dtype):
    """Of balls that are pressed into the floor and slide, and in the air."""
    ball, rng = ds.mechanisms.free_body(1.0, np.diag([0.01, 0.02, 0.03]), name="ball"), np.random.default_rng(2)
    asked = requested(ball, ds.Contact("ball", ds.contact.Sphere(0.1)), what, friction="input")
    program = make_program(asked.differentiated(*modes), with_rcond=False, dtype=dtype)
    q = np.tile([0, 0, 0.1, 0, 0, 0, 1.0], (6, 1))
    q[:, 2] += [-1e-4, -1e-3, -2e-4, 1e-3, 0.01, 1.0]
    given = [q, *(rng.normal(size=(6, *a.shape)) for a in program.arguments[1:])]
    given[4], given[5] = np.full(6, 1e-3), np.full((6, 1), 0.3)
    given = [x.astype(dtype) for x in given]
    found = Compiled(program, tmp_path, dtype)(*given)
    for r, x, y in zip(program.results, found, reference(program, *given), strict=True):
        assert np.isfinite(x).all(), r.name
        same(x, y)


@needs_gcc
def test_nan_spoils_no_neighbour(tmp_path):
    tree = ds.mechanisms.chain(3)
    program = delassus_program("arm", tree, [ds.Weld("link3")], "pv-osim")
    function, q = Compiled(program, tmp_path), tree.random(0, batch=3)
    (clean,) = function(q)
    for bad in (np.nan, np.inf, -np.inf):
        q[1, 1] = bad
        (found,) = function(q)
        same(found[[0, 2]], clean[[0, 2]])
        assert np.isnan(found[1]).any()


# -- cutting -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("part", [1, 7, 100, 5000])
def test_cut_programs_compute_the_same(tmp_path, monkeypatch, part, dtype):
    tree = ds.mechanisms.chain(3)
    constraints = [ds.Weld("link3"), ds.Rows("link2", 1)]
    program = delassus_program("whole", tree, constraints, "pv-osimr")
    arguments = draw(program, tree, np.random.default_rng(0), (5,))
    (whole,) = Compiled(program, tmp_path, dtype)(*arguments)
    monkeypatch.setattr(c, "UNCUT", 0)
    monkeypatch.setattr(c, "PART", part)
    monkeypatch.setattr(c, "STACK", 0 if part == 7 else c.STACK)  # and with memory that a call allocates
    cut = replace(program, name="cut")
    assert ("malloc(" in c_source(cut)[1]) == (part == 7)
    same(Compiled(cut, tmp_path, dtype)(*arguments)[0], whole)
    n_parts = -(-program.graph.count().total // part)
    assert c_source(cut)[1].count("static void cut_") == (n_parts + 1 if n_parts > 1 else 1)


def test_workspace_slots_are_used_again(monkeypatch):
    """A long sum needs one slot, however often it is cut."""
    build = Builder()
    total = build.node(Op.INPUT, 0)
    for i in range(1, 100):
        total = build.node(Op.ADD, total, build.node(Op.INPUT, i))
    monkeypatch.setattr(c, "UNCUT", 10)
    monkeypatch.setattr(c, "PART", 10)
    source = c_source(plain_program(build.graph([[total]]), 100))[1]
    assert "double w[1];" in source and source.count("_part9(") == 2 and "_part10(" not in source


@pytest.mark.slow
@needs_gcc
def test_long_programs_compile_in_reasonable_time(tmp_path):
    """Some 15 000 operations; whole, gcc -O2 takes three times as long as in parts."""
    rng = np.random.default_rng(0)
    build = Builder()
    nodes = [build.node(Op.INPUT, i) for i in range(20)]
    while len(nodes) < 15_000:
        near = rng.integers(max(0, len(nodes) - 60), len(nodes), 2)
        kind = Op.MULTIPLY if rng.random() < 0.3 else Op.ADD if rng.random() < 0.5 else Op.SUBTRACT
        nodes.append(build.node(kind, nodes[near[0]], nodes[near[1]]))
    program = plain_program(build.graph([nodes[-50:]]), 20, name="long")
    x = rng.uniform(-0.5, 0.5, (3, 20))
    same(Compiled(program, tmp_path, flags=("-O2",))(x)[0], reference(program, x)[0])


# -- text ----------------------------------------------------------------------------------------------------------


def scaled(name="scaled", x="x", y="y", comment=(), meaning=""):
    """y = 2 x, for two numbers."""
    build = Builder()
    nodes = [build.node(Op.MULTIPLY, build.node(Op.INPUT, i), build.constant(2.0)) for i in range(2)]
    return Program(name, build.graph([nodes]), (Argument(x, (2,), meaning),), (Result(y, (2,), (0, 1)),), comment)


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize(
    "name, x, y",
    [
        ("double", "int", "for"),
        ("sin", "cos", "fabs"),
        ("main", "t1", "w"),
        ("3R arm/left", "q-1", "q 1"),
        ("same", "same", "same"),
        ("same", "same_batch", "w0"),
        ("NULL", "NAN", "INFINITY"),
        ("Größe", "λ", "__"),
        ("_Bool", "_Complex", "linux"),
    ],
)
def test_names_are_escaped(tmp_path, name, x, y):
    """As C under both dialects of gcc, and as C++."""
    program = scaled(name, x, y)
    assert Compiled(program, tmp_path)(np.array([1.0, 3.0]))[0].tolist() == [2.0, 6.0]
    (source,) = tmp_path.glob("*.c")
    commands = [[GCC, "-std=gnu99", "-Wall", "-Wextra", "-Wshadow", "-Werror"]]
    if shutil.which("g++"):
        commands.append(["g++", "-Wall", "-Wextra", "-pedantic", "-Werror", "-x", "c++"])
    for command in commands:
        outcome = subprocess.run([*command, "-fsyntax-only", str(source)], capture_output=True, text=True, timeout=60)
        assert outcome.returncode == 0, outcome.stderr


@needs_gcc
def test_functions_of_the_c_library_do_not_take_their_place(tmp_path):
    """A batch entry that called ``random`` would find the C library's."""
    x = np.array([[1.0, 3.0], [5.0, 7.0]])
    assert np.array_equal(Compiled(scaled("random", "read", "write"), tmp_path)(x)[0], 2 * x)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("talos_delassus", "talos_delassus"),
        ("a  b", "a_b"),
        ("", "x"),
        ("___", "x"),
        ("7dof", "x7dof"),
        ("while", "while_"),
        ("atan2f", "atan2f_"),
        ("t12", "t12_"),
    ],
)
def test_identifiers(text, expected):
    assert identifier(text) == expected


def test_long_identifiers_are_short_and_differ():
    """File systems take names of up to 255 bytes."""
    names = {identifier("a" * 300), identifier("a" * 300 + "b"), identifier("é" * 300), identifier("a" * 299)}
    assert len(names) == 4 and max(map(len, names)) <= 100


def test_identifiers_avoid_those_taken():
    names = []
    for _ in range(5):
        names.append(identifier("sin", names))
    assert len(set(names)) == 5 and all(re.fullmatch(r"[A-Za-z]\w*", n) and "__" not in n for n in names)


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_literals_are_exact(value):
    assert float.fromhex(literal(value)) == value
    assert math.copysign(1, float.fromhex(literal(value))) == math.copysign(1, value)
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if np.isfinite(single):
        text = literal(value, "float")
        assert text.endswith("f") and np.float32(float.fromhex(text[:-1])) == single == float.fromhex(text[:-1])
    else:
        assert literal(value, "float") == ("INFINITY" if value > 0 else "-INFINITY")


@pytest.mark.slow
@needs_gcc
@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=200), st.sampled_from(["*/", "/*/", "??/", "*\\", "\\", "//", "*" * 300]))))
def test_comments_stay_comments(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("comment")
    Compiled(scaled(comment=tuple(lines), meaning=" ".join(lines)), folder)


def test_comments_are_wrapped():
    words = " ".join(f"link{i}" for i in range(60))
    lines = comment([f"  q: {words}"])
    assert all(len(line) <= 120 for line in lines)
    assert " ".join(" ".join(lines).replace("*", "").split()).strip("/ ") == f"q: {words}"


@needs_gcc
def test_arguments_without_use_and_empty_arrays(tmp_path):
    """Whatever a program leaves unused or empty, compilers stay quiet."""
    build = Builder()
    two = build.constant(2.0)
    build.node(Op.SIN, build.node(Op.INPUT, 1))
    graph = build.graph([[], [two, build.node(Op.INPUT, 2)]])
    arguments = (Argument("a", (0,)), Argument("b", (2,)), Argument("c", ()), Argument("d", (2, 2)))
    results = (Result("r", (0, 0), ()), Result("s", (2, 2), (0, 1, 1, 0)), Result("k", (), (1,)))
    program = Program("odd", graph, arguments, results)
    for dtype in ("float64", "float32"):
        r, s, k = Compiled(program, tmp_path, dtype)(np.zeros(0), np.ones(2), np.array(5.0), np.ones((2, 2)))
        assert r.shape == (0, 0) and s.tolist() == [[2.0, 5.0], [5.0, 2.0]] and k == 5.0
    nothing = Program("nothing", Builder().graph([[]]), (), ())
    write_c(nothing, tmp_path)
    command = [GCC, *STRICT, "-c", str(tmp_path / "nothing.c"), "-o", str(tmp_path / "nothing.o")]
    assert subprocess.run(command, timeout=60).returncode == 0
    function = casadi_function(program)
    assert function.size_out("r") == (0, 0)
    found = np.array(function(ca.DM(0, 1), [1, 1], 5.0, np.ones((2, 2)))[1])
    assert found.tolist() == [[2.0, 5.0], [5.0, 2.0]]


def test_headers_say_what_they_compute(tmp_path):
    program = replace(
        delassus_program("arm", ds.mechanisms.chain(2), [ds.Weld("link2"), ds.Rows("link1", 2)], "pv-osim"),
        comment=("Delassus matrix of an arm.", "Robot: fingerprint 1234."),
    )
    header, source = (path.read_text() for path in write_c(program, tmp_path / "new" / "folder"))
    for line in program.comment:
        assert line in header and line in source
    assert " *   q: double[2], 2; configuration, rad and m" in header
    assert " *   K1: double[12], 2 x 6; rows [linear; angular] on the link's body frame" in header
    assert " *   G: double[64], 8 x 8; Delassus matrix" in header
    assert "void arm(const double *q, const double *K1, double *G);" in header
    assert "void arm_batch(size_t n, const double *q, const double *K1, double *G);" in header
    assert re.findall("#include .*", source) == ['#include "arm.h"', "#include <math.h>", "#include <stdint.h>"]
    assert "alloc" not in source
    assert c_source(program) == (header, source) == c_source(program)


def test_headers_say_all_that_is_built_in(tmp_path):
    """Offsets, axes, rows, gains, damping, gravity, joints in order, sizes."""
    tree = damped_chain()
    held = [ds.Point(ds.Frame("link3", (0.1, 0.0, 0.2)), axes="world"), ds.Hinge("link2", axis=(0, 1, 0))]
    asked = requested(tree, held, "step", baumgarte=(20.0, None), compliance=1e-6)
    header = write_c(make_program(asked, with_rcond=False), tmp_path)[0].read_text()
    text = " ".join(header.replace(" * ", " ").split())
    for told in (
        "Gravity: (0, 0, -9.81) m/s^2.",
        "link1_joint: revolute, q[0], v[0], damping 0.25 link2_joint: revolute, q[1], v[1], damping 0.25 link3_joint:",
        "0, rows 0-2: Point(Frame('link3', [0.1, 0.0, 0.2]), axes='world', 3 rows); stabilised by 40 (velocity error) "
        "+ 400 (position error); compliance (1e-06, 1e-06, 1e-06)",
        "rows (1, 0, 0, 0, 0, 0) | (0, 1, 0, 0, 0, 0) | (0, 0, 1, 0, 0, 0) | (0, 0, 0, 1, 0, 0) | (0, 0, 0, 0, 0, 1);",
        "integrator semi-implicit",
        "#define CHAIN3_STEP_SIZE_q 3 #define CHAIN3_STEP_SIZE_v 3 #define CHAIN3_STEP_SIZE_tau 3",
    ):
        assert told in text, header
    asked = requested(tree, [ds.Contact("link3", ds.contact.Sphere(0.1), friction=0.7)], "contact_step")
    assert any("friction 0.7, restitution 0" in line for line in file_header(asked))
    asked = requested(tree, [ds.JointRows({"link1_joint": 1, "link2_joint": -2.5})], "dynamics")
    assert any(
        "row 0: " in line and "1 link1_joint; -2.5 link2_joint, at rest 0" in line for line in file_header(asked)
    )


def damped_chain():
    tree = ds.mechanisms.chain(3)
    return replace(tree, joints=tuple(replace(joint, damping=np.array([0.25])) for joint in tree.joints))


@pytest.mark.slow
@pytest.mark.skipif(GCC is None or shutil.which("cmake") is None, reason="needs CMake and gcc")
def test_the_example_project_is_built_and_steps_as_the_kernel_does(tmp_path):
    project = Path(__file__).parent.parent / "examples" / "c_project"
    generated, build = tmp_path / "generated", tmp_path / "build"
    for command in (
        [sys.executable, project / "export.py", generated],
        ["cmake", "-S", project, "-B", build, f"-DGENERATED={generated}", f"-DCMAKE_C_COMPILER={GCC}"],
        ["cmake", "--build", build],
        [build / "arm"],
    ):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    arm, zero = ds.mechanisms.chain(7), np.zeros(7)
    step = ds.compile(arm, [ds.Point(ds.Frame("link7", (0.0, 0.0, -0.3)))], "step", baumgarte=20.0)
    qs, _ = ds.rollout(step, 0.1 * np.arange(1, 8), zero, np.zeros((1000, 7)), 1e-3)
    assert error([float(line) for line in done.stdout.split()], qs[-1]) < 1e-9  # round-off of 1,000 steps


# -- golden files --------------------------------------------------------------------------------------------------

GOLDEN_PROGRAMS = {
    "pendulum_point": (ds.mechanisms.chain(2), [ds.Point("link2")], "pv-osim", "double"),
    "arm_rows": (ds.mechanisms.chain(3), [ds.Rows("link3", 2), ds.Rows("link1", np.eye(6)[2:3])], "pv-osimr", "float"),
}


def golden_program(name):
    tree, constraints, method, _ = GOLDEN_PROGRAMS[name]
    program = delassus_program(name, tree, constraints, method)
    about = (
        f"Delassus matrix J M^-1 J' of {tree.name}, {constraints!r}, by {method}.",
        f"{program.graph.count().total} operations; robot {tree.fingerprint}",
        f"delassus {ds.__version__}, numpy {np.__version__}",
    )
    return replace(program, comment=about)


@pytest.mark.parametrize("name", GOLDEN_PROGRAMS)
def test_golden_files(name):
    """The generated code as it was; set DELASSUS_REGENERATE_GOLDEN=1 to write it anew, and read the difference."""
    for suffix, text in zip((".h", ".c"), c_source(golden_program(name), GOLDEN_PROGRAMS[name][3]), strict=True):
        normalised = re.sub(r"\b(delassus|numpy) \d[\w.+]*", r"\1 VERSION", text)
        path = GOLDEN / f"{name}{suffix}"
        if os.environ.get(REGENERATE):
            path.parent.mkdir(exist_ok=True)
            path.write_text(normalised, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == normalised, f"{path.name} differs; if it should, set {REGENERATE}=1"


GO1 = [ds.Point(f"{leg}_foot") for leg in ("FL", "FR", "RL", "RR")]
FEET = [ds.Weld("left_foot"), ds.Point("right_foot")]
GOLDEN_KERNELS = {
    "humanoid, dynamics": (ds.mechanisms.humanoid, FEET, "dynamics"),
    "ladder, step": (lambda: ds.mechanisms.ladder(4), [ds.Weld("left4", "right4")], "step"),
    "go1, delassus": (lambda: robot_file("go1"), GO1, "delassus"),
    "go1, dynamics": (lambda: robot_file("go1"), GO1, "dynamics"),
}


def robot_file(name):
    if name not in example_robot_files():
        pytest.skip("example-robot-data is not installed")
    return ds.load(name, root="floating")


def outline(text):
    """Digest of generated code without its comments, numbers to ten digits: alike on every machine."""
    text = re.sub(r"(?s)/\*.*?\*/", "", text)
    text = re.sub(r"0x[0-9A-F]{16}\b", lambda m: f"{struct.unpack('>d', bytes.fromhex(m[0][2:]))[0]:.9e}", text)
    text = re.sub(r"0x[01]\.[0-9a-f]+p[+-]\d+", lambda m: f"{float.fromhex(m[0]):.9e}", text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")  # one link of the file of go1
@pytest.mark.parametrize("name", GOLDEN_KERNELS)
def test_golden_kernels(name):
    """C and LLVM of whole robots as they were: operations and digests."""
    make, constraints, what = GOLDEN_KERNELS[name]
    program = make_program(requested(make(), constraints, what))
    llvm = "".join(llvm_module(program, "double", lanes, registers=32, has_fma=True) for lanes in (1, 8))
    found = {
        "operations": program.graph.count().total,
        "C": outline(c_source(program)[1]),
        "LLVM": outline(llvm),
    }
    path = GOLDEN / "kernels.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    if os.environ.get(REGENERATE):
        known[name] = found
        path.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    assert known[name] == found, f"{name} differs; if it should, set {REGENERATE}=1"


def test_graph_groups_are_counted_through():
    """Entries of results number the outputs of all groups one after the other."""
    build = Builder()
    x, y = build.node(Op.INPUT, 0), build.node(Op.INPUT, 1)
    graph: Graph = build.graph([[build.node(Op.ADD, x, y)], [], [x, build.node(Op.SUBTRACT, x, y)]])
    program = Program("groups", graph, (Argument("x", (2,)),), (Result("a", (2,), (2, 0)), Result("b", (), (1,))))
    _, source = c_source(program)
    assert all(f"{line};" in source for line in ("a[0] = x[0] - x[1]", "a[1] = x[0] + x[1]", "b[0] = x[0]"))
    a, b = casadi_function(program)(np.array([5.0, 3.0]))
    assert np.array(a).ravel().tolist() == [2.0, 8.0] and float(b) == 5.0


def test_a_toy_target_needs_its_text_and_the_table():
    """Straight-line Python by the expressions of the table computes what the kernel does."""
    tree, constraints = ROBOTS["arm, weld"]
    graph, lines = kernel_graph(tree, constraints, "pv-osim"), []
    for k, (op, *operands) in enumerate(graph.nodes()):
        names = [f"(x{i})" for i in operands]
        leaf = {Op.INPUT: f"q[{operands[0]}]", Op.CONSTANT: repr(float(graph.value[k]))}
        lines.append(f"x{k} = {leaf[op] if op in leaf else c.OPERATIONS[op].c.format(*names, f='')}")
    q, scope = tree.random(2), {"ds_sin": math.sin, "ds_cos": math.cos, "sqrt": math.sqrt}
    exec("\n".join(lines), scope | {"q": q.tolist()}, found := {})
    expected = ds.delassus(tree, constraints, q, method="pv-osim")
    lower = np.tril_indices(len(expected))
    assert error(np.array([found[f"x{k}"] for k in graph.flat_outputs()]), expected[lower]) < ROUND_OFF


@pytest.mark.skipif(os.name == "nt", reason="limits of a process")
def test_files_that_do_not_fit_leave_what_was_there(tmp_path):
    kernel = ds.compile(ds.mechanisms.chain(3), ds.Point("link3"), "delassus")
    paths = kernel.export_c(tmp_path)
    for path in paths:
        path.write_bytes(b"of before")
    assert "expected a file that can be written" in on_a_full_disk(partial(kernel.export_c, tmp_path))
    assert sorted(tmp_path.iterdir()) == sorted(paths) and {path.read_bytes() for path in paths} == {b"of before"}
    with pytest.raises(OSError, match="Check the folder") as caught:
        kernel.export_c(paths[0])
    assert isinstance(caught.value, ds.DelassusError) and pickle.loads(pickle.dumps(caught.value)).expected
