"""PTX of every quantity, and of robots, is assembled by `ptxas`: pure, and with registers and spills as they are kept.

``python tests/test_ptx.py > tests/golden/ptx.json`` writes what is kept, of all `CASES`; tests take those of `TESTED`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import delassus as ds
from delassus_studies.cases import G1_ENDS, GO1_FEET, TALOS_FEET, Unavailable, points, quiet_load, welds
from delassus_studies.gpu.assembled import assembled, program_at
from delassus_studies.loop_mechanisms import digit_legs_and_arms
from generated_cases import Case
from internals import QUANTITIES
from random_trees import some_constraints, some_mechanism

KEPT = Path(__file__).parent / "golden" / "ptx.json"


def has(name):
    """Whether a program of NVIDIA's is here."""
    try:
        return bool(program_at(name))
    except Unavailable:
        return False


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has("ptxas"), reason="needs ptxas"),
    pytest.mark.filterwarnings("ignore::delassus.DelassusWarning"),
]

MORE = {"registers": 8, "stored": 64, "loaded": 64, "stack": 64, "code": 4096}
"""How much more another version of LLVM or ptxas may take: registers, else bytes; of code also a tenth."""

LONG = {"contact_step_derivatives", "step_derivatives", "inertial_derivatives"}
"""Quantities that take seconds to assemble, of the small robots too."""


def go1(what, derivative=(), **options):
    """Kernel of Go1 on points or on spheres."""
    robot, spheres = quiet_load("go1"), what.startswith("contact")
    feet = [ds.Contact(ds.Frame(x), ds.contact.Sphere(0.02), friction=0.8) for x in GO1_FEET]
    made = ds.compile(robot, feet if spheres else points(*GO1_FEET), what, target="cuda", **options)
    return made.derivative(*derivative) if derivative else made


def humanoid(robot, ends, what, **options):
    """Kernel of a robot whose ends are welded to the world."""
    return ds.compile(quiet_load(robot), welds(*ends), what, target="cuda", **options)


def digit(what, **options):
    """Kernel of a biped with closed loops in its legs, and arms that hold a bar."""
    case = digit_legs_and_arms()
    return ds.compile(case.tree, case.constraints, what, target="cuda", **options)


def random(what, **options):
    """Kernel of a random mechanism with every kind of joint."""
    mechanism = some_mechanism(5, 12, "floating")
    return ds.compile(mechanism.tree, some_constraints(mechanism, most=3)[0], what, target="cuda", **options)


TALOS, G1 = ("talos_reduced", TALOS_FEET), ("g1_29dof_rev_1_0", G1_ENDS)
METHODS = ("pv-early", "ltl", "proximal")
CASES = {
    "Go1 delassus": lambda d: go1("delassus", dtype=d),
    **{f"Go1 dynamics {m}": (lambda d, m=m: go1("dynamics", method=m, dtype=d)) for m in METHODS},
    "Go1 contact_step": lambda d: go1("contact_step", dtype=d),
    "Go1 contact_step_derivatives": lambda d: go1("contact_step_derivatives", dtype=d),
    "Go1 contact_step vjp": lambda d: go1("contact_step", ("vjp",), dtype=d),
    "Go1 dynamics vjp": lambda d: go1("dynamics", ("vjp",), dtype=d),
    "Go1 dynamics tangent_jacobian": lambda d: go1("dynamics", ("tangent_jacobian",), dtype=d),
    "Talos delassus": lambda d: humanoid(*TALOS, "delassus", dtype=d),
    **{f"Talos dynamics {m}": (lambda d, m=m: humanoid(*TALOS, "dynamics", method=m, dtype=d)) for m in METHODS},
    "G1 delassus": lambda d: humanoid(*G1, "delassus", dtype=d),
    "G1 dynamics pv-early": lambda d: humanoid(*G1, "dynamics", method="pv-early", dtype=d),
    "Digit delassus": lambda d: digit("delassus", dtype=d),
    "Digit dynamics": lambda d: digit("dynamics", dtype=d),
    "random delassus": lambda d: random("delassus", dtype=d),
    "random dynamics": lambda d: random("dynamics", dtype=d),
}  # fmt: skip
"""Kernels by what they are, for a type of numbers."""

