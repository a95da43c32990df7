"""What the benchmarks measure with: timing, peers, a look inside compilations and machine code."""

from __future__ import annotations

import os
import shutil
import time
from functools import partial

import llvmlite.binding as llvm
import numpy as np
import pytest

import delassus as ds
from delassus_studies.bench import arrays
from delassus_studies.bench.contact import made, problems
from delassus_studies.bench.contact.steps import WANTED, Starts, StepCase, TimedRollout, cheapest
from delassus_studies.bench.peak import FUNCTIONS, RATES
from delassus_studies.bench.scaling import stem_with
from delassus_studies.cases import Case, chain_of
from delassus_studies.claims import HOLDS, IN_PART, NO, NOT_MEASURED, Setup
from delassus_studies.claims.dynamics_times import (
    CLAIMS,
    COMPARISONS,
    MOST,
    ROWS,
    SOLVERS,
    Measured,
    Timing,
    judge,
    measured,
    ratios,
)
from delassus_studies.claims.dynamics_times import measure as measure_solvers
from delassus_studies.counters import (
    CHAINS,
    STAGES,
    UNROLLED,
    available,
    census,
    clock,
    compile_cold,
    instructions_per_second,
    loop,
    object_code,
    phases,
)
from delassus_studies.peers import if_present, present
from delassus_studies.peers.compiled import casadi_c, frax
from delassus_studies.peers.pinocchio import delassus_call
from delassus_studies.timing import best, fitted_slope, interleaved, pinned, slope, uncached
from internals import Host, host

pytestmark = pytest.mark.usefixtures("machine_code")

PEERS = 1e-12
"""Difference of peers from our answer, relative to the largest entry of ``G``: a few hundred roundings."""


@pytest.fixture(scope="module")
def arm() -> Case:
    return chain_of(5)


def test_the_fitted_slope_is_of_the_upper_half():
    x = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert fitted_slope(x, [9.0, 9.0, 4.0**1.5, 8.0**1.5, 16.0**1.5]) == pytest.approx(1.5)
    assert fitted_slope([1.0, 10.0], [3.0, 300.0]) == pytest.approx(2.0)
    assert slope([3.0, 12.0, 30.0], [7.0, 12.0**3, 30.0**3]) == pytest.approx(3.0)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no say")
def test_pinning_ends():
    before = os.sched_getaffinity(0)
    with pytest.raises(KeyError), pinned() as core:
        assert os.sched_getaffinity(0) == {core}
        raise KeyError
    assert os.sched_getaffinity(0) == before


def test_uncached_leaves_the_environment_as_it_was(monkeypatch):
    monkeypatch.setenv("DELASSUS_CACHE", "somewhere")
    with uncached():
        assert os.environ["DELASSUS_CACHE"] == "off"
    assert os.environ["DELASSUS_CACHE"] == "somewhere"


def test_calls_take_turns():
    seen = []
    calls = {"a": (lambda: seen.append("a"), 1), "b": (lambda: seen.append("b"), 2)}
    times = interleaved(calls, rounds=2)
    assert seen == ["a", "b"] * 3
    assert times.keys() == {"a", "b"}
    for found in times.values():
        low, high = found["quartiles"]
        assert 0 < found["lowest"] <= low <= found["median"] <= high


def test_the_fastest_of_several_calls_counts():
    waits = iter((0.02, 0.0, 0.02))
    seconds, result = best(lambda: time.sleep(next(waits)) or "done", 3)
    assert seconds < 0.02 and result == "done"


@pytest.mark.slow
def test_stages_add_up(arm):
    """The stages, run one by one, take about as long as a kernel and its first call, which run the same."""
    made = compile_cold(arm)
    assert tuple(made.stages) == STAGES
    assert all(taken > 0 for taken in made.stages.values())
    with uncached():
        start = time.process_time()
        ds.compile(arm.tree, arm.constraints)(arm.tree.random(0, 64))
        whole = time.process_time() - start
    assert 0.4 * whole < made.seconds < 1.5 * whole
    assert tuple(compile_cold(arm, "pv-osim").stages) == STAGES[1:]


