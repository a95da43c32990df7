"""What several test files share: tolerances by name, errors relative to the largest entry, random frames."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import mpmath
import numpy as np
from scipy.spatial.transform import Rotation

import delassus as ds
from delassus.contact import Box, Capsule, Cylinder, Ellipsoid, Sphere
from delassus_studies.count_ops import DenseRigidInertia, DenseTransform
from internals import (
    DYNAMICS,
    DYNAMICS_ALGORITHMS,
    NumpyOps,
    Result,
    TraceOps,
    acceleration_from_mujoco,
    bind,
    configuration_to_mujoco,
    find_quantity,
    interpret_program,
    make_program,
    request,
    symbolic_request,
    velocity_to_mujoco,
)
from programs import HAS_FMA, Runs, plain_program

ROUND_OFF = 1e-13
"""One expression written in two ways: a few units in the last place of the largest entry."""

AGREEMENT = 1e-10
"""Two algorithms on one problem whose mass matrix has a condition of up to 1e6, relative to the largest entry."""

ELIMINATION = 1e-8
"""One system by two orders of elimination: round-off, and the condition of G or of what is eliminated early."""

UNPLANNED = [method for method in ds.OSIM_METHODS if method != "auto"]
"""Methods of the Delassus matrix without `auto`, whose planning takes a hundred times as long as the matrix."""


def in_turns(number, n=4):
    """One in n methods of `UNPLANNED`: peers have them in turns, all are held to the dense solve on random trees."""
    return UNPLANNED[number % n :: n]


NOTHING = 1e-9
"""Where the largest entry is below this, it is what round-off left of numbers of order one: errors are absolute."""


def error(actual, expected):
    """Largest difference, relative to the largest entry expected."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    if actual.size == 0:
        return 0.0
    scale = float(np.max(np.abs(expected)))
    difference = float(np.max(np.abs(actual - expected)))
    assert np.isfinite(difference)
    return difference / scale if scale > NOTHING else difference


DEPENDENT = 1e-9
"""Eigenvalue of the Delassus matrix below which rows are dependent; entries are about one."""

exactly = np.frompyfunc(mpmath.mpf, 1, 1)


class LongOps(NumpyOps):
    """`NumpyOps` on arrays of `mpmath.mpf`; floats enter exactly, and so do rotations, with no factors of theirs."""

    cos = staticmethod(np.frompyfunc(mpmath.cos, 1, 1))
    sin = staticmethod(np.frompyfunc(mpmath.sin, 1, 1))
    sqrt = staticmethod(np.frompyfunc(mpmath.sqrt, 1, 1))

    def __init__(self):
        super().__init__(object)

    def constant(self, value):
        return exactly(np.asarray(value, dtype=float))

    def transform(self, displacement):
        return DenseTransform(self, displacement)

    def rigid_inertia(self, H):
        return DenseRigidInertia(self, H)


def evaluated(ops, results, *values, batch=()):
    """Matrices and scalars of a trace as numbers, at these values of all inputs in order, each of a batch of states."""
    tables = [x if hasattr(x, "rows") else ops.matrix([[x]]) for x in results]
    x = np.concatenate([np.reshape(v, (*batch, -1)) for v in values], axis=-1)
    graph = ops.graph([table.nodes() for table in tables])
    found = np.split(outputs_of(plain_program(graph, x.shape[-1]), x), np.cumsum([*map(len, graph.outputs)])[:-1], -1)
    return [y.reshape(*batch, *table.shape) for y, table in zip(found, tables, strict=True)]


def unit_diagonal(M):
    """Mass matrix with a unit diagonal, so that light fingers count as much as heavy arms."""
    d = np.sqrt(np.diagonal(M))
    return M / np.outer(d, d)


def random_rotation(rng):
    """Rotation matrix, uniform."""
    Q, R = np.linalg.qr(rng.normal(size=(3, 3)))
    Q = Q * np.sign(np.diag(R))
    return Q if np.linalg.det(Q) > 0 else -Q


SMALL_STEPS = 1e-5 * np.array([1.0, -1.0, 2.0, -2.0])[:, None]
"""Where values are that `slope` takes (4, 1)."""


