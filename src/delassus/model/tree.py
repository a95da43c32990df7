"""The `Tree`: what a robot is. Its links, joints, frames and topology, its configurations, and trees made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ModelError, shown
from delassus.frozen import BODIES
from delassus.model.check import (
    check_batch,
    check_generator,
    check_prefix,
    check_rotation,
    check_vector,
    common_batch,
    normalised,
)
from delassus.model.description import Unsupported
from delassus.model.edit.combine import ON_THE_WORLD, mount
from delassus.model.edit.lock import lock
from delassus.model.edit.reroot import reroot, reroot_configuration
from delassus.model.kinematics import check_states, configuration_of, spring_forces
from delassus.model.topology import WORLD, Placement, Topology
from delassus.spatial.numpy_ops import NUMPY, stacked, unstacked
from delassus.spatial.rotations import Array, exact_quarter_turns

__all__ = ["WORLD", "Placement", "Tree"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree(Topology):
    """A kinematic tree of rigid links, immutable.

    Links are numbered 0 … n−1 so that a parent comes before its children; the world is −1. Joint *i* connects link *i*
    to its parent. Links that fixed joints connect are one link here; every name of the description stays usable as
    a frame. Each link's body frame is placed by the library (so that motion subspaces are unit vectors); users see only
    the frames of the description.

    Attributes
    ----------
    name : str
        Name of the robot.
    link_names : tuple of str
        Name of each moving link.
    joints : tuple of Joint
        Joint *i* carries link *i*.
    parents : tuple of int
        Parent link of each link, −1 for the world.
    inertias : (n, 6, 6) array
        Spatial inertia of each link about the origin of its body frame, ``[linear; angular]``.
    inertial_parameters : (n, 10) array
        The same of each link about the origin of its own frame, ``[m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz]``.
    frames : mapping of str to Placement
        Every named frame.
    world_inertia : (6, 6) array
        Inertia of the links that are fixed to the world; it moves only once the tree is attached to another.
    gravity : (3,) array
        In m/s², world axes: that of the description, else (0, 0, −9.81).
    gravity_compensation : mapping of str to (4,) array
        By link of the description: mass (kg) whose weight a force on it balances, and its centre (m) in that frame.
    keyframes : mapping of str to Keyframe
        States that the description names, with ``q``, ``v`` and ``ctrl``: keyframes and ``qpos0`` of MJCF, states of
        SRDF, configurations of a Pinocchio model. ``reference_configurations`` are their ``q``.
    actuators : tuple of Actuator
        Those of the description, nu; ``control="actuators"`` lets them act.
    constraints : tuple of Constraint
        Those of the description: loops, welds, couplings, mimic joints. They hold wherever none are given.
        Springs along tendons, `SpringDamper` and `Tendon`, too.
    sensors : tuple of Sensor
        Those of the description, for `delassus.sensors`; `sensor_index` is where one is among the numbers of all.
    omitted, report : mappings of str to tuple of str
        What the tree does not hold: names, by what they are names of; with what is held but does not act everywhere.
    joint_frames : mapping of str to str
        Joints of the description, fixed ones too, whose names are frames: those of these links.
    aliases : mapping of str to str
        Names of hinges that are part of a ball joint, and its name (``load(…, gimbals="ball")``).
    joint_names : tuple of str
        Name of each joint.
    nq, nv, n_links : int
        Numbers of configuration coordinates, degrees of freedom and moving links.
    q_index, v_index : callables
        Where a joint's numbers are in ``q`` and in ``v``, by its name.
    actuated : (k, nv) array
        Selection matrix of what motors drive.
    independent : (n, nv) array
        Selection matrix of coordinates that determine all others where ``constraints`` hold.
    lower, upper, effort_limit, velocity_limit : (nv,) arrays
        Limits of the coordinates of revolute and prismatic joints; largest forces of motors and speeds of joints.
    per_dof : callable
        Damping, stiffness, friction … of all degrees of freedom (nv,), by the name of the attribute of `Joint`.
    """

    @property
    def mass(self) -> float:
        """Mass of all moving links, in kg."""
        return float(sum(H[0, 0] for H in self.inertias))

    # -- configurations --------------------------------------------------------------------------------------------

    def configuration(self, values: Mapping[str, ArrayLike]) -> Array:
        """Configurations (..., nq) with the joints named set, and all others as in `neutral`.

        Parameters
        ----------
        values : mapping of str to array_like
            Coordinates of joints by name: of a joint that has one a number or an array (...) of them, in rad or m, of
            others (..., nq of the joint): quaternions x y z w, cosine and sine. Batches broadcast.

        Raises
        ------
        UnknownNameError
            The tree has no such joint; the nearest name is offered.
        ConfigurationError
            ``values`` is no mapping; the numbers of a joint, which is named, are of the wrong number or type, NaN or
            infinite, not of unit length where they have to be, or in batches that do not broadcast.

        Examples
        --------
        >>> import delassus as ds
        >>> ds.mechanisms.chain(4).configuration({"link2_joint": 0.8, "link4_joint": [0.1, 0.2]}).tolist()
        [[0.0, 0.8, 0.0, 0.1], [0.0, 0.8, 0.0, 0.2]]
        """
        return self.check_configuration(configuration_of(self, values), "values")

    def random(self, rng: np.random.Generator | int | None = None, batch: int | tuple[int, ...] = ()) -> Array:
        """Random configurations of shape ``(*batch, nq)``: within joint limits where there are any.

        Parameters
        ----------
        rng : numpy.random.Generator or int, optional
            Generator, or the seed of one.
        batch : int or tuple of int
            Leading shape.

        Raises
        ------
        ConfigurationError
            ``rng`` is neither a generator nor a seed, or ``batch`` is no shape.

        Examples
        --------
        >>> import delassus as ds
        >>> ds.mechanisms.chain(7).random(0, batch=100).shape
        (100, 7)
        """
        rng, shape = check_generator(rng), check_batch(batch)
        parts = [j.kind.random(rng, shape, j.lower, j.upper) for j in self.joints]
        return np.concatenate(parts, axis=-1) if parts else np.zeros((*shape, 0))

    def integrate(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Configuration reached from ``q`` by the velocity ``v`` held for one second, as ``pinocchio.integrate``.

        Parameters
        ----------
        q : (..., nq) array_like
        v : (..., nv) array_like
            Velocity times duration: rad and m; that of a free joint in the axes of its body, ``[linear; angular]``.

        Returns
        -------
        (..., nq) array
            Quaternions and cos-sin pairs keep unit length.

        Raises
        ------
        ConfigurationError
            Wrong shape or type, NaN or infinite entries, a quaternion that is not of unit length, or leading axes that
            do not broadcast.

        Examples
        --------
        >>> import delassus as ds
        >>> robot = ds.mechanisms.humanoid()
        >>> dt, v = 1e-3, [0.1] * robot.nv
        >>> q = robot.integrate(robot.neutral(), [dt * x for x in v])
        >>> bool(abs(robot.difference(robot.neutral(), q) - 1e-4).max() < 1e-12)
        True
        """
        qa, va = self.check_configuration(q), self.check_velocity(v)
        shape = common_batch("v", va.shape[:-1], "q", qa.shape[:-1])
        x, u = unstacked(qa), unstacked(va)
        parts = zip(self.joints, self.q_slices, self.v_slices, strict=True)
        return np.asarray(stacked([y for j, sq, sv in parts for y in j.kind.integrate(NUMPY, x[sq], u[sv])], shape))

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Velocity that takes ``q0`` to ``q1`` in one second the short way round, as ``pinocchio.difference``.

        Parameters
        ----------
        q0, q1 : (..., nq) array_like

        Returns
        -------
        (..., nv) array
            ``v`` with ``integrate(q0, v)`` the same pose as ``q1``: rad and m; that of a free joint in the axes of its
            body at ``q0``, ``[linear; angular]``.

        Raises
        ------
        ConfigurationError
            Wrong shape or type, NaN or infinite entries, a quaternion that is not of unit length, or leading axes that
            do not broadcast.

        Examples
        --------
        >>> import delassus as ds
        >>> arm = ds.mechanisms.chain(2)
        >>> arm.difference([0.1, 0.2], [0.3, 0.2]).round(6).tolist()
        [0.2, 0.0]
        """
        a, b = self.check_configuration(q0, "q0"), self.check_configuration(q1, "q1")
        shape = common_batch("q1", b.shape[:-1], "q0", a.shape[:-1])
        x, y = unstacked(a), unstacked(b)
        parts = zip(self.joints, self.q_slices, strict=True)
        return np.asarray(stacked([u for j, sq in parts for u in j.kind.difference(NUMPY, x[sq], y[sq])], shape))

    def passive_forces(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Forces (..., nv) of the damping and the springs of joints, ``−d v − k (q − r)``, in N and N·m.

        What compensates weights acts on links, and is not among them.

        Parameters
        ----------
        q : (..., nq) array_like
        v : (..., nv) array_like

        Raises
        ------
        ConfigurationError
            As `integrate`.

        Examples
        --------
        >>> import delassus as ds
        >>> arm = ds.mechanisms.chain(2)
        >>> arm.passive_forces([0.1, 0.2], [1, 1]).tolist()  # it has neither
        [0.0, 0.0]
        """
        qa, va = self.check_configuration(q), self.check_velocity(v)
        common_batch("v", va.shape[:-1], "q", qa.shape[:-1])
        return np.asarray(spring_forces(self, qa) - self.per_dof("damping") * va)

    def check_configuration(self, q: ArrayLike, argument: str = "q") -> Array:
        """Check ``q`` (..., nq) and return it as float64, with quaternions and cos-sin pairs of unit length.

        Raises
        ------
        ConfigurationError
            Wrong shape or type, NaN or infinite entries, or a quaternion whose length is off by more than 1e-6.
        """
        array = check_states(self, q, argument, "nq")
        for joint, sq in zip(self.joints, self.q_slices, strict=True):
            unit = joint.kind.unit
            if unit is not None:
                what = "quaternion" if joint.kind.has_quaternion else "cos-sin pair"
                part = slice(sq.start + unit.start, sq.start + unit.stop)
                array = normalised(array, part, f"{argument}, the {what} of joint {joint.name!r}")
        return array

    def check_velocity(self, v: ArrayLike, argument: str = "v") -> Array:
        """Check ``v`` (..., nv) and return it as float64; raises `ConfigurationError`."""
        return check_states(self, v, argument, "nv")

    # -- trees made of this one ------------------------------------------------------------------------------------

    def attach(
        self,
        link: str,
        other: Tree,
        position: ArrayLike = (0, 0, 0),
        rotation: ArrayLike | None = None,
        prefix: str = "",
    ) -> Tree:
        """Tree with the fixed-base tree ``other`` mounted on a frame of this one.

        Coordinates of this tree keep their places in ``q`` and ``v``; those of ``other`` follow. Reference
        configurations of either are neutral for the other, unless both have one of that name. Gravity is this tree's.

        Parameters
        ----------
        link : str
            Link or frame of this tree that carries the other one.
        other : Tree
            Tree whose world becomes that frame; links of ``other`` that are fixed to its world add their inertia.
        position : (3,) array_like
            Origin of ``other``'s world in the frame, in m.
        rotation : (3, 3) array_like, optional
            Orientation of ``other``'s world in the frame; the identity by default.
        prefix : str
            Put before every name of ``other``, so that it can be mounted twice.

        Returns
        -------
        Tree

        Raises
        ------
        UnknownNameError
            This tree has no such link or frame.
        ModelError
            ``other`` is no tree or its root is floating; a joint or frame name that both trees have; ``position`` is
            not three finite numbers, or ``rotation`` is not a rotation matrix.

        Examples
        --------
        >>> import delassus as ds
        >>> arm, finger = ds.mechanisms.chain(6), ds.mechanisms.chain(2)
        >>> hand = arm.attach("link6", finger, (0.1, 0, 0), prefix="left_")
        >>> hand.nv, hand.link_names[-1]
        (8, 'left_link2')
        """
        if not isinstance(other, Tree):
            raise ModelError("other", "a delassus.Tree", shown(other), "Load one with delassus.load.")
        check_prefix(prefix)
        if other.is_floating:
            raise ModelError(
                f"tree {other.name!r}", "a tree whose root is fixed", "a floating one", "Load it with root='fixed'."
            )
        at = self.placement(link)
        R = exact_quarter_turns(at.rotation @ check_rotation(rotation))
        mounted = Placement(at.link, R, at.position + at.rotation @ check_vector(position, "position"))
        return mount(self.name, [("", self, ON_THE_WORLD), (prefix, other, mounted)])

    def lock(self, values: Mapping[str, ArrayLike]) -> Tree:
        """Tree without some joints, which stay at these values, as ``pinocchio.buildReducedModel``.

        Links that they carry are parts of the links before them; names stay as frames. Actuators, constraints and
        keyframes go on without them; ``omitted`` names those of which nothing is left, and sensors of what is gone.

        Parameters
        ----------
        values : mapping of str to array_like
            Coordinates of these joints, as in `configuration`: of a free joint a position and a quaternion.

        Raises
        ------
        UnknownNameError, ConfigurationError, ConstraintError
            As `configuration`; values of several states; a coupling of joints that are all locked does not hold there.

        Examples
        --------
        >>> import delassus as ds
        >>> arm = ds.mechanisms.chain(4).lock({"link2_joint": 0.3})
        >>> arm.joint_names, "link2" in arm.frames
        (('link1_joint', 'link3_joint', 'link4_joint'), True)
        """
        q = self.configuration(values)
        return lock(self, {self._joint_index(name) for name in values}, q)

    def reroot(self, link: str) -> Tree:
        """Tree of the same floating robot whose free joint carries another link.

        `reroot_configuration` gives the configuration of the new tree at which the robot stands in the same pose.

        Parameters
        ----------
        link : str
            Link or frame that rides on the free joint: its pose becomes the first seven entries of ``q``.

        Returns
        -------
        Tree
            Joint, link and frame names stay; the order of joints starts from the new root.

        Raises
        ------
        UnknownNameError
            The tree has no such link or frame.
        ModelError
            The tree is not carried by one free joint without armature, damping and friction; a planar or free joint,
            or a ball joint that has more of these in one direction than in another, is between the two roots.

        Examples
        --------
        >>> import delassus as ds
        >>> robot = ds.mechanisms.humanoid()
        >>> robot.reroot("left_foot").link_names[0]
        'left_leg6'
        """
        return reroot(self, link)

    def reroot_configuration(self, link: str, q: ArrayLike) -> Array:
        """Configuration of the tree that `reroot` gives at which the robot stands as this one does at ``q``.

        Parameters
        ----------
        link : str
            Link or frame that `reroot` was given.
        q : (..., nq) array_like
            Configuration of this tree.

        Returns
        -------
        (..., nq) array
            Pose of that link in the world, then the coordinates of the joints in the order of the new tree.

        Raises
        ------
        UnknownNameError, ModelError, ConfigurationError
            As `reroot` and `integrate`.

        Examples
        --------
        >>> import delassus as ds
        >>> robot = ds.mechanisms.humanoid()
        >>> robot.reroot_configuration("left_foot", robot.neutral())[:3].round(3).tolist()
        [-0.02, 0.09, -1.12]
        """
        return reroot_configuration(self, link, self.check_configuration(q))

    # -- descriptions of it ----------------------------------------------------------------------------------------

    def to_urdf(self, *, unsupported: Unsupported = "warn") -> str:
        """Text of a URDF file of this robot, which `delassus.load` reads as the same tree, with ``root="fixed"``.

        Links, joints and frames have the poses of the description that was loaded. Fixed links are frames here, without
        inertia, which is that of the link that carries them. A free joint is of type floating, on a link ``world``.
        Fixed links carry joints of one link that are not in the order of their names. Shapes are not written.

        Parameters
        ----------
        unsupported : {"warn", "refuse", "ignore"}
            What to do about what URDF cannot say, of which ``docs/mjcf.md`` has a table: constraints but `JointRows` on
            two joints, springs, actuators, a link whose frame is not on its joint (a frame on ``<link>:<joint>``).

        Raises
        ------
        ModelError
            A ball or translation joint, or an empty name; with ``unsupported="refuse"``, what URDF cannot say.

        Examples
        --------
        >>> import delassus as ds
        >>> print(ds.mechanisms.chain(1).to_urdf().splitlines()[0])
        <robot name="chain1">
        """
        return str(BODIES["Tree.to_urdf"](self, unsupported))

    def to_sdf(self, *, unsupported: Unsupported = "warn") -> str:
        """Text of an SDF 1.11 file of this robot, which `delassus.load` reads as the same tree.

        Links, joints and frames have the poses of the description that was loaded, at ``qpos0`` on free joints. Fixed
        links are frames. Armature is what Drake calls ``drake:rotor_inertia``, planar joints are ``drake:joint``, and
        springs ``drake:linear_spring_damper``. `Weld`, `Point`, `Hinge`, `Prismatic` and `Universal` that are closed in
        that pose are joints. Shapes are not written.
        ``unsupported`` is as for `to_urdf`. Raises `ModelError` for a cos-sin or translation joint, a free one that
        is not on the world, or a name that SDF has for something else.

        >>> import delassus as ds
        >>> print(ds.mechanisms.chain(1).to_sdf().splitlines()[1].strip())
        <model name="chain1">
        """
        return str(BODIES["Tree.to_sdf"](self, unsupported))

    def to_usd(self, *, unsupported: Unsupported = "warn") -> str:
        """Text of a layer of OpenUSD (``.usda``) of this robot, which `delassus.load` reads as the same tree.

        Bodies and joints are those of UsdPhysics, in metres, the z axis upwards, at ``qpos0``; frames are prims on
        bodies. Attributes that UsdPhysics has in single precision have twins ``delassus:…`` in double precision, which
        count where they round to the first. Shapes are not written. ``unsupported`` is as for
        `to_urdf`. Raises `ModelError` for a cos-sin or screw joint.

        >>> import delassus as ds
        >>> print(ds.mechanisms.chain(1).to_usd().splitlines()[0])
        #usda 1.0
        """
        return str(BODIES["Tree.to_usd"](self, unsupported))

    def to_mjcf(self, *, unsupported: Unsupported = "warn") -> str:
        """Text of an MJCF file of this robot, which `delassus.load` reads as the same tree.

        ``mujoco.MjModel.from_xml_string(tree.to_mjcf())`` is its MuJoCo model. Links, joints and frames have the poses
        of the description that was loaded, at the reference configuration ``qpos0``, which MuJoCo always has: that of
        the tree, else `neutral`. Frames are sites, and so are fixed links, whose inertia is that of the link that
        carries them. Links without mass become further joints of the body that they carry. Shapes are not written.

        Parameters
        ----------
        unsupported : {"warn", "refuse", "ignore"}
            What to do about what MJCF cannot say, of which ``docs/mjcf.md`` has a table: constraints but `Point`,
            `Weld`, `JointRows`, `SpringDamper` and `Tendon`, inertias of no rigid body (the nearest are written).

        Raises
        ------
        ModelError
            A planar, cos-sin or translation joint; a free joint that is not on the world; a link that moves and has
            mass without moments of inertia, or neither where it does not carry one other; an empty name, or a frame
            ``world`` that is not the world's; with ``unsupported="refuse"``, what MJCF cannot say.

        Examples
        --------
        >>> import delassus as ds
        >>> print(ds.mechanisms.chain(1).to_mjcf().splitlines()[0])
        <mujoco model="chain1">
        """
        return str(BODIES["Tree.to_mjcf"](self, unsupported))
