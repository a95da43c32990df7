"""Exudyn's simulation of a mechanism, where it is installed: minimal coordinates, loops by joints between markers."""

from __future__ import annotations

import time

import numpy as np

from delassus.spatial.rotations import Array
from delassus_studies.mechanisms import GROUND, Mechanism, Y
from delassus_studies.peers import library

DAMPED = 0.95
"""Spectral radius of the generalised-α method, as in Exudyn's examples."""


def _frame(axis: Array) -> Array:
    """Rotation whose third axis is given."""
    other = np.eye(3)[int(np.argmin(np.abs(axis)))]
    x = np.cross(other, axis) / np.linalg.norm(np.cross(other, axis))
    return np.array([x, np.cross(axis, x), axis]).T


def simulated(
    mechanism: Mechanism, step: float, duration: float, outputs: int, point: tuple[str, Array]
) -> tuple[float, Array]:
    """Seconds of ``SolveDynamic``, and positions of a point of a body at equal times (outputs + 1, 3).

    Loops in a plane are closed by the two rows of a point that move; a ring of hinges, whose rows are dependent, by
    Exudyn's dense solver, which bears that.
    """
    exu, utilities = library("exudyn"), library("exudyn.utilities")
    system = exu.SystemContainer().AddSystem()
    bodies = mechanism.bodies
    number = {b.name: i for i, b in enumerate(bodies)} | {GROUND: -1}
    turned = {GROUND: np.eye(3)} | {b.name: _frame(b.axis) for b in bodies}
    places = {GROUND: np.zeros(3)} | {b.name: b.at for b in bodies}
    tree, (_, v, tau) = mechanism.tree, mechanism.start
    at = [tree.joint_names.index(b.name) for b in bodies]
    kinds, matrices, offsets = exu.JointType, exu.Matrix3DList(), exu.Vector3DList()
    centres, inertias = exu.Vector3DList(), exu.Matrix3DList()
    for b in bodies:
        R = turned[b.name]
        matrices.Append(turned[b.parent].T @ R)
        offsets.Append(turned[b.parent].T @ (b.at - places[b.parent]))
        centres.Append(R.T @ (b.com - b.at))
        inertias.Append(R.T @ b.inertia @ R)
    stiff = np.array([b.stiffness for b in bodies])
    node = system.AddNode(utilities.NodeGenericODE2(
        referenceCoordinates=[0.0] * len(bodies), initialCoordinates=[0.0] * len(bodies),
        initialCoordinates_t=list(v[at]), numberOfODE2Coordinates=len(bodies)))  # fmt: skip
    springs = {"jointPControlVector": list(stiff), "jointDControlVector": list(0 * stiff),
               "jointPositionOffsetVector": [b.rest for b in bodies],
               "jointVelocityOffsetVector": list(0 * stiff)} if stiff.any() else {}  # fmt: skip
    made = system.AddObject(utilities.ObjectKinematicTree(
        nodeNumber=node, jointTypes=[kinds.PrismaticZ if b.slides else kinds.RevoluteZ for b in bodies],
        linkParents=[number[b.parent] for b in bodies], jointTransformations=matrices, jointOffsets=offsets,
        linkInertiasCOM=inertias, linkCOMs=centres, linkMasses=[b.mass for b in bodies],
        gravity=[0, 0, -mechanism.gravity], jointForceVector=list(tau[at]), **springs))  # fmt: skip
    ground = system.AddObject(utilities.ObjectGround())

    def marker(body: str, place: Array) -> int:
        if body == GROUND:
            return int(system.AddMarker(utilities.MarkerBodyRigid(bodyNumber=ground, localPosition=list(place))))
        local = list(turned[body].T @ (place - places[body]))
        return int(system.AddMarker(utilities.MarkerKinematicTreeRigid(
            objectNumber=made, linkNumber=number[body], localPosition=local)))  # fmt: skip

    planar = all(abs(b.axis @ Y) > 1 - 1e-12 for b in bodies if not b.slides)
    for c in mechanism.closures:
        ends = [marker(c.first, c.at), marker(c.second, c.at)]
        if c.axis is None and planar:
            system.AddObject(utilities.GenericJoint(markerNumbers=ends, constrainedAxes=[1, 1, 0, 0, 0, 0]))
        elif c.axis is None:
            system.AddObject(utilities.SphericalJoint(markerNumbers=ends, constrainedAxes=[1, 1, 1]))
        else:
            system.AddObject(
                utilities.GenericJoint(
                    markerNumbers=ends,
                    constrainedAxes=[1, 1, 1, 1, 1, 0],
                    rotationMarker0=turned[c.first].T @ _frame(c.axis),
                    rotationMarker1=turned[c.second].T @ _frame(c.axis),
                )
            )
    for one, p, other, r, k, d, length in mechanism.springs:
        ends = [marker(one, p), marker(other, r)]
        system.AddObject(utilities.SpringDamper(markerNumbers=ends, stiffness=k, damping=d, referenceLength=length))
    name, place = point
    sensor = system.AddSensor(utilities.SensorKinematicTree(
        objectNumber=made, linkNumber=number[name], localPosition=list(turned[name].T @ (place - places[name])),
        storeInternal=True, outputVariableType=exu.OutputVariableType.Position))  # fmt: skip
    system.Assemble()
    settings = exu.SimulationSettings()
    integration = settings.timeIntegration
    integration.numberOfSteps, integration.endTime, integration.verboseMode = round(duration / step), duration, 0
    integration.generalizedAlpha.spectralRadius = DAMPED
    integration.newton.useModifiedNewton = True
    settings.solutionSettings.writeSolutionToFile = False
    settings.solutionSettings.sensorsWritePeriod = duration / outputs
    settings.linearSolverType = exu.LinearSolverType.EigenDense
    settings.linearSolverSettings.ignoreSingularJacobian = any(c.axis is not None for c in mechanism.closures)
    start = time.thread_time()
    system.SolveDynamic(settings)
    seconds = time.thread_time() - start
    found = system.GetSensorStoredData(sensor)
    return seconds, np.array(
        [found[np.argmin(np.abs(found[:, 0] - t)), 1:4] for t in np.linspace(0, duration, outputs + 1)]
    )
