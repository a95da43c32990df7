"""What sensors of a scene measure: after a step, in it, and of its contacts; twists, and bodies that the user moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.accuracy.rank import REGULAR_CONDITION
from delassus.api.kinematics import frame_jacobian, frame_velocity
from delassus.constraints import Frame
from delassus.constraints.sensors import CAUSED, FORCES, Sensor, Sensors, check_no_loops, check_sensors
from delassus.constraints.shapes.rays import ray_meets
from delassus.contact.filters import link_of, moved_links
from delassus.contact.scene import Scene
from delassus.contact.scene_parts import pose_of
from delassus.contact.sparse.energies import Energies
from delassus.contact.sparse.stepper import BlockSteps
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.frozen import cached_property
from delassus.model.check import finite_array
from delassus.model.tree import WORLD, Tree
from delassus.quantities.keywords import Reference
from delassus.runtime.compile import compile_at_once as compile_kernel
from delassus.runtime.kernel import Kernel
from delassus.simulate.controls import Controls
from delassus.simulate.state import Settable
from delassus.spatial.dual_ops import Dual, DualOps
from delassus.spatial.joint_kinds import BALL, FREE, rotated
from delassus.spatial.motion import minus
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.ops import Ops, Scalar
from delassus.spatial.rotations import Array, quaternion_to_matrix


def velocity_between(ops: Ops, q: Sequence[Scalar], pose: Sequence[Scalar], dt: float) -> list[Scalar]:
    """Velocity (6) of a free joint at ``q`` (7) to a pose (7) at its end."""
    slide = rotated(FREE.rotation(q).inverse(), minus(pose[:3], q[:3]))
    return [x / dt for x in (*slide, *BALL.difference(ops, q[3:], pose[3:]))]


MovedPose = tuple[slice, Array, Array]
"""Degrees of freedom of a body that the user moves; changes (6, 6) of its velocity with the pose before, and after."""


def moved_pose(dofs: slice, q: Array, pose: Array, dt: float) -> MovedPose:
    """Changes from the pose before the step (7,) and the one after it."""
    ops, still = DualOps(NUMPY), [list(map(Dual, x.tolist())) for x in (q, pose)]
    steps: Any = [Dual(0.0, {k: 1.0}) for k in range(6)]
    found = list[Array]()
    for which in range(2):
        ends = list[Any](still)
        ends[which] = FREE.integrate(ops, ends[which], steps)
        velocity: Any = velocity_between(ops, ends[0], ends[1], dt)
        found.append(np.array([[float(x.rate(k)) for k in range(6)] for x in velocity]))
    return dofs, found[0], found[1]


class Sensing(Settable):
    """Sensors and twists of a scene that moves, and bodies that the user moves; base of `Simulator`."""

    _steps: BlockSteps
    _controls: Controls
    _before: tuple[Array, Array] | None
    _measured: dict[str, Any]
    _wanted: Array
    """Poses (k, 7) that bodies that the user moves, by their names in order, have after the next step."""

    def move(self, name: str, pose: ArrayLike) -> None:
        """Have a body of ``scene.add(…, moved=True)`` at a pose at the end of the next step.

        Over that step it has the velocity that takes it there, a constant one, and turns the shorter way; all that it
        touches feels this, and it yields to nothing. Where `move` is not called again, it stands still from then on.

        Parameters
        ----------
        name : str
            That of `Scene.add`, or of the ``mocap`` body in its MJCF file.
        pose : (3,) or (7,) array_like
            Position of its frame in the world (m), and with it the unit quaternion x y z w, which stays by default.

        Raises
        ------
        UnknownNameError, ConfigurationError
            Not a body that you move; not a pose.

        Examples
        --------
        >>> import delassus as ds
        >>> from delassus.contact import Box, HalfSpace
        >>> scene = ds.Scene(ds.mechanisms.free_body(1.0, Box(0.1, 0.1, 0.1).inertia(1.0)))
        >>> scene = scene.add("lift", Box(1, 1, 0.1), at=(0, 0, -0.5), moved=True)
        >>> sim = ds.Simulator(scene, dt=1e-3)
        >>> sim.move("lift", (0, 0, -0.499))
        >>> sim.step()
        >>> sim.twist("lift").round(9).tolist(), float(sim.q[-5])
        ([0.0, 0.0, 1.0, 0.0, 0.0, 0.0], -0.499)
        """
        names = sorted(self.scene.moved)
        if not isinstance(name, str) or name not in names:
            raise unknown_name("body that is moved", name, names)
        placed = pose_of(pose, "pose")
        k, turn = names.index(name), np.array(pose, dtype=float)[3:]
        self._wanted = self._wanted.copy()
        self._wanted[k, :3] = placed.position
        if turn.size:
            turn /= np.linalg.norm(turn)
            self._wanted[k, 3:] = turn if turn @ self._wanted[k, 3:] >= 0.0 else -turn

    @cached_property
    def _places(self) -> list[tuple[slice, slice]]:
        """Slices of ``q`` and ``v`` of bodies that the user moves."""
        tree = self.scene.tree
        return [(tree.q_slices[link], tree.v_slices[link]) for link in moved_links(self.scene)]

    def _stand_at(self, q: Array) -> None:
        self._wanted = self._wanted.copy()
        for k, (sq, _) in enumerate(self._places):
            if not np.array_equal(q[sq], self._q[sq]):
                self._wanted[k] = q[sq]

    def _led(self) -> Array:
        """Velocities (nv,), those of bodies that the user moves so that a step takes them where they are wanted."""
        if not self.scene.moved:
            return self.v
        v = self.v.copy()
        for (sq, sv), pose in zip(self._places, self._wanted, strict=True):
            q, to = self.q[sq].tolist(), pose.tolist()
            v[sv] = np.array(velocity_between(NUMPY, q, to, self.dt)) if q != to else 0.0
        return v

    def _pulled(self, v: Array) -> Array:
        """Velocities (nv,) where loops on bodies that the user moves pull what they hold along, as an impact does."""
        if self._tied is None:
            return v
        dofs, jacobian, mass_matrix = self._tied
        J, M = np.asarray(jacobian(self.q)), np.asarray(mass_matrix(self.q))
        L = np.linalg.cholesky(M[np.ix_(dofs, dofs)])
        over = np.linalg.solve(
            L, J[:, dofs].T
        )  # velocities of least kinetic energy, where these are to be least squares
        out = v.copy()
        out[dofs] += np.linalg.solve(L.T, np.linalg.lstsq(over.T, -J @ v, rcond=REGULAR_CONDITION**0.5)[0])
        return out

    def _pull_rates(self) -> tuple[Array, Array] | None:
        """Changes (nv, nv) of what `_pulled` made of velocities in the last step, with positions and with these.

        ``M y = −Jᵀ λ`` of what is held, ``J (v + y) = 0``: of changes of these, those along rows come first.
        """
        if self._tied is None or self._before is None:
            return None
        (dofs, jacobian, mass_matrix), (q, v) = self._tied, self._before
        J, M, nv = np.asarray(jacobian(q)), np.asarray(mass_matrix(q)), len(v)
        L = np.linalg.cholesky(M[np.ix_(dofs, dofs)])
        over = np.linalg.solve(L, J[:, dofs].T)
        inverse = np.linalg.pinv(over.T, rcond=REGULAR_CONDITION**0.5)
        gained = np.zeros(nv)
        gained[dofs] = np.linalg.solve(L.T, inverse @ (J @ -v))
        impulses = inverse.T @ (L.T @ gained[dofs])
        changes = compile_kernel(self.scene.tree, self.scene.loops, "inertia_changes")
        momentum = np.linalg.solve(L, np.asarray(changes(q, gained, impulses)[0])[dofs])
        rows = np.asarray(changes(q, v + gained, 0.0 * impulses)[1])
        by_q, by_v = np.zeros((nv, nv)), np.eye(nv)
        by_q[dofs] = -np.linalg.solve(L.T, inverse @ rows + momentum - inverse @ (over.T @ momentum))
        by_v[dofs] -= np.linalg.solve(L.T, inverse @ J)
        return by_q, by_v

    @cached_property
    def _tied(self) -> tuple[Array, Kernel, Kernel] | None:
        """Degrees of freedom that loops tie to bodies that the user moves, and kernels of ``J`` and ``M``."""
        tree, led, loops = self.scene.tree, {*moved_links(self.scene)}, self.scene.loops
        blocks = tree.blocks(loop.carriers(tree) for loop in loops)
        links = [i for block in blocks if len(block) > 1 and led & {*block} for i in block if i not in led]
        if not links:
            return None
        dofs = np.concatenate([np.arange(tree.v_slices[i].start, tree.v_slices[i].stop) for i in links])
        return dofs, compile_kernel(tree, loops, "jacobian"), compile_kernel(tree, (), "mass_matrix")

    def _moves(self) -> tuple[list[MovedPose], tuple[Array, Array] | None]:
        """How the velocities of bodies that the user moves came from their poses in the last step; `_pull_rates`."""
        if self._before is None:
            return [], None
        q, ends = self._before[0], self.q
        return [moved_pose(sv, q[sq], ends[sq], self.dt) for sq, sv in self._places], self._pull_rates()

    def _arrive(self) -> None:
        """Put bodies that the user moves where they are wanted, to the last bit."""
        if self.scene.moved:
            self._q = self._q.copy()
            for (sq, _), pose in zip(self._places, self._wanted, strict=True):
                self.q[sq] = pose

    def sensors(self, sensors: Sensors = None) -> dict[str, Array]:
        """Numbers of sensors by name, as `delassus.sensors` gives them: all of the scene's robots, or those named.

        Poses and velocities are those of now. Accelerations and forces are means over the last step: change of velocity
        and impulses by its time, so that impacts are in them, and contacts, limits and friction of joints act. "touch"
        is the sum of normal forces at contacts of its link that are in its volume, or whose normal out of the link
        meets it. Compiled contact steps measure the same (``outputs=(…, "sensors")``).

        Parameters
        ----------
        sensors : str, Sensor or sequence of these, optional
            Sensors of ``scene.tree`` by name, or others; all of ``scene.tree.sensors`` by default.

        Raises
        ------
        UnknownNameError, ConfigurationError
            As `delassus.sensors`; accelerations and forces before the first step, or after `set_state`; forces through
            joints of a scene with loops between links; forces of actuators without ``control="actuators"``.

        Examples
        --------
        >>> import delassus as ds
        >>> from delassus.scenes import boxes
        >>> sim = boxes(1).simulator()
        >>> sim.run(0.3)
        >>> link = sim.scene.tree.link_names[0]
        >>> found = sim.sensors([ds.Sensor("imu", "accelerometer", link), ds.Sensor("load", "touch", link)])
        >>> found["imu"].shape, found["load"].round(6).tolist()  # a box of 1 kg, at rest
        ((3,), [9.81])
        """
        tree = self.scene.tree
        chosen = check_sensors(tree, sensors)
        late = [x.name for x in chosen if x.kind in CAUSED] if self._before is None else []
        if late:
            advice = "Accelerations and forces are means over the last step: make one first."
            raise ConfigurationError(f"sensors {', '.join(late)}", "a step since the start", "none", advice)
        check_no_loops([loop for loop in self.scene.loops if loop.frames], chosen)
        actuators = [x for x in chosen if x.kind == "actuatorfrc"]
        of_motion = [x for x in chosen if x.kind not in ("actuatorfrc", "touch")]
        out = self._of_motion(of_motion) if of_motion else {}
        if actuators:
            kernel = self._kernel("motion_sensors", sensors=actuators, control=self.control)
            q, v, given = self._controls.given or (self.q, self.v, self.tau)
            out.update(_split(tree, actuators, kernel(q, v, np.zeros(tree.nv), given)))
        out.update((x.name, self._touch(x)) for x in chosen if x.kind == "touch")
        return {x.name: out[x.name] for x in chosen}

    def twist(self, name: str | Frame, *, reference: Reference = "local-world-aligned") -> Array:
        """Twist ``[linear; angular]`` (6,) of a link, frame or body relative to the world now (m/s, rad/s).

        Parameters
        ----------
        name : str or Frame
            A link or frame of ``scene.tree``, or a robot or body of the scene, whose root link it stands for.
        reference : {"local-world-aligned", "local", "world"}
            As of `delassus.frame_velocity`. By default, velocity of the frame's origin along the axes of the world;
            "world": velocity of the point of the body that is at the origin of the world.

        Raises
        ------
        UnknownNameError, ConfigurationError
            Nothing has the name; no such reference.

        Examples
        --------
        >>> from delassus.scenes import boxes
        >>> sim = boxes(1).simulator()
        >>> sim.set_twist("box1", [1, 0, 0, 0, 0, 2])
        >>> sim.twist("box1").round(9).tolist()
        [1.0, 0.0, 0.0, 0.0, 0.0, 2.0]
        """
        frame = _frame_of(self.scene, name)
        return frame_velocity(self.scene.tree, self.q, self.v, frame, reference=reference)

    def set_twist(self, name: str | Frame, twist: ArrayLike, *, reference: Reference = "local-world-aligned") -> None:
        """Set ``v`` of the free joint that carries a link, frame or body, so that its `twist` is that one.

        Rates of all other joints stay as they are.

        Parameters
        ----------
        name : str or Frame
            As of `twist`; something that a free joint carries.
        twist : (6,) array_like
            ``[linear; angular]`` (m/s, rad/s), as ``reference`` says.
        reference : {"local-world-aligned", "local", "world"}

        Raises
        ------
        UnknownNameError, ConfigurationError
            As `twist`; no free joint carries it, or `move` moves it; a twist that is not six finite numbers.
        """
        tree, frame = self.scene.tree, _frame_of(self.scene, name)
        wanted = finite_array(twist, (6,), "twist", "Linear velocity (m/s), then angular velocity (rad/s).")
        free = [i for i in tree.support(frame.on(tree).link) if tree.joints[i].kind is FREE]
        if not free or free[-1] in moved_links(self.scene):
            advice = "Lead it there by `move`." if free else "Set sim.v of its joints."
            raise ConfigurationError(
                "name", "what a free joint carries, and no body that you move", shown(name), advice
            )
        J, at, v = frame_jacobian(tree, self.q, frame, reference=reference), tree.v_slices[free[-1]], self.v.copy()
        v[at] = 0.0
        v[at] = np.linalg.solve(J[:, at], wanted - J @ v)
        self._v = v

    def energy(self, q: ArrayLike | None = None, v: ArrayLike | None = None) -> Energies:
        """Energies ``kinetic`` and ``potential`` (J, 0 at the origin) of half a step ago, as `v` is.

        Those of now, or of states (..., nq) and (..., nv) of such a run.

        Raises
        ------
        ConfigurationError
            A state that the robots cannot have, or other leading axes of ``v`` than of ``q``.
        """
        tree = self.scene.tree
        q, v = tree.check_configuration(self._q if q is None else q), tree.check_velocity(self._v if v is None else v)
        if q.shape[:-1] != v.shape[:-1]:
            wanted = f"the leading axes of q, {q.shape[:-1]}"
            raise ConfigurationError("v", wanted, str(v.shape[:-1]), "One velocity for each configuration.")
        return self._steps.energy(q, v)

    def half_kick(self) -> None:
        """Take ``v`` as the velocity at this time, and go back to that of the displacement before.

        The velocity of a simulator is that of its last displacement, half a step ago, as of MuJoCo and of leapfrog
        integrators. One that begins with the velocity of its time is late by half a kick: what falls from rest falls by
        ``½ g t dt`` too far. Call this once, where you have set ``q`` and ``v``: positions are second order in time
        from there on. Forces are those of the step before; contacts do not count, for the next step finds theirs.

        Call it at starts of closed forms, of measured motions, and of what rolls steadily: the tilt of an Euler disk
        stays within 0.4 mrad of 0.3 rad over 0.5 s at 1 ms, and within 2 mrad without. Do not call it where a run goes
        on: states of `get_state`, of another simulator, rollout or kernel have velocities of displacements already. No
        step does it by itself, as it could not tell these apart, and would not be the step of kernels and rollouts.
        What rests stays either way.

        Examples
        --------
        A ball that falls for a second.

        >>> import delassus as ds
        >>> sim = ds.Simulator(ds.Scene(ds.mechanisms.free_body(1.0, [1, 1, 1])), q0=[0, 0, 9, 0, 0, 0, 1])
        >>> sim.half_kick()
        >>> for _ in range(1000):
        ...     sim.step()
        >>> round(float(9 - sim.q[2]), 9)
        4.905
        """
        self._v = self.v - 0.5 * (self._steps.kicked(self.q, self.v, self.tau) - self.v)

    @property
    def asleep(self) -> Array:
        """Whether each link's body sleeps (n_links,); see ``sleep``."""
        return self._steps.asleep

    @property
    def joint_impulses(self) -> Array:
        """Impulses (2, nv) of limits, and of Coulomb friction, on joints over the last step (N m s, N s)."""
        return self._steps.joint_impulses

    def _kernel(self, what: str, **options: Any) -> Any:
        """Compiled once."""
        key = what + repr([getattr(x, "fingerprint", x) for option in options.values() for x in option])
        if key not in self._measured:
            self._measured[key] = compile_kernel(self.scene.tree, (), what, **options)
        return self._measured[key]

    def _of_motion(self, chosen: Sequence[Sensor]) -> dict[str, Array]:
        """Numbers of sensors of links and joints."""
        tree, links = self.scene.tree, _loaded(self.scene, chosen)
        qdd = np.zeros(tree.nv) if self._before is None else self._mean_accelerations(*self._before)
        kernel = self._kernel("motion_sensors", sensors=chosen, wrenches=[tree.link_names[i] for i in links])
        return _split(tree, chosen, kernel(self.q, self.v, qdd, self.tau, *self._contact_wrenches(links)))

    def _mean_accelerations(self, q: Array, v: Array) -> Array:
        """Accelerations (nv,) over the last step, from that state on; those of free joints along the world's axes."""
        tree, qdd = self.scene.tree, (self.v - v) / self.dt
        for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
            if joint.kind is FREE:
                before, now = (quaternion_to_matrix(x[sq][3:]) for x in (q, self.q))
                at = slice(sv.start, sv.start + 3)
                qdd[at] = (self.v[at] - now.T @ before @ v[at]) / self.dt - np.cross(self.v[sv][3:], self.v[at])
        return qdd

    def _contact_wrenches(self, links: Sequence[int]) -> Array:
        """Mean wrenches (n, 6) of contacts on links over the last step, at and along their frames."""
        out = np.zeros((len(links), 6))
        if not links or self._before is None:
            return out
        contacts = self._steps.contacts
        poses = self._kernel("kinematics", frames=[self.scene.tree.link_names[i] for i in links])(self._before[0])
        found, over = self._steps.contact_impulses, 1.0 / self.dt
        forces = (contacts.frames @ (over * found["impulses"])[:, :, None])[:, :, 0]
        torques = (contacts.frames @ (over * found["angular_impulses"])[:, :, None])[:, :, 0]
        for k, (link, pose) in enumerate(zip(links, poses, strict=True)):
            R, p = pose[:3, :3], pose[:3, 3]
            for end, sign in ((0, 1.0), (1, -1.0)):
                at = contacts.links[:, end] == link
                f = sign * forces[at] @ R
                out[k, :3] += f.sum(axis=0)
                out[k, 3:] += (np.cross((contacts.points[at] - p) @ R, f) + sign * torques[at] @ R).sum(axis=0)
        return out

    def _touch(self, sensor: Sensor) -> Array:
        """Sum (1,) of normal forces at contacts of a link, within a volume (N)."""
        contacts, tree = self._steps.contacts, self.scene.tree
        assert self._before is not None
        link = sensor.frame.on(tree).link
        at = (contacts.links == link).any(axis=1)
        if sensor.within is not None and at.any():
            (pose,) = self._kernel("kinematics", frames=[sensor.frame])(self._before[0])
            outwards = np.where(contacts.links[:, :1] == link, -1.0, 1.0) * contacts.frames[:, :, 2] @ pose[:3, :3]
            places = (contacts.points - pose[:3, 3]) @ pose[:3, :3]
            at &= np.asarray(ray_meets(NUMPY, sensor.within, places.T, outwards.T), dtype=bool)
        return np.minimum([self._steps.contact_impulses["impulses"][at, 2].sum() / self.dt], sensor.cutoff)


def _frame_of(scene: Scene, name: str | Frame) -> Frame:
    """The frame of a link or frame, or of the root link of a robot."""
    return name if isinstance(name, Frame) else Frame(link_of(scene, name))


def _loaded(scene: Scene, chosen: Sequence[Sensor]) -> list[int]:
    """Links with colliders that joints of force sensors carry."""
    tree = scene.tree
    joints = {x.frame.on(tree).link for x in chosen if x.kind in FORCES}
    touching = {int(i) for i in scene.links} - {WORLD}
    return [i for i in sorted(touching) if joints.intersection(tree.support(i))]


def _split(tree: Tree, chosen: Sequence[Sensor], numbers: Array) -> dict[str, Array]:
    ends = np.cumsum([x.size(tree) for x in chosen])[:-1]
    return dict(zip([x.name for x in chosen], np.split(numbers, ends), strict=True))
