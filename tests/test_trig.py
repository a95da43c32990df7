"""Sine and cosine of the compiler, compiled for this machine, in units in the last place (ulp).

The reference is `numpy.longdouble` (80 bits on x86), which counts only because it is itself compared with mpmath here,
at the arguments nearest to multiples of π/2 too: that is where a reduction with too few bits of π shows.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import platform

import mpmath
import numpy as np
import pytest

from delassus.compiler.targets.llvm.text import LlvmText
from internals import sincos as trig
from programs import same

llvm = pytest.importorskip("llvmlite.binding")

PROMISE = 2.0
"""ulp, of both functions in both precisions."""

REFERENCE = 0.01
"""ulp of float64 by which the reference may differ from mpmath (80-bit numbers: 2^-11 = 0.0005)."""

ABSOLUTE_FLOAT = 2e-7
"""Short reduction in float32 up to 1e5: near zeros of the result its error is absolute."""

LANES = (1, 2, 4, 8, 16)
DTYPE = {"double": np.float64, "float": np.float32}
X86 = platform.machine().lower() in ("x86_64", "amd64")

x86 = pytest.mark.skipif(not X86, reason="needs an older machine of the same architecture")
wide = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no floating-point type longer than float64")


def target_machine(oldest):
    """Code generator of this machine, or of the oldest of its architecture."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    if oldest:
        cpu, features = "x86-64", ""
    return llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=2)


def has_fma():
    """Whether this machine has the instruction."""
    features = llvm.get_host_cpu_features()
    return bool(features.get("fma") or features.get("neon") or not X86)


needs_fma = pytest.mark.skipif(not has_fma(), reason="no fused multiply-add on this machine")
MACHINES = [pytest.param(False, id="this-machine"), pytest.param(True, id="oldest", marks=x86)]
FLOAT_VARIANTS = [
    pytest.param(False, True, id="fused", marks=needs_fma),
    pytest.param(False, False, id="plain"),
    pytest.param(True, False, id="oldest-plain", marks=x86),
]
VARIANTS = [
    pytest.param(scalar, *variant.values, id=f"{scalar}-{variant.id}", marks=variant.marks)
    for scalar in DTYPE
    for variant in FLOAT_VARIANTS
]


@functools.cache
def compiled(lanes, scalar, **options):
    """`Compiled`, once for each set of arguments."""
    return Compiled(lanes, scalar, **options)