@pytest.mark.slow
def test_contact_steps_are_timed_on_what_kernels_compute():
    """Residuals of timed rollouts are those of calls, warm and cold; the cheapest of what suffices is reported."""
    tree = ds.mechanisms.star(3, 1)
    contacts = tuple(ds.Contact(name, ds.contact.Sphere(0.1)) for name in tree.link_names[1:])
    gains = np.zeros(tree.nv), np.r_[np.zeros(6), np.ones(tree.nv - 6)]
    case = StepCase("star", tree, contacts, tree.neutral(), gains, {"limits": False, "passive": "none"})
    kernel, n, steps = case.kernel(sweeps=20), 5, 3
    rng = np.random.default_rng(0)
    q, v, p = np.tile(tree.neutral(), (n, 1)), rng.normal(size=(n, tree.nv)), np.zeros((n, 9))
    roll = TimedRollout(kernel, case, Starts(q, v, p, np.tile(q, (steps, 1, 1))))
    roll()
    for residuals in roll.residuals:
        q, v, p, wanted = kernel(q, v, p, np.tile(tree.neutral(), (n, 1)), *gains, 1e-3)
        np.testing.assert_allclose(residuals, wanted, rtol=1e-9, atol=1e-15)
    found = roll.statistics()
    assert found["median"] <= found["p99"] <= found["largest"] and 0 <= found["share"] <= 1
    alone = roll.cold(case)
    assert alone.n == n and alone.steps == 1 and not alone.arrays[2].any()

    def curve(name, microseconds, share):
        figures = {"time": {"lowest": microseconds}, "residual": {"share": share}}
        return {"name": name, "dtype": "float32", "figures": {"gait, warm": figures, "falls, warm": figures}}

    curves = [curve("few", 0.1, 0.98), curve("enough", 0.2, 0.99), curve("many", 0.3, 1.0)]
    record = {"motions": {"gait": "trot", "falls": "falls"}, "curves": curves}
    best = cheapest(record, "float32")
    assert best is not None and best["name"] == "enough" and cheapest(record, "float64") is None
    assert WANTED == kernel.request.options.tolerance


@pytest.mark.parametrize("seed", [1, 2])
def test_the_judge_of_contact_steps_sees_what_is_wrong(seed):
    """Two links, and five with a loop, ball joints and limits."""
    judge, made = problems.judge, problems.problems(seed, 30)
    kernel = ds.compile(made.tree, made.constraints, "contact_step")
    given = {**made.values, "impulses": np.zeros(kernel.arguments[2].shape)}
    _, v, p, said = kernel(*(given[a.name] for a in kernel.arguments))
    found, after, gaps = judge(made, p, pyramid=False)
    np.testing.assert_allclose(found, said, atol=1e-10)
    turned = (problems.turning_apart(made.tree, x) for x in (v, after))
    np.testing.assert_allclose(*turned, atol=1e-9)
    pushed = (p[:, 2::3] > 0).any(axis=1)
    assert pushed.any() and np.all(gaps[pushed] < 0.1) and found.max() < 1e-4
    worse, _, _ = judge(made, 1.01 * p, pyramid=False)
    assert np.all(worse[pushed].max(axis=1) > found[pushed].max(axis=1))


def test_peers_give_our_answer(arm):
    q = arm.tree.random(0, 7)
    G = ds.delassus(arm.tree, arm.constraints, q)
    answers = []
    if shutil.which("gcc"):
        answers.append(casadi_c(ds.compile(arm.tree, arm.constraints), q)())
    if call := if_present(partial(delassus_call, arm, q)):
        answers.append(call())
    if not answers:
        pytest.skip("neither gcc nor pinocchio is installed")
    for answer in answers:
        assert np.max(np.abs(np.asarray(answer) - G)) < PEERS * np.max(np.abs(G))


