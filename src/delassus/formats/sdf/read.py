"""SDF files → `Tree`. Meshes, visuals, collisions and sensors are not read.

All is as SDFormat says: a model moves freely unless a joint or ``<static>`` holds it, a link without ``<inertial>`` has
a mass of 1 kg and moments of 1 kg·m², and axes are those of the joint's frame (before 1.5 of the model's).
A joint whose child another one carries already closes a loop, and becomes a constraint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from delassus.formats.features import FROM_SDF, omitted
from delassus.formats.sdf.constraints import FORCES, constraints_of
from delassus.formats.sdf.frames import OWN, WORLD, Frames, Model, finite_numbers, flag_of, numbers_of, text_of
from delassus.formats.sdf.inertial import link_of
from delassus.formats.sdf.joints import JOINTS, JointElement, carriers_of, raw_joints, read_joint
from delassus.formats.sdf.models import models_of
from delassus.model.description import FIXED, Check, RawJoint, RawLink, Root, unique_name
from delassus.model.edit.build import build_tree
from delassus.model.keyframe import Keyframe
from delassus.model.tree import Tree
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.rotations import matrix_to_quaternion

FOREIGN, SOFT = ("actor", "fluid_added_mass", "gripper"), ("compliant", "soft")
"""Elements that change what a robot does and that a tree does not hold; and words of Drake for collisions that give."""

ONLY_REPORT = (
    "Physics", "UserCommands", "SceneBroadcaster", "Contact", "Sensors", "Imu", "ForceTorque", "JointStatePublisher",
    "PosePublisher",
)  # fmt: skip
"""Systems of Gazebo, ``gz::sim::systems::…``, that move nothing themselves."""

READ = (
    "drake:rotor_inertia",
    "drake:gear_ratio",
    "drake:mimic",
    "drake:joint",
    "drake:collision_filter_group",
    *FORCES,
)
"""Elements of Drake that are read."""


def tree_from_sdf(
    root: Element,
    path: Path,
    fallback_name: str,
    given: Root | None,
    check_inertia: Check,
    source: str,
    max_bytes: float,
) -> Tree:
    """Build the tree of a parsed ``<sdf>``; see `delassus.load`.

    ``given`` None: roots of models move freely unless a joint or ``<static>`` holds them, else all are as it says.
    """
    models = models_of(root, path, max_bytes)
    frames = Frames(models)
    elements = {key: (model, x) for model in models[1:] for x, key in model.children("link")}
    links = {key: link_of(x, key, model, frames, max_bytes) for key, (model, x) in elements.items()}
    still = {key for key, (model, _) in elements.items() if model.is_static}
    joints = [read_joint(model, x, key, frames) for model in models for x, key in model.children(*JOINTS)]
    carried, loops = carriers_of([joint for joint in joints if joint.child not in still], links)
    raw, extra = list(_roots(elements, carried, frames, still, given)), dict[str, RawLink]()
    starts = {joint.name: frames.pose(joint.child) for joint in raw if joint.kind is FREE}
    for joint in carried.values():
        raw += raw_joints(joint, frames, extra)
    used = {joint.name for joint in raw}
    for key, on in _named_frames(models, frames):
        R, p = frames.within(key, on)
        extra[key] = RawLink(key)
        raw.append(RawJoint(unique_name(f"{key}:fixed", used), FIXED, on, key, p, R))
    described = [RawLink(WORLD), *links.values(), *extra.values()]
    name = (models[1] if models[1].key == OWN else models[0]).element.get("name") or fallback_name
    tree = build_tree(name, described, raw, check_inertia=check_inertia, source=source)
    constraints, others = constraints_of(models, joints, loops, carried, frames, tree)
    weightless = {
        key: links[key] for key, (_, x) in elements.items() if not flag_of(x, "gravity", f"link {key!r}", True)
    }
    tree = replace(
        tree,
        constraints=tuple(constraints),
        omitted=omitted(FROM_SDF, tree, loops=others, **_foreign(models)),
        gravity=np.array(numbers_of(models[0].element, "gravity", "the world", *tree.gravity.tolist())),
        gravity_compensation={
            key: np.array([x.mass, *x.com]) for key, x in weightless.items() if tree.frames[key].link >= 0
        },
    )
    q = tree.neutral()
    for free, (R, p) in starts.items():
        q[tree.q_index(free)] = [*p, *matrix_to_quaternion(R)]
    return replace(tree, keyframes={} if np.array_equal(q, tree.neutral()) else {"qpos0": Keyframe(q)})


# -- links ---------------------------------------------------------------------------------------------------------


def _roots(
    elements: Mapping[str, tuple[Model, Element]],
    carried: Mapping[str, JointElement],
    frames: Frames,
    still: Collection[str],
    given: Root | None,
) -> Iterator[RawJoint]:
    """Joints between the world and links that no joint of the file carries."""
    used = {joint.name for joint in carried.values()} | {*elements}
    for key, (model, _) in elements.items():
        if key in carried:
            continue
        R, p = frames.pose(key)
        if key in still or given == "fixed":
            yield RawJoint(unique_name(f"{key}:fixed", used), FIXED, WORLD, key, p, R)
        else:
            is_own = frames.link(model.key) == key
            yield RawJoint(
                unique_name(f"{model.prefix}root_joint" if is_own else f"{key}:root_joint", used), FREE, WORLD, key
            )


def _named_frames(models: Sequence[Model], frames: Frames) -> Iterator[tuple[str, str]]:
    """Whole names of frames, of models in others and in a world, too, and the links that they move with."""
    for model in models:
        keys = [key for _, key in model.children("frame")]
        for key in keys if model.around is None or model.key == OWN else [model.key, *keys]:
            yield key, frames.link(key)


def _foreign(models: Sequence[Model]) -> dict[str, list[str]]:
    """What of a file a tree does not hold: sensors, and elements of other programs that change the motion."""
    found: dict[str, list[str]] = {"sensors": [], "foreign": [], "bushings": []}
    for model in models:
        for element in model.element:
            own = [element, *(element if element.tag in ("link", "joint") else ())]
            for part in own:
                name = f"{part.tag} {part.get('name')}" if part.get("name") else part.tag
                if part.tag == "sensor":
                    found["sensors"].append(model.prefix + part.get("name", ""))
                elif part.tag == "drake:linear_bushing_rpy":
                    found["bushings"].append(f"bushing of {model.what}")
                elif _is_foreign(part):
                    found["foreign"].append(name if part is element else f"{name} of {element.get('name')}")
    return found


def _is_foreign(part: Element) -> bool:
    """Whether an element changes the motion, or contacts, in a way that a tree does not hold."""
    match part.tag:
        case "plugin":
            return part.get("name", "").rpartition("::")[2] not in ONLY_REPORT
        case "kinematic" | "enable_wind":
            return (part.text or "").strip().lower() in ("true", "1")
        case "velocity_decay":
            return any(finite_numbers(text_of(part, x, "0")) != (0.0,) for x in ("linear", "angular"))
        case "collision":
            inside = part.find("drake:proximity_properties")
            return inside is not None and any(inside.find(f"drake:{x}_hydroelastic") is not None for x in SOFT)
    return part.tag in FOREIGN or (part.tag.startswith("drake:") and part.tag not in READ)
