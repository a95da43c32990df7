"""`Simulator`: a scene in time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from delassus.algorithms.contact.law import CORRECTION, PENETRATION
from delassus.contact.changes.blocks import SceneChanges
from delassus.contact.changes.step import SceneStepChanges
from delassus.contact.contacts import ContactSet
from delassus.contact.formulate import check_formulation
from delassus.contact.formulations.impulses import FormulatedImpulses
from delassus.contact.scene import Scene, check_scene
from delassus.contact.snapshot import ContactDynamics
from delassus.contact.sparse.stepper import BlockSteps
from delassus.errors import ConfigurationError, shown, warn
from delassus.frozen import cached_property
from delassus.model.check import check_choice, check_flag, check_number, check_whole, finite_array, shape_of
from delassus.quantities.keywords import Control, Passive
from delassus.runtime.threads import in_parts
from delassus.simulate.controls import MOST_STEPS, Controls, check_controller
from delassus.simulate.derivatives import (
    AskedParameters,
    Loss,
    RecordedStep,
    StepDerivatives,
    TrajectoryGradient,
    step_derivatives,
    trajectory_gradient,
)
from delassus.simulate.recording import Recorder, Recording, shown_progress
from delassus.simulate.sensors import Sensing
from delassus.simulate.state import PREFIX, checked_start, checked_state, one_state, restored
from delassus.solvers.islands.records import StepOptions
from delassus.solvers.problems import check_directions
from delassus.solvers.registry import LIMIT, TOLERANCE, ImpulseSolver
from delassus.solvers.results import SOLVED, SolverStatus
from delassus.spatial.rotations import Array

UNIT = "Check its unit."

STILL = 1e-3
"""Least ``resting``, over the tolerance of velocities."""

Controller = Callable[["Simulator"], ArrayLike]
"""From the simulator to what its next step takes: ``tau``, or a pair of it and ``v_target``."""


class Simulator(Sensing):
    """A scene that moves in time steps.

    Parameters
    ----------
    scene : Scene
    formulation : {"blocks", "os", "nmc-os", "rmc", "mc", "nmc"}, optional
        How impulses are found. "blocks", the default, couples robots and free bodies sparsely by their contacts, with
        exact friction cones, in compiled code. The others are those of [OS], dense; all give the same motion.
    solver : str, optional
        Of "blocks", "newton": sweeps, then Newton's method. Of the others "lemke" (the default) or "pgs" for pyramids
        of ``n_directions`` sides, "nsgs", "admm" or "interior" for exact cones; naming one of these alone means "os".
    dt : float
        Time step (s).
    q0, v0 : (nq,) and (nv,) array_like, optional
        State at the start; by default the scene's, and at rest where ``q0`` alone is given.
    n_directions : int
        Sides of the pyramids that stand for friction cones, an even number.
    seed : int
        Of ``rng``, for controllers and noise: the same seed gives the same run.
    resting : float, optional
        Approach velocity (m/s) up to which a contact rests and does not bounce; by default what gravity brings in two
        steps.
    penetration : float
        Overlap (m) that is left alone.
    correction : float
        Part of the rest of it, and of loop errors, that each step takes back: from 0 to 1.
    sleep : float
        Time (s) after which an island of free bodies falls asleep all of which are slower than a thousand times
        ``tolerance``, 1 mm/s by default: they stand still and cost little, until something that moves touches one, or
        its state or joint forces are changed. A body that topples as slowly stands still, too. 0, the default: never.
    max_overlap : float
        Largest overlap of bodies, and gap of loops, at the start (m, rad).
    tolerance : float
        Residual of contact problems (m/s); that of hinges is times a length, the largest of two joints of a link.
    max_iterations : int
        Most sweeps, pivots or iterations of a contact problem. Impulses of one that is not solved by then are in their
        cones and add no kinetic energy.
    passive : {"model", "none"}
        Whether damping, springs and gravity compensation act, as in `delassus.forward_dynamics`, and Coulomb friction
        of joints: one that it holds stands still.
    limits : bool
        Whether limits of revolute and prismatic joints act, without restitution. A joint that starts beyond a limit is
        taken back as overlaps are.
    control : {"tau", "actuators", "pd"}
        What `step` and controllers give: joint forces, controls of actuators, or target configurations.
    kp, kd : (nv,) array_like, optional
        Gains of ``"pd"``, as in `delassus.forward_dynamics`; without both, gains that hold any robot at the start.
    threads : int, optional
        Threads that share a step: near pairs, contacts and islands are independent of each other, so that results are
        the same whatever their number. 1 stays on this thread; by default two where there are many near pairs.

    Attributes
    ----------
    q, v : (nq,) and (nv,) arrays
        State, in the order of ``scene.tree``.
    tau : (nv,) array
        Forces of motors on joints in the last step (N m, N).
    time, steps : float and int
        Since the start.
    status : SolverStatus
        Worst one of the last step.
    tolerance : float
        Of contact problems (m/s).
    rng : numpy.random.Generator

    Raises
    ------
    ConfigurationError
        A time step that is not positive, an option or a start of the wrong type, shape or range, NaN, bodies that
        overlap at the start, or loops that are open there.
    ModelError
        Joints that move nothing with inertia; ``massless`` of `delassus.load` helps.
    UnknownNameError
        No such formulation or solver.
    MissingDependencyError
        The extra ``contact`` is not installed.

    Notes
    -----
    Places move by the velocities of the end of the step, as of leapfrog integrators (`half_kick`): second order in time
    where forces depend on places, in velocity products, and where contacts turn. Bounces of robots, or off each other,
    lose ``m g V dt``.
    Servos, a `SpringDamper`, springs and damping of joints have the forces of the end of the step where they are stiff:
    no gain is too large for ``dt``, with loops or without.
    Robots with loops move by sub-steps of order 3 between contacts, as an estimate of their error asks. Steps that do
    not resolve that motion or gain energy, and those that open loops, have the statuses COARSE_STEP and LOOPS_OPEN.
    A free body that nothing touches keeps both momenta to round-off; those of floating robots change with ``dt²``.
    With pyramids of four sides, friction across their edges is up to 29 % too small (8 % with eight sides), and what
    slides turns towards the edges; exact cones have neither. "pgs" converges slowly on stacks. A problem that one of
    these cannot solve is given to "nsgs"; `statuses` has what came of it. Arrays that it gives never change.

    References
    ----------
    [OS] sections 6 and 7.

    Examples
    --------
    >>> import delassus as ds
    >>> from delassus.model.shapes import Collider, HalfSpace, Sphere
    >>> ball = ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0))
    >>> floor = Collider("world", HalfSpace(), restitution=0.5)
    >>> scene = ds.Scene(ball, [Collider("body", Sphere(0.1), restitution=0.5), floor])
    >>> sim = ds.Simulator(scene, q0=[0, 0, 1.1, 0, 0, 0, 1], dt=1e-3)
    >>> sim.run(0.44)
    >>> bool(sim.v[2] < -4), len(sim.contacts)
    (True, 0)
    """

    def __init__(
        self,
        scene: Scene,
        *,
        formulation: str | None = None,
        solver: str | None = None,
        dt: float = 1e-3,
        q0: ArrayLike | None = None,
        v0: ArrayLike | None = None,
        n_directions: int = 4,
        seed: int = 0,
        resting: float | None = None,
        penetration: float = PENETRATION,
        correction: float = CORRECTION,
        sleep: float = 0.0,
        max_overlap: float = 1e-3,
        tolerance: float = TOLERANCE,
        max_iterations: int = LIMIT,
        passive: Passive = "model",
        limits: bool = True,
        control: Control = "tau",
        kp: ArrayLike | None = None,
        kd: ArrayLike | None = None,
        threads: int | None = None,
    ) -> None:
        check_scene(scene)
        check_choice("passive", passive, get_args(Passive), ConfigurationError)
        check_choice("control", control, get_args(Control), ConfigurationError)
        formulation, solver = check_formulation(scene, formulation, solver)
        self.scene, self.dt, limits = scene, check_number("dt", dt, UNIT), check_flag("limits", limits)
        fall = 2.0 * math.hypot(*scene.gravity) * self.dt
        if not fall < math.inf:
            raise ConfigurationError("dt", "steps in which gravity brings finite velocities", shown(dt), UNIT)
        self.tolerance = check_number("tolerance", tolerance, "In m/s, such as 1e-6.")
        self._options = StepOptions(
            self.dt,
            check_number("resting", max(fall, STILL * self.tolerance) if resting is None else resting, UNIT),
            check_number("penetration", penetration, UNIT, above=False),
            check_number("correction", correction, UNIT, above=False, most=1.0),
            self.tolerance,
            check_number("sleep", sleep, "In seconds; 0: never.", above=False),
            check_whole("max_iterations", max_iterations, "Allow at least one.", least=1, most=10**9),
        )
        self.n_directions, impulses_of = check_directions(n_directions), None
        if formulation != "blocks":
            of_problems = ImpulseSolver(solver, n_directions, self.tolerance, max_iterations)
            formulated = FormulatedImpulses(ContactDynamics(scene, passive=passive), formulation, of_problems)
            impulses_of = formulated.of_phase
        self.formulation, self.solver, self.passive, self.limits = formulation, solver, passive, limits
        self.seed = check_whole("seed", seed, "The same one gives the same run.")
        self.rng = np.random.default_rng(self.seed)
        tree, self._earlier, self.status = scene.tree, Counter[SolverStatus](), SolverStatus.CONVERGED
        self._controls, self.control = Controls(scene, control, kp, kd), control
        self._steps = BlockSteps(scene, passive, limits, self._options, impulses_of, threads, self._controls.pulls)
        self.kp, self.kd, self._tau = self._controls.kp, self._controls.kd, self._controls.none
        q0, v_start = (scene.start, scene.start_velocity) if q0 is None else (q0, np.zeros(tree.nv))
        self._q = one_state("q0", tree.check_configuration(q0, "q0"))
        self._v = one_state("v0", tree.check_velocity(v_start if v0 is None else v0, "v0"))
        self._wanted = np.array([self.q[at] for at, _ in self._places]).reshape(-1, 7)
        self.time, self.steps, self._before, self._measured = 0.0, 0, None, {}
        most = check_number("max_overlap", max_overlap, UNIT, above=False)
        contacts = checked_start(self._steps, self.q, self.v, most)
        self._steps.set_warm_start(contacts, np.zeros((2, tree.nv)))

    @property
    def options(self) -> dict[str, Any]:
        """Options that make a simulator of the same scene go the same way, as plain numbers and names."""
        own, here = self._options._asdict(), ("touching", "asks", "max_parts", "speed")
        of_solver = {"formulation": self.formulation, "solver": self.solver, "n_directions": self.n_directions}
        gains = {"kp": self.kp.tolist(), "kd": self.kd.tolist()}
        forces = {"passive": self.passive, "limits": self.limits, "control": self.control, **gains}
        return {**{k: x for k, x in own.items() if k not in here}, **of_solver, "seed": self.seed, **forces}

    def __reduce__(self) -> tuple[Any, ...]:
        """Another simulator of the scene that goes the same way; copies share nothing that moves."""
        return restored, (type(self), self.scene, {**self.options, "threads": self._steps.threads}, self.get_state())

    def step(self, tau: ArrayLike | None = None, v_target: ArrayLike | None = None) -> None:
        """Advance by one time step under joint forces ``tau`` (nv,), in N and N m; none by default.

        With ``control="actuators"`` these are controls (nu,), the scene's by default. With ``control="pd"`` they are a
        target configuration (nq,), by default one that holds the scene's start against the weight of links, and
        ``v_target`` (nv,), zero by default, velocities that ``kd`` damps towards.

        Raises
        ------
        ConfigurationError
            ``tau`` or ``v_target`` has the wrong shape or is not finite; ``v_target`` without ``control="pd"``.
        """
        forces = self._controls.forces(self.q, self.v, tau, v_target)
        if self._controls.servos is not None:
            self._steps.set_servos(*self._controls.servos)
        self._go(forces, 1)

    def _go(self, forces: Array, steps: int) -> None:
        for some in (1,) if steps == 1 else in_parts(steps):
            before = self.get_state() if steps > 1 else None
            try:
                for n in (1,) if some == 1 else filter(None, (1, some - 2, 1)):
                    self._before = q, v = self.q, self._led()
                    self._q, self._v = self._steps.advance(q, self._pulled(v), forces, n)
                    self._arrive()
            except BaseException:  # interrupts, too: some of the steps may have been made
                if before is not None:
                    self.set_state(before)
                raise
            self._tau, self.status, self.steps = forces, self._steps.status, self.steps + some
            self.time = self.steps * self.dt

    def step_derivatives(self, *, parameters: Iterable[str] = (), smoothing: float | None = None) -> StepDerivatives:
        """Derivatives ``A`` and ``B`` of the last step: of the state after it with that before, and with controls.

        Exact, by the implicit function theorem at the solution of each impact, of the step and of the position
        correction: contacts that stick hold their velocity, those that slide turn with it, open ones do nothing.
        Contacts at rest are at the edge of overlap: derivatives are those of the side that the step was on. With
        ``smoothing`` (m/s) they are means over changes of velocities of that size.

        Where points of a face that slides and turns share its load, and move, in many ways, derivatives are not
        known: the status says so, and `distance` is 0. ``parameters`` are names of what else to differentiate with:
        "friction", "restitution", "torsional" and "rolling" of colliders (lengths of zero stay so), "mass" of links
        (radii of inertia stay).

        Raises
        ------
        ConfigurationError
            No step since the start or `set_state`; a formulation without exact friction cones.

        Examples
        --------
        >>> from delassus.scenes import boxes
        >>> sim = boxes(2).simulator()
        >>> sim.step()
        >>> found = sim.step_derivatives()
        >>> found.A.shape, found.B.shape, len(found.A.blocks)
        ((24, 24), (24, 12), 2)
        """
        asked = AskedParameters.of(self.scene, self.solver, parameters, smoothing)
        return step_derivatives(self._last_step(asked), asked, self._steps.blocks.dofs)

    def _last_step(self, asked: AskedParameters) -> RecordedStep:
        """What computes the derivatives of the last step, now or later."""
        scene, controls = self._changes, self._controls
        changes = partial(SceneStepChanges, scene, scene.recorded(self._steps), asked.smoothing, "mass" in asked.sizes)
        return RecordedStep(changes, partial(controls.rates, controls.given), *self._moves())

    def gradient(
        self, loss: Loss, controls: ArrayLike, *, parameters: Iterable[str] = (), smoothing: float | None = None
    ) -> TrajectoryGradient:
        """Gradient of a function of the next steps, by one sweep of adjoints back through them.

        The simulator stays where it is. Each step is differentiated as `step_derivatives` does, at its own solution.

        Parameters
        ----------
        loss : callable
            From the trajectory ``q`` (T + 1, nq) and ``v`` (T + 1, nv) to a number and its partial derivatives with
            both, of the same shapes: with coordinates, as `jax.grad` has them.
        controls : (T, nu) array_like
            What `step` takes, of each step.
        parameters, smoothing
            As in `step_derivatives`.

        Raises
        ------
        ConfigurationError
            As `step` and `step_derivatives` do; a loss that returns something else.

        Examples
        --------
        >>> import numpy as np
        >>> from delassus.scenes import boxes
        >>> sim = boxes(1).simulator()
        >>> def height(q, v):
        ...     by_q = np.zeros_like(q)
        ...     by_q[-1, 2] = 1.0
        ...     return q[-1, 2], by_q, np.zeros_like(v)
        >>> found = sim.gradient(height, np.zeros((20, 6)))
        >>> found.controls.shape, bool(found.controls[0, 2] > 0.0), round(float(found.q0[2]), 9)
        ((20, 6), True, 1.0)
        """
        asked, steps = AskedParameters.of(self.scene, self.solver, parameters, smoothing), list[RecordedStep]()
        given = finite_array(controls, (-1, self._controls.width), "controls", "One row for each step.")
        start, q, v = self.get_state(), [self.q], [self.v]
        try:
            for u in given:
                self.step(u)
                steps.append(self._last_step(asked))
                q.append(self.q)
                v.append(self.v)
            states = np.array(q), np.array(v)
            return trajectory_gradient(self.scene.tree, states, loss, steps, asked, self._steps.blocks.dofs)
        finally:
            self.set_state(start)

    @property
    def statuses(self) -> Counter[SolverStatus]:
        """Number of contact problems of all steps by status."""
        return self._earlier + self._steps.totals

    @property
    def contacts(self) -> ContactSet:
        """Contacts at the start of the last step."""
        return self._steps.contacts

    @property
    def impulses(self) -> Array:
        """Impulses (n, 3) at these contacts over the last step: tangent, tangent, normal, on the first link (N s)."""
        return self._steps.contact_impulses["impulses"]

    @property
    def angular_impulses(self) -> Array:
        """Those (n, 3) of torsional and rolling friction there, about the same axes (N m s)."""
        return self._steps.contact_impulses["angular_impulses"]

    @property
    def turning(self) -> Array:
        """By what slip and gap over the last displacement differed (n, 3) there from ``J v``, over the step (m/s)."""
        return self._steps.turning

    @cached_property
    def dynamics(self) -> ContactDynamics:
        """Dynamics of the whole scene, for `delassus.contact.formulate`; compiled when it is first asked for."""
        return ContactDynamics(self.scene, passive=self.passive)

    def step_by(self, controller: Controller | None) -> None:
        """Advance by one time step under what a controller gives: what `step` takes, a pair where that is two."""
        check_controller(controller)
        given = None if controller is None else controller(self)
        if isinstance(given, tuple) and len(given) == 2 and len(shape_of(given[0]) or ()) == 1:
            self.step(*given)
        else:
            self.step(given)

    @cached_property
    def _changes(self) -> SceneChanges:
        return SceneChanges(self._steps.blocks, self._steps.detector, self._steps.options, self.passive)

    def run(
        self,
        duration: float,
        controller: Controller | None = None,
        *,
        record: Recorder | None = None,
        progress: bool = False,
    ) -> Recording | None:
        """Run for a time (s), in whole steps.

        Parameters
        ----------
        duration : float
        controller : callable, optional
            From this simulator to what its next `step` takes: joint forces, controls or a target configuration, or
            with ``control="pd"`` a pair of arrays, target configuration and ``v_target``.
        record : Recorder, optional
            What to keep; without it, only the state at the end is.
        progress : bool
            Whether to show a progress bar in the terminal.

        Returns
        -------
        Recording or None
            What was recorded.

        Raises
        ------
        ConfigurationError
            A negative duration, or forces that are not (nv,) finite numbers.
        """
        n = round(check_number("duration", duration, UNIT, above=False, most=MOST_STEPS * self.dt) / self.dt)
        check_controller(controller)
        if record is not None and not isinstance(record, Recorder):
            raise ConfigurationError("record", "a Recorder", shown(record), "Pass record=Recorder().")
        progress, before = check_flag("progress", progress), self.statuses
        if record is not None:
            record.start(self)
        alone = controller is None and record is None and self.control == "tau"
        chunk = max(1, n // 100 if progress else n) if alone else 1
        starts = range(0, n, chunk)
        for start in shown_progress(starts) if progress else starts:
            if alone:
                self._go(self._controls.none, min(chunk, n - start))
            else:
                self.step_by(controller)
            if record is not None:
                record.add(self)
        for status, k in (self.statuses - before).most_common():
            if status not in SOLVED:
                said = f"{k} contact problems in {n} steps were not solved to the tolerance: {status.text}"
                warn(said, kind=f"contact problems: {status.name}")
        return None if record is None else record.finish(self)

    def get_state(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on, as arrays and numbers."""
        contacts = {PREFIX + name: getattr(self.contacts, name) for name in ContactSet.__slots__}
        return {
            "q": self.q.copy(),
            "v": self.v.copy(),
            "steps": self.steps,
            "rng": self.rng.bit_generator.state,
            "status": self.status.name,
            "statuses": {status.name: count for status, count in self.statuses.items()},
            **self._steps.contact_impulses,
            "joint_impulses": self.joint_impulses,
            **self._steps.sleep_state(),
            **contacts,
            **({"moved": self._wanted} if self.scene.moved else {}),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` returned: the run is the same to the last bit.

        Raises
        ------
        ConfigurationError
            Not all of it, or that of another scene.
        """
        found = checked_state(state, self.get_state(), self.scene, self.rng)
        steps, rng, status, statuses, contacts, on_contacts, on_joints, sleep = found
        # as they are: quaternions that are normalised once more may change in their last bit
        self._q, self._v, self._tau = (np.array(state[name], dtype=float) for name in ("q", "v", "last_tau"))
        self.steps, self.time = steps, steps * self.dt
        self.rng.bit_generator.state = rng
        self.status, self._earlier = status, statuses
        self._earlier.subtract(self._steps.totals)
        self._steps.set_warm_start(contacts, on_joints, on_contacts)
        self._steps.set_sleep_state(*sleep)
        self._before, self._wanted = None, np.array(state.get("moved", self._wanted), dtype=float)