def slope(one, two, three, four):
    """Derivative by values at `SMALL_STEPS`, of order four."""
    return (8 * (one - two) - (three - four)) / 12e-5


def random_frame(rng, link, reach=0.3):
    """Frame anywhere on a link."""
    return ds.Frame(link, rng.uniform(-reach, reach, 3), random_rotation(rng))


def frame_pose(tree, frame, q):
    """Rotation and position of a frame in the world, in states of any batch."""
    X = ds.forward_kinematics(tree, q, frame)
    return X[..., :3, :3], X[..., :3, 3]


def leaf_frames(tree, limit=4):
    """One frame on each of the first leaf links: the last one that fixed joints put there (a foot, a tool flange)."""
    last = {placement.link: name for name, placement in tree.frames.items()}
    return [last[i] for i in range(tree.n_links) if not tree.children[i]][:limit]


def requested(tree, constraints, what, **options):
    """What `delassus.compile` is asked for in the same words, before it traces anything."""
    return request(tree, constraints, find_quantity(what), **options)


def traced(tree, constraints, what, dtype="", **options):
    """Program of what `delassus.compile` is asked for in the same words."""
    return make_program(requested(tree, constraints, what, **options), dtype=dtype)


def direct(tree, what, states, constraints=(), method="auto", derivative="", **options):
    """Results by name of a quantity, or of its derivative, as the direct functions compute them."""
    return bind(tree, constraints, find_quantity(what), states, method, derivative, **options).run()


def bound_program(tree, name, states, constraints=(), **options):
    """Program of a direct call, and the values of all its arguments by name."""
    bound = bind(tree, constraints, find_quantity(name), states, "auto", **options)
    return make_program(bound.request), bound.values


def results_at(program, values, states, dtype=np.longdouble):
    """Results by name of a program at states (n, size), all else as values of a direct call."""
    n, values = len(next(iter(states.values()))), {**values, **states}
    given = [np.broadcast_to(values[a.name], (n, *a.shape)).reshape(n, -1) for a in program.arguments]
    flat = outputs_of(program, np.concatenate(given, axis=1).astype(dtype))
    return {r.name: flat[:, list(r.entries)].reshape(n, *r.shape) for r in program.results}


def extent(shape, d):
    """How far a shape reaches along directions (..., 3) in its frame."""
    match shape:
        case Sphere():
            return shape.radius * np.ones(d.shape[:-1])
        case Capsule():
            return shape.radius + shape.length / 2 * np.abs(d[..., 2])
        case Box():
            return np.abs(d) @ np.array([shape.x, shape.y, shape.z]) / 2
        case Cylinder():
            return shape.radius * np.hypot(d[..., 0], d[..., 1]) + shape.length / 2 * np.abs(d[..., 2])
        case Ellipsoid():
            return np.linalg.norm(d * [shape.x, shape.y, shape.z], axis=-1)
    return (d @ shape.vertices.T).max(axis=-1)


def interpreted(asked, values):
    """Results by name of the program of what is asked for, at values of its arguments."""
    batch = max((np.shape(values[a.name])[: -len(a.shape)] for a in asked.arguments if a.shape), key=len)
    given = [np.broadcast_to(values[a.name], (*batch, *a.shape)).reshape(*batch, a.size) for a in asked.arguments]
    program = make_program(asked, with_rcond=False)
    flat = outputs_of(program, np.concatenate(given, axis=-1))
    return {r.name: flat[..., list(r.entries)].reshape(*batch, *r.shape) for r in program.results}


def outputs_of(program, x):
    """All outputs (..., n) of a program at inputs (..., n_inputs): to the bit those of `interpret_program`, sooner.

    In extended precision, and where processors fuse nothing, by that itself.
    """
    if x.dtype == np.longdouble or not HAS_FMA:
        with np.errstate(all="ignore"):
            return np.concatenate(interpret_program(program, x), axis=-1)
    n = sum(map(len, program.graph.outputs))
    whole = replace(program, results=(Result("all", (n,), tuple(range(n))),))
    parts = np.split(x.reshape(-1, x.shape[-1]), np.cumsum([a.size for a in program.arguments])[:-1], axis=1)
    return np.array(Runs(whole, x.dtype.name)(*parts)[0]).reshape(*x.shape[:-1], n)


