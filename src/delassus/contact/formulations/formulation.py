"""What a formulation is: the blocks of its mixed problem, and how velocities follow from its solution.

All five of [OS] have one shape. With free unknowns ``x`` and contact impulses ``F``,

    ``A x + B F + a = 0``,    ``u = C x + W F + b``,

and ``F`` and the contact velocities ``u`` obey the law of contact. With pyramids for cones, ``F = D̲ β̲``, that is eqs.
27, 36, 41 and 53:

    ``𝔐 = [A, B D̲, 0; D̲ᵀ C, D̲ᵀ W D̲, Ê; 0, Ē, 0]``,    ``q = (a, D̲ᵀ b, 0)``.

Deviation from [OS] in all of them: loops and contacts hold for the velocities at the end of the step in the geometry
at its start (Stewart and Trinkle 1996; Anitescu and Potra 1997), so that neither ``J̇ v`` nor ``Ũ`` appears, and
velocities do not drift off the loops. Velocities of free and planar joints, which are in moving axes, are in those
of the start of the step at its end too: a free body keeps its momentum exactly (`algorithms.dynamics.integrate`).
With ``δ = ω × v`` for these joints, the smooth step is ``M (v⁺ − v − dt δ) = dt (τ − c)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from delassus.contact.snapshot import ConstraintRows, ContactDynamics, Indices, Snapshot
from delassus.errors import ConfigurationError
from delassus.spatial.rotations import Array


class Formulation(ABC):
    """Blocks of a contact problem; they depend on the configuration only.

    Attributes
    ----------
    rows : ConstraintRows
        Of the loops and contacts.
    name : str
        As `delassus.contact.formulate` takes it.
    has_hinges : bool
        Whether links are bodies of their own, whose hinges every step solves for.
    n_velocities, n_bilateral : int
        How many of the free unknowns are velocities, and how many are bilateral impulses ``p_b``.
    A, B, C, W : arrays
        Blocks of the matrix.
    triplets : tuple of arrays or None
        Rows, columns and entries of ``A`` where it is sparse; those at the same place add up.
    consistent : bool
        False where loops that were eliminated beforehand contradict one another.
    mobility : (3 n_u,) array or None
        Diagonal that ``W`` had before loops were eliminated; None where none were.
    """

    name: ClassVar[str]
    has_hinges: ClassVar[bool] = False
    n_velocities: int = 0
    n_bilateral: int = 0
    consistent: bool = True
    mobility: Array | None = None
    triplets: tuple[Indices, Indices, Array] | None = None
    A: Array
    B: Array
    C: Array
    W: Array

    def __init__(self, rows: ConstraintRows) -> None:
        self.check_loops(rows.snapshot.dynamics)
        self.rows = rows

    @classmethod
    def check_loops(cls, dynamics: ContactDynamics) -> None:
        """Refuse loops on bodies that the user moves, whose large inertias are beside small ones in other matrices."""
        if dynamics.is_tied and cls.name not in ("os", "rmc"):
            wanted, came = "'os' or 'rmc' with loops on bodies that you move", repr(cls.name)
            raise ConfigurationError("formulation", wanted, came, "Or leave it out.")

    def _divide(self, Lambda: Array) -> None:
        """Blocks ``A, B, C, W`` of ``Λ``, bilateral rows first."""
        k = self.n_bilateral
        self.A, self.B, self.C, self.W = Lambda[:k, :k], Lambda[:k, k:], Lambda[k:, :k], Lambda[k:, k:]

    @property
    def n_free(self) -> int:
        """Number of free unknowns and equality rows."""
        return self.n_velocities + self.n_bilateral

    @abstractmethod
    def vector(self, motion: Snapshot, dt: float, applied: Array) -> tuple[Array, Array]:
        """``a`` and ``b`` for a step of ``dt`` (s), which may be 0, from the velocities and forces of ``motion``.

        ``applied`` (3 n_u,) are impulses at contacts that act beside the unknown ones.
        """

    @abstractmethod
    def recover(self, x: Array, F: Array, motion: Snapshot, dt: float) -> tuple[Array, Array]:
        """Joint velocities ``v⁺`` (nv,) and bilateral impulses ``p_b``, those of the scene's loops last.

        ``x`` are the free unknowns and ``F`` (3 n_u,) all impulses at contacts, applied ones included.
        """
