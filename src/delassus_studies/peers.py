"""Pinocchio's numbers for the same robot and constraints, where it is installed: an oracle, and a peer to time."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from delassus.constraints import Constraint, Point, Weld
from delassus.model.joints import JointKind
from delassus.model.rotations import Array
from delassus.model.tree import WORLD, Tree
from delassus_studies.cases import Case


def _pinocchio() -> Any:
    return importlib.import_module("pinocchio") if importlib.util.find_spec("pinocchio") else None


def pinocchio_model(pin: Any, tree: Tree) -> Any:
    """Build the same tree in Pinocchio, joint by joint."""
    model = pin.Model()
    ids = {WORLD: 0}
    for i, joint in enumerate(tree.joints):
        axis = np.eye(3)[joint.axis]
        kinds = {
            JointKind.REVOLUTE: lambda axis=axis: pin.JointModelRevoluteUnaligned(axis),
            JointKind.COS_SIN: lambda axis=axis: pin.JointModelRevoluteUnboundedUnaligned(axis),
            JointKind.PRISMATIC: lambda axis=axis: pin.JointModelPrismaticUnaligned(axis),
            JointKind.PLANAR: pin.JointModelPlanar,
            JointKind.BALL: pin.JointModelSpherical,
            JointKind.TRANSLATION: pin.JointModelTranslation,
            JointKind.FREE: pin.JointModelFreeFlyer,
        }
        placement = pin.SE3(np.array(joint.rotation), np.array(joint.position))
        ids[i] = model.addJoint(ids[tree.parents[i]], kinds[joint.kind](), placement, joint.name)
        H = tree.inertias[i]
        mass = float(H[0, 0])
        com = np.array([H[1, 5], H[2, 3], H[0, 4]]) / mass if mass > 0 else np.zeros(3)
        cross = np.array([[0, -com[2], com[1]], [com[2], 0, -com[0]], [-com[1], com[0], 0]])
        model.appendBodyToJoint(ids[i], pin.Inertia(mass, com, H[3:, 3:] + mass * cross @ cross), pin.SE3.Identity())
    return model


def _contact(pin: Any, model: Any, tree: Tree, c: Constraint) -> Any:
    at = c.first.on(tree)
    kind = pin.ContactType.CONTACT_6D if isinstance(c, Weld) else pin.ContactType.CONTACT_3D
    joint = model.getJointId(tree.joint_names[at.link])
    placement = pin.SE3(np.array(at.rotation), np.array(at.position))
    return pin.RigidConstraintModel(kind, model, joint, placement, pin.ReferenceFrame.LOCAL)


def pinocchio_contacts(pin: Any, model: Any, case: Case) -> tuple[Any, Any]:
    """Constraints of a case as Pinocchio's, with their data, in its own vectors (lists are copied at every call)."""
    contacts, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for c in case.constraints:
        contacts.append(_contact(pin, model, case.tree, c))
        data.append(contacts[-1].createData())
    return contacts, data


def _supported(case: Case) -> bool:
    return all(isinstance(c, (Weld, Point)) and c.second is None and c.axes == "local" for c in case.constraints)


def pinocchio_delassus(case: Case, q: Array) -> Array | None:
    """Delassus matrices (k, m, m) at configurations (k, nq) by Pinocchio's constrained Cholesky factorisation."""
    pin = _pinocchio()
    if pin is None or not _supported(case):
        return None
    model = pinocchio_model(pin, case.tree)
    data = model.createData()
    contacts, contact_data = pinocchio_contacts(pin, model, case)
    out = []
    for state in q:
        pin.crba(model, data, state)
        pin.computeJointJacobians(model, data, state)
        for c, d in zip(contacts, contact_data, strict=True):
            c.calc(model, data, d)
        factor = pin.ConstraintCholeskyDecomposition(model, data, contacts, contact_data)
        factor.compute(model, data, contacts, contact_data, 0.0)
        out.append(np.array(factor.getInverseOperationalSpaceInertiaMatrix(True)))
    return np.array(out)


def pinocchio_call(case: Case, q: Array, lists: bool = False) -> Callable[[], list[Array]] | None:
    """Call that runs Pinocchio's ``computeDelassusMatrix`` at every configuration and returns what it gave.

    ``lists``: pass the constraints as Python lists, as most code does; Pinocchio then copies them at every call.
    """
    pin = _pinocchio()
    if pin is None or not _supported(case):
        return None
    model = pinocchio_model(pin, case.tree)
    data = model.createData()
    contacts, contact_data = pinocchio_contacts(pin, model, case)
    if lists:
        contacts, contact_data = list(contacts), list(contact_data)
    states = [np.array(state) for state in q]

    def call() -> list[Array]:
        return [pin.computeDelassusMatrix(model, data, state, contacts, contact_data) for state in states]

    return call
