"""Structure belongs to robot and constraints, whatever the numbers of states, limits and units are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from internals import (
    TraceOps,
    calls,
)
from programs import reference
from random_trees import build_tree, joint_kinds, some_mechanism
from tools import requested, traced

EPSILON = 2.0**-52
ALIKE = 1.5
"""Logarithm of the ratio of two reciprocal conditions that are one: they are measured with noise."""


@pytest.mark.parametrize("seed", range(20))
def test_differences_of_known_numbers_that_are_round_off_are_zero(seed):
    """As of a product or sum in two orders; products of small numbers stay, and a difference of some more digits."""
    rng, ops = np.random.default_rng(seed), TraceOps()
    for size in (1e-9, 1.0, 1e9):
        a, b, c = (ops.constant([[x]]) for x in size * rng.uniform(0.3, 1.0, 3))
        for nothing in ((a @ b) @ c - a @ (b @ c), a + b + c - (b + c) - a, a @ (b + c) - a @ b - a @ c):
            assert not ops.nonzero(nothing).any(), size
    small, third = ops.constant([[1e-20 * rng.uniform(0.3, 1.0)]]), ops.constant([[1.0 / 3.0]])
    apart = ops.constant([[1.0 / 3.0 * (1.0 + 100 * EPSILON)]]) - third
    assert all(ops.nonzero(x).all() for x in (small, small @ small, apart))
    (known, rounded) = (ops.rounding(ops.at[x.nodes()[0]]) for x in (third, apart))
    assert known == 1.0 and 0.01 < rounded * EPSILON < 1.0


def apart(a, b):
    """Largest difference relative to the largest entry."""
    assert np.array_equal(np.isfinite(a), np.isfinite(b))
    size = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
    return np.max(np.abs(a - b), initial=0.0, where=np.isfinite(b)) / (size or 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_every_system_of_a_step_is_solved(seed):
    """Of an impact and four stages, whose rows of different size are dependent."""
    m = some_mechanism(seed, 3, ("fixed", "floating")[seed % 2])
    end, rng = m.tree.link_names[-1], m.rng
    K = rng.normal(size=6)
    rows = [ds.Rows(end, [K]), ds.Rows(end, [1e6 * K])]
    values = {"q": m.tree.random(rng, (3,)), "v": rng.normal(size=(3, m.tree.nv)), "impacts": np.ones((3, 2))}
    values |= {"tau": rng.normal(size=(3, m.tree.nv)), "dt": np.full(3, 1e-3)}
    of_method = {}
    for method in ("proximal", "kkt"):
        asked = requested(m.tree, rows, "step", method=method, integrator="rk4", impacts=True)
        of_method[method] = calls.call_of(asked, values, (3,)).run()
    for name, found in of_method["proximal"].items():
        assert apart(found, of_method["kkt"][name]) < 1e-9, name


def in_line(seed):
    """A chain in which axes and links are along coordinate axes at zero, and rows on one or two of its links."""
    kinds, rng = (joint_kinds.REVOLUTE, joint_kinds.REVOLUTE, joint_kinds.PRISMATIC), np.random.default_rng(seed)
    m = some_mechanism(seed, 5, "fixed", kinds=kinds)
    joints = [
        replace(j, rotation=np.eye(3), position=np.array([0.3, 0.0, 0.0]), axis=np.eye(3)[rng.integers(3)])
        for j in m.joints
    ]
    tree = build_tree("in line", m.links, joints)
    ends = rng.choice(tree.link_names, min(2, tree.n_links), replace=False)
    rows = [ds.Rows(str(end), np.eye(6)[rng.choice(6, rng.integers(1, 4), replace=False)]) for end in ends]
    return tree, rows[: rng.integers(1, 3)]


@pytest.mark.parametrize("what", ["dynamics", "delassus", "osim"])
@pytest.mark.parametrize("seed", range(5))
def test_limits_of_joints_do_not_change_programs(seed, what):
    """Files that give no limits often say that both are zero; ranks and errors are those of any other states."""
    tree, rows = in_line(seed)
    for width in (0.0, 1e-6):
        joints = tuple(replace(j, lower=-width * np.ones(j.nv), upper=width * np.ones(j.nv)) for j in tree.joints)
        free, narrow = (traced(x, rows, what) for x in (tree, replace(tree, joints=joints)))
        for part in ("op", "a", "b", "c", "value"):
            np.testing.assert_array_equal(getattr(narrow.graph, part), getattr(free.graph, part))


def in_units(m, length):
    """The same robot with all lengths so many times as large, loaded."""
    links = [replace(x, com=x.com * length, inertia=x.inertia * length**2) for x in m.links]
    joints = [replace(x, position=x.position * length, armature=0.0, pitch=x.pitch * length) for x in m.joints]
    return build_tree("units", links, joints, root="floating" if m.floating else "fixed")


@pytest.mark.turns(2)
@pytest.mark.parametrize("given", ["nothing", "position", "rows", "payload"])
@pytest.mark.parametrize("seed", range(40, 44))
def test_units_of_length_do_not_matter(seed, given):
    """Robots that slide and float, of micrometres and of 1,000 km, are as well-conditioned as of metres."""
    m = some_mechanism(seed, 4, ("fixed", "floating")[seed % 2])
    joints, nv, rng, found, n = m.tree.joints, m.tree.nv, np.random.default_rng(seed), [], 32
    in_v = np.array([axis < 3 for j in joints for axis in j.motion_axes], dtype=bool)
    q, v, tau, K = m.tree.random(rng, batch=n), *rng.normal(size=(2, n, nv)), rng.normal(size=(n, 2, 6))
    link, place = m.links[-1].name, rng.normal(0.0, 0.3, (n, 3))
    point = 0.1 * np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    for length in (1.0, 2.0**-20, 2.0**20):
        units, factors = np.where(in_v, length, 1.0), [x for j in joints for x in j.kind.in_units(length)]
        constraint, options, further = {
            "nothing": (ds.Point(link), {}, []),
            "position": (ds.Point(ds.Frame(link, given="position")), {}, [place * length]),
            "rows": (ds.Rows(link, 2), {}, [K * np.repeat([1.0, length], 3)]),
            "payload": (ds.Point(link), {"payloads": [link]}, [point * np.repeat([1.0, length, length**2], [1, 3, 6])]),
        }[given]
        gravity = (0.0, 0.0, -9.81 * length)
        program = traced(in_units(m, length), constraint, "dynamics", gravity=gravity, **options)
        further = [np.broadcast_to(x, (n, *a.shape)) for x, a in zip(further, program.arguments[3:], strict=True)]
        *_, rcond = reference(program, q * factors, v * units, tau * length**2 / units, *further)
        found.append(np.maximum(rcond, EPSILON))
    for other in found[1:]:
        assert np.all(np.abs(np.log10(np.median(other) / np.median(found[0]))) < ALIKE)
