"""Numerical tests as on other processors, and how near to their bounds errors come.

``python tests/processors.py`` runs them with the kernels of BLAS and the vector features of each of `PROCESSORS` that
this one can imitate, twice, with other seeds, a case of each test, and lists the bounds that were nearly met. ``python
tests/processors.py --only Nehalem --seeds 1 FILES`` runs all cases of some files; what it does not know goes to pytest.
It is the plugin of these runs, too.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parent

PROCESSORS = {
    "Prescott": "sse2", "Nehalem": "sse4", "Haswell": "avx2", "Zen": "avx2", "SkylakeX": "avx512",
}  # fmt: skip
"""Kernels of OpenBLAS by name, and the vector features that the processor has."""

LEVELS = {
    "sse2": ("x86-64", r"(sse3|ssse3|sse4|avx|fma|f16c|xop|vaes|vpclmul|gfni|evex)", r".*"),
    "sse4": ("x86-64-v2", r"(sse4a|avx|fma|f16c|xop|vaes|vpclmul|gfni|evex)", r".*"),
    "avx2": ("x86-64-v3", r"(avx512|avx10|evex|amx)", r"(AVX512|AVX10|X86_V4)"),
    "avx512": ("", r"$.", r"$."),
}
"""By level: LLVM's name of the processor, and what LLVM and NumPy are told that it lacks. NumPy keeps features that it
was built for."""

FILES = (
    "test_closed_loops", "test_compiled_dynamics", "test_differentiate", "test_dynamics", "test_dynamics_derivatives",
    "test_dynamics_methods", "test_dynamics_soft", "test_elimination_order", "test_error_estimates",
    "test_formulations", "test_joint_rows", "test_kernel", "test_building_blocks", "test_operator", "test_physics",
    "test_precision", "test_quantities", "test_random_mechanisms", "test_runtime_inputs", "test_trig",
)  # fmt: skip
"""Of numerical tests."""

LEFT_OUT = (
    "test_all_give_the_same_velocities", "test_compliance_of_each_state", "test_impacts",
    "test_impacts_never_gain_energy", "test_kernels_of_a_robot_of_bad_inertias",
    "test_long_ladders_cost_in_proportion_to_their_length", "test_loops", "test_loops_that_can_be_off",
    "test_mujoco", "test_no_choice_is_worse_than_waiting", "test_planar_mechanisms_are_solved_by_all",
    "test_rollouts_where_rows_are_dependent", "test_rollouts_whose_numbers_overflow",
    "test_smooth_step_is_that_of_forward_dynamics", "test_soft_constraints_that_can_be_off",
    "test_what_is_solved_at_open_loops_obeys_the_laws",
    "test_what_there_is_to_absorb",
)  # fmt: skip
"""Of these files: counts, and what takes long and says the same as others. Where no files are named, these are left
out, and one case of each other test runs, another one with other seeds: all cases on all processors would take hours,
and so it is about five minutes of one core for a processor with one seed."""

MARGIN = 4.0
"""A bound is this many times as large as the worst error; what comes nearer is listed."""

ROUND_OFF = 1e-2
"""Bounds below this are compared with errors of numbers; others are counts, physical quantities and ratios."""

STRIDE = 1_000_003
"""Seeds of one run are this far from those of the next."""


# -- the plugin -----------------------------------------------------------------------------------------------------


def pytest_addoption(parser):
    group = parser.getgroup("processors")
    group.addoption("--vectors", choices=LEVELS, help="features of the processor that kernels are compiled for")
    group.addoption("--seed-shift", type=int, default=0, help="number of other seeds for np.random.default_rng")
    group.addoption("--sampled", action="store_true", help="one case of each test, without those that take long")
    group.addoption("--margins", help="folder for how near to their bounds the compared numbers came")


def pytest_configure(config):
    if config.option.vectors:
        cut_features(config.option.vectors)
    if config.option.seed_shift:
        shift_seeds(config.option.seed_shift * STRIDE)
    if config.option.margins:
        record_margins()


def pytest_collection_modifyitems(config, items):
    if config.option.sampled:
        cases: dict[str, list[pytest.Item]] = {}
        for item in items:
            if item.originalname not in LEFT_OUT:
                cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        items[:] = [of_test[config.option.seed_shift % len(of_test)] for of_test in cases.values()]


def cut_features(level):
    """Let LLVM see a processor with fewer vector features."""
    import llvmlite.binding as llvm

    name, without, _ = LEVELS[level]
    features = llvm.get_host_cpu_features()
    for feature in features:
        features[feature] &= not re.match(without, feature)
    cpu = name or llvm.get_host_cpu_name()
    llvm.get_host_cpu_features, llvm.get_host_cpu_name = lambda: features, lambda: cpu


def shift_seeds(shift):
    """Other random numbers wherever a seed is a number; the library's own included."""
    generator = np.random.default_rng
    np.random.default_rng = lambda seed=None: generator(seed + shift if isinstance(seed, int) else seed)


