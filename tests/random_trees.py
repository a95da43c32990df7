"""Random descriptions of trees with every kind of joint, random constraints and contacts on them, and whole robots."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import delassus as ds
from delassus import Tree
from delassus.errors import ModelError
from internals import Actuator, RawJoint, RawLink, build_tree, calls, joint_kinds, usual_states
from tools import random_frame, random_rotation, requested

KINDS = (joint_kinds.REVOLUTE, joint_kinds.REVOLUTE, *joint_kinds.KINDS, None)  # None: fixed
SINGLE = (joint_kinds.REVOLUTE, joint_kinds.PRISMATIC)  # of one degree of freedom
STRAIGHT = (joint_kinds.PRISMATIC,)  # Jacobians are constant
REVERSIBLE = (
    joint_kinds.REVOLUTE,
    joint_kinds.SCREW,
    joint_kinds.COS_SIN,
    joint_kinds.PRISMATIC,
    joint_kinds.BALL,
    joint_kinds.TRANSLATION,
)

ARM = (*[joint_kinds.REVOLUTE] * 3, joint_kinds.PRISMATIC)
MIXED = (*ARM, *joint_kinds.KINDS)
ROOTS = ("fixed", "fixed", "several", "planar", "floating")
TURNS_OR_SLIDES = (joint_kinds.REVOLUTE, joint_kinds.PRISMATIC, joint_kinds.SCREW)

WELL_CONDITIONED = 1e8
"""Condition of rows up to which `independent_constraints` are drawn."""


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

    @property
    def moving(self):
        return [name for name in self.names[1:] if self.tree.placement(name).link >= 0]


def some_rotation(rng):
    choice = rng.integers(3)
    if choice == 0:
        return np.eye(3)
    if choice == 1:  # a turn of the cube
        R = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], 3)
        return R if np.linalg.det(R) > 0 else -R
    return random_rotation(rng)


IN_LOOPS = (
    *[joint_kinds.REVOLUTE] * 4,
    joint_kinds.PRISMATIC,
    joint_kinds.BALL,
    joint_kinds.PLANAR,
    joint_kinds.COS_SIN,
    joint_kinds.SCREW,
)
"""Kinds of joints in random loops, mostly hinges."""


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
        joints[-1] = with_pitch(joints[-1], rng)
    return Mechanism(links, joints, some_tree(links, joints, root, rng), rng, root == "floating")


def tree_of(name, links, joints, root="fixed"):
    """A tree of links (name, mass, com, inertia) and of joints that slide or turn.

    Of these: name, whether it slides, parent, child, position, rotation and axis.
    """
    kinds = joint_kinds.REVOLUTE, joint_kinds.PRISMATIC
    made = [RawJoint(x, kinds[slides], *where, axis=axis) for x, slides, *where, axis in joints]
    return build_tree(name, [RawLink(*link) for link in links], made, root=root)


def with_pitch(joint, rng):
    """The joint, with a pitch of either sign (m/rad) if it is a screw."""
    return replace(joint, pitch=float(rng.normal())) if joint.kind is joint_kinds.SCREW else joint


def some_tree(links, joints, root, rng):
    """Build the tree; where M stays regular, some links are without mass (as in universal joints) or mere points."""
    if rng.random() < 0.4:
        points = [RawLink(link.name, link.mass, link.com) if rng.random() < 0.2 else link for link in links]
        light = [RawLink(link.name) if rng.random() < 0.2 else link for link in points]
        try:
            tree = build_tree("random", light, joints, root=root)
            requested(tree, (), "delassus")  # refuses joints that move nothing with inertia
        except ModelError:
            return build_tree("random", links, joints, root=root)
        if tree.inertias[:, 0, 0].any():  # else it has no centre of mass
            links[:] = light
            return tree
    return build_tree("random", links, joints, root=root)


def with_rotors(tree, rng, which=slice(None), straight=None):
    """The tree with armature on some of its joints, its root among them, of every other one ``straight``."""
    joints = list(tree.joints)
    for joint in joints[which]:
        is_straight = rng.random() < 0.5 if straight is None else straight
        a, linear = rng.uniform(0.1, 2.0, joint.nv), np.array(joint.motion_axes) < 3
        a[linear] = a[linear][:1] if is_straight and linear.any() else a[linear]
        joints[joints.index(joint)] = replace(joint, armature=a, armature_is_straight=is_straight)
    return replace(tree, joints=tuple(joints))


INNER = {
    joint_kinds.FREE: (joint_kinds.BALL, joint_kinds.PRISMATIC),
    joint_kinds.PLANAR: (joint_kinds.FREE, joint_kinds.REVOLUTE),
    joint_kinds.SCREW: (joint_kinds.SCREW, joint_kinds.PRISMATIC),
}


def some_rotors(rng, root, straight):
    """A root of this kind with two `INNER` joints on it, all with armature."""
    links = [RawLink("world"), *(some_link(rng, name) for name in "abc")]
    joints = [
        with_pitch(RawJoint(f"to_{b}", kind, a, b, rng.normal(size=3), random_rotation(rng), rng.normal(size=3)), rng)
        for kind, a, b in zip((root, *INNER[root]), ("world", "a", "a"), "abc", strict=True)
    ]
    return with_rotors(build_tree("rotors", links, joints), rng, straight=straight)


def points_on_an_arm(rng, n, turns):
    """Points of mass on hinges about y, all on one side of an arm without mass that turns about y or slides along z."""
    links = [RawLink("base"), RawLink("arm"), *(RawLink(f"{k}", mass) for k, mass in enumerate(rng.uniform(1, 3, n)))]
    kind, axis = (joint_kinds.REVOLUTE, np.eye(3)[1]) if turns else (joint_kinds.PRISMATIC, np.eye(3)[2])
    hinge = {"kind": joint_kinds.REVOLUTE, "axis": np.eye(3)[1], "armature": 0.1}
    places = [np.array([x, 0.0, 0.0]) for x in rng.uniform(0.2, 2.0, n)]
    joints = [RawJoint(f"j{k}", parent="arm", child=f"{k}", position=x, **hinge) for k, x in enumerate(places)]
    return build_tree("points", links, [RawJoint("first", kind, "base", "arm", axis=axis), *joints])


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


def some_dependent_rows(mechanism, size=1.0):
    """Sets of constraints, by name, whose rows depend on one another at every state; ``size`` of rows of a link."""
    rng, tree = mechanism.rng, mechanism.tree
    deep = sorted(range(tree.n_links), key=lambda i: -len(tree.support(i)))
    a, b = (tree.link_names[i] for i in (deep[0], deep[-1]))
    at, K, (f, g) = random_frame(rng, a), size * rng.normal(size=(2, 6)), rng.choice(FACTORS, 2)
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
    if len(tree.joints[0].kind.motion_axes) == 3 == tree.joints[0].nv and tree.parents[0] < 0:
        out["that nothing moves"] = [ds.Weld(random_frame(rng, tree.link_names[0]))]
    if a != b:
        other = random_frame(rng, b)
        out["on three links"] = [ds.Point(at), ds.Point(other), ds.Point(at, other)]
    return out


# -- robots ---------------------------------------------------------------------------------------------------------


def some_robot(rng, most, kinds=None):
    """Mechanism whose joints have springs, damping, friction, limits and armature here and there, and actuators."""
    root, some, is_aligned = str(rng.choice(ROOTS)), (ARM, MIXED)[rng.integers(2)], rng.random() < 0.7
    kinds = kinds or some
    n = max(1, most - int(rng.geometric(0.4)) + 1)
    links, joints = [some_link(rng, "l0")], []
    for k in range(1, n + 1):
        kind = kinds[rng.integers(len(kinds))] if rng.random() > 0.1 else None
        if root == "planar" and k == 1:
            kind = joint_kinds.PLANAR
        parent = k - 1 if rng.random() < 0.6 else int(rng.integers(k))
        parent = 0 if root == "several" and rng.random() < 0.5 else parent
        links.append(some_link(rng, f"l{k}"))
        joint = with_pitch(some_joint(rng, f"j{k}", kind, f"l{parent}", f"l{k}"), rng)
        joints.append(aligned(joint, rng) if is_aligned else joint)
    if all(joint.kind is None for joint in joints) and root != "floating":
        joints[0] = replace(joints[0], kind=joint_kinds.REVOLUTE)
    tree = some_tree(links, joints, "floating" if root == "floating" else "fixed", rng)
    if root == "floating" and rng.random() < 0.5:
        tree = with_rotors(tree, rng, slice(1))
    turning = [joint.name for joint in joints if joint.kind in TURNS_OR_SLIDES]
    motors = tuple(some_actuator(rng, f"a{k}", turning) for k in range(int(rng.integers(3)))) if turning else ()
    at = str(rng.choice([link.name for link in links[1:]]))
    lifted = {at: np.array([0.7, 0.01, 0.0, 0.02])} if rng.random() < 0.3 and tree.placement(at).link >= 0 else {}
    tree = replace(tree, actuators=motors, gravity_compensation=lifted)
    return Mechanism(links, joints, tree, rng, root == "floating")


def some_joint(rng, name, kind, parent, child):
    one, springs = kind in TURNS_OR_SLIDES, kind is not None and kind.has_springs

    def often(part, least, most):
        return float(rng.uniform(least, most)) if rng.random() < part else 0.0

    limits = {"lower": -float(rng.uniform(0.2, 2.0)), "upper": float(rng.uniform(0.2, 2.0))}
    return RawJoint(
        name, kind, parent, child,
        position=rng.uniform(-0.4, 0.4, 3) * (rng.random(3) < 0.8), rotation=some_rotation(rng), axis=some_axis(rng),
        armature=often(0.3, 0.01, 0.3), damping=often(0.3, 0.1, 0.5), friction=often(0.3, 0.1, 0.5) * one,
        stiffness=often(0.3, 1.0, 5.0) * springs, rest_position=often(0.5, -0.4, 0.4) * springs,
        effort_limit=float(rng.uniform(1.0, 5.0)) if rng.random() < 0.5 else np.inf,
        **(limits if one and rng.random() < 0.4 else {}),
    )  # fmt: skip


def aligned(joint, rng):
    """The joint with axes that are those of coordinates."""
    return replace(joint, rotation=np.eye(3), axis=np.eye(3)[rng.integers(3)])


def some_actuator(rng, name, joints):
    """A motor or a servo on one or two joints, whose controls or forces are cut off."""
    met = rng.choice(joints, min(int(rng.integers(1, 3)), len(joints)), replace=False)
    ratios = {str(joint): float(rng.uniform(0.5, 2.0)) for joint in met}
    if rng.random() < 0.5:
        return Actuator(name, ratios, control_range=(-1.5, 1.5))
    return Actuator(name, ratios, (20.0, 0.0, 0.0), (0.0, -20.0, -1.0), force_range=(-2.5, 2.5))


# -- their constraints ----------------------------------------------------------------------------------------------


def some_rows(mechanism):
    """A constraint of any kind."""
    rng = mechanism.rng
    choice = int(rng.integers(10))
    if choice < 4:
        return some_constraint(mechanism, mechanism.names)[0]
    if choice >= 8:
        a, *b = some_pair(mechanism)
        kind = rng.choice([ds.Prismatic, ds.Cylindrical, ds.Planar, ds.Universal, ds.Rows])
        if kind is ds.Universal:
            return kind(a, *(b or [random_frame(rng, "world")]), some_axis(rng), some_axis(rng))
        return ds.Rows(a, *b, rng.normal(size=(2, 6))) if kind is ds.Rows else kind(a, *b, axis=some_axis(rng))
    if choice == 4:
        return some_joint_rows(mechanism, 2)[0]
    if choice == 5:
        return ds.CenterOfMass()
    a, *b = some_pair(mechanism)
    if choice == 6:
        return ds.Orientation(a, *b, axis=some_axis(rng) if rng.random() < 0.5 else None)
    return ds.Distance(a, *(b or [ds.Frame("world", rng.normal(size=3))]))


def some_pair(mechanism):
    """A frame on one link, and often one on another; some come with each call."""
    rng, tree = mechanism.rng, mechanism.tree
    first = str(rng.choice(mechanism.names[1:]))
    others = [n for n in mechanism.names if tree.placement(n).link != tree.placement(first).link]
    pair = [first, *([str(rng.choice(others))] if others and rng.random() < 0.7 else [])]
    given = [*rng.choice(["position", "placement"], 1), None, None, None]
    return [
        ds.Frame(name, given=str(how)) if how else random_frame(rng, name)
        for name, how in ((name, given[rng.integers(4)]) for name in pair)
    ]


def independent_constraints(mechanism, name, most_rows):
    """Up to three that are together independent, of a quantity."""
    rng, chosen = mechanism.rng, []
    for _ in range(int(rng.integers(4))):
        try:
            wanted = [*chosen, some_rows(mechanism)]
            asked = requested(mechanism.tree, wanted, "delassus")
        except ds.errors.ConstraintError:  # of a link that does not move
            continue
        if name == "reduced_dynamics" and not can_close(mechanism.tree, wanted):
            continue
        if sum(c.size for c in wanted) <= most_rows and are_independent(asked):
            chosen = wanted
    return chosen


def can_close(tree, constraints):
    """Whether a configuration is found at which constraints hold."""
    try:
        return requested(tree, constraints, "reduced_dynamics").independent is not None
    except ds.errors.ConstraintError:
        return False


def are_independent(asked):
    """Whether the rows of a request are, at all usual states, as far as matters here."""
    q = np.concatenate(usual_states(asked))
    G = calls.call_of(asked, split(asked.arguments, q), (len(q),)).computed()[0]
    d = np.sqrt(np.diagonal(G, axis1=1, axis2=2))
    if not np.all(d > 1.0 / WELL_CONDITIONED):
        return False
    return bool(np.all(np.linalg.cond(G / (d[:, :, None] * d[:, None])) < WELL_CONDITIONED)) if d.size else True


def some_contacts(mechanism, most):
    rng, chosen = mechanism.rng, []
    for _ in range(int(rng.integers(1, most + 1))):
        at = str(rng.choice(mechanism.moving))
        frame = random_frame(rng, at)
        shape = ds.contact.Sphere(0.5) if rng.random() < 0.7 else ds.contact.Capsule(0.2, 0.3)
        others = [n for n in mechanism.moving if mechanism.tree.placement(n).link != mechanism.tree.placement(at).link]
        ground = "input" if rng.random() < 0.3 else "plane"
        if others and rng.random() < 0.3:
            ground = random_frame(rng, str(rng.choice(others))), ds.contact.Sphere(0.2)
        chosen.append(ds.Contact(frame, shape, ground, friction=0.6, restitution=0.2 * (rng.random() < 0.3)))
    return chosen


def split(arguments, states):
    """Values by name, (…, *shape), of states (…, numbers of all arguments)."""
    at, values = 0, {}
    for a in arguments:
        values[a.name] = states[..., at : at + a.size].reshape(*states.shape[:-1], *a.shape)
        at += a.size
    return values