TESTED = (
    ("Go1 delassus", "float32"), ("Go1 delassus", "float64"), ("Go1 dynamics pv-early", "float32"),
    ("Talos delassus", "float32"), ("G1 delassus", "float32"), ("Digit delassus", "float32"),
    ("random dynamics", "float64"), ("Go1 contact_step", "float32"),
)  # fmt: skip
UNSPILLED = {f"{robot} {what}, float32" for robot in ("Go1", "Talos", "Digit") for what in ("delassus", "dynamics")}
"""Of these `ptxas` spills nothing."""


KEYS = [
    (what, dtype)
    for what in CASES
    for dtype in ("float32", "float64")
    if dtype == "float32" or (not what.startswith("Go1 contact_step ") and what != "Go1 contact_step_derivatives")
]
"""Cases with types of numbers; of derivatives of steps, which take a minute each, only one type."""


def record(ptx):
    """Registers, bytes that are spilled (stored, loaded), bytes of local memory of a thread, bytes of code."""
    made = assembled(ptx)
    stored, loaded = made.spilled
    return {
        "registers": made.registers, "stored": stored, "loaded": loaded, "stack": made.stack, "code": made.size
    }  # fmt: skip


def check_text(ptx, dtype):
    """Arithmetic is exactly rounded and of one type, memory is named by kind, and nothing is left to others."""
    assert not re.search(r"\.approx|\.ftz|div\.full|ex2|\.sat\b", ptx)
    wrong = "f64" if dtype == "float32" else "f32"
    assert not re.search(rf"\.{wrong}\b", ptx)
    assert [*re.findall(r"^\.extern (.*?);", ptx, re.M)] == [".shared .align 16 .b8 tiles[]"]
    unnamed = re.findall(r"^\s*(?:ld|st)\.(?!param|local|shared|global|const)\S*", ptx, re.M)
    assert not unnamed, set(unnamed)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", sorted(set(QUANTITIES) - LONG))
def test_every_quantity_is_assembled(name):
    k = sorted(QUANTITIES).index(name) % 2
    case, dtype = Case(name, 0, k, derives=False, most=3), ("float32", "float64")[k]
    options = {**case.options, "dtype": dtype, "lanes": None}
    robot = case.tree, case.constraints
    if name == "step_hessian":  # of others ptxas takes ten seconds
        robot, options = (ds.mechanisms.pendulum(2), ds.Distance("rod2", "world")), {"dtype": dtype}
    ptx = ds.compile(*robot, name, target="cuda", **options).ptx()
    check_text(ptx, dtype)
    assert record(ptx)["registers"] <= 255


@pytest.mark.turns(3)
@pytest.mark.parametrize(("what", "dtype"), TESTED)
def test_registers_and_spills_are_as_kept(what, dtype):
    ptx = CASES[what](dtype).ptx()
    check_text(ptx, dtype)
    kept, found = json.loads(KEPT.read_text())[f"{what}, {dtype}"], record(ptx)
    for name, more in MORE.items():
        assert found[name] <= kept[name] + max(more, kept[name] // 10 if name == "code" else 0), name


def test_what_is_kept_spills_nothing_where_it_should_not():
    kept = json.loads(KEPT.read_text())
    assert set(kept) == {f"{what}, {dtype}" for what, dtype in KEYS}
    spilled = {x for x in UNSPILLED if kept.get(x, kept.get(x.replace("dynamics", "dynamics pv-early")))["stored"]}
    assert not spilled


def test_arrays_of_no_numbers_are_left_out():
    arm = ds.mechanisms.chain(2)
    ptx = ds.compile(arm, (), "dynamics", target="cuda").ptx()
    assert "copy_r0" in ptx and "copy_r1(" not in ptx
    record(ptx)


def write():
    """Print what is to be kept."""
    kept = {}
    for what, dtype in KEYS:
        ptx = CASES[what](dtype).ptx()
        check_text(ptx, dtype)
        kept[f"{what}, {dtype}"] = found = record(ptx)
        print(what, dtype, found, file=sys.stderr, flush=True)
    print("{")
    print(",\n".join(f"  {json.dumps(name)}: {json.dumps(found)}" for name, found in kept.items()))
    print("}")


if __name__ == "__main__":
    write()