def run_program(program, x):
    """Each result (n, size) of a program at inputs (n, n_inputs), the reciprocal condition too."""
    found = outputs_of(program, x)
    return [found[:, list(r.entries)] for r in program.results]


def make_motion(tree, q, v, tau, constraints=(), **given):
    """The problem in motion of a direct call of `delassus.forward_dynamics`, and its batch."""
    tau = np.zeros(tree.nv) if tau is None else tau
    call = bind(tree, constraints, DYNAMICS, {"q": q, "v": v, "tau": tau}, **given)
    return Motion(call.request, call.values, call.batch), call.batch


class Motion:
    """A problem in motion at states of a batch."""

    def __init__(self, asked, values, batch):
        self.asked, self.batch = asked, batch
        self.values = [np.broadcast_to(values[a.name], (*batch, *a.shape)).reshape(*batch, -1) for a in asked.arguments]
        self.solved = {}

    def made(self, make, method=None):
        """Arrays (*batch, rows, columns) of the matrices and scalars that ``make`` makes of a trace of it."""
        ops = TraceOps()
        bound = symbolic_request(self.asked if method is None else replace(self.asked, method=method), ops)
        return evaluated(ops, make(bound, bound.motion()), *self.values, batch=self.batch)


def by_method(motion, name):
    """What a method makes of a problem in motion of `make_motion`, unsettled; of each method once."""

    def make(bound, problem):
        found = DYNAMICS_ALGORITHMS[name](problem)
        return [x for x in (found.qdd, found.forces, found.delassus) if x is not None]

    if name not in motion.solved:
        made = zip(("qdd", "forces", "delassus"), motion.made(make, name), strict=False)
        motion.solved[name] = SimpleNamespace(**{"delassus": None, **dict(made)})
    return motion.solved[name]


@lru_cache(maxsize=4)
def estimating(asked, method):
    """Program of what is asked for by a method, with its error by pivots: one for all values of its arguments."""
    return make_program(replace(asked, method=method, error_dtype=""))


def error_estimates(motion, name):
    """Estimated errors of a method by its pivots, by state."""
    rcond = outputs_of(estimating(motion.asked, name), np.concatenate(motion.values, axis=-1))[..., -1]
    with np.errstate(divide="ignore"):
        return np.finfo(float).eps / np.maximum(rcond, 0.0)


class DenseDynamics:
    """``M q̈ + c = τ + Jᵀ f`` and ``J q̈ = γ`` at a batch of states, solved by NumPy for the rows that are on."""

    def __init__(self, tree, constraints, q, v, tau):
        self.M, J = ds.mass_matrix(tree, q), ds.jacobian(tree, constraints, q)
        self.force = tau - ds.bias_force(tree, q, v, passive="none")
        still = [replace(c, axes="world") if isinstance(c, ds.Point) else c for c in constraints]
        gamma, at = -ds.jacobian_drift(tree, still, q, v), 0
        for c in constraints:  # accelerations of points in axes that stand still, seen from those of the frame
            if isinstance(c, ds.Point) and c.axes == "local":
                R = ds.forward_kinematics(tree, q, c.first)[..., :3, :3]
                gamma[..., at : at + 3] = (R.mT @ gamma[..., at : at + 3, None])[..., 0]
            at += c.size
        self.J, self.gamma = J, gamma

    def rank(self, k, on=slice(None)):
        """Rank of the rows that are on, at state k."""
        J = self.J[k, on]
        return np.linalg.matrix_rank(J @ np.linalg.solve(self.M[k], J.T), tol=DEPENDENT, hermitian=True)

    def solution(self, k, on=slice(None)):
        """Accelerations, forces of the rows that are on, and the condition of their Delassus matrix."""
        J, M = self.J[k, on], self.M[k]
        free, moved = np.linalg.solve(M, self.force[k]), np.linalg.solve(M, J.T)
        G = J @ moved
        f = np.linalg.solve(G, self.gamma[k, on] - J @ free)
        return free + moved @ f, f, np.linalg.cond(G) if len(G) else 1.0


def urdf_joint(name, parent, child, kind="revolute", inside=""):
    """Joint of a URDF file; its axis is x where nothing inside says another."""
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{inside}</joint>'