class Compiled:
    """Sine and cosine as a function of NumPy arrays, `lanes` numbers at a time."""

    def __init__(self, lanes, scalar, *, oldest=False, passes=True, has_fma):
        self.lanes, self.dtype = lanes, np.dtype(DTYPE[scalar])
        text = LlvmText(lanes, scalar, has_fma)
        results = trig.sincos(text, "%a")
        align = self.dtype.itemsize
        lines = ["define void @f(ptr %p, ptr %q, i64 %n) {", "entry:", "br label %loop", "loop:"]
        lines += ["%i = phi i64 [0, %entry], [%next, %loop]", f"%pi = getelementptr {text.vector}, ptr %p, i64 %i"]
        lines.append(f"%a = load {text.vector}, ptr %pi, align {align}")
        lines += text.lines
        for k, name in enumerate(results):
            lines += [f"%k{k} = mul i64 %i, 2", f"%l{k} = add i64 %k{k}, {k}"]
            lines.append(f"%q{k} = getelementptr {text.vector}, ptr %q, i64 %l{k}")
            lines.append(f"store {text.vector} {name}, ptr %q{k}, align {align}")
        lines += ["%next = add i64 %i, 1", "%more = icmp slt i64 %next, %n"]
        lines += ["br i1 %more, label %loop, label %end", "end:", "ret void", "}"]
        module = llvm.parse_assembly("\n".join([*sorted(text.declarations), *lines]))
        module.verify()
        machine = target_machine(oldest)
        if passes:
            tuning = llvm.create_pipeline_tuning_options(speed_level=2)
            tuning.loop_vectorization = False  # the lanes are the ones asked for
            builder = llvm.create_pass_builder(machine, tuning)
            builder.getModulePassManager().run(module, builder)
        self.assembly = machine.emit_assembly(module)
        self.engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(oldest))
        self.engine.add_object_file(llvm.ObjectFileRef.from_data(machine.emit_object(module)))
        self.engine.finalize_object()
        pointer = ctypes.c_void_p
        self.call = ctypes.CFUNCTYPE(None, pointer, pointer, ctypes.c_int64)(self.engine.get_function_address("f"))

    def __call__(self, x):
        """Array (n,) → sines and cosines (n,)."""
        blocks = -(-len(x) // self.lanes)
        padded = np.zeros(blocks * self.lanes, dtype=self.dtype)
        padded[: len(x)] = x
        out = np.empty((blocks, 2, self.lanes), dtype=self.dtype)
        self.call(padded.ctypes.data, out.ctypes.data, blocks)
        return [np.ascontiguousarray(out[:, k]).reshape(-1)[: len(x)] for k in range(2)]


def ulps(actual, exact):
    """Largest error in ulp of the exact number (longdouble, or float64 for float32 results)."""
    information = np.finfo(actual.dtype)
    exponent = np.maximum(np.frexp(exact)[1], information.minexp + 1) - (information.nmant + 1)
    difference = np.abs(actual.astype(exact.dtype) - exact)
    assert np.all(np.isfinite(difference))
    return float(np.max(difference * np.ldexp(exact.dtype.type(1), -exponent), initial=0.0))


def in_two(values):
    """Longdouble numbers as sums of two float64, as lists."""
    high = values.astype(np.float64)
    return high.tolist(), (values - high).astype(np.float64).tolist()


def near_quarter_turns(largest, dtype=np.float64):
    """The number nearest to k π/2 for all k up to that, and its two neighbours, with both signs."""
    with mpmath.workdps(40):
        rest = np.longdouble(float(mpmath.pi / 2 - mpmath.mpf(np.pi / 2)))
    k = np.arange(1, largest + 1).astype(np.longdouble)
    x = (k * np.longdouble(np.pi / 2) + k * rest).astype(dtype)
    x = np.concatenate([x, np.nextafter(x, dtype(0)), np.nextafter(x, dtype(np.inf))])
    return np.concatenate([x, -x])


def logarithmic(rng, n, smallest, largest):
    """Numbers of either sign whose logarithm is uniform."""
    return np.exp(rng.uniform(np.log(smallest), np.log(largest), n)) * rng.choice([-1.0, 1.0], n)


@pytest.fixture(scope="module")
def sweep():
    """Ten million arguments, in chunks."""
    rng = np.random.default_rng(1)
    limit = trig.LIMIT["double"]
    groups = [near_quarter_turns(1 << 20), rng.uniform(-1e5, 1e5, 1_500_000), rng.uniform(-4, 4, 1_000_000)]
    groups += [logarithmic(rng, 500_000, 1e-300, 1e-3), logarithmic(rng, 600_000, 1e-3, limit)]
    groups.append(rng.uniform(0.999 * limit, limit, 200_000) * rng.choice([-1.0, 1.0], 200_000))
    chunks = [chunk for group in groups for chunk in np.array_split(group, 25)]
    assert sum(map(len, chunks)) > 1e7
    return chunks


@pytest.mark.slow
@wide
def test_reference_of_sine_and_cosine(sweep):
    """A few thousand points of the sweep, and those of its quarter turns where sine or cosine is smallest."""
    turns = np.concatenate(sweep[:25])
    exact = turns.astype(np.longdouble)
    smallest = np.argsort(np.minimum(np.abs(np.sin(exact)), np.abs(np.cos(exact))))
    points = np.concatenate([turns[smallest[:1000]], *(chunk[:: len(chunk) // 20] for chunk in sweep)])
    with mpmath.workdps(60):
        for function, exactly in ((np.sin, mpmath.sin), (np.cos, mpmath.cos)):
            high, low = in_two(function(points.astype(np.longdouble)))
            for x, a, b in zip(points.tolist(), high, low, strict=True):
                exact = exactly(mpmath.mpf(x))
                assert abs(exact - mpmath.mpf(a) - mpmath.mpf(b)) <= REFERENCE * np.spacing(abs(float(exact))), x


def test_pieces_of_the_quarter_turn():
    """They sum to π/2, and the short ones leave room for the multiple."""
    with mpmath.workdps(80):
        for numbers in trig.FORMATS.values():
            for pieces in (numbers.fused, numbers.short):
                rest = mpmath.pi / 2 - sum(map(mpmath.mpf, pieces))
                assert abs(rest) < mpmath.mpf(abs(pieces[-1])) * mpmath.mpf(2) ** -numbers.mantissa
            for piece in numbers.short[:-1]:
                numerator = piece.as_integer_ratio()[0]
                odd = numerator // (numerator & -numerator)
                assert odd.bit_length() + (numbers.quarters + 1).bit_length() <= numbers.mantissa + 1


# -- sine and cosine -----------------------------------------------------------------------------------------------


def largest_errors(f, chunks, convert):
    """Largest error of sine and of cosine, in ulp."""
    worst = np.zeros(2)
    for x in chunks:
        sine, cosine = f(x)
        worst = np.maximum(worst, [ulps(sine, np.sin(convert(x))), ulps(cosine, np.cos(convert(x)))])
    return worst


def report(what, errors):
    """Shown by pytest's option -s."""
    print(f"\n{what}: " + ", ".join(f"{e:.3f} ulp" for e in np.atleast_1d(errors)))


@pytest.mark.slow
@wide
@needs_fma
def test_sine_and_cosine_on_ten_million_arguments(sweep):
    errors = largest_errors(compiled(8, "double", has_fma=True), sweep, np.longdouble)
    report("sin, cos of double", errors)
    assert np.all(errors <= PROMISE)


@pytest.mark.slow
@wide
@pytest.mark.parametrize("oldest", MACHINES)
def test_sine_and_cosine_without_fused_operations(sweep, oldest):
    f = compiled(8, "double", oldest=oldest, has_fma=False)
    errors = largest_errors(f, sweep[::3], np.longdouble)
    report("sin, cos of double, plain", errors)
    assert np.all(errors <= PROMISE)


def float_arguments(rng, largest):
    """float32 arguments up to that: quarter turns, uniform, logarithmic."""
    turns = near_quarter_turns(int(largest / (np.pi / 2)), np.float32)
    uniform = rng.uniform(-largest, largest, 1_000_000).astype(np.float32)
    small = logarithmic(rng, 500_000, 1e-30, largest).astype(np.float32)
    return np.concatenate([turns, uniform, small])


@pytest.mark.slow
@pytest.mark.parametrize("largest", [100.0, trig.LIMIT["float"]])
@pytest.mark.parametrize(("oldest", "has_fma"), FLOAT_VARIANTS)
def test_sine_and_cosine_of_float(largest, oldest, has_fma):
    f = compiled(16, "float", oldest=oldest, has_fma=has_fma)
    x = float_arguments(np.random.default_rng(3), largest)
    errors = largest_errors(f, [x], np.float64)
    report(f"sin, cos of float up to {largest:.0f}, {'fused' if has_fma else 'plain'}", errors)
    if has_fma or largest == 100.0:
        assert np.all(errors <= PROMISE)
    sine, cosine = f(x)
    exact = x.astype(np.float64)
    assert max(np.max(np.abs(sine - np.sin(exact))), np.max(np.abs(cosine - np.cos(exact)))) <= ABSOLUTE_FLOAT


@pytest.mark.slow
@pytest.mark.parametrize("passes", [False, True], ids=["as-emitted", "optimised"])
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(("scalar", "oldest", "has_fma"), VARIANTS)
def test_special_arguments_of_sine_and_cosine(scalar, oldest, has_fma, lanes, passes):
    f = compiled(lanes, scalar, oldest=oldest, passes=passes, has_fma=has_fma)
    dtype = DTYPE[scalar]
    tiny, normal = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).tiny
    small = np.array([0.0, tiny, 3 * tiny, normal / 2, normal, 1e-20], dtype=dtype)
    small = np.concatenate([small, -small])
    sine, cosine = f(small)
    assert np.array_equal(sine, small) and np.array_equal(np.signbit(sine), np.signbit(small))
    assert np.all(cosine == 1.0)
    limit = trig.LIMIT[scalar]
    bad = [np.nan, np.inf, limit + 4, 2 * limit, 2.0**31, 2.0**32, 2.0**52, 2.0**53, 2.0**64, 1e30, np.finfo(dtype).max]
    bad += [2.0**k * 1.2 for k in range(30, 127)]
    for results in f(np.array(bad + [-b for b in bad], dtype=dtype)):
        assert np.all(np.isnan(results))
    edge = np.array([limit, -limit], dtype=dtype)
    sine, cosine = f(edge)
    assert np.all(np.isfinite(sine)) and np.all(np.isfinite(cosine)) and sine[0] == -sine[1] and cosine[0] == cosine[1]


@pytest.mark.parametrize(("scalar", "oldest", "has_fma"), VARIANTS)
def test_lanes_agree_on_sine_and_cosine(scalar, oldest, has_fma):
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.uniform(-1e5, 1e5, 4001), logarithmic(rng, 4000, 1e-30, 1e9), [-0.0, np.nan, np.inf]])
    results = [f(x) for f in (compiled(n, scalar, oldest=oldest, has_fma=has_fma) for n in LANES)]
    for result in results[1:]:
        for actual, expected in zip(result, results[0], strict=True):
            assert np.array_equal(actual, expected, equal_nan=True)
            assert np.array_equal(np.signbit(actual[:-2]), np.signbit(expected[:-2]))  # a NaN has no sign


@needs_fma
@pytest.mark.parametrize("scalar", DTYPE)
def test_the_interpreter_has_the_same_sines_and_cosines(scalar):
    """To the bit."""
    rng = np.random.default_rng(5)
    turns = near_quarter_turns(2000, DTYPE[scalar])
    x = np.concatenate([turns, rng.uniform(-1e6, 1e6, 4001), logarithmic(rng, 4000, 1e-300, 1e9), [-0.0, np.nan]])
    x = x.astype(DTYPE[scalar])
    for of_arrays, of_machine in zip((trig.sine(x), trig.cosine(x)), compiled(4, scalar, has_fma=True)(x), strict=True):
        same(of_arrays, of_machine)


def test_single_numbers_have_the_sines_and_fused_products_of_arrays():
    """To the bit, also of zeros of both signs, one after the other."""
    rng = np.random.default_rng(6)
    x = np.concatenate(
        [near_quarter_turns(500, np.float64), logarithmic(rng, 500, 1e-300, 1e9), rng.uniform(-4, 4, 500)]
    )
    x = np.append(x, [0.0, -0.0, 0.0, np.nan, np.inf, -np.inf])
    same(np.array([trig.sincos_of(number) for number in x.tolist()]).T, np.array([trig.sine(x), trig.cosine(x)]))
    special = [0.0, -0.0, 1.0, -3.0, 5e-324, -5e-324, 1e-160, 1e-308, 1e160, -1.7e308, np.inf, -np.inf, np.nan]
    some = np.array(list(itertools.product(special, repeat=3)) + rng.integers(0, 2**63, (2000, 3)).view(float).tolist())
    with np.errstate(over="ignore"):
        some[-1000:, 2] = -(some[-1000:, 0] * some[-1000:, 1])
    same(np.array([trig.fused_number(*numbers) for numbers in some.tolist()]), trig.fused(*some.T))


@pytest.mark.skipif(not X86, reason="reads the assembly of x86")
@pytest.mark.parametrize("scalar", ["double", "float"])
def test_no_library_is_called(scalar):
    """Nor any branch taken but the loop's, on the oldest machine."""
    assembly = compiled(4, scalar, oldest=True, has_fma=False).assembly
    assert "call" not in assembly
    assert sum(line.startswith("\tj") for line in assembly.splitlines()) == 1
