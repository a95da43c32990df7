"""Robots, constraints and options drawn at random: every kernel beside the interpreter of its trace as it is.

    python tests/generated.py --seconds 600              # of this commit, many more cases than `test_generated` has
    python tests/generated.py --case dynamics:81723      # one again

A case is a quantity and a number, which all else is drawn from: robot, constraints, options, derivative, type of
numbers, lanes. What is held to what is in `Check`.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from generated_cases import FUNCTIONS, OF_KERNELS, Case, arguments_of, cases, command_of, results_of
from internals import calls, evaluate
from programs import HAS_FMA, host, reference
from test_c import GCC, Compiled
from tools import NOTHING

Status = ds.DynamicsStatus

LONG = 50_000
"""Nodes of programs of which machine code is made for one state only: for several, LLVM takes half a minute."""

SHORT, OFTEN, UNROLLED = 2_000, 0.1, 20_000
"""Nodes of programs that other compilers are given, how often they are, and operations where loops are unrolled."""

WITHIN_CONES = ("control", "inverse_dynamics")
"""What ends by complementarity: where it is not strict, numbers are its square root, and squares of that."""

OF_FUNCTIONS = "ltl"
"""Method of public functions where none is named: estimates of errors are those of a method, as errors are."""

LEFT_OPEN = ("residuals", "impulses", "impulses_next")
"""Of contact steps: anywhere below the tolerance, and of dependent rows not the only ones. Nor are corrections of
positions at overlaps held in float32, whose steps are made again with more sweeps, and go on correcting."""

MISSED = ("missed", "force_residual", "row_residual", "residual")
"""What solutions miss: round-off is that of all that it is the rest of, such as forces or configurations."""

FORCES = {"forces", "impulses", "y"}
"""Of rows: where these depend on one another, those of least norm."""

NULL = 1e-9
"""Singular values of rows, over the largest one, that are round-off; none that is not is near."""

CLEAR = 0.01
"""Part of the bound of errors below which a status is certain."""

MARGIN = 16.0
"""Round-off of one order of operations over that of another, where one of them has been measured."""

NEARBY, ULPS = 4, 4
"""Inputs beside those of a case, and how far each number is from its own: what round-off is measured at, too."""


def scale_of(expected):
    """What errors of states (n, …) are relative to, (n,): their largest entries, of small ones that of most."""
    sizes = np.max(np.abs(expected).reshape(len(expected), -1), axis=1, initial=0.0).astype(float)
    sizes = np.maximum(sizes, np.median(sizes[np.isfinite(sizes)])) if np.isfinite(sizes).any() else sizes
    return np.where(sizes > NOTHING, sizes, 1.0)


def errors_of(found, expected, places=slice(None)):
    """Largest difference of each state (n,), or of those at some places, relative."""
    with np.errstate(all="ignore"):
        difference = np.abs(found - expected[places])
        state = tuple(range(difference.ndim - expected.ndim + 1, difference.ndim))
        return np.max(difference, axis=state, initial=0.0).astype(float) / scale_of(expected)[places]


def null_spaces(J):
    """Projections (n, m, m) on forces that move nothing, of rows (n, m, nv)."""
    values, vectors = np.linalg.eigh(J @ np.swapaxes(J, 1, 2))
    null = vectors * (values <= NULL * values[:, -1:])[:, None]
    return null @ np.swapaxes(null, 1, 2)


class Check:
    """All kernels of a case, beside its interpreted program and what is computed at once; raises `AssertionError`."""

    def __init__(self, case):
        self.case, self.options = case, {name: case.options[name] for name in OF_KERNELS if name in case.options}
        lanes = 1 if case.size > LONG else self.options.get("lanes") or host().lanes(self.options["dtype"])
        bound = self.options.get("error_bound")
        self.kernel = ds.Kernel(case.asked, self.options["dtype"], lanes, error_bound=bound)
        self.lanes, self.dtype = self.kernel.lanes, self.kernel.dtype
        self.n, self.limits, self.lost, self.again = 2 * self.lanes + 3, {}, {}, {}
        self.values = case.states(self.n, self.dtype)

    def run(self):
        self.reference()
        self.function()
        self.evaluator()
        self.block()
        self.ones()
        self.ways_to_call()
        self.other_targets()
        self.rollouts()

    def reference(self):
        """Right numbers, their round-off as they were traced, and of solutions the status of each state."""
        case, wide = self.case, {k: x.astype(float) for k, x in self.values.items()}
        if case.is_dependent:
            self.dependent(wide)
            return
        exact = case.interpreted(self.values, float, np.longdouble)
        self.expected, self.solved, self.status, self.worst = exact, self.converged(exact), None, 0.0
        if not case.modes:
            request = calls.call_of(case.asked, wide, (self.n,))
            direct = request.run()
            if case.asked.has_status:
                self.status = request.resolved.status
                self.worst = request.resolved.error
                self.solved = self.solved & (self.status == Status.SOLVED)
            noise = self.rounding(exact, float)
            for name, x in direct.items():
                bound = self.bound(noise[name], self.worst)
                self.hold("at once", name, x, exact[name], bound, dtype=float)
        if self.dtype != float:
            self.expected, self.again = case.interpreted(self.values, self.dtype, np.longdouble), exact
            self.solved = self.solved & self.converged(self.expected)
        self.noise = self.rounding(self.expected, self.dtype)

    def dependent(self, wide):
        """The same of rows that depend on one another: what NumPy finds, and its forces are those of least norm."""
        case, request = self.case, calls.call_of(self.case.asked, wide, (self.n,))
        self.expected, self.status, self.worst = request.run(), None, 0.0
        q, flags = wide["q"], wide.get("active", np.ones((self.n, len(case.constraints))))
        acting = np.repeat(flags, [c.size for c in case.constraints], axis=1)
        J = ds.jacobian(case.tree, case.constraints, q) * acting[..., None]
        sizes = np.linalg.svd(J, compute_uv=False)
        least = np.where(sizes > NULL * sizes[:, :1], sizes, np.inf).min(axis=1)
        rows = np.linalg.norm(J, axis=2)
        uneven = rows.max(axis=1) / np.where(rows > 0.0, rows, np.inf).min(axis=1)  # forces of least norm are, too
        shares = np.linalg.norm(null_spaces(J / np.where(rows > 0.0, rows, 1.0)[..., None]), axis=2)
        parts = shares.max(axis=1) / np.where(shares > NULL, shares, np.inf).min(axis=1)  # of rows in dependencies
        condition = (sizes[:, 0] / least * np.maximum(uneven, 1.0)) ** 2 * np.maximum(parts, 1.0)
        self.noise = dict.fromkeys(self.expected, np.finfo(float).eps * condition)
        self.solved = condition < 1.0 / NULL
        if case.asked.has_status:
            self.status = request.resolved.status
            self.solved &= np.isin(self.status, (Status.SOLVED, Status.REDUNDANT, Status.CONFLICTING))
            is_regular = np.linalg.matrix_rank(J, tol=NULL * sizes[:, 0]) == acting.sum(axis=1)
            is_unsolved = not evaluate.number_of_systems(
                case.asked
            )  # sensors that need neither accelerations nor forces
            assert np.all(is_regular[self.status == Status.SOLVED]) or is_unsolved, f"SOLVED; again by: {case.command}"
        for name in FORCES & self.expected.keys():
            f = self.expected[name]
            best = np.einsum("nij,njk,nk->ni", np.linalg.pinv(np.swapaxes(J, 1, 2), NULL), np.swapaxes(J, 1, 2), f)
            self.hold("of least norm", name, best, f, self.bound(self.noise[name]))

    def is_rest(self, name):
        """States (n,) at which a result is round-off of the others: of what is left to move where rows hold all."""
        largest = {key: np.abs(x.astype(float)).reshape(self.n, -1).max(axis=1, initial=0.0)
                   for key, x in self.expected.items()}  # fmt: skip
        return self.case.is_dependent & (largest[name] < NULL * np.max([*largest.values()], axis=0))

    def rounding(self, exact, dtype, values=None):
        """Errors of the traced program in numbers of that type: of what estimates none, those of the worst state."""
        found = self.case.interpreted(self.values if values is None else values, dtype, dtype)
        noise = {name: np.nan_to_num(errors_of(x, exact[name]), nan=0.0, posinf=0.0) for name, x in found.items()}
        if self.case.repeats or not self.case.asked.has_status:
            return {name: np.full(self.n, np.max(x)) for name, x in noise.items()}
        return noise

    def nearby(self, name, dtype):
        """The same, the worst of inputs that are some units in the last place away; of loops, 0: they have no such.

        One measurement is a matter of luck: near a half turn, derivatives of an orientation lose five digits at most
        inputs, and three where errors happen to cancel.
        """
        if dtype not in self.lost:
            self.lost[dtype] = dict.fromkeys(self.expected, 0.0)
            rng = np.random.default_rng(self.case.number)
            for _ in range(0 if self.case.is_dependent or self.case.repeats else NEARBY):
                moved = {}
                for key, x in self.values.items():
                    ulps = rng.integers(-ULPS, ULPS + 1, x.shape)
                    moved[key] = (x * (1.0 + ulps * np.finfo(self.dtype).eps)).astype(self.dtype)
                noise = self.rounding(self.case.interpreted(moved, dtype, np.longdouble), dtype, moved)
                self.lost[dtype] = {key: np.maximum(x, noise[key]) for key, x in self.lost[dtype].items()}
        return self.lost[dtype][name]

    def converged(self, exact):
        """States whose contacts are solved as far as they are to be."""
        if "residuals" not in exact:
            return np.ones(self.n, dtype=bool)
        tolerance = self.case.asked.options.tolerance
        solved = np.max(np.abs(exact["residuals"]), axis=1) <= tolerance
        return solved & (exact["distance"] > 100 * tolerance) if "distance" in exact else solved

    def bound(self, noise, estimate=0.0):
        """Largest relative error: round-off of all operations, what is measured and estimated, where iterations end.

        Round-off is that of the case's numbers, at once too: quaternions of float32 are as far from unit length, where
        what holds of unit ones alone gives other numbers in a trace than it does in NumPy.
        """
        last = 100 * self.case.asked.options.tolerance if self.kernel.iterates else 0.0
        if self.case.repeats:
            last = max(last, np.finfo(self.dtype).eps ** (0.25 if self.case.name in WITHIN_CONES else 0.5) * MARGIN)
        return MARGIN * noise + estimate + np.finfo(self.dtype).eps * (self.case.operations + MARGIN) + last

    def hold(self, what, name, found, expected, bound, places=slice(None), where=True, dtype=None):
        if self.kernel.iterates and (name in LEFT_OPEN or (name == "q_next" and self.dtype == np.float32)):
            return
        error = errors_of(found, expected, places)
        rest = np.ones(self.n, dtype=bool) if name in MISSED else self.is_rest(name)
        if rest.any():
            whole = np.max([scale_of(x) for x in self.expected.values()], axis=0)
            error = error * np.where(rest, scale_of(expected) / whole, 1.0)[places]
        finite = np.isfinite(expected.astype(float)).reshape(self.n, -1).all(axis=1)
        held = (self.solved & finite & where)[places]
        wrong = np.atleast_1d(held & ~(error <= np.broadcast_to(bound, self.n)[places]))
        if wrong.any():  # measured only then: it takes time
            bound = bound + MARGIN * self.nearby(name, dtype or self.dtype)
            wrong = np.atleast_1d(held & ~(error <= np.broadcast_to(bound, self.n)[places]))
        assert not wrong.any(), (
            f"{what}, {name}: {np.max(np.where(wrong, error, 0.0)):.3g} off in {wrong.sum()} of {len(wrong)} states, "
            f"bound {np.min(bound):.3g}; again by: {self.case.command}"
        )

    def evaluator(self):
        """Numbers of the evaluator, of all states and of one."""
        self.evaluated, k = [], int(self.case.rng.integers(self.n))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DELASSUS_COMPILE", "never")
            for at in (slice(None), slice(k, k + 1)):
                values = [*self.part(at).values()]
                self.evaluated.append((at, as_tuple(self.kernel.empty_results(len(range(self.n)[at])))))
                self.kernel.compute(values, self.evaluated[-1][1], (len(range(self.n)[at]),), None)
        self.kernel.code.spans[:] = 0, 0  # machine code from here on

    def block(self):
        """A batch, by lanes; what machine code solves, and what is solved again."""
        *found, error = self.called(self.values, return_error=True)
        takes_dependent = self.kernel.request.has_dependent_rows and not self.kernel.request.quantity.methods
        self.plain = self.by_machine_code(self.values) & (takes_dependent or not self.case.is_dependent)
        for name, x in self.again.items():  # in float64
            own = self.plain.reshape(-1, *[1] * (x.ndim - 1))
            self.expected[name] = np.where(own, self.expected[name], x)
        estimate = np.where(error < 1.0, error, np.inf)
        if self.case.is_dependent:  # their status says that they are right, whatever was estimated before
            estimate = np.minimum(error, error_bound_of(self.kernel))
        for r, x in zip(self.kernel.results, found, strict=True):
            self.limits[r.name] = self.bound(self.noise[r.name], estimate)
            self.hold("a batch", r.name, x, self.expected[r.name], self.limits[r.name])
        self.of_block = found
        for at, evaluated in self.evaluated:
            self.same("the evaluator", evaluated, [x[at] for x in found], self.plain[at])
        self.statuses(found, error)

    def by_machine_code(self, values):
        """States (...) that machine code solves by itself; others are solved again, in batches of their own."""
        first, *_ = zip(self.kernel.arguments, values.values(), strict=True)
        batch = first[1].shape[: first[1].ndim - len(first[0].shape)]
        arrays = [np.array(x, order="C") for x in values.values()]
        rcond = self.kernel.compute(arrays, as_tuple(self.kernel.empty_results(batch)), batch, None)
        return ~self.kernel.ill_conditioned(rcond, batch)

    def statuses(self, found, error):
        """Those of states whose errors are far from the bound, and numbers that are finite."""
        if self.status is None:
            return
        *found, status = self.called(self.values, return_status=True)
        bound = error_bound_of(self.kernel)
        clear = (error < CLEAR * bound) & self.solved & (self.worst < CLEAR * bound)
        assert np.all(status[clear] == self.status[clear]), (
            f"status {status[clear][status[clear] != self.status[clear]]}; again by: {self.case.command}"
        )
        if self.case.is_dependent:
            assert np.all(status[self.solved] == self.status[self.solved]), f"status; again by: {self.case.command}"
        asked = self.kernel.request
        for x, output in zip(found, asked.outputs, strict=True):
            good = (status == Status.SOLVED) | (status == Status.REDUNDANT) & (not output.needs_independent)
            finite = np.isfinite(x).reshape(self.n, -1).all(axis=1)
            assert np.all(finite[good]), f"numbers that are not finite; again by: {self.case.command}"
        if asked.quantity.report is not None and not asked.options.active:
            solution = self.kernel.solve(**self.values)
            self.same("solve", [solution.qdd, np.concatenate([np.zeros((self.n, 0)), *solution.forces], axis=-1)],
                      [x.astype(float) for x in found])  # fmt: skip

    def ones(self):
        """Fewer states than lanes: code of its own."""
        k = int(self.case.rng.integers(self.n))
        self.of_one = self.called(self.part(k))
        for r, x in zip(self.kernel.results, self.of_one, strict=True):
            self.hold("one state", r.name, x, self.expected[r.name], self.limits[r.name], k)
        if self.plain[k]:
            self.same("one state", self.of_one, [x[k] for x in self.of_block])
        for batch in {1, self.lanes - 1} - {0}:
            at = [(k + i) % self.n for i in range(batch)]
            if self.lanes > 1 and self.plain[at].all():
                self.same(f"a batch of {batch}", [x[0] for x in self.called(self.part(at))], self.of_one)

    def ways_to_call(self):
        """The same numbers, bit for bit, however arrays are handed over, and from any number of states on."""
        if not self.plain.any():
            return
        rng, n, plain = self.case.rng, self.n, self.plain
        first = n - self.lanes
        for start in {0, first, first - 1}:  # as many as lanes, and one more: the same code
            found = self.called(self.part(slice(start, n)))
            self.same(f"the last {n - start}", found, [x[start:] for x in self.of_block], plain[start:])
        apart = {name: np.repeat(x, 2, axis=0)[::2] for name, x in self.values.items()}
        turned = {name: np.asfortranarray(x) for name, x in self.values.items()}
        self.same("arrays with gaps", self.called(apart), self.of_block)
        self.same("columns first", self.called(turned), self.of_block)
        self.same("positions", as_tuple(self.kernel(*self.values.values())), self.of_block)
        self.same("two threads", self.called(self.values, threads=2), self.of_block, plain)
        out = self.kernel.empty_results(n)
        assert self.kernel(*self.values.values(), out=out) is out
        self.same("out", as_tuple(out), self.of_block)
        held = rng.permutation([*self.values])[: len(self.values) - 1]
        shared = {name: x[:1].repeat(n, axis=0) if name in held else x for name, x in self.values.items()}
        spread = {name: x[0] if name in held else x for name, x in self.values.items()}
        self.same("arguments of one state beside a batch", self.called(spread), self.called(shared))
        grid = {name: x[None].repeat(2, axis=0) for name, x in self.values.items()}
        self.same("two axes", [x[1] for x in self.called(grid)], self.of_block, plain)

    def function(self):
        """The public function, of a batch and of one state that is numbers of Python."""
        case = self.case
        if case.modes or self.dtype != np.float64:
            return
        k, estimate = int(case.rng.integers(self.n)), self.worst
        if case.asked.is_chosen and case.constraints and case.asked.has_status and not case.is_dependent:
            request = calls.call_of(replace(case.asked, method=OF_FUNCTIONS), self.values, (self.n,))
            request.run()
            estimate = np.maximum(estimate, request.resolved.error)
        first, alone = self.part(slice(k, k + 1)), {key: x[k].tolist() for key, x in self.values.items()}
        for name in FUNCTIONS.get(case.name, ()):
            call = getattr(ds, name)
            batch, first_of, one = (
                results_of(case, name, call(**arguments_of(case, call, x))) for x in (self.values, first, alone)
            )
            for key, x in batch.items():
                if (expected := self.expected.get(key)) is None:
                    continue
                x = x if expected.shape == x.shape else x[:, *np.tril_indices(x.shape[-1])]  # packed
                self.hold(name, key, x, expected, self.bound(self.noise[key], estimate))
                same = np.array_equal(one[key], first_of[key][0], equal_nan=True)
                assert same, f"{key} of {name} of numbers of Python; again by: {case.command}"

    def other_targets(self):
        """C and CasADi, each of a few small programs; JAX where it is there."""
        case, rng, program = self.case, self.case.rng, self.kernel.program(False)
        is_short = case.size < SHORT
        if is_short and rng.random() < OFTEN and GCC and HAS_FMA:
            with tempfile.TemporaryDirectory() as folder:
                found = Compiled(program, folder, self.dtype.name, ("-O0",))(*self.values.values())
            self.same("C", found, self.of_block, self.plain)
            self.same("the interpreter", reference(program, *self.values.values()), self.of_block, self.plain)
        if is_short and case.operations < UNROLLED and rng.random() < OFTEN and self.dtype == np.float64:
            k, function = int(rng.integers(self.n)), self.kernel.casadi()
            values = [x[k] for x in self.values.values()]  # of more than two axes, all but the first in one
            found = function.call([x.reshape(len(x), prod(x.shape[1:])) if x.ndim else x for x in values])
            for r, x in zip(self.kernel.results, found, strict=True):
                expected = self.expected[r.name]
                self.hold("CasADi", r.name, np.array(x).reshape(expected.shape[1:]), expected, self.limits[r.name], k,
                          where=self.plain)  # fmt: skip
        with with_jax() as jax:
            if self.plain[0] and rng.random() < OFTEN and jax is not None:
                arrays = {name: jax.numpy.asarray(x) for name, x in self.part(0).items()}
                self.same("JAX", [np.asarray(x) for x in self.called(arrays)], self.called(self.part(0)))

    def rollouts(self):
        """Steps in a loop of machine code are those of calls, of one trajectory and of many.

        Calls make contact steps again that sweeps have not solved, and rollouts flag them.
        """
        kernel, asked = self.kernel, self.kernel.request
        opens = asked.options.integrator == "rk4" and any(c.is_loop for c in self.case.constraints)
        if not asked.is_rolled or self.case.modes or opens or self.case.is_dependent:
            return
        states, names = asked.states, ("q", "v", "impulses")[: asked.states]
        for part in (slice(None), 0):
            start = self.part(part)
            first = self.called(start)
            following = {**start, **dict(zip(names, first, strict=False))}
            second = self.called(following)
            q, v, control = (start.pop(name) for name in ("q", "v", asked.control))
            flags = {"return_status": True} if kernel.iterates else {}
            found = ds.rollout(kernel, q, v, np.stack([control] * 2), time_axis=0, **flags, **start)
            status = found[-1] if flags else np.full((2, *q.shape[:-1]), Status.SOLVED)
            at = (status[0] != Status.UNFINISHED) & self.plain[part]
            self.same("a rollout", [x[1][at] for x in found[:states]], [x[at] for x in first[:states]])
            at = at & (status[1] != Status.UNFINISHED) & self.by_machine_code(following)
            self.same("the second step of a rollout", [x[2][at] for x in found[:states]],
                      [x[at] for x in second[:states]])  # fmt: skip

    def part(self, at):
        return {name: np.array(x[at], order="C") for name, x in self.values.items()}

    def same(self, what, found, expected, where=...):
        for r, x, y in zip(self.kernel.results, found, expected, strict=False):
            assert x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x[where], y[where], equal_nan=True), (
                f"{what}, {r.name}: not the same bits; again by: {self.case.command}"
            )

    def called(self, values, **asked):
        if asked.get("return_error") and not self.kernel.has_rcond:
            return *self.called(values), 0.0
        return as_tuple(self.kernel(**values, **asked))


@contextmanager
def with_jax():
    """JAX, of numbers of 64 bits meanwhile; None where it is not installed."""
    try:
        import jax
    except ImportError:
        yield None
        return
    jax.config.update("jax_enable_x64", True)
    try:
        yield jax
    finally:
        jax.config.update("jax_enable_x64", False)


def as_tuple(found):
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def error_bound_of(kernel):
    return np.finfo(kernel.dtype).eps / kernel.least_rcond


# -- all of them ----------------------------------------------------------------------------------------------------

FOUND = (
    ("smooth_motion", 1, 0),  # no rows: columns of no entries were none
    ("sensors", 117863940, 0),  # states solved again whose results have no error estimate of their own
    ("step", 189735154, 0),  # the second system of a step: numbers had asked less of the first one than the trace
    ("contact_step_derivatives", 1100, 2),  # rows that outnumber what moves: round-off chose among equal pivots
    ("contact_step_derivatives", 2007, 2),  # an impact at a switch of modes, which `distance` left out
    ("motion_sensors", 105, 1),  # the centre of mass of a link that carries no mass
    ("inertial_derivatives", 251305263, 2),  # took dependent rows for independent ones
    ("dynamics", 251305263, 0),  # error estimates of proximal that saw no forces that move nothing
    ("potential_energy", 100784627, 1),  # constraints that are no springs asked for their rows
    ("dynamics", 1103, 1),  # error estimates that took rows of joints for exact, and multiples of a row to err alike
)
"""Cases that have found a fault, and which."""


def commit_number():
    """Number that follows the sources of a commit: every change of them draws other cases, here as anywhere else."""
    sources = sorted(Path(ds.__file__).parent.rglob("*.py"))
    return int(hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:7], 16)


def run(name, number, k=0):
    """Draw a case and check it; what fails says how to do it again."""
    case = None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", ds.DelassusWarning)
            case = Case(name, number, k)
            Check(case).run()
    except Exception as error:
        command = command_of(name, number, k)
        if isinstance(error, AssertionError) and command in str(error):
            raise
        raise AssertionError(f"{command}: {type(error).__name__}: {error}") from error
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="instead of that of the commit")
    parser.add_argument("--case", help="one case, as an assertion names it")
    parser.add_argument("--only", nargs="*", help="names of quantities")
    parser.add_argument("--first", action="store_true", help="end at the first fault")
    asked = parser.parse_args()
    if asked.case:
        name, *numbers = asked.case.split(":")
        run(name, *map(int, numbers))
        return
    number = commit_number() if asked.seed is None else asked.seed
    end, failed, done, every = time.monotonic() + asked.seconds, 0, 0, [*cases()]
    while time.monotonic() < end:
        name, k = every[done % len(every)]
        if not asked.only or name in asked.only:
            try:
                run(name, number + done // len(every), k)
            except AssertionError as error:
                failed += 1
                print(error, flush=True)
                if error.__cause__ is not None:
                    traceback.print_exception(error.__cause__, limit=-3)
                if asked.first:
                    break
        done += 1
    print(f"{done} cases from {number} on, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