RATIOS: dict[str, float] = {}


def note(error, bound, place):
    """Keep the largest ratio of an error to its bound at a place, of floating-point numbers."""
    if np.result_type(error).kind != "f" or np.result_type(bound).kind != "f":
        return
    error, bound = np.broadcast_arrays(np.asarray(error, dtype=float), np.asarray(bound, dtype=float))
    judged = (bound > 0) & (bound < ROUND_OFF)
    if judged.any():
        RATIOS[place] = max(RATIOS.get(place, 0.0), float((error[judged] / bound[judged]).max()))


class Recorder(ast.NodeTransformer):
    """Comparisons ``error < bound`` that assertions require, alone, with others or of all entries, by way of `note`."""

    def __init__(self, file):
        self.file = file

    def visit_Assert(self, node):
        node.test = self.required(node.test)
        return node

    def required(self, test):
        """The test with what has to hold for it noted."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            test.values = [self.required(value) for value in test.values]
        elif isinstance(test, ast.Call) and ast.unparse(test.func) in ("np.all", "all") and len(test.args) == 1:
            test.args = [self.required(test.args[0])]
        elif isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and test.func.attr == "all":
            test.func.value = self.required(test.func.value)
        elif isinstance(test, ast.GeneratorExp):
            test.elt = self.required(test.elt)
        elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Lt | ast.LtE):
            arguments = [test.left, test.comparators[0], ast.Constant(f"{self.file}:{test.lineno}")]
            call = ast.Call(ast.Name("noted_" + type(test.ops[0]).__name__, ast.Load()), arguments, [])
            return ast.fix_missing_locations(ast.copy_location(call, test))
        return test


def record_margins():
    """Have pytest's rewriting of assertions note ratios; and NumPy's and pytest's comparisons with tolerances."""
    from _pytest.assertion import rewrite

    def comparing(compare):
        def noted(error, bound, place):
            try:
                note(error, bound, place)
            except (TypeError, ValueError):
                pass  # these are no numbers
            return compare(error, bound)

        return noted

    builtins.noted_Lt, builtins.noted_LtE = comparing(lambda x, y: x < y), comparing(lambda x, y: x <= y)
    own = rewrite.rewrite_asserts

    def rewrite_asserts(mod, source, module_path=None, config=None):
        Recorder(Path(module_path).name).visit(mod)
        own(mod, source, module_path, config)

    rewrite.rewrite_asserts = rewrite_asserts
    rewrite.PYC_TAIL = f"-noted-{crc32(Path(__file__).read_bytes()):08x}{rewrite.PYC_TAIL}"  # of these alone

    def caller():
        frame = sys._getframe(2)
        while FOLDER not in (path := Path(frame.f_code.co_filename)).parents or path == Path(__file__):
            if (frame := frame.f_back) is None:
                return "elsewhere"
        return f"{path.name}:{frame.f_lineno}"

    def tolerant(compare, rtol):
        def close(actual, desired, rtol=rtol, atol=0.0 if rtol == 1e-7 else 1e-8, **more):
            try:
                note(np.abs(np.subtract(actual, desired)), atol + rtol * np.abs(desired), caller())
            except (TypeError, ValueError):
                pass
            return compare(actual, desired, rtol=rtol, atol=atol, **more)

        return close

    np.allclose, np.testing.assert_allclose = tolerant(np.allclose, 1e-5), tolerant(np.testing.assert_allclose, 1e-7)
    approx = pytest.approx

    class Noted:
        __array_ufunc__ = None  # arrays leave the comparison to this

        def __init__(self, expected, rel=None, abs=None, **more):
            self.given, self.inner = (expected, rel, abs), approx(expected, rel, abs, **more)

        def __eq__(self, actual):
            expected, rel, absolute = self.given
            try:
                size = np.abs(np.asarray(expected, dtype=float))
                bound = np.maximum((1e-6 if rel is None and absolute is None else rel or 0.0) * size,
                                   1e-12 if absolute is None else absolute)  # fmt: skip
                note(np.abs(np.subtract(actual, expected)), bound, caller())
            except (TypeError, ValueError):
                pass
            return self.inner == actual

        def __repr__(self):
            return repr(self.inner)

    pytest.approx = Noted


