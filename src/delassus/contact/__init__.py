"""Contact and collision dynamics by complementarity: problems, and solvers that do not call wrong answers solved.

- Scenes: `Scene` of robots with `Collider` s, their contacts in a `ContactSet`, all at one state in a `Snapshot`.
- Problems: `LCP`, `MLCP`, `ConeProblem` (exact Coulomb friction) and its `PolyhedralLCP`.
- Solvers: `lemke`, `pgs`, `solve_mixed`, `nsgs`, `admm`, `convex`; each returns a result with ``status``,
  ``iterations`` and residuals.

Components of a contact are tangent, tangent, normal, everywhere.
"""

from delassus.contact.contacts import ContactSet, frames_of
from delassus.contact.problems import LCP, MLCP, ConeProblem, PolyhedralLCP
from delassus.contact.results import ConeResult, LCPResult, MLCPResult, SolverStatus
from delassus.contact.scene import Scene
from delassus.contact.shapes import Box, Capsule, Collider, Cylinder, HalfSpace, Mesh, Sphere
from delassus.contact.snapshot import ContactDynamics, Ends, Snapshot
from delassus.contact.solvers.admm import admm
from delassus.contact.solvers.convex import ConvexResult, convex
from delassus.contact.solvers.lemke import lemke
from delassus.contact.solvers.mixed import solve_mixed
from delassus.contact.solvers.nsgs import nsgs
from delassus.contact.solvers.pgs import pgs

__all__ = [
    "LCP",
    "MLCP",
    "Box",
    "Capsule",
    "Collider",
    "ConeProblem",
    "ConeResult",
    "ContactDynamics",
    "ContactSet",
    "ConvexResult",
    "Cylinder",
    "Ends",
    "HalfSpace",
    "LCPResult",
    "MLCPResult",
    "Mesh",
    "PolyhedralLCP",
    "Scene",
    "Snapshot",
    "SolverStatus",
    "Sphere",
    "admm",
    "convex",
    "frames_of",
    "lemke",
    "nsgs",
    "pgs",
    "solve_mixed",
]
