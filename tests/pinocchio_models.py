"""Models for comparisons with Pinocchio: URDF files of example-robot-data, and trees of random joints of every type."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tools import random_rotation

pin = pytest.importorskip("pinocchio")

FOLDER = Path(sysconfig.get_path("purelib")) / "cmeel.prefix" / "share" / "example-robot-data" / "robots"

FILES = {str(path.relative_to(FOLDER)): path for path in sorted(FOLDER.rglob("*.urdf"))}


@cache
def read(name, root):
    return pin.buildModelFromUrdf(str(FILES[name]), *([pin.JointModelFreeFlyer()] if root == "floating" else []))


def anchor(model, frame):
    """Joint that carries a frame of ours, and where: bodies first, as names of bodies are names of frames here."""
    bodies = [f for f in model.frames if f.name == frame.link and f.type == pin.FrameType.BODY]
    own = pin.SE3(frame.rotation, frame.position)
    if bodies:
        return bodies[0].parentJoint, bodies[0].placement * own
    return model.getJointId(frame.link), own


def rigid_contacts(model, constraints, gains=(0.0, 0.0)):
    """Pinocchio's models of welds and points, and their data; Kd and Kp, gains of velocity and position errors."""
    models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for c in constraints:
        kind = pin.ContactType.CONTACT_6D if c.size == 6 else pin.ContactType.CONTACT_3D
        axes = pin.LOCAL if c.axes == "local" else pin.LOCAL_WORLD_ALIGNED
        ends = anchor(model, c.first) + (() if c.second is None else anchor(model, c.second))
        models.append(pin.RigidConstraintModel(kind, model, *ends, axes))
        if any(gains):
            models[-1].m_baumgarte_parameters.Kd, models[-1].m_baumgarte_parameters.Kp = gains
        datas.append(models[-1].createData())
    return models, datas


def is_depth_first(model):
    """Whether the joints that each joint carries are numbered in a row."""
    return all(np.array_equal(s, np.arange(s[0], s[0] + len(s))) for s in map(list, model.subtrees))


UNALIGNED = """<robot name="r"><link name="a"/><link name="b"><inertial><origin xyz=".1 .2 .3"/><mass value="2"/>
    <inertia ixx="1" iyy="1.2" izz=".9" ixy=".1" ixz="0" iyz=".05"/></inertial></link>
    <joint name="j" type="continuous"><parent link="a"/><child link="b"/><axis xyz="1 -2 .5"/></joint></robot>"""


def unit(rng):
    axis = rng.normal(size=3)
    return axis / np.linalg.norm(axis)


SIMPLE = {
    "RX": lambda rng: pin.JointModelRX(),
    "RY": lambda rng: pin.JointModelRY(),
    "RZ": lambda rng: pin.JointModelRZ(),
    "RUBX": lambda rng: pin.JointModelRUBX(),
    "RUBY": lambda rng: pin.JointModelRUBY(),
    "RUBZ": lambda rng: pin.JointModelRUBZ(),
    "PX": lambda rng: pin.JointModelPX(),
    "PY": lambda rng: pin.JointModelPY(),
    "PZ": lambda rng: pin.JointModelPZ(),
    "RevoluteUnaligned": lambda rng: pin.JointModelRevoluteUnaligned(unit(rng)),
    "RevoluteUnboundedUnaligned": lambda rng: pin.buildModelFromXML(UNALIGNED).joints[1],
    "PrismaticUnaligned": lambda rng: pin.JointModelPrismaticUnaligned(unit(rng)),
    "FreeFlyer": lambda rng: pin.JointModelFreeFlyer(),
    "Spherical": lambda rng: pin.JointModelSpherical(),
    "Planar": lambda rng: pin.JointModelPlanar(),
    "Translation": lambda rng: pin.JointModelTranslation(),
    "HX": lambda rng: pin.JointModelHX(0.3),
    "HY": lambda rng: pin.JointModelHY(-0.2),
    "HZ": lambda rng: pin.JointModelHZ(0.1),
    "HelicalUnaligned": lambda rng: pin.JointModelHelicalUnaligned(unit(rng), rng.normal()),
}

HINGED = {
    "SphericalZYX": lambda rng: pin.JointModelSphericalZYX(),
    "Universal": lambda rng: pin.JointModelUniversal(unit(rng), unit(rng)),
}
"""Joints of several hinges: Pinocchio's derivatives leave out that their axes turn."""

ALL = SIMPLE | HINGED


def random_placement(rng):
    return pin.SE3(random_rotation(rng), rng.uniform(-0.5, 0.5, 3))


def random_inertia(rng):
    A = rng.normal(size=(3, 3))
    turned = A @ A.T + 0.1 * np.eye(3)
    return pin.Inertia(rng.uniform(0.5, 3.0), rng.uniform(-0.3, 0.3, 3), np.trace(turned) * np.eye(3) - turned)


def composite(rng, kinds):
    """Composite joint of these kinds; a list among them is a composite in the composite."""
    joint = pin.JointModelComposite()
    for kind in kinds:
        joint.addJoint(composite(rng, kind) if isinstance(kind, list) else ALL[kind](rng), random_placement(rng))
    return joint


def random_model(rng, kinds, depth_first=True, parents_of=None):
    """Joints of these kinds, each on the world or on an earlier one; some with a body at their frame."""
    model = pin.Model()
    model.name = "random"
    parents = [0]
    for i, kind in enumerate(kinds, start=1):
        joint = composite(rng, kind) if isinstance(kind, list) else ALL[kind](rng)
        parent = int(rng.choice(parents[-3:])) if parents_of is None else parents_of[i - 1]
        if depth_first:  # only joints on the way from the last one to the world may carry the next
            while parents[-1] != parent:
                parents.pop()
        parents.append(i)
        assert model.addJoint(parent, joint, random_placement(rng), f"joint{i}") == i
        model.appendBodyToJoint(i, random_inertia(rng), random_placement(rng))
        if rng.uniform() < 0.7:
            model.addBodyFrame(f"body{i}", i, pin.SE3.Identity(), 0)
        model.addBodyFrame(f"tool{i}", i, random_placement(rng), 0)
    model.armature = rng.uniform(0.0, 0.5, model.nv)
    model.damping = rng.uniform(0.0, 0.5, model.nv)
    model.rotorInertia, model.rotorGearRatio = np.full(model.nv, 2.0), np.full(model.nv, 3.0)  # read by no algorithm
    assert is_depth_first(model) or not depth_first
    return model
