"""Regressors of random mechanisms against what is computed by inertias, and base parameters of known mechanisms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from random_trees import some_mechanism
from tools import error

EXACT = 1e-12
"""Sums of the same products in another order, over chains of up to 12 links."""


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_linear_in_inertial_parameters(seed):
    tree, rng = some_mechanism(seed, 12, ("fixed", "floating")[seed % 2]).tree, np.random.default_rng(seed)
    q, v, qdd, gravity = tree.random(rng, 3), *rng.normal(size=(2, 3, tree.nv)), rng.normal(size=3)
    tau, kinetic, potential, momentum = ds.regressor(tree, q, v, qdd, outputs=None, gravity=gravity)
    pi, armature = tree.inertial_parameters.ravel(), tree.per_dof("armature")
    given = {"gravity": gravity, "passive": "none"}
    assert error(tau @ pi + armature * qdd, ds.inverse_dynamics(tree, q, v, qdd, **given)) < EXACT
    assert error(kinetic @ pi + 0.5 * v**2 @ armature, ds.kinetic_energy(tree, q, v)) < EXACT
    assert error(potential @ pi, ds.potential_energy(tree, q, **given)) < EXACT
    about_centre, centre = ds.momentum(tree, q, v), ds.centre_of_mass(tree, q)
    about_centre[:, 3:] += np.cross(centre, about_centre[:, :3])
    assert error(momentum @ pi, about_centre) < EXACT

    # payloads are of the same ten numbers, in the same frame
    link, payload = rng.integers(tree.n_links), rng.normal(size=10)
    loaded = ds.inverse_dynamics(tree, q, v, qdd, payloads={tree.link_names[link]: payload}, **given)
    pi[10 * link : 10 * link + 10] += payload
    assert error(tau @ pi + armature * qdd, loaded) < EXACT

    base = ds.base_parameters(tree, gravity=gravity)
    assert error(tau[..., base.columns] @ (base.grouping @ pi), tau @ pi) < 1e-9  # of solutions by least squares
    assert np.linalg.matrix_rank(tau.reshape(-1, pi.size)) <= len(base.columns)


def test_base_parameters_of_known_mechanisms():
    """Planar chains have three a link, with what hangs on it, a free body ten."""
    planar = ds.base_parameters(ds.mechanisms.pendulum(3))
    assert isinstance(planar, ds.BaseParameters)
    assert len(planar.columns) == 3 * 3 and planar.names[planar.columns[-1]] == "rod3.Iyy"
    assert str(planar).splitlines()[1] == "rod1.mz -0.5 rod2.m -0.5 rod3.m" and "rod3.my" in planar.unidentified
    body = ds.base_parameters(ds.mechanisms.free_body(2.0, np.eye(3)))
    assert len(body.columns) == 10 and not body.unidentified
    assert np.array_equal(body.grouping, np.eye(10)) and "10 of 10" in str(body)
    still = ds.base_parameters(ds.mechanisms.pendulum(1), gravity=np.zeros(3))
    assert len(still.columns) == 1 and len(still.unidentified) == 9
    with pytest.raises(ds.DelassusError, match="tolerance"):
        ds.base_parameters(ds.mechanisms.pendulum(1), tolerance=0.0)


@pytest.mark.parametrize("seed", range(4))
def test_base_parameters_do_not_depend_on_limits_or_units(seed):
    """Of robots whose files give no limits, and of such as are of micrometres or of kilometres."""
    tree, names = some_mechanism(seed, 4, ("fixed", "floating")[seed % 2]).tree, set()
    still = tuple(replace(j, lower=np.zeros(j.nv), upper=np.zeros(j.nv)) for j in tree.joints)
    names.add(ds.base_parameters(replace(tree, joints=still)).columns.tobytes())
    for length in (1.0, 2.0**-20, 2.0**20):
        units = np.repeat([1.0, length], 3)
        scaled = replace(
            tree,
            joints=tuple(
                replace(j, position=j.position * length, armature=np.zeros(j.nv), pitch=j.pitch * length)
                for j in tree.joints
            ),
            inertias=tree.inertias * units[:, None] * units,
            frames={name: replace(at, position=at.position * length) for name, at in tree.frames.items()},
        )
        names.add(ds.base_parameters(scaled, gravity=np.array([0.0, 0.0, -9.81 * length])).columns.tobytes())
    assert len(names) == 1


def test_bodies_that_have_base_parameters():
    """Where there are some, these; else those that are nearest, which no others are in any direction."""
    tree, rng = some_mechanism(4, 5, "floating").tree, np.random.default_rng(1)
    base, own = ds.base_parameters(tree), tree.inertial_parameters
    errors = 0.01 * np.abs(base.grouping) @ np.abs(own).ravel()
    heavier = own * rng.uniform(0.5, 2.0, (len(own), 1))
    found = base.consistent(base.grouping @ heavier.ravel(), errors, own)
    assert np.abs((base.grouping @ (found - heavier).ravel()) / errors).max() < 0.1
    noisy = base.grouping @ heavier.ravel() + 30 * errors * rng.normal(size=errors.size)
    found = base.consistent(noisy, np.diag(errors**2), own)
    left = (base.grouping @ found.ravel() - noisy) / errors
    assert left @ left > 1.0
    for other in rng.uniform(0.1, 4.0, (20, len(own), 1)) * own:
        towards = (base.grouping @ (other - found).ravel()) / errors
        assert left @ towards > -0.01 * left @ left  # half of the square goes down by less in all the way there
    for given, match in (
        ((noisy[1:], errors, own), "values"),
        ((noisy, -errors, own), "errors"),
        ((noisy, errors, 0 * own), "near"),
    ):
        with pytest.raises(ds.DelassusError, match=match):
            base.consistent(*given)


def test_derivatives_of_dynamics_by_inertial_parameters():
    """Compiled, and ``-dqdd_dtau Y``, by differences of payloads, to which accelerations are not linear."""
    tree = some_mechanism(3, 6, "floating").tree
    tip, rng = [ds.Point(tree.link_names[-1])], np.random.default_rng(0)
    q, v, tau = tree.random(rng), *rng.normal(size=(2, tree.nv))
    d = ds.dynamics_derivatives(tree, q, v, tau, tip)
    Y = ds.regressor(tree, q, v, d.qdd)[:, 20:30]
    compiled = [x[:, 20:30] for x in ds.compile(tree, tip, "inertial_derivatives")(q, v, tau)]
    for found, wanted in zip(compiled, (-d.dqdd_dtau @ Y, -d.df_dtau @ Y), strict=True):
        assert error(found, wanted) < 1e-9
    for k in range(10):
        step = 1e-5 * np.eye(10)[k]
        up, down = (ds.forward_dynamics(tree, q, v, tau, tip, payloads={tree.link_names[2]: x}) for x in (step, -step))
        for found, wanted in (
            (-d.dqdd_dtau @ Y[:, k], (up.qdd - down.qdd) / 2e-5),
            (-d.df_dtau @ Y[:, k], (up.forces[0] - down.forces[0]) / 2e-5),
        ):
            assert error(found, wanted) < 1e-6


@pytest.mark.parametrize(("base", "root"), [("floats", "floating"), ("driven", "floating"), ("floats", "fixed")])
def test_motions_that_excite(base, root):
    """Within limits, better than random ones, what they say they are, and of a base that floats without momentum."""
    tree = some_mechanism(3, 4, root).tree
    motion = ds.exciting_motion(tree, base=base, period=2.0, harmonics=2, samples=100, rounds=5)
    assert isinstance(motion, ds.ExcitingMotion)
    q, v, qdd, dt, gravity = motion.q, motion.v, motion.qdd, motion.times[1], motion.gravity
    ahead = [tree.difference(q[2:-2], q[2 + k : len(q) - 2 + k]) for k in (1, 2, -1, -2)]
    rate = (8 * (ahead[0] - ahead[2]) - (ahead[1] - ahead[3])) / (12 * dt)
    assert error(v[2:-2], rate) < 1e-3
    assert error(qdd[2:-2], (8 * (v[3:-1] - v[1:-3]) - (v[4:] - v[:-4])) / (12 * dt)) < 1e-3
    if base == "floats" and root == "floating":
        assert np.abs(ds.momentum(tree, q, v)).max() < 1e-12 and not gravity.any()
        assert np.abs(ds.inverse_dynamics(tree, q, v, qdd, gravity=gravity, passive="none")[:, :6]).max() < 1e-12
    else:
        np.testing.assert_array_equal(gravity, tree.gravity)
    Y = ds.regressor(tree, q, v, qdd, gravity=gravity).reshape(-1, 10 * tree.n_links)
    assert error(Y[:, motion.base.columns] @ motion.base.grouping, Y) < 1e-6
    Y = Y[:, motion.base.columns] / np.linalg.norm(Y[:, motion.base.columns], axis=0)
    assert abs(np.linalg.cond(Y) / motion.condition - 1) < 1e-3 and motion.condition < motion.usual
    single = np.repeat([j.nv == 1 for j in tree.joints], [j.nv for j in tree.joints])
    places = np.repeat([j.nv == 1 for j in tree.joints], [j.nq for j in tree.joints])
    assert (q[:, places] <= tree.upper[single]).all() and (q[:, places] >= tree.lower[single]).all()


@pytest.mark.parametrize("seed", range(3))
def test_motions_keep_to_limits_of_one_side(seed):
    """Of either, of both and of none; those beyond what a file means are none."""
    rng, joints = np.random.default_rng(seed), []
    for joint in ds.mechanisms.chain(3).joints:
        low, high = np.sort(rng.normal(size=2))
        ends = [(low, high), (low, np.inf), (-np.inf, high), (low, 1e7), (-1e30, high)][rng.integers(5)]
        joints.append(replace(joint, lower=np.array(ends[:1]), upper=np.array(ends[1:])))
    tree = replace(ds.mechanisms.chain(3), joints=tuple(joints))
    q = ds.exciting_motion(tree, period=2.0, harmonics=1, samples=20, rounds=0, seed=seed).q
    assert (q >= tree.lower).all() and (q <= tree.upper).all() and (np.abs(q) < 10.0).all()


def test_reach_of_motions_is_checked():
    with pytest.raises(ds.DelassusError, match="travel"):
        ds.exciting_motion(ds.mechanisms.chain(2), travel=(0.1,))
