"""Random descriptions of trees with every kind of joint, and random constraints on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import delassus as ds
from delassus import Tree
from delassus.errors import ModelError
from internals import RawJoint, RawLink, build_tree, joint_kinds
from tools import random_frame, random_rotation

KINDS = (joint_kinds.REVOLUTE, joint_kinds.REVOLUTE, *joint_kinds.KINDS, None)  # None: fixed
SINGLE = (joint_kinds.REVOLUTE, joint_kinds.PRISMATIC)  # of one degree of freedom
STRAIGHT = (joint_kinds.PRISMATIC,)  # Jacobians are constant
REVERSIBLE = (
    joint_kinds.REVOLUTE,
    joint_kinds.COS_SIN,
    joint_kinds.PRISMATIC,
    joint_kinds.BALL,
    joint_kinds.TRANSLATION,
)


@dataclass
class Mechanism:
    links: list[RawLink]
    joints: list[RawJoint]
    tree: Tree
    rng: np.random.Generator
    floating: bool

    @property
    def names(self):
        return ["world", *(link.name for link in self.links)]


def some_rotation(rng):
    choice = rng.integers(3)
    if choice == 0:
        return np.eye(3)
    if choice == 1:  # a turn of the cube
        R = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], 3)
        return R if np.linalg.det(R) > 0 else -R
    return random_rotation(rng)


def some_axis(rng):
    return np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0]) if rng.random() < 0.4 else rng.normal(size=3)


def some_link(rng, name):
    mass = 10 ** rng.uniform(-0.7, 0.7)
    second_moments = np.diag(rng.uniform(0.03, 0.3, 3) ** 2)  # of the mass density: any positive ones are physical
    R = some_rotation(rng)
    inertia = mass * R @ (np.trace(second_moments) * np.eye(3) - second_moments) @ R.T
    return RawLink(name, mass, rng.uniform(-0.2, 0.2, 3), inertia)


def some_mechanism(seed, n_links, root, kinds=KINDS):
    rng = np.random.default_rng(seed)
    links = [some_link(rng, f"l{k}") for k in range(n_links)]
    joints = []
    for k in range(1, n_links):
        parent = k - 1 if rng.random() < 0.6 else int(rng.integers(k))
        joints.append(
            RawJoint(
                name=f"j{k}",
                kind=kinds[rng.integers(len(kinds))],
                parent=f"l{parent}",
                child=f"l{k}",
                position=rng.uniform(-0.4, 0.4, 3) * (rng.random(3) < 0.8),
                rotation=some_rotation(rng),
                axis=some_axis(rng),
                armature=float(rng.uniform(0.01, 0.3)) if rng.random() < 0.2 else 0.0,
            )
        )
    return Mechanism(links, joints, some_tree(links, joints, root, rng), rng, root == "floating")


def some_tree(links, joints, root, rng):
    """Build the tree; where M stays regular, some links are without mass (as in universal joints) or mere points."""
    if rng.random() < 0.4:
        points = [RawLink(link.name, link.mass, link.com) if rng.random() < 0.2 else link for link in links]
        light = [RawLink(link.name) if rng.random() < 0.2 else link for link in points]
        try:
            tree = build_tree("random", light, joints, root=root)
        except ModelError:
            return build_tree("random", links, joints, root=root)
        links[:] = light
        return tree
    return build_tree("random", links, joints, root=root)


def some_place(rng, name):
    return name if rng.random() < 0.2 else random_frame(rng, name)


def some_constraint(mechanism, favourites):
    """Constraint to the world or between two links, and its rows where these come with the call."""
    rng, tree = mechanism.rng, mechanism.tree
    names = favourites if rng.random() < 0.5 else mechanism.names
    first = str(rng.choice(names))
    others = [n for n in mechanism.names if tree.placement(n).link != tree.placement(first).link]
    axes = str(rng.choice(["local", "world"]))
    choice = rng.integers(5)
    if choice >= 3:
        m = int(rng.integers(1, 9))
        K = rng.normal(size=(m, 6)) * (rng.random((m, 6)) < 0.7)
        given_later = choice == 4
        return ds.Rows(some_place(rng, first), m if given_later else K, axes=axes), K if given_later else None
    a = some_place(rng, first)
    b = some_place(rng, str(rng.choice(others))) if others and rng.random() < 0.5 else None
    if choice == 2:
        return ds.Hinge(a, b, some_axis(rng), axes=axes), None
    return (ds.Weld, ds.Point)[choice](a, b, axes=axes), None


def some_joint_rows(mechanism, most=3):
    """Rows on a few joints of any kind, and the same as a matrix (m × nv)."""
    rng, tree = mechanism.rng, mechanism.tree
    rows, matrix = [], []
    for _ in range(int(rng.integers(1, most + 1))):
        met = rng.choice(tree.n_links, min(int(rng.integers(1, 4)), tree.n_links), replace=False)
        row = {tree.joint_names[i]: rng.normal(size=tree.joints[i].nv) for i in met}
        rows.append({name: float(x[0]) if len(x) == 1 else x for name, x in row.items()})
        matrix.append(np.zeros(tree.nv))
        for i in met:
            matrix[-1][tree.v_slices[i]] = row[tree.joint_names[i]]
    return ds.JointRows(rows, rest=rng.normal(size=len(rows))), np.array(matrix)


def some_constraints(mechanism, least=1, most=7):
    rng = mechanism.rng
    favourites = list(rng.choice(mechanism.names, 2))
    made = [some_constraint(mechanism, favourites) for _ in range(rng.integers(least, most + 1))]
    if rng.random() < 0.2:
        made.append(made[0])  # redundant
    return [c for c, _ in made], [K for _, K in made if K is not None]


FACTORS = (1.0, -1.0, 0.1, -31.0, np.pi, 1e3, 1e-6)


def some_dependent_rows(mechanism):
    """Sets of constraints, by name, whose rows depend on one another at every state."""
    rng, tree = mechanism.rng, mechanism.tree
    deep = sorted(range(tree.n_links), key=lambda i: -len(tree.support(i)))
    a, b = (tree.link_names[i] for i in (deep[0], deep[-1]))
    at, K, (f, g) = random_frame(rng, a), rng.normal(size=(2, 6)), rng.choice(FACTORS, 2)
    met = rng.choice(tree.n_links, min(2, tree.n_links), replace=False)
    row = {tree.joint_names[i]: rng.normal(size=tree.joints[i].nv) for i in met}
    on_joints = [{name: s * (x if len(x) > 1 else x[0]) for name, x in row.items()} for s in (1.0, f)]
    out = {
        f"twice, {f}": [ds.Rows(at, K[:1]), ds.Rows(at, f * K[:1])],
        f"any two of three, {f}, {g}": [ds.Rows(at, [*K, f * K[0] + g * K[1]])],
        "almost alike": [ds.Rows(at, [K[0], K[0] + 1e-4 * K[1], K[1]])],
        f"on joints, {f}": [ds.JointRows(x) for x in on_joints],
        f"on joints at once, {f}": [ds.JointRows(on_joints)],
    }
    if a != b:
        other = random_frame(rng, b)
        out["on three links"] = [ds.Point(at), ds.Point(other), ds.Point(at, other)]
    return out
