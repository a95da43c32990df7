"""Sensors: what is measured of a robot, by name; kinds are called as elements of MJCF are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from delassus.constraints.frame import Frame, as_frame
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.frozen import ByContent
from delassus.model.check import check_list, check_number, check_prefix, real_array
from delassus.model.shapes import Solid
from delassus.model.topology import check_tree
from delassus.model.tree import WORLD, Tree

KINDS: Mapping[str, tuple[str, int | str, str]] = MappingProxyType(
    {
        "accelerometer": ("frame", 3, "acceleration of the origin less gravity, along the axes of the frame, m/s^2"),
        "velocimeter": ("frame", 3, "velocity of the origin, along the axes of the frame, m/s"),
        "gyro": ("frame", 3, "angular velocity, along the axes of the frame, rad/s"),
        "force": ("moving frame", 3, "force on the link through its joint, along the axes of the frame, N"),
        "torque": ("moving frame", 3, "its moment about the origin, along the axes of the frame, N m"),
        "touch": ("moving frame", 1, "sum of normal forces at contacts of the link whose normal meets its volume, N"),
        "framepos": ("frame", 3, "position of the origin in the reference, m"),
        "framequat": ("frame", 4, "unit quaternion x y z w of the axes in the reference, w not negative"),
        "framexaxis": ("frame", 3, "x axis in the reference"),
        "frameyaxis": ("frame", 3, "y axis in the reference"),
        "framezaxis": ("frame", 3, "z axis in the reference"),
        "framelinvel": ("frame", 3, "velocity of the origin that the reference sees, along its axes, m/s"),
        "frameangvel": ("frame", 3, "angular velocity that the reference sees, along its axes, rad/s"),
        "framelinacc": ("frame", 3, "acceleration of the origin less gravity, along the axes of the world, m/s^2"),
        "frameangacc": ("frame", 3, "angular acceleration, along the axes of the world, rad/s^2"),
        "subtreecom": ("link", 3, "centre of mass of the link and all that it carries, in the world, m"),
        "subtreelinvel": ("link", 3, "velocity of that centre of mass, m/s"),
        "subtreeangmom": ("link", 3, "angular momentum about it, along the axes of the world, kg m^2/s"),
        "jointpos": ("joint", "nq", "coordinates of the joint, as in q"),
        "jointvel": ("joint", "nv", "velocity of the joint, as in v"),
        "jointactuatorfrc": ("joint", "nv", "forces of motors on the joint, as in tau, N m and N"),
        "actuatorpos": ("actuator", 1, "length of the actuator's transmission, rad or m"),
        "actuatorvel": ("actuator", 1, "its rate, rad/s or m/s"),
        "actuatorfrc": ("actuator", 1, "force of the actuator, N m or N"),
    }
)
"""Kinds of sensors: what they are of, how many numbers they give, and which."""

RELATIVE = ("framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis", "framelinvel", "frameangvel")
"""Kinds that may have another reference than the world."""

UNLIMITED = ("framequat", "framexaxis", "frameyaxis", "framezaxis")
"""Kinds that no cutoff cuts off."""

CAUSED = (
    "accelerometer", "force", "torque", "touch", "framelinacc", "frameangacc", "jointactuatorfrc", "actuatorfrc",
)  # fmt: skip
"""Kinds that forces are in, and accelerations that these cause."""

FORCES = ("force", "torque")
"""Kinds of what joints carry."""

ADVICE = "Pass sensors=[ds.Sensor('imu', 'gyro', 'torso')], or names of tree.sensors."


@dataclass(frozen=True, slots=True, eq=False)
class Sensor(ByContent):
    """What is measured of a robot, by name.

    Parameters
    ----------
    name : str
    kind : str
        One of ``Sensor.KINDS``, which says of each what it is of, how many numbers it gives, and which. They are called
        as elements of MJCF are: "accelerometer", "gyro", "framepos", "jointpos" …. The centre of mass of a link that
        carries no mass is its origin.
    of : str or Frame
        Frame, link, joint or actuator, as the kind says.
    reference : str or Frame, optional
        Of poses and velocities of frames: the frame that they are in, which may move; the world by default.
    cutoff : float
        Largest size of a number: what is beyond is cut off. Quaternions and axes are not.
    within : Shape, optional
        Of "touch": a ball, box, capsule, cylinder or ellipsoid about the origin of the frame. Contacts count that are
        in it, or whose normal out of the link meets it, as in MuJoCo; all contacts of the link by default.

    Raises
    ------
    UnknownNameError
        No such kind.
    ConfigurationError
        A name that is no text; a reference or a volume of a kind that has none; a cutoff that is not positive.

    Examples
    --------
    >>> import delassus as ds
    >>> arm, at = ds.mechanisms.chain(3), ds.Frame("link3", (0.1, 0.0, 0.0))
    >>> imu = [ds.Sensor("turn", "gyro", at), ds.Sensor("shake", "accelerometer", at)]
    >>> found = ds.sensors(arm, [0.0] * 3, [0.0, 0.0, 2.0], [0.0] * 3, sensors=imu)
    >>> found["turn"].shape, found["shake"].shape
    ((3,), (3,))
    """

    KINDS: ClassVar[Mapping[str, tuple[str, int | str, str]]] = KINDS

    name: str
    kind: str
    of: str | Frame
    reference: str | Frame | None = None
    cutoff: float = inf
    within: Solid | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigurationError("name of a sensor", "text", shown(self.name), "Sensors are called by it.")
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise unknown_name(f"kind of sensor {self.name!r}", self.kind, KINDS)
        if self.reference is not None and self.kind not in RELATIVE:
            raise ConfigurationError(
                f"reference of sensor {self.name!r}", f"none of kind {self.kind!r}", shown(self.reference),
                f"Kinds with one: {', '.join(RELATIVE)}.",
            )  # fmt: skip
        if self.within is not None and not (self.kind == "touch" and isinstance(self.within, Solid)):
            raise ConfigurationError(
                f"within of sensor {self.name!r}", "a ball, box, capsule, cylinder or ellipsoid of kind 'touch'",
                shown(self.within), "Leave it out, or pass ds.contact.Sphere(0.1).",
            )  # fmt: skip
        cutoff = real_array(self.cutoff)
        if cutoff is None or not np.array_equal(cutoff, inf):
            check_number(f"cutoff of sensor {self.name!r}", self.cutoff, "Leave it out for none.")
        what = KINDS[self.kind][0]
        if what.endswith("frame"):
            as_frame(self.of, f"frame of sensor {self.name!r}")
        elif not isinstance(self.of, str):
            raise ConfigurationError(f"{what} of sensor {self.name!r}", "a name", shown(self.of), "Pass its name.")

    @property
    def names(self) -> list[str]:
        """Names of frames, links, joints or actuators that it refers to."""
        given = [x for x in (self.of, self.reference) if x is not None]
        return [x.link if isinstance(x, Frame) else x for x in given]

    @property
    def frame(self) -> Frame:
        """What it is of, as a frame."""
        return as_frame(self.of, f"frame of sensor {self.name!r}")

    def check(self, tree: Tree) -> None:
        """Refuse a tree that does not have what it is of."""
        check_tree(tree)
        what, of = KINDS[self.kind][0], f"{KINDS[self.kind][0]} of sensor {self.name!r}"
        if what == "joint":
            tree.q_index(str(self.of))
        elif what == "actuator" and self.of not in [a.name for a in tree.actuators]:
            raise unknown_name(of, self.of, [a.name for a in tree.actuators])
        elif what == "link" and self.of not in tree.link_names:
            raise unknown_name(of, self.of, tree.link_names)
        elif what.endswith("frame"):
            at = self.frame.on(tree)
            if what == "moving frame" and at.link == WORLD:
                raise ConfigurationError(of, "one on a link that moves", shown(self.of), "No joint carries this one.")
            if self.reference is not None:
                as_frame(self.reference, of).on(tree)

    def size(self, tree: Tree) -> int:
        """How many numbers it gives."""
        check_tree(tree)
        size = KINDS[self.kind][1]
        if size in ("nq", "nv"):
            at = (tree.q_index if size == "nq" else tree.v_index)(str(self.of))
            return int(at.stop - at.start)
        return int(size)

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of it."""
        of, reference = (x.fingerprint if isinstance(x, Frame) else x for x in (self.of, self.reference))
        return repr((self.name, self.kind, of, reference, self.cutoff, self.within))

    def prefixed(self, prefix: str) -> Sensor:
        """The sensor with a prefix on all names."""
        check_prefix(prefix)
        of, reference = (
            x.prefixed(prefix) if isinstance(x, Frame) else x if x is None else prefix + x
            for x in (self.of, self.reference)
        )
        assert of is not None
        return Sensor(prefix + self.name, self.kind, of, reference, self.cutoff, self.within)