def test_an_absent_peer_says_why(arm):
    made, absent = present({"frax": partial(frax, arm, arm.tree.random(0, 2), "float64")})
    assert not made and absent["frax"]


@pytest.mark.skipif(not available(), reason="objdump of x86 code")
def test_the_census_counts_the_arithmetic(arm):
    made = compile_cold(arm)
    found = census(made.code, FUNCTIONS)
    count = made.program.graph.count()
    assert found.total == sum(found.kinds.values()) > count.total / 2
    assert max(count.mul, count.add) <= found.kinds["arithmetic"]  # fused at best
    assert found.kinds["shuffle"] and found.kinds["store, data"]
    assert found.size > 4 * found.total
    assert made.lanes == host().lanes("float64")


ELSEWHERE = {  # processor, machine in the header of ELF
    "SSE2": (Host("x86_64-unknown-linux-gnu", "x86-64", "", 128, 16, False), 62),
    "AVX2": (Host("x86_64-unknown-linux-gnu", "haswell", "", 256, 16, True), 62),
    "AVX-512": (Host("x86_64-unknown-linux-gnu", "skylake-avx512", "", 512, 32, True), 62),
    "arm64": (Host("aarch64-unknown-linux-gnu", "cortex-a72", "", 128, 32, True), 183),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_code_is_made_for_processors_that_are_not_here(dtype):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    made = {name: compile_cold(chain_of(2), "pv-osim", dtype, cpu) for name, (cpu, _) in ELSEWHERE.items()}
    bits = 64 if dtype == "float64" else 32
    for name, (cpu, machine) in ELSEWHERE.items():
        assert made[name].lanes == cpu.vector_bits // bits
        assert int.from_bytes(made[name].code[18:20], "little") == machine
    if available():
        wide, narrow = (census(made[name].code, FUNCTIONS).kinds["arithmetic"] for name in ("AVX-512", "AVX2"))
        assert wide <= narrow  # vectors of 512 bits take as many instructions, not twice as many


@pytest.mark.skipif(not available(), reason="objdump of x86 code")
@pytest.mark.parametrize("kind", RATES)
def test_loops_of_the_peak_run_as_many_instructions_as_are_counted(kind):
    found = census(object_code(loop("float64", kind)), "run")
    counted = CHAINS * UNROLLED
    assert found.kinds["arithmetic"] == (0 if kind == "store" else counted)
    assert found.from_memory["data"] == (counted if kind == "add from memory" else 0)
    assert found.kinds["store, data"] == CHAINS + (counted if kind == "store" else 0)  # and the chains' last values


def test_this_core_has_a_clock_and_a_peak():
    cycles = clock()
    assert 5e8 < cycles < 8e9
    assert 0.3 < instructions_per_second("float64", "multiply-add") / cycles < 4.5  # vector units of a core: 1 to 4


def test_the_scaling_families_keep_the_other_size():
    assert {c.tree.n_links for c in map(stem_with, (1, 4))} == {stem_with(2).tree.n_links}
    assert {sum(x.size for x in c.constraints) for c in map(chain_of, (3, 9))} == {6}


# -- [LQR] Table II ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pointing() -> Case:
    """Fewer rows than joints."""
    tree = ds.mechanisms.chain(7)
    return Case("chain of 7, tip held", tree, (ds.Point("link7"),))


@pytest.mark.slow
def test_solvers_are_timed_and_counted(pointing):
    found = measure_solvers(pointing, rounds=1)
    assert set(SOLVERS) <= set(found.times) and set(SOLVERS) == set(found.operations)
    assert all(0 < time < 1e5 for time in found.times.values())
    assert all(
        found.times[name] * 40_000 > count for name, count in found.operations.items()
    )  # 40 a ns: no call at all
    assert found.difference < 1e-9


def as_in_the_paper(**changed: float) -> Measured:
    """A measurement that gives the paper's own times, some of them at the last row changed."""
    figures = {}
    for row in ROWS:
        times = {name: row.paper(name) for name in SOLVERS} | {"mj_forward": row.paper("Mu")}
        figures[row] = Timing(times | (changed if row.name == MOST else {}), dict.fromkeys(SOLVERS, 1000), 0.0)
    return Measured(figures)


def test_the_papers_own_times_are_judged():
    assert len(ROWS) == 18 and ROWS[-1].name == MOST
    paper = as_in_the_paper()
    assert all(judge(paper, said).verdict == HOLDS for said in COMPARISONS)
    shares = ratios(paper)
    assert shares.row_count == 18 and [*shares.columns[1].cells][-1] == "0.68 (0.68)"


def test_slower_solvers_are_named():
    hard, early, soft, joint_space = COMPARISONS
    found = judge(as_in_the_paper(PV=20.0), hard)
    assert found.verdict == IN_PART and f"{MOST} +33% than LTL (operations +0%)" in found.reason
    found = judge(as_in_the_paper(**{"PV-e": 11.0}), early)
    assert found.verdict == NO and "than PV (" in found.reason
    assert judge(as_in_the_paper(**{"PV-e": 8.0}), early).verdict == IN_PART
    found = judge(as_in_the_paper(**{"PV-s": 9.0}), soft)
    assert found.verdict == NO and "than PV-e" in found.reason
    assert judge(as_in_the_paper(**{"LTL-s": 14.0}), joint_space).verdict == IN_PART
    assert judge(as_in_the_paper(**{"LTL-s": 16.0}), joint_space).verdict == NO


def test_absent_robots_are_named(monkeypatch):
    measured.cache_clear()
    monkeypatch.setattr("delassus_studies.claims.dynamics_times.ROWS", [row for row in ROWS if row.robot == "iiwa"])
    found = CLAIMS[0].check(Setup())
    assert found.verdict == NOT_MEASURED
    assert found.reason == "iiwa left out: give --robots FOLDER with iiwa.urdf"
    measured.cache_clear()


def test_phases_add_up(arm):
    for method, last in (("pv", "back substitution"), ("ltl-soft", "accelerations")):
        compiled = ds.compile(
            arm.tree, arm.constraints, "dynamics", method=method, compliance=1e-6 if method == "ltl-soft" else None
        )
        found = phases(arm, method)
        total = sum(count.total for count in found.values())
        separate = compiled.operations.total + compiled.operations.fma
        assert total == pytest.approx(separate, rel=0.1)  # further passes are the compiler's
        assert found["velocities"].total and found[last].total


@pytest.mark.slow
def test_blocks_on_worker_processes_are_those_of_loops(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("dask.distributed.LocalCluster", partial(distributed.LocalCluster, processes=False))
    monkeypatch.setattr(arrays, "BLOCK", 500)
    *_, record = arrays.measure(quick=True, dask=True)
    *_, medians = arrays.tables(record)
    assert record["states"] == 2000 and "tasks of Dask" in medians


@pytest.mark.slow
def test_grasps_of_bench_contact_hold_and_planks_stand_until_they_are_hit() -> None:
    """Rods do not creep, fingers stay on their box, and steps are solved."""
    for ready, seconds, held in (
        (made.pinch(), 0.3, "rod"),
        (made.kitchen(), 0.1, "box"),
        (made.planks(3, 2), 0.1, ""),
    ):
        sim = ready.simulator()
        sim.run(seconds)
        assert set(sim.statuses) <= {ds.contact.SolverStatus.CONVERGED}, ready.name
        if held:
            links = sim.scene.tree.link_names
            touched = {
                links[i] for pair in sim.contacts.links for i in pair if f"{held}/body" in (links[j] for j in pair)
            }
            assert sum("left" in name or "right" in name for name in touched) == 2, touched
        if held != "box":
            still = np.s_[:-7] if ready.name == "planks" else ready.scene.q_slice("rod")
            assert np.abs(sim.q[still] - ready.q0[still]).max() < 1e-12  # worst 7e-16
