"""Contact and collision dynamics by complementarity: problems, and solvers that do not call wrong answers solved.

- Scenes: `Scene` of robots with `Collider` s, their contacts in a `ContactSet`, all at one state in a `Snapshot`.
- Formulations: `formulate` makes a `ContactProblem` of a scene at a `State`; `collide` solves that of an impact.
- Problems: `LCP`, `MLCP`, `ConeProblem` (exact Coulomb friction) and its `PolyhedralLCP`.
- Solvers: `lemke`, `pgs`, `solve_mixed`, `nsgs`, `admm`, `interior`, `convex`; each returns a `Solution` with
  ``values``, ``status``, ``iterations`` and residuals.
- Whether a step was right, ours or another's: `audit` of a `ContactStep` or of MuJoCo.

Components of a contact are tangent, tangent, normal, everywhere.
"""

import typing as _typing

from delassus.contact.audits.audit import Audit, Verdict, audit
from delassus.contact.audits.step import ContactStep
from delassus.contact.collision import CollisionDetector
from delassus.contact.contacts import ContactSet, frames_of
from delassus.contact.formulate import formulate
from delassus.contact.formulations.collide import collide
from delassus.contact.formulations.problem import ContactProblem, ContactSolution
from delassus.contact.kernel_contacts import ground_below
from delassus.contact.scene import Scene
from delassus.contact.snapshot import ContactDynamics, Snapshot, State
from delassus.formats.colliders import load_colliders, load_ignored
from delassus.model.shapes import Box, Capsule, Collider, Cylinder, Ellipsoid, HalfSpace, HeightField, Mesh, Sphere
from delassus.solvers.admm import admm
from delassus.solvers.interior import convex, interior
from delassus.solvers.lemke import lemke
from delassus.solvers.mixed import solve_mixed
from delassus.solvers.nsgs import nsgs
from delassus.solvers.pgs import pgs
from delassus.solvers.problems import LCP, MLCP, ConeProblem, PolyhedralLCP, RelaxedProblem
from delassus.solvers.results import Solution, SolverStatus
from delassus.version import renamed as _renamed

__all__ = [
    "LCP",
    "MLCP",
    "Audit",
    "Box",
    "Capsule",
    "Collider",
    "CollisionDetector",
    "ConeProblem",
    "ContactDynamics",
    "ContactProblem",
    "ContactSet",
    "ContactSolution",
    "ContactStep",
    "Cylinder",
    "Ellipsoid",
    "HalfSpace",
    "HeightField",
    "Mesh",
    "PolyhedralLCP",
    "RelaxedProblem",
    "Scene",
    "Snapshot",
    "Solution",
    "SolverStatus",
    "Sphere",
    "State",
    "Verdict",
    "admm",
    "audit",
    "collide",
    "convex",
    "formulate",
    "frames_of",
    "ground_below",
    "interior",
    "lemke",
    "load_colliders",
    "load_ignored",
    "nsgs",
    "pgs",
    "solve_mixed",
]

if not _typing.TYPE_CHECKING:  # type checkers report names that are not there

    def __getattr__(name: str) -> object:
        return _renamed(f"contact.{name}")