Sensors = str | Sensor | Sequence[str | Sensor] | None
"""Sensors of a tree by name, or others."""


def check_sensors(tree: Tree, value: Any) -> tuple[Sensor, ...]:
    """Sensors of a tree by name, or others, checked; all of the tree if None."""
    given = tree.sensors if value is None else [value] if isinstance(value, str | Sensor) else value
    given = check_list("sensors", given, "names of sensors, or Sensors", ADVICE)
    held = {sensor.name: sensor for sensor in tree.sensors}
    for x in given:
        if not isinstance(x, Sensor) and (not isinstance(x, str) or x not in held):
            raise unknown_name("sensor", x, held)
    found = tuple(x if isinstance(x, Sensor) else held[x] for x in given)
    if not found:
        raise ConfigurationError("sensors", f"some of {tree.name!r}", "none", ADVICE)
    names = [sensor.name for sensor in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError("sensors", "one of each name", f"two of {twice!r}", "Results are by name.")
    for sensor in found:
        sensor.check(tree)
    return found


def check_no_loops(loops: Sequence[object], sensors: Sequence[Sensor]) -> None:
    """Refuse sensors of forces through joints where loops between links act, whose forces steps do not tell."""
    carried = [x.name for x in sensors if x.kind in FORCES]
    if carried and loops:
        came = f"{len(loops)} loop(s), whose forces steps do not tell"
        advice = "`delassus.sensors` has them, of robots without contacts."
        raise ConfigurationError(f"sensors {', '.join(carried)}", "no loops between links", came, advice)
