"""Calls of `hostile`: everything public with arguments that are right, and what is public and not among them."""

from __future__ import annotations

import inspect
import typing
from enum import Enum
from functools import partial
from importlib.util import find_spec
from itertools import islice
from types import SimpleNamespace

import numpy as np

import delassus as ds
from delassus import contact, mechanisms, pictures, simulate

HOMES = {"": ds, "contact.": contact, "mechanisms.": mechanisms, "simulate.": simulate, "pictures.": pictures}
if find_spec("gymnasium"):
    import gymnasium

    from delassus import gym

    ADAPTERS = {name: getattr(gym.adapters, name) for name in gym.adapters.__all__ if find_spec(name)}
    HOMES |= {"gym.": gym, "gym.adapters.": SimpleNamespace(__all__=[*ADAPTERS], **ADAPTERS)}

URDF = """<robot name="r"><link name="a"/><link name="b"><inertial><mass value="2"/>
<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>
<collision><geometry><box size="1 1 1"/></geometry></collision></link>
<joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="1 0 0"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""

FINITE = {
    "Scene", "contact.Collider", "contact.Sphere", "contact.Box", "contact.Mesh", "Simulator", "Simulator: os",
    "Simulator.step", "Simulator.run", "Simulator.set_state", "simulate.Recorder", "contact.LCP", "contact.MLCP",
    "contact.ConeProblem", "contact.ConeProblem.polyhedral", "contact.lemke",
    "contact.pgs", "contact.nsgs", "contact.admm", "contact.formulate", "contact.frames_of",
    "contact.CollisionDetector", "contact.CollisionDetector.contacts", "contact.ContactDynamics",
    "pictures.write_video", "gym.ArmReach", "gym.Go1Velocity", "gym.HumanoidStand", "gym.Worlds", "gym.Worlds.reset",
    "gym.Worlds.reset: seed", "gym.Worlds.step", "gym.Worlds.uniform", "gym.World", "gym.World.reset", "gym.World.step",
}  # fmt: skip
"""What has no results that are not finite, whatever numbers it is given."""

PROTOCOL = {
    "arguments", "at_rest", "between_links", "candidates", "carrier", "carriers", "check", "coefficients", "drift",
    "energy", "gravity", "is_internal", "line", "links", "measured", "periods", "springs",
    "place", "placed", "position", "prefixed", "position_coefficients", "row_sizes", "rows_on_links",
    "selection", "sides", "surface_motion", "top", "velocity", "velocity_drift", "within_a_turn", "without",
    "along_line", "as_tendon", "error", "error_at", "value",
}  # fmt: skip
"""What algorithms ask constraints, with arguments of their own."""

MADE_BY_US = {
    "BaseParameters", "ClosedLoops", "Control", "DynamicsDerivatives", "DynamicsHessian", "ExcitingMotion",
    "ForwardDynamics",
    "Identification", "ImpulseDynamics", "InverseDynamics", "OperationCount", "OperationReport", "ReducedDynamics",
    "Kernel", "contact.Audit", "contact.ContactProblem", "contact.ContactSolution", "contact.Snapshot",
    "contact.Solution", "simulate.BlockMatrix", "simulate.Recording", "simulate.StepDerivatives",
    "simulate.TrajectoryGradient",
}  # fmt: skip
"""Results: users take them, and do not make them."""

UNCHECKED = {
    "CudaKernel", "Kernel.compute", "Kernel.roll", "Kernel.ill_conditioned", "Kernel.warn_once",
    "Kernel.returned", "Kernel.rolled", "contact.Snapshot.rotor_velocities",
    "contact.CollisionDetector.find", "contact.CollisionDetector.refuse", "contact.ContactDynamics.at",
    "contact.ContactSet.some", "contact.ContactSet.trusted", "contact.Snapshot.momentum",
    "contact.Snapshot.moved_rows", "contact.Snapshot.rows",
    "simulate.Recorder.add", "simulate.Recorder.finish", "simulate.Recorder.start", "pictures.Viewer",
    "pictures.Viewer.play",
    *(f"gym.{envs}.{method}" for envs in ("Worlds", "ArmReach", "Go1Velocity", "HumanoidStand")
      for method in ("begin", "configure", "observe")),  # which `reset` and `step` call, with worlds of theirs
}  # fmt: skip
"""What says that nothing is checked, or is called by the library itself; and what needs a GPU or a browser."""


def parameters_of(function):
    """Names, those of keywords that several functions have too."""
    found, typed = set(), function.__init__ if inspect.isclass(function) else function
    for name, p in inspect.signature(function).parameters.items():
        hint = typing.get_args(typing.get_type_hints(typed).get(name)) if p.kind == p.VAR_KEYWORD else ()
        if p.kind != p.VAR_KEYWORD:
            found.add(name)
        elif hint:
            found |= set(typing.get_type_hints(hint[0]))
    return found - {"self", "cls"}


def public():
    """Name → parameters of every public function, class and method."""
    found, met = {}, set()
    for home, module in HOMES.items():
        for name in module.__all__:
            value = getattr(module, name)
            if id(value) in met or not callable(value):
                continue
            met.add(id(value))
            whole = home + name
            if not inspect.isclass(value):
                found[whole] = parameters_of(value)
            elif not issubclass(value, Enum | BaseException) and whole not in UNCHECKED:
                if whole not in MADE_BY_US:
                    found[whole] = parameters_of(value)
                methods = {k: inspect.getattr_static(value, k) for k in dir(value) if not k.startswith("_")}
                for method, raw in methods.items():
                    is_protocol = hasattr(value, "rows_on_links") and method in PROTOCOL
                    is_ours = getattr(raw, "__module__", "").partition(".")[0] == "delassus"
                    if is_ours and (isinstance(raw, classmethod | staticmethod) or inspect.isfunction(raw)):
                        is_inherited = home == "gym." and method not in vars(value) and issubclass(value, gym.Worlds)
                        if not is_protocol and not is_inherited and f"{whole}.{method}" not in UNCHECKED:
                            found[f"{whole}.{method}"] = parameters_of(getattr(value, method))
    return {name: parameters for name, parameters in found.items() if parameters}


def left_out(table):
    """Functions and parameters that are public and not in the table of calls."""
    covered = {}
    for name, (_, good) in table.items():
        covered.setdefault(name.partition(":")[0], set()).update(good)
    return sorted(
        f"{name}({parameter})"
        for name, parameters in public().items()
        for parameter in parameters - covered.get(name, set())
    )


def calls(folder):
    """Name → function and arguments that it takes; ``folder`` is where files go. After a colon, which of its uses."""
    own = of_gym() if "gym." in HOMES else {}
    models, kernels = of_models(folder), of_kernels(folder)
    return models | of_quantities() | kernels | of_contact(folder) | of_simulators(folder) | own


def starred(function, name):
    """A function of one of its positional arguments, by name."""
    return lambda **given: function(given.pop(name), **given)


def of_models(folder):
    m, arm, body = mechanisms, mechanisms.chain(3), mechanisms.free_body(1.0, [1, 1, 1])
    q, z, eye = arm.random(0), np.zeros(3), np.eye(3)
    (folder.parent / "robot").mkdir(exist_ok=True)
    urdf, yaml = folder.parent / "robot" / "robot.urdf", folder.parent / "robot" / "robot.yaml"
    urdf.write_text(URDF)
    yaml.write_text("closed_loop: []\ntype: []\nname_mot: [j]\n")
    loading = {"root": "fixed", "continuous": "angle", "gimbals": "keep", "check_inertia": "warn",
               "unsupported": "warn", "massless": "keep", "max_bytes": 1e6}  # fmt: skip
    loading["gimbals"] = inspect.signature(ds.load).parameters["gimbals"].default
    tree = ds.load(urdf)
    given = {k: getattr(arm, k) for k in inspect.signature(ds.Tree).parameters}
    frame, weld = ds.Frame("a"), {"first": "a", "second": None, "axes": "local"}
    constraints = {
        "Weld": weld, "Point": weld, "Orientation": {**weld, "axis": None}, "Hinge": {**weld, "axis": (0, 0, 1)},
        **{name: {"first": "a", "second": None, "axis": (0, 0, 1)} for name in ("Prismatic", "Cylindrical", "Planar")},
        "Universal": {"first": "a", "second": "b", "axis": (1, 0, 0), "second_axis": (0, 1, 0)},
        "Rows": {"first": "a", "second": None, "K": 3, "axes": "local"},
        "Distance": {"first": "a", "second": "b", "length": 1.0},
        "SpringDamper": {"first": "a", "second": "b", "stiffness": 1.0, "damping": 1.0, "length": 1.0},
        "Bushing": {"first": "a", "second": "b", "stiffness": np.ones(6), "damping": np.ones(6)},
        "Tendon": {"path": ["a", "b"], "ratios": {"j": 1.0}, "length": 1.0, "stiffness": 1.0, "damping": 1.0,
                   "follows": None, "polynomial": (1.0,)},
        "JointRows": {"rows": {"j": 1.0}, "rest": [0.0]}, "CenterOfMass": {},
        "Contact": {"frame": "a", "shape": contact.Sphere(0.1), "ground": "input", "friction": 0.5, "restitution": 0.1,
                    "torsional": 0.01, "rolling": 0.01, "surface_velocity": (0.0, 0.0, 0.0)},
    }  # fmt: skip
    constraints["Contact"]["ground"] = inspect.signature(ds.Contact).parameters["ground"].default
    made = {name: (getattr(ds, name), arguments) for name, arguments in constraints.items()}
    made |= {
        f"{name}.prefixed": (lambda prefix, k=k, a=a: k(**a).prefixed(prefix), {"prefix": "p_"})
        for name, (k, a) in made.items()
    }
    sensor = ds.Sensor("s", "framepos", "link3")
    return made | {
        "load": (ds.load, {"robot": urdf, "srdf": None, "xacro": {}, **loading}),
        "load_parallel": (ds.load_parallel, {"folder": urdf.parent, **loading}),
        "Tree": (ds.Tree, given),
        "Tree.random": (arm.random, {"rng": 0, "batch": 2}),
        "Tree.integrate": (arm.integrate, {"q": q, "v": z}),
        "Tree.integrate: free": (body.integrate, {"q": body.neutral(), "v": np.zeros(6)}),
        "Tree.difference": (arm.difference, {"q0": q, "q1": q}),
        "Tree.attach": (arm.attach, {"link": "link3", "other": m.chain(1), "position": z, "rotation": eye,
            "prefix": "p"}),
        "Tree.lock": (arm.lock, {"values": {"link2_joint": 0.3}}),
        "Tree.reroot": (body.reroot, {"link": "body"}),
        "Tree.reroot_configuration": (body.reroot_configuration, {"link": "body", "q": body.neutral()}),
        "Tree.placement": (arm.placement, {"frame": "link3"}),
        "Tree.q_index": (arm.q_index, {"joint": "link3_joint"}),
        "Tree.v_index": (arm.v_index, {"joint": "link3_joint"}),
        "Tree.sensor_index": (lambda sensor: ds.Tree(**{**given, "sensors": (ds.Sensor("s", "framepos",
            "link3"),)}).sensor_index(sensor), {"sensor": "s"}),
        "Tree.configuration": (arm.configuration, {"values": {"link3_joint": 0.1}}),
        "Tree.check_configuration": (arm.check_configuration, {"q": q, "argument": "q"}),
        "Tree.check_velocity": (arm.check_velocity, {"v": z, "argument": "v"}),
        "Tree.passive_forces": (arm.passive_forces, {"q": q, "v": z}),
        "Tree.blocks": (arm.blocks, {"ties": [(0, 1)]}),
        "Tree.branching_links": (arm.branching_links, {"ends": [0, 1]}),
        "Tree.closest_common_ancestor": (arm.closest_common_ancestor, {"a": 0, "b": 1}),
        "Tree.is_free_body": (arm.is_free_body, {"link": 0}),
        "Tree.per_dof": (arm.per_dof, {"attribute": "damping"}),
        "Tree.support": (arm.support, {"link": 0}),
        "Tree.supporting_links": (arm.supporting_links, {"links": [0, 1]}),
        "Tree.to_mjcf": (arm.to_mjcf, {"unsupported": "warn"}),
        "Tree.to_sdf": (arm.to_sdf, {"unsupported": "warn"}),
        "Tree.to_urdf": (arm.to_urdf, {"unsupported": "warn"}),
        "Tree.to_usd": (arm.to_usd, {"unsupported": "warn"}),
        "mechanisms.chain": (m.chain, {"n": 2, "root": "fixed"}),
        "mechanisms.pendulum": (m.pendulum, {"n": 2, "length": 1.0, "mass": 1.0}),
        "mechanisms.free_body": (m.free_body, {"mass": 1.0, "inertia": [1, 1, 1], "center_of_mass": np.zeros(3),
            "name": "b"}),
        "mechanisms.star": (m.star, {"branches": 2, "length": 2, "root": "fixed"}),
        "mechanisms.stem": (m.stem, {"length": 2, "branches": 1, "branch_length": 1, "root": "fixed"}),
        "mechanisms.ladder": (m.ladder, {"n": 2, "root": "fixed"}),
        "mechanisms.comb": (m.comb, {"n": 2, "root": "fixed"}),
        "mechanisms.dual_arm": (m.dual_arm, {"root": "fixed"}),
        "mechanisms.asimo": (m.asimo, {"arm_dofs": 1, "leg_dofs": 1, "hand_dofs": 2, "arms": 1, "legs": 1,
            "fixed_foot": False}),
        "mechanisms.humanoid": (m.humanoid, {"root": "fixed"}),
        "Frame": (ds.Frame, {"link": "a", "position": z, "rotation": eye, "given": None}),
        "Frame.on": (ds.Frame("link3").on, {"tree": arm}),
        "Frame.carrier": (ds.Frame("link3").carrier, {"tree": arm}),
        "Frame.prefixed": (frame.prefixed, {"prefix": "p"}),
        "Baumgarte": (ds.Baumgarte, {"frequency": 1.0, "damping": 1.0}),
        "Sensor": (ds.Sensor, {"name": "s", "kind": "framepos", "of": "link3", "reference": "link1", "cutoff": 1.0,
            "within": None}),
        "Sensor.check": (sensor.check, {"tree": arm}),
        "Sensor.size": (sensor.size, {"tree": arm}),
        "Sensor.prefixed": (sensor.prefixed, {"prefix": "p"}),
        "contact.load_colliders": (contact.load_colliders, {"robot": urdf, "tree": tree, "prefix": "", "friction": 0.5,
            "restitution": 0.0, "convex": True, "visual": False, "package_dirs": (), "max_bytes": 1e6}),
        "contact.load_ignored": (contact.load_ignored, {"source": srdf_in(folder.parent), "prefix": "", "tree": tree,
            "max_bytes": 1e6}),
    }  # fmt: skip


def srdf_in(folder):
    path = folder / "robot.srdf"
    path.write_text('<robot name="r"><disable_collisions link1="a" link2="b" reason="Never"/></robot>')
    return path


def of_quantities():
    arm, z = mechanisms.chain(3), np.zeros(3)
    q, row = arm.random(0), ds.Rows("link3", [[0, 0, 1, 0, 0, 0]])
    free, placed, loop = (
        ds.Rows("link3", 1),
        ds.Point(ds.Frame("link3", given="position")),
        ds.Distance("base", "link3"),
    )
    state, loads = {"tree": arm, "q": q}, {"payloads": {"link3": np.zeros(10)}}
    own = {"constraints": row, "rows": None, "placements": None, **loads}
    around = {"wrenches": {"link3": np.zeros(6)}, "gravity": z, "passive": "none", "damping": z}
    goals = {"targets": [[0.0]], "baumgarte": 1.0, "poses": None, "active": [True], "control": "pd", "kp": z, "kd": z,
             "v_target": z}  # fmt: skip
    motion = {**state, "v": z, "tau": z, **own, **around, **goals}
    forced = {name: x for name, x in motion.items() if name not in ("control", "kp", "kd", "v_target")}
    base, coupled = ds.base_parameters(arm), ds.JointRows({"link1_joint": 1.0, "link2_joint": -1.0})
    return {
        "delassus": (ds.delassus, {**state, **own, "method": "efpa"}),
        "delassus: loops": (ds.delassus, {**state, "constraints": row, "loops": coupled, "method": "cluster-pv-osimr"}),
        "delassus: rows": (ds.delassus, {**state, "constraints": free, "rows": [np.ones((1, 6))]}),
        "delassus: placed": (ds.delassus, {**state, "constraints": placed, "placements": [z]}),
        "osim": (ds.osim, {**state, **own, "method": "efpa"}),
        "consistent_inverse": (ds.consistent_inverse, {**state, **own, "method": "efpa"}),
        "jacobian": (ds.jacobian, {**state, **own}),
        "jacobian_drift": (ds.jacobian_drift, {**state, **own, "v": z}),
        "delassus_operator": (ds.delassus_operator, {**state, **own, "damping": [0.1]}),
        "delassus_operator: apply": (ds.delassus_operator(arm, row, q).apply, {"x": [1.0]}),
        "delassus_operator: solve": (ds.delassus_operator(arm, row, q).solve, {"x": [1.0]}),
        "mass_matrix": (ds.mass_matrix, {**state, **loads}),
        "coriolis_matrix": (ds.coriolis_matrix, {**state, "v": z, **loads}),
        "forward_dynamics": (ds.forward_dynamics, {**motion, "method": "auto", "compliance": None,
            "error_bound": 1e-6}),
        "forward_dynamics: soft": (ds.forward_dynamics, {**state, "v": z, "tau": z, "constraints": row,
            "compliance": [[1e-3]]}),
        "forward_dynamics: proximal": (ds.forward_dynamics, {**state, "v": z, "tau": z, "constraints": row,
            "method": "proximal", "tolerance": 1e-8, "max_iterations": 5}),
        "dynamics_derivatives": (ds.dynamics_derivatives, {**motion, "compliance": None}),
        "dynamics_hessian": (ds.dynamics_hessian, {**forced, "compliance": None}),
        "inverse_dynamics_hessian": (ds.inverse_dynamics_hessian, {**state, "v": z, "qdd": z, "constraints": (),
            **loads, **around}),
        "step_hessian": (ds.step_hessian, {**forced, "compliance": None, "dt": 1e-3}),
        "step_derivatives": (ds.step_derivatives, {**motion, "compliance": None, "dt": 1e-3, "integrator": "rk4",
            "impacts": None}),
        "step_derivatives: impacts": (ds.step_derivatives, {**state, "v": z, "tau": z, "dt": 1e-3, "constraints": row,
            "impacts": [True]}),
        "sensors": (ds.sensors, {**motion, "sensors": [ds.Sensor("s", "gyro", "link3")], "method": "auto",
            "compliance": None, "error_bound": 1e-6}),
        "impulse": (ds.impulse, {**state, **own, "v": z, "restitution": 0.5, "method": "auto", "targets": None,
            "active": [True]}),
        "control": (ds.control, {**state, "v": z, "tasks": row, "poses": None, "targets": None, "kp": 1.0, "kd": None,
            "impedance": False, "posture": q, "posture_kp": None, "posture_kd": None, "compliance": None,
            "limits": True, "motors": None, "contacts": ds.Point("link2"), "rows": None, "placements": None, **loads,
            **around, "active": None, "weights": None, "friction": 0.5}),
        "inverse_dynamics": (ds.inverse_dynamics, {**state, "v": z, "qdd": z, **own, **around, "motors": "actuated",
            "method": "auto", "weights": None, "active": [True], "friction": None}),
        "inverse_dynamics: plain": (ds.inverse_dynamics, {**state, "v": z, "qdd": z}),
        "inverse_dynamics: cones": (ds.inverse_dynamics, {**state, "v": z, "qdd": z, "constraints": ds.Point("link3"),
            "weights": np.ones(6), "friction": 0.5, "motors": ["link1_joint"]}),
        "inverse_dynamics_derivatives": (ds.inverse_dynamics_derivatives, {**state, "v": z, "qdd": z, "constraints": (),
            **loads, **around}),
        "bias_force": (ds.bias_force, {**state, "v": z, **loads, **around}),
        "regressor": (ds.regressor, {**state, "v": z, "qdd": z, "outputs": "tau", "gravity": z}),
        "base_parameters": (ds.base_parameters, {"tree": arm, "gravity": z, "tolerance": 1e-6}),
        "BaseParameters.consistent": (base.consistent, {"values": base.grouping @ arm.inertial_parameters.ravel(),
            "errors": 0.1, "near": arm.inertial_parameters}),
        "exciting_motion": (ds.exciting_motion, {"tree": arm, "base": "driven", "period": 1.0, "harmonics": 1,
            "samples": 4, "travel": (0.1, 0.1), "speed": 1.0, "rounds": 0, "seed": 0}),
        "forward_kinematics": (ds.forward_kinematics, {**state, "frames": ["link3"]}),
        "frame_jacobian": (ds.frame_jacobian, {**state, "frames": "link3", "reference": "local"}),
        "frame_velocity": (ds.frame_velocity, {**state, "v": z, "frames": None, "reference": "world"}),
        "frame_acceleration": (ds.frame_acceleration, {**state, "v": z, "qdd": z, "frames": ["link3"],
            "reference": "world"}),
        "kinetic_energy": (ds.kinetic_energy, {**state, "v": z, **loads}),
        "potential_energy": (ds.potential_energy, {**state, "constraints": (),
            "gravity": z, "passive": "model", **loads}),
        "momentum": (ds.momentum, {**state, "v": z, **loads}),
        "momentum_jacobian": (ds.momentum_jacobian, {**state, **loads}),
        "momentum_drift": (ds.momentum_drift, {**state, "v": z, **loads}),
        "momentum_rate": (ds.momentum_rate, {**state, "v": z, "qdd": z, **loads}),
        "centre_of_mass": (ds.centre_of_mass, {**state, **loads}),
        "centre_of_mass_jacobian": (ds.centre_of_mass_jacobian, {**state, **loads}),
        "centre_of_mass_drift": (ds.centre_of_mass_drift, {**state, "v": z, **loads}),
        "close_loops": (ds.close_loops, {**state, **own, "constraints": loop, "hold": ("link1_joint",)}),
        "random_configurations": (ds.random_configurations, {"tree": arm, "constraints": loop, "rng": 0, "batch": 2}),
        "reduced_dynamics": (ds.reduced_dynamics, {**state, **own, "v": z, "constraints": coupled,
            "independent": ["link1_joint", "link3_joint"], "output": ds.Point("link3"), "gravity": z,
            "passive": "none"}),
        "count_operations": (ds.count_operations, {"tree": arm, "constraints": row, "method": "efpa",
            "payloads": ("link3",)}),
    }  # fmt: skip


def of_kernels(folder):
    arm, one, z = mechanisms.chain(3), mechanisms.chain(1), np.zeros(3)
    q, row, end = arm.random(0), ds.Rows("link3", [[0, 0, 1, 0, 0, 0]]), ds.Rows("link1", [[0, 0, 0, 0, 0, 1]])
    kernel, step = ds.compile(arm, row), ds.compile(arm, [], "step")
    forward, damped = ds.compile(arm, row, "dynamics"), ds.compile(arm, [], "step", damping="input")
    rod, rod_step = mechanisms.pendulum(1), ds.compile(mechanisms.pendulum(1), (), "step")
    changes, still = ds.compile(rod, (), "step_derivatives"), ds.compile(rod, (), "inverse_dynamics", damping="input")
    ball = mechanisms.free_body(1.0, 0.004 * np.eye(3), name="ball")
    touching = ds.Contact("ball", contact.Sphere(0.1))
    known = {"kernel": damped, "measured": {"q": np.zeros((3, 3)), "v": np.zeros((3, 3))}, "dt": 1e-3,
             "controls": np.zeros((2, 3))}  # fmt: skip
    found = ds.identify(start={"damping": np.ones(3)}, **known)

    def planned(**given):
        return [plan.cost for plan in islice(ds.ilqr(**given), 3)]

    def along(t, q, v, u):
        return u

    def last(q, v):
        return np.concatenate([q, v], axis=-1)

    by_all = (lambda t, q, v, u: np.eye(1, 3, 2) + 0.0 * q[..., None], lambda q, v: np.eye(2) + 0.0 * q[..., None])
    plan = next(ds.ilqr(rod_step, changes, [0.5], [0.0], np.zeros((3, 1)), 0.02, along, last))
    compiled = {"tree": one, "constraints": end, "method": "auto", "dtype": "float64", "lanes": 1, "payloads": (),
                "error_bound": None, "outputs": None, "packed": False, "wait": True, "target": "cpu"}  # fmt: skip
    ends = {"gravity": (0.0, 0.0, -9.0), "passive": "none", "damping": [0.1], "wrenches": ()}
    acts = {"targets": False, "baumgarte": None, "poses": False, "compliance": None, "active": False}
    driven = {"control": "tau", "v_target": False}
    return {
        "compile": (ds.compile, {**compiled, "what": "delassus"}),
        "compile: dynamics": (ds.compile, {"tree": one, "constraints": end, "what": "dynamics", "lanes": 1, **ends,
            **acts, **driven}),
        "compile: kinematics": (ds.compile, {"tree": one, "constraints": (), "what": "frame_velocity", "frames": None,
            "reference": "local"}),
        "compile: sensors": (ds.compile, {"tree": one, "constraints": (), "what": "sensors", "sensors": [ds.Sensor("s",
            "gyro", "link1")]}),
        "compile: reduced": (ds.compile, {"tree": one, "constraints": (), "what": "reduced_dynamics",
            "independent": ["link1_joint"], "output": ds.Point("link1")}),
        "compile: loops": (ds.compile, {"tree": one, "constraints": end, "what": "close_loops", "hold": ()}),
        "compile: delassus": (ds.compile, {"tree": one, "constraints": end, "what": "delassus", "loops": None}),
        "compile: motors": (ds.compile, {"tree": one, "constraints": end, "what": "inverse_dynamics",
            "motors": ["link1_joint"], "weights": [1.0, 1.0]}),
        "compile: control": (ds.compile, {"tree": one, "constraints": end, "what": "control", "contacts": None,
            "kp": 1.0, "kd": 1.0, "impedance": False, "posture": True, "posture_kp": [1.0], "posture_kd": [1.0]}),
        "compile: step": (ds.compile, {"tree": one, "constraints": end, "what": "step", "integrator": "semi-implicit",
            "impacts": False}),
        "compile: contact_step": (ds.compile, {"tree": one, "constraints": ds.Contact("link1", contact.Sphere(0.1)),
            "what": "contact_step", "friction": 0.5, "restitution": 0.5, "limits": True, "solver": "nsgs", "sweeps": 3,
            "tolerance": 1e-4, "penetration": 1e-4}),
        "compile: smoothing": (ds.compile, {"tree": ball, "constraints": touching, "what": "contact_step_derivatives",
            "smoothing": 0.1}),
        "Kernel: delassus": (kernel, {"q": q, "out": None, "threads": None}),
        "Kernel: dynamics": (forward, {"q": q, "v": z, "tau": z, "threads": 1, "return_status": True,
            "return_error": True}),
        "Kernel.solve": (lambda arguments, threads: forward.solve(arguments, z, z, threads=threads), {"arguments": q,
            "threads": 1}),
        "Kernel.empty_results": (kernel.empty_results, {"batch": 2}),
        "Kernel.address": (kernel.address, {"states": 1}),
        "Kernel.derivative": (lambda modes, by: kernel.derivative(modes, by=by), {"modes": "jacobian", "by": ("q",)}),
        "Kernel.export_c": (kernel.export_c, {"folder": folder, "return_error": False, "casadi": 0}),
        "Kernel.casadi": (kernel.casadi, {"return_error": False, "jacobian": False}),
        "Kernel.program": (kernel.program, {"return_error": False}),
        "rollout": (ds.rollout, {"kernel": step, "q0": q, "v0": z, "controls": np.zeros((2, 3)), "dt": 1e-3,
            "steps": None, "decimation": 1, "per_step": (), "time_axis": 0, "feedback": np.zeros((2, 3, 6)),
            "nominal": (np.zeros((3, 3)), np.zeros((3, 3))), "bounds": (-np.ones(3), np.ones(3)),
            "defects": np.zeros((3, 6)), "threads": 1, "return_status": True}),
        "rollout: policy": (ds.rollout, {"kernel": step, "q0": q, "v0": z, "controls": lambda t, q, v: np.zeros(3),
            "dt": 1e-3, "steps": 2}),
        "ilqr": (planned, {"second_order": False,
            "step": rod_step, "derivatives": changes, "q0": [0.5], "v0": [0.0], "controls": np.zeros((3,
            1)), "dt": 0.02, "along": along, "last": last, "jacobians": None, "varied": [0], "bounds": ([-1.0], [1.0]),
            "per_step": ()}),
        "ilqr: jacobians": (planned, {"step": rod_step, "derivatives": changes, "q0": [0.5], "v0": [0.0],
            "controls": plan, "dt": 0.02, "along": along, "last": last, "jacobians": by_all}),
        "ilqr: jacobians of the end": (lambda f: planned(step=rod_step, derivatives=changes, q0=[0.5], v0=[0.0],
            controls=plan, dt=0.02, along=along, last=last, jacobians=(by_all[0], f)), {"f": by_all[1]}),
        "Plan": (lambda **given: planned(step=rod_step, derivatives=changes, q0=[0.5], v0=[0.0],
            controls=ds.Plan(**given), dt=0.02, along=along, last=last), {name: getattr(plan,
            name) for name in inspect.signature(ds.Plan).parameters}),
        "Plan.shifted": (plan.shifted, {"steps": 1}),
        "identify": (ds.identify, {**known, "start": {"damping": np.ones(3)}, "scale": 1.0,
            "bounds": {"damping": (np.zeros(3), 9.0)}, "prior": {"damping": np.ones(3)}, "loss": "huber", "every": 1,
            "window": 2, "starts": "measured"}),
        "identify: samples": (ds.identify, {"kernel": still, "measured": {"tau": np.zeros((4, 1))},
            "start": {"damping": 0.1}, "scale": {"tau": [1.0]}, "q": np.zeros((4, 1)), "v": np.ones((4, 1)),
            "qdd": np.zeros((4, 1))}),
        "Identification.combination": (found.combination, {"A": np.ones(3)}),
    }  # fmt: skip


def of_contact(folder):
    c, none, eye = contact, np.zeros(3), np.eye(3)
    ball = mechanisms.free_body(1.0, c.Sphere(0.1).inertia(1.0))
    on_ball, floor = c.Collider("body", c.Sphere(0.1)), c.Collider("world", c.HalfSpace(), name="floor")
    scene, sphere = ds.Scene(ball, [on_ball, floor]), c.Sphere(0.1)
    named = ds.Scene({"a": ball, "b": mechanisms.pendulum(1)}, [c.Collider("a/body", sphere, name="ball"), floor])
    state, touching = c.State(ball.neutral(), np.zeros(6)), ds.Contact("body", c.Sphere(0.1), "input")
    q = np.array([0, 0, 0.1, 0, 0, 0, 1.0])
    set_of = {"links": [[0, -1]], "points": none[None], "frames": eye[None], "depths": [0.0], "friction": [0.5],
              "restitution": [0.0], "colliders": [[0, 1]], "surface_velocities": [[0.0, 0.0]], "torsional": [0.0],
              "rolling": [0.0]}  # fmt: skip
    touches, detector = c.ContactSet(**set_of), c.CollisionDetector(scene)
    linear, mixed, cones = c.LCP(eye, none), c.MLCP(eye, none, 1), c.ConeProblem(eye, none, 0.5)
    pyramids, relaxed = cones.polyhedral(4), c.RelaxedProblem(eye, none, 0.5)
    limits = {"tolerance": 1e-6, "max_iterations": 10}
    step = {"M": eye, "J": eye, "v_before": [1.0, 0, 0], "v_after": none, "impulses": none[None], "friction": [0.5],
            "gaps": [0.0], "dt": 0.01, "force": none, "friction_offset": [0.0], "velocity_offset": none[None],
            "names": ["a"], "torsional": [0.0], "rolling": [0.0], "J_angular": eye,
            "angular_impulses": none[None]}  # fmt: skip
    problem = c.formulate(scene, state, "os", dt=1e-3, contacts=touches)
    impact = c.formulate(scene, state, "os", dt=0.0, contacts=touches)
    cone = {"W": eye, "b": none, "mu": [0.5], "friction_offset": [0.0]}
    edges, round_ = {"x": 1.0, "y": 1.0, "z": 1.0}, {"radius": 1.0, "length": 1.0}
    shapes = {"Sphere": {"radius": 1.0}, "Box": edges, "Ellipsoid": edges, "Capsule": round_, "Cylinder": round_}
    ramp = c.Collider("world", c.HeightField([[0.0, 0.0], [0.3, 0.3]], (0.4, 1.0)))
    corners, urdf = np.vstack([none, eye]), folder.parent / "robot" / "robot.urdf"
    table = {f"contact.{name}": (getattr(c, name), sizes) for name, sizes in shapes.items()}
    for name, sizes in shapes.items():
        shape = getattr(c, name)(**sizes)
        table[f"contact.{name}.contains"] = shape.contains, {"points": eye}
        table[f"contact.{name}.inertia"] = shape.inertia, {"mass": 1.0}
    hull = c.Mesh(corners)
    table["contact.Mesh.inertia"] = hull.inertia, {"mass": 1.0}
    table["contact.HeightField.inertia"] = hull.inertia, {"mass": 1.0}
    for name, of, r in (("LCP", linear, "z"), ("MLCP", mixed, "values"), ("PolyhedralLCP", pyramids, "z")):
        x = np.zeros(of.size)
        table |= {f"contact.{name}.{k}": (getattr(of, k), {r: x}) for k in ("complementarity", "rows")}
        table[f"contact.{name}.residual"] = of.residual, {r: x, "remainder": x}
    for name, of in (("ConeProblem", cones), ("RelaxedProblem", relaxed)):
        table |= {
            f"contact.{name}.{k}": (getattr(of, k), {"r": none})
            for k in ("complementarity", "cone_violation", "dissipation", "penetration_velocity")
        }
        table |= {
            f"contact.{name}.{k}": (getattr(of, k), {"r": none, "remainder": none}) for k in ("residual", "velocities")
        }
        table[f"contact.{name}.polyhedral"] = of.polyhedral, {"n_directions": 4}
        table[f"contact.{name}"] = getattr(c, name), cone
    return table | {
        "contact.PolyhedralLCP": (c.PolyhedralLCP, {"cone": cones, "n_directions": 4}),
        "contact.PolyhedralLCP.impulses": (pyramids.impulses, {"z": np.zeros(pyramids.size)}),
        "contact.MLCP.equality_residual": (mixed.equality_residual, {"values": none}),
        "contact.LCP": (c.LCP, {"M": eye, "q": none, "blocks": [[0], [1], [2]]}),
        "contact.MLCP": (c.MLCP, {"M": eye, "q": none, "n_free": 1}),
        "contact.lemke": (c.lemke, {"problem": linear, **limits}),
        "contact.pgs": (c.pgs, {"problem": linear, **limits, "start": none}),
        "contact.nsgs": (c.nsgs, {"problem": cones, **limits, "start": none}),
        "contact.admm": (c.admm, {"problem": cones, **limits, "start": none}),
        "contact.interior": (c.interior, {"problem": cones, **limits, "start": none}),
        "contact.convex": (c.convex, {"problem": relaxed, **limits}),
        "contact.solve_mixed": (c.solve_mixed, {"problem": mixed, "solver": c.lemke, "tolerance": 1e-6}),
        "contact.collide": (c.collide, {"problem": impact, "solver": "lemke", "tolerance": 1e-6}),
        "contact.ContactProblem.solve": (problem.solve, {"solver": "lemke", "tolerance": 1e-6, "start": None}),
        "contact.formulate": (c.formulate, {"scene": scene, "state": state, "contacts": touches, "formulation": "os",
            "dt": 1e-3, "n_directions": 4, "dynamics": c.ContactDynamics(scene), "loop_velocities": np.zeros(0),
            "contact_velocities": none[None]}),
        "contact.frames_of": (c.frames_of, {"normals": eye}),
        "contact.ContactSet": (c.ContactSet, set_of),
        "contact.ContactDynamics": (c.ContactDynamics, {"scene": scene, "passive": "model"}),
        "contact.CollisionDetector": (c.CollisionDetector, {"scene": scene, "tolerance": 1e-9, "margin": 1e-3}),
        "contact.CollisionDetector.contacts": (detector.contacts, {"poses": np.eye(3, 4)[None], "reach": [0.1]}),
        "contact.CollisionDetector.contacts: one": (detector.contacts, {"poses": np.eye(3, 4)[None], "reach": 0.1}),
        "contact.Collider": (c.Collider, {"link": "a", "shape": sphere, "position": none, "rotation": eye,
            "friction": 0.5, "restitution": 0.5, "torsional": 0.01, "rolling": 0.01, "surface_velocity": none,
            "name": "", "rgba": (1.0, 0.5, 0.0, 1.0)}),
        "contact.Mesh": (c.Mesh, {"vertices": corners, "triangles": [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]],
            "convex": True}),
        "contact.HeightField": (c.HeightField, {"heights": [[0.0, 0.0], [0.3, 0.3]], "size": (0.4, 1.0)}),
        "contact.HeightField.below": (ramp.shape.below, {"points": none}),
        "contact.ground_below": (c.ground_below, {"tree": ball, "contacts": touching, "q": q, "terrain": ramp}),
        "contact.State": (c.State, {"q": [0.0], "v": [0.0], "tau": [0.0]}),
        "contact.State.on": (state.on, {"tree": ball}),
        "contact.ContactStep": (lambda **given: c.audit(c.ContactStep(**given)), step),
        "contact.ContactStep.along": (c.ContactStep(**step).along, {"v": none}),
        "contact.ContactStep.in_plane": (c.ContactStep(**step).in_plane, {"v": none}),
        "contact.audit": (c.audit, {"model": c.ContactStep(**step), "data": None, "tolerance": 1e-6,
            "penetration": 1e-3}),
        "Scene": (ds.Scene, {"robots": {"a": ball}, "colliders": [c.Collider("a/body", sphere)], "loops": (),
            "gravity": none, "ignore": [("a/body", "a/body")], "parents_collide": False, "friction_rule": "max",
            "pair_materials": {("a/body", "a/body"): {"friction": 0.2}}, "descriptions": {"a": "nothing"},
            "start": ball.neutral(), "start_velocity": np.zeros(6), "start_controls": (), "moved": ["a"],
            "springs": ()}),
        "Scene: tree": (ds.Scene, {"robots": ball, "colliders": [on_ball], "start": ball.neutral()}),
        "Scene.add": (named.add, {"name": "crate", "what": c.Box(1.0, 1.0, 1.0), "at": (0.0, 0.0, 1.0), "mass": 1.0,
            "root": "floating", "friction": 0.5, "restitution": 0.1, "torsional": 0.01, "rolling": 0.01}),
        "Scene.add: moved": (named.add, {"name": "door", "what": hull, "moved": True}),
        "Scene.add: density": (named.add, {"name": "stone", "what": hull, "density": 2000.0}),
        "Scene.add: pose": (named.add, {"name": "b2", "what": ball, "at": [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]}),
        "Scene.attach": (starred(named.attach, "loops"), {"loops": ds.Point("a/body")}),
        "Scene.constraints": (scene.constraints, {"touching": ["body"], "between_links": True}),
        "Scene.contact_step": (scene.contact_step, {"touching": ["body"], "between_links": True, "sweeps": 3}),
        "Scene.q_slice": (named.q_slice, {"robot": "a"}),
        "Scene.v_slice": (named.v_slice, {"robot": "a"}),
        "Scene.configuration": (named.configuration, {"a": q}),
        "Scene.velocity": (named.velocity, {"a": np.zeros(6)}),
        "Scene.set_down": (scene.set_down, {"q": q}),
        "Scene.with_friction": (lambda friction, names: named.with_friction(friction, names), {"friction": 0.5,
            "names": "a"}),
        "Scene.with_material": (lambda names, **given: named.with_material(names, **given), {"names": "a",
            "friction": 0.5, "restitution": 0.5, "torsional": 0.01, "rolling": 0.01}),
        "Scene.without": (lambda names: named.without(names), {"names": "b"}),
        "Scene.from_robot": (ds.Scene.from_robot, {"robot": urdf, "floor": True, "friction": 0.5, "root": "fixed",
            "keyframe": None, "configuration": None, "friction_rule": "max", "massless": "keep"}),
    }  # fmt: skip


def of_simulators(folder):
    c = contact
    ball, q = mechanisms.free_body(1.0, c.Sphere(0.1).inertia(1.0)), [0, 0, 0.1, 0, 0, 0, 1.0]
    scene = ds.Scene(ball, [c.Collider("body", c.Sphere(0.1)), c.Collider("world", c.HalfSpace(), name="floor")])
    sensing = ds.Scene(mechanisms.pendulum(1))

    def simulator(**options):
        return ds.Simulator(scene, q0=q, **options)

    def moved(**options):
        one = ds.Simulator(**{"scene": scene, "q0": q, **options})
        one.step(ball.neutral() if options.get("control") == "pd" else None)
        return one.q, one.v, one.impulses

    def stepped():
        one = simulator()
        one.step()
        return one

    def loss(q, v):
        return float(q.sum()), np.ones_like(q), np.ones_like(v)

    options = {"dt": 1e-3, "v0": np.zeros(6), "n_directions": 4, "seed": 0, "resting": 1e-2, "penetration": 1e-3,
               "correction": 0.2, "sleep": 0.0, "max_overlap": 1e-3, "tolerance": 1e-6, "max_iterations": 50,
               "passive": "model", "limits": True, "control": "tau", "kp": np.zeros(6), "kd": np.zeros(6),
               "threads": 1}  # fmt: skip
    recording = simulator().run(0.003, record=simulate.Recorder())
    saved, checkpoint = (
        recording.save(folder.parent / "r.npz"),
        simulate.save_checkpoint(stepped(), folder.parent / "c.npz"),
    )
    pushed = {"loss": loss, "controls": np.zeros((2, 6)), "parameters": ("mass",), "smoothing": 0.1}
    return {
        "Simulator": (moved, {"scene": scene, "q0": q, "formulation": "blocks", "solver": "newton", **options}),
        "Simulator: os": (partial(moved, formulation="os"), {"solver": "lemke", "dt": 1e-3, "v0": np.zeros(6),
            "resting": 1e-2, "tolerance": 1e-6, "max_iterations": 50}),
        "Simulator.step": (lambda **given: simulator().step(**given), {"tau": np.zeros(6)}),
        "Simulator.step: pd": (lambda **given: simulator(control="pd").step(**given), {"tau": ball.neutral(),
            "v_target": np.zeros(6)}),
        "Simulator.step_by": (lambda controller: simulator().step_by(controller),
            {"controller": lambda sim: np.zeros(6)}),
        "Simulator.run": (lambda **given: simulator().run(**given), {"duration": 0.002,
            "controller": lambda sim: np.zeros(6), "record": None, "progress": False}),
        "Simulator.set_state": (lambda state: simulator().set_state(state), {"state": simulator().get_state()}),
        "Simulator.sensors": (lambda sensors: ds.Simulator(sensing).sensors(sensors), {"sensors": [ds.Sensor("s",
            "gyro", "rod1")]}),
        "Simulator.move": (ds.Simulator(scene.add("door", c.Box(1.0, 1.0, 1.0), at=(5, 5, 5), moved=True),
            max_overlap=1.0).move, {"name": "door", "pose": [0, 0, 1, 0, 0, 0, 1.0]}),
        "Simulator.twist": (simulator().twist, {"name": "body", "reference": "world"}),
        "Simulator.set_twist": (simulator().set_twist, {"name": "body", "twist": np.zeros(6), "reference": "world"}),
        "Simulator.half_kick": (simulator().half_kick, {}),
        "Simulator.energy": (simulator().energy, {"q": q, "v": np.zeros(6)}),
        "Simulator.step_derivatives": (lambda **given: stepped().step_derivatives(**given), {"parameters": ("mass",),
            "smoothing": 0.1}),
        "Simulator.gradient": (lambda **given: stepped().gradient(**given), pushed),
        "simulate.Recorder": (simulate.Recorder, {"every": 1, "energy": True, "contacts": True}),
        "simulate.Recording.contacts": (recording.contacts, {"sample": 0}),
        "simulate.Recording.save": (recording.save, {"path": folder / "recording.npz"}),
        "simulate.Recording.load": (simulate.Recording.load, {"path": saved, "scene": scene}),
        "simulate.save_checkpoint": (simulate.save_checkpoint, {"sim": simulator(), "path": folder / "checkpoint.npz"}),
        "simulate.load_checkpoint": (simulate.load_checkpoint, {"scene": scene, "path": checkpoint}),
        "pictures.export": (pictures.export, {"recording": recording, "path": folder / "f.mcap"}),
        "pictures.write_video": (pictures.write_video, {"recording": recording, "path": folder / "f.gif", "fps": 10,
            "size": (32, 32), "speed": 1.0, "overlay": True}),
        "pictures.view": (lambda **given: pictures.view(block=False, **given).stop(), {"source": recording,
            "port": 8080, "host": "127.0.0.1", "backend": "browser"}),
        "pictures.view: block": (  # True would wait for somebody who interrupts it
            lambda block: isinstance(block, bool | np.bool_) or pictures.view(recording, block=block).stop(),
            {"block": False},
        ),
    }  # fmt: skip


def of_gym():
    arm, go1, bare = gym.ArmReach(2), gym.Go1Velocity(2, generic=True), gym.ArmReach(2)
    alone, single = gym.World(gym.ArmReach), {"render_mode": "rgb_array", "size": (32, 24)}
    for envs in (arm, go1, alone):
        envs.reset(seed=0)
    common = {"num_envs": 2, "control": 0.02, "dt": 0.01, "episode": 1.0, "max_episode_steps": 9,
              "friction": (0.5, 1.0), "payload": (0.0, 1.0), "threads": 1, "device": "cpu",
              "autoreset_mode": "NextStep", **single}  # fmt: skip
    few = {name: common[name] for name in ("num_envs", "device")}
    made = {
        "ArmReach": {**few, "payload": (0.0, 1.0)},
        "Go1Velocity": {**few, "generic": True},
        "HumanoidStand": {**few, "push": 0.1, "dt": 0.002, "payload": (0.0, 1.0)},
    }

    def lived(envs):
        envs.reset(seed=0)
        return [envs.step(np.zeros(envs.action_space.shape)) for _ in range(2)]

    def initialised(**given):
        gym.Worlds.__init__(bare, **given)
        return lived(bare)

    table = {f"gym.{name}": (partial(lambda kind, **x: lived(kind(**x)), getattr(gym, name)), given)
             for name, given in made.items()}  # fmt: skip
    sizes, all_of = {"observed": 26, "actions": 3}, {"reset_mask": np.ones(2, bool), "command": np.zeros(3)}
    return table | {
        "gym.Worlds": (partial(initialised, **sizes), {"kernel": arm.kernel, **common}),
        "gym.Worlds: sizes": (partial(gym.Worlds.__init__, bare, 2, arm.kernel), sizes),
        "gym.Worlds: make_vec": (partial(gymnasium.make_vec, "delassus/ArmReach-v0"), common),
        "gym.Worlds.reset": (go1.reset, {"seed": [0, None], "options": all_of}),
        "gym.Worlds.reset: seed": (arm.reset, {"seed": 0}),
        "gym.Worlds.step": (go1.step, {"actions": np.zeros((2, 12))}),
        "gym.Worlds.call": (lambda name, args: go1.call(name, args), {"name": "step", "args": np.zeros((2, 12))}),
        "gym.Worlds.uniform": (
            arm.uniform,
            {"worlds": np.arange(2), "low": -1.0, "high": np.ones(3), "shape": (3,)},
        ),
        "gym.Go1Velocity.configure": (partial(go1.configure, np.arange(2)), {"command": np.zeros((2, 3))}),
        "gym.World": (lambda **given: lived(gym.World(**given)), {"made": lambda n: gym.ArmReach(n), **single}),
        "gym.World.reset": (alone.reset, {"seed": 0, "options": {}}),
        "gym.World.step": (alone.step, {"action": np.zeros(3)}),
        **{f"gym.adapters.{name}": (adapter, {"envs": arm}) for name, adapter in ADAPTERS.items()},
    }