# -- MuJoCo ---------------------------------------------------------------------------------------------------------


def mujoco_data(model, tree, q, v):
    """Data of a MuJoCo model at a state of its tree; nothing is computed yet."""
    import mujoco

    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = configuration_to_mujoco(tree, q), velocity_to_mujoco(tree, q, v)
    return data


def qdd_of(tree, data):
    """Accelerations of MuJoCo's data as the tree's."""
    return acceleration_from_mujoco(tree, data.qpos, data.qvel, data.qacc)


# -- full disks -----------------------------------------------------------------------------------------------------


def on_a_full_disk(call):
    """What a `ConfigurationError` says of a call in a process whose files hold at most 1 kB."""
    script = (
        "import pickle, resource, sys\n"
        "from delassus.errors import ConfigurationError\n"
        "call = pickle.load(sys.stdin.buffer)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    call()\n"
        "except ConfigurationError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, input=pickle.dumps(call), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


# -- nonsense -------------------------------------------------------------------------------------------------------


class Hostile:
    """An object whose every conversion fails."""

    def __array__(self, *_, **__):
        raise RuntimeError("no array")

    def __float__(self):
        raise RuntimeError("no number")


class Raising:
    """An object all of whose methods fail."""

    def fail(self, *_, **__):
        raise RuntimeError("nothing works")

    __array__ = __float__ = __index__ = __iter__ = __len__ = __bool__ = __eq__ = __hash__ = __str__ = __repr__ = fail


def is_finite(result):
    """Whether all numbers of a result are, those in tuples and dictionaries too."""
    if isinstance(result, tuple | list | dict):
        return all(map(is_finite, result.values() if isinstance(result, dict) else result))
    return not isinstance(result, float | np.ndarray | np.floating) or bool(np.isfinite(result).all())


def tree_of_urdf(text, root, **options):
    """Tree of the text of a URDF file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.urdf"
        path.write_text(text)
        return ds.load(path, root=root, **options)


def beside_simulator(scene, q, v, tau, steps, dt, near=1e-8, **options):
    """Impulses of the scene's kernel and the simulator, after steps in which both went the same way."""
    kernel = scene.contact_step(**options)
    sim = ds.Simulator(
        scene, solver="nsgs", tolerance=1e-11, dt=dt, q0=q, v0=v, passive=options.get("passive", "model"),
        limits=options.get("limits", True), max_overlap=9.0,
    )  # fmt: skip
    q, v, p = sim.q, sim.v, np.zeros(kernel.arguments[2].shape)
    for _ in range(steps):
        sim.step(tau)
        q, v, p, _ = kernel(q, v, p, tau, dt)
        np.testing.assert_allclose(q, sim.q, atol=near)
        np.testing.assert_allclose(v, sim.v, atol=near)
    return p, sim


def projected(x, y, z, mu, friction_offset):
    """The nearest point of the cone ``|r_t| ≤ μ r_n + friction_offset``, ``r_n ≥ 0``."""
    t = np.hypot(x, y)
    if t <= mu * z + friction_offset and z >= 0.0:
        return np.array([x, y, z])
    n = max((z + mu * (t - friction_offset)) / (1.0 + mu * mu), 0.0)
    part = min((mu * n + friction_offset) / t, 1.0) if t > 0.0 else 1.0
    return np.array([part * x, part * y, n])


def turning_of_ball(radius, dt, pose, ahead, gap, u):
    """By what the displacement of a ball's lowest point differs from ``u`` (m/s), cut to what brings no energy."""
    change, way = ahead[2, 3] - pose[2, 3], ahead[:3, 3] - pose[:3, 3]
    turn = Rotation.from_matrix(ahead[:3, :3] @ pose[:3, :3].T).as_rotvec()
    arm = [0, 0, -radius - 0.5 * gap - 0.25 * change]  # of the place halfway
    out = (way + np.cross(turn, arm)) / dt - u
    size, most = np.linalg.norm(out[:2]), np.linalg.norm(u[:2])
    out[:2] *= min(most / size, 1.0)
    out[2] = max(change / dt - u[2], min(u[2], 0.0))
    return out * (gap <= 2e-5 and abs(change) <= 2e-4)