def pytest_sessionfinish(session):
    if session.config.option.margins and RATIOS:
        Path(session.config.option.margins, f"{os.getpid()}.json").write_text(json.dumps(RATIOS))


# -- the script -----------------------------------------------------------------------------------------------------


def lacking(level):
    """What NumPy is told that the processor lacks."""
    from numpy._core import _multiarray_umath as numpy

    return [
        name for name in numpy.__cpu_dispatch__ if numpy.__cpu_features__[name] and re.match(LEVELS[level][2], name)
    ]


def can_imitate(level):
    import llvmlite.binding as llvm

    return level != "avx512" or bool(llvm.get_host_cpu_features().get("avx512f"))


def blas():
    """Name of the kernels that NumPy's OpenBLAS takes; empty if NumPy has another BLAS."""
    for path in Path(np.__file__).parents[1].glob("numpy.libs/*openblas*"):
        if (name := getattr(ctypes.CDLL(str(path)), "scipy_openblas_get_corename64_", None)) is not None:
            name.restype = ctypes.c_char_p
            return name().decode()
    return ""


def environment(processor):
    """Variables of a process as on a processor."""
    return {
        **os.environ, "OPENBLAS_CORETYPE": processor,
        "NPY_DISABLE_CPU_FEATURES": " ".join(lacking(PROCESSORS[processor])), "DELASSUS_COMPILE": "wait",
        "PYTHONPATH": os.pathsep.join([str(FOLDER), *sys.path]),
    }  # fmt: skip


def kernels_of(processor):
    """What `blas` says as on a processor; OpenBLAS may have none for it, and takes those of another."""
    command = [sys.executable, "-c", "import processors; print(processors.blas())"]
    return subprocess.run(
        command, env=environment(processor), check=True, capture_output=True, text=True
    ).stdout.strip()


def run(processor, shift, arguments):
    """Exit status of pytest as on a processor, and the ratios of errors to bounds, by file and line."""
    level = PROCESSORS[processor]
    with tempfile.TemporaryDirectory() as folder:
        variables = environment(processor)
        options = ["-p", "processors", "--vectors", level, "--seed-shift", str(shift), "--margins", folder]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", *options, *arguments]
        status = subprocess.run(command, cwd=FOLDER.parent, env=variables).returncode
        ratios: dict[str, float] = {}
        for path in Path(folder).glob("*.json"):
            for place, ratio in json.loads(path.read_text()).items():
                ratios[place] = max(ratio, ratios.get(place, 0.0))
    return status, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PROCESSORS, action="append", help="processors; all, unless given")
    parser.add_argument("--seeds", type=int, default=2, help="runs of each, with other seeds; two, unless given")
    given, arguments = parser.parse_known_args()
    if not any(argument.partition("::")[0].endswith(".py") for argument in arguments):
        arguments += [str(next(FOLDER.rglob(f"{name}.py"))) for name in FILES]
        arguments.append("--sampled")
    worst: dict[str, list[float]] = {}
    failed, done = [], dict[tuple[str, str], str]()
    for name in given.only or PROCESSORS:
        level = PROCESSORS[name]
        if not can_imitate(level):
            print(f"{name}: not run, this processor has no {level}", flush=True)
            continue
        kernels = kernels_of(name)
        if (other := done.setdefault((kernels, level), name)) != name:
            print(f"{name}: as {other}, for NumPy's BLAS has no kernels of its own for it", flush=True)
            continue
        for shift in range(given.seeds):
            print(f"{name}: BLAS {kernels!r}, {level}, seeds + {shift * STRIDE}", flush=True)
            status, ratios = run(name, shift, arguments)
            failed += [f"{name}, seeds + {shift * STRIDE}"] if status else []
            for place, ratio in ratios.items():
                worst.setdefault(place, []).append(ratio)
    near = sorted((max(ratios), min(ratios), place) for place, ratios in worst.items() if max(ratios) * MARGIN > 1.0)
    print(f"{len(worst)} bounds; met by less than a factor of {MARGIN:g} (smallest and largest share of the bound):")
    for most, least, place in near:
        print(f"  {place}: {least:.2g} … {most:.2g}")
    print(f"failed: {failed}" if failed else "all passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
