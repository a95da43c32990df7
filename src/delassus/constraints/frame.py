"""Frames: places on links that constraints, wrenches and poses refer to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ConstraintError, shown
from delassus.frozen import ByContent
from delassus.model.check import check_prefix, check_rotation, check_vector
from delassus.model.topology import check_tree
from delassus.model.tree import Placement, Tree
from delassus.spatial.rotations import Array

Given = Literal["position", "placement"]
End = Literal["first", "second"]
ENDS: tuple[End, End] = ("first", "second")


def placement_name(constraint: int, end: End) -> str:
    """Name of the argument that places a constraint's frame."""
    return f"placement{constraint}" + ("_second" if end == "second" else "")


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Frame(ByContent):
    """A place on a link: an origin and axes that stay where they are on it.

    Parameters
    ----------
    link : str
        Name of a link, of any frame of the tree, or of a joint whose name no link has: the frame that it moves, as in
        Pinocchio; that of a fixed joint too.
    position : (3,) array_like
        Origin in that link's frame, in m.
    rotation : (3, 3) array_like, optional
        Orientation in that link's frame; the identity by default.
    given : {"position", "placement"}, optional
        What comes with each call instead, in that link's frame: the position (3,), in m, or position and unit
        quaternion (7,), ``[x y z w]``. "position" is the cheaper one, and leaves ``rotation`` as it is here.

    Raises
    ------
    ModelError
        ``position`` is not three finite numbers, or ``rotation`` is not a rotation matrix.
    ConstraintError
        ``given`` is something else, or what comes with each call is fixed here as well.

    Examples
    --------
    >>> Frame("left_foot", (0.1, 0.05, -0.08)).link
    'left_foot'
    >>> Frame("left_foot", given="position").given
    'position'
    """

    link: str
    position: Array
    rotation: Array
    given: Given | None

    def __init__(
        self,
        link: str,
        position: ArrayLike = (0, 0, 0),
        rotation: ArrayLike | None = None,
        *,
        given: Given | None = None,
    ) -> None:
        p, R = check_vector(position, f"position of a frame on {shown(link)}"), check_rotation(rotation)
        argument = f"given of a frame on {shown(link)}"
        if given is not None and (not isinstance(given, str) or given not in ("position", "placement")):
            raise ConstraintError(argument, "'position', 'placement' or nothing", shown(given), "Choose one of these.")
        if (given is not None and p.any()) or (given == "placement" and not np.array_equal(R, np.eye(3))):
            raise ConstraintError(
                argument, f"no {'position' if p.any() else 'rotation'} beside {given!r}", "one", "Leave out either."
            )
        self._set_attributes(link=link, position=p, rotation=R, given=given)
        self._make_read_only("position", "rotation")

    def __repr__(self) -> str:
        given = [f"given={self.given!r}"] if self.given else [f"{self.position.tolist()}"]
        turned = [] if np.array_equal(self.rotation, np.eye(3)) else [f"rotation={self.rotation.tolist()}"]
        return f"Frame({', '.join([repr(self.link), *given, *turned])})"

    @property
    def text(self) -> str:
        """The link's name, if it is its own frame; else ``Frame(…)``."""
        own = not (self.given or self.position.any()) and np.array_equal(self.rotation, np.eye(3))
        return repr(self.link if own else self)

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the frame."""
        return repr((self.link, self.position.tolist(), self.rotation.tolist(), self.given))

    def prefixed(self, prefix: str) -> Frame:
        """The frame with a prefix on its link's name."""
        return Frame(check_prefix(prefix) + self.link, self.position, self.rotation, given=self.given)

    def carrier(self, tree: Tree) -> int:
        """Index of the moving link that this frame is on, or `WORLD`; raises `UnknownNameError`."""
        check_tree(tree)
        return tree.placement(self.link).link

    def on(self, tree: Tree) -> Placement:
        """Placement of this frame in the body frame of its link.

        Raises
        ------
        UnknownNameError
            The tree has no such link.
        ConstraintError
            The placement is not fixed: it comes with each call.
        """
        check_tree(tree)
        at = tree.placement(self.link)
        if self.given is not None:
            raise ConstraintError(
                f"frame on {self.link!r}", "a fixed placement", f"given={self.given!r}", "Give it a position here."
            )
        return Placement(at.link, at.rotation @ self.rotation, at.position + at.rotation @ self.position)


def as_frame(frame: str | Frame, argument: str) -> Frame:
    """The frame itself, or the own frame of the link of that name."""
    if isinstance(frame, Frame):
        return frame
    if isinstance(frame, str):
        return Frame(frame)
    raise ConstraintError(argument, "a link name or a Frame", shown(frame), "Pass a name such as 'left_foot'.")
