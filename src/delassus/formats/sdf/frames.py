"""Models of an SDF file, one inside the other, and the frames of all: their poses, and what each is attached to.

Names are those of the outermost scope, ``model::link`` within others. Poses of SDF 1.7 and later say to which frame
they are relative (``relative_to``, before 1.7 ``frame``); by default links, frames and models are relative to the model
that they are in, joints to their child.

Source: SDFormat's proposals "Pose Frame Semantics" (for 1.7 and 1.8) and "Model Composition".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from delassus.errors import ModelError, shown, unknown_name
from delassus.formats.urdf.read import SHORTEST_QUATERNION
from delassus.model.check import decimal_numbers
from delassus.model.description import LARGEST
from delassus.spatial.rotations import Array, exact_quarter_turns, quaternion_to_matrix, rotation_from_rpy

WORLD, OWN = "world", "__model__"
"""Names of the world's frame, and of that of the model in which they are used."""

UNIQUE, OF_JOINT = (1, 7), " (joint)"
"""Version from which on links, frames and joints have different names; what names of joints' frames end with before."""

Pose = tuple[Array, Array]
"""Rotation (3, 3) and position (3,)."""

STILL: Pose = (np.eye(3), np.zeros(3))


class Model(NamedTuple):
    """A model, or the world: its element, what stands before names in it, its own frame, and the scope that it is in.

    ``path`` is the file that it is in, ``version`` that of its SDF, (major, minor); ``is_static``: it, or a model
    around it, is part of the world. The world is in no scope.
    """

    element: Element
    prefix: str
    key: str
    around: Model | None
    path: Path
    version: tuple[int, int]
    is_static: bool = False

    @property
    def what(self) -> str:
        """What messages call it."""
        name = self.element.get("name") if self.key == OWN else self.key
        return "the world" if self.around is None else f"model {name!r}"

    def children(self, *tags: str) -> Iterator[tuple[Element, str]]:
        """Elements of the model with these tags, and their whole names."""
        for element in self.element:
            if element.tag in tags:
                yield element, self.prefix + name_of(element, self.what)


class _Frame(NamedTuple):
    """A frame: the one that its pose is relative to, the pose, and the frame that it moves with ("": it is a link)."""

    base: str
    pose: Pose
    on: str


def name_of(element: Element, where: str) -> str:
    """Name of an element; every one has one."""
    name = element.get("name", "")
    if not name:
        raise ModelError(where, f"a name on every <{element.tag}>", "one without", "Name it.")
    return name


def text_of(element: Element, tag: str, default: str = "") -> str:
    """Text of a child element without white space around it, the default where there is none."""
    found = element.find(tag)
    return default if found is None else (found.text or "").strip() or default


def numbers_of(element: Element, tag: str, what: str, *default: float) -> tuple[float, ...]:
    """Numbers in a child element, as many as the default has; the default where there is no such element."""
    text = text_of(element, tag)
    numbers = finite_numbers(text) if text else default
    if numbers is None or len(numbers) != len(default):
        raise ModelError(f"{what}, <{tag}>", f"{len(default)} finite number(s)", shown(text), "Correct the text.")
    return numbers


def finite_numbers(text: str) -> tuple[float, ...] | None:
    """Numbers of a text, None where one is not finite or is beyond `LARGEST`."""
    numbers = decimal_numbers(text)
    return None if numbers is None or max(map(abs, numbers), default=0.0) >= LARGEST else numbers


def flag_of(element: Element, tag: str, what: str, default: bool = False) -> bool:
    """Whether a child element says ``true`` or ``1``."""
    text = text_of(element, tag, "true" if default else "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise ModelError(f"{what}, <{tag}>", "true or false", shown(text), "Correct the text.")
    return text in ("true", "1")


def read_pose(element: Element, what: str) -> Pose:
    """Pose of an element, the identity where it has none: position, and roll, pitch and yaw or a quaternion x y z w."""
    found = element.find("pose")
    text = "" if found is None else (found.text or "").strip()
    if found is None or not text:
        return STILL
    form = found.get("rotation_format", "euler_rpy")
    if form not in ("euler_rpy", "quat_xyzw"):
        raise ModelError(f"{what}, rotation_format", "euler_rpy or quat_xyzw", shown(form), "Correct it.")
    numbers, size = finite_numbers(text), 6 if form == "euler_rpy" else 7
    if numbers is None or len(numbers) != size:
        raise ModelError(f"{what}, <pose>", f"{size} finite numbers", shown(text), "Correct the text.")
    position, turn = np.array(numbers[:3]), np.array(numbers[3:])
    if form == "euler_rpy":
        turn = np.deg2rad(turn) if found.get("degrees", "false").lower() in ("true", "1") else turn
        return exact_quarter_turns(rotation_from_rpy(tuple(turn.tolist()))), position
    length = float(np.linalg.norm(turn))
    if not length > SHORTEST_QUATERNION:
        raise ModelError(f"{what}, quaternion of <pose>", "a rotation", shown(text), "No rotation is 0 0 0 1.")
    return exact_quarter_turns(quaternion_to_matrix(turn / length)), position


def relative_to(element: Element) -> str:
    """Name of the frame that the pose of an element is relative to, "" for the default."""
    found = element.find("pose")
    return "" if found is None else found.get("relative_to") or found.get("frame") or ""


def times(a: Pose, b: Pose) -> Pose:
    """Pose of a frame whose pose in another is ``b``, which has the pose ``a``."""
    return exact_quarter_turns(a[0] @ b[0]), a[0] @ b[1] + a[1]


def inverse(a: Pose) -> Pose:
    """Pose of the frame in which a pose is given, in the frame that has it."""
    return a[0].T, -a[0].T @ a[1]


class Frames:
    """Frames of all models of a file, by their whole names; each model comes after the one around it."""

    def __init__(self, models: list[Model]) -> None:
        self._table = {WORLD: _Frame("", STILL, "")}
        self._poses: dict[str, Pose] = {WORLD: STILL}
        self._links = dict[str, str]()
        for model in models[1:]:
            self._add(model.key, _Frame(relative_to(model.element), read_pose(model.element, model.what), ""), model)
        for model in models:
            for element, key in self._parts(model):
                on = text_of(element, "child") if element.tag == "joint" else element.get("attached_to", "")
                pose = read_pose(element, f"{element.tag} {key!r}")
                self._add(key, _Frame(relative_to(element) or on, pose, on), model)
        for model in models:
            self._find(model, models)
        for model in reversed(models[1:]):
            if model.element.get("placement_frame"):
                self._place(model)

    @staticmethod
    def of_joint(key: str, model: Model) -> str:
        """Whole name of the frame of a joint; before SDF 1.7 a joint and a link may have one name, that of the link."""
        return key if model.version >= UNIQUE else f"{key}{OF_JOINT}"

    def _parts(self, model: Model) -> Iterator[tuple[Element, str]]:
        """Elements of a model that have frames, and the whole names of these."""
        for element, key in model.children("link", "frame", "joint"):
            yield element, self.of_joint(key, model) if element.tag == "joint" else key

    def key(self, name: str, model: Model, what: str) -> str:
        """Whole name of the frame that is called ``name`` in a model."""
        if name in ("", OWN):
            return model.key
        found = name if name == WORLD else model.prefix + name
        if found not in self._table:
            inside = [x.removeprefix(model.prefix) for x in self._table if x.startswith(model.prefix)]
            raise unknown_name(f"{what}, frame", name, inside)
        return found

    def pose(self, name: str) -> Pose:
        """Pose of a frame in the world, where all joints are at zero."""
        chain = dict[str, None]()
        while name not in self._poses:
            if name in chain:
                raise _circle("poses", name)
            chain[name], name = None, self._table[name].base
        pose = self._poses[name]
        for key in reversed(chain):
            pose = self._poses[key] = times(pose, self._table[key].pose)
        return pose

    def within(self, name: str, other: str) -> Pose:
        """Pose of a frame in another, where all joints are at zero."""
        return times(inverse(self.pose(other)), self.pose(name))

    def link(self, name: str) -> str:
        """The link that a frame moves with, or the world."""
        chain = dict[str, None]()
        while name not in self._links and (on := self._table[name].on):
            if name in chain:
                raise _circle("attached frames", name)
            chain[name], name = None, on
        found = self._links.get(name, name)
        self._links |= dict.fromkeys(chain, found)
        return found

    def _add(self, key: str, frame: _Frame, model: Model) -> None:
        if key in self._table:
            raise ModelError(model.what, "names that are unique", f"{key!r} twice", "Rename one of them.")
        self._table[key] = frame

    def _find(self, model: Model, models: list[Model]) -> None:
        """Put whole names in the place of those that elements of a model say, and what moves the model itself."""
        for element, key in self._parts(model):
            frame, what = self._table[key], f"{element.tag} {key!r}"
            on = "" if element.tag == "link" else self.key(frame.on, model, what)
            self._table[key] = frame._replace(base=self.key(frame.base, model, what), on=on)
        if model.around is None:
            return
        own = model.element.get("canonical_link") or next(
            (x.get("name", "") for x in model.element if x.tag == "link"), ""
        )
        inner = next((x.key for x in models if x.around is model), WORLD)
        on = self.key(own, model, f"{model.what}, canonical_link") if own else inner
        base = self.key(self._table[model.key].base, model.around, model.what)
        self._table[model.key] = self._table[model.key]._replace(base=base, on=WORLD if model.is_static else on)

    def _place(self, model: Model) -> None:
        """Move a model so that its placement frame has the pose that is given for it."""
        what = f"{model.what}, placement_frame"
        name, own = self.key(model.element.get("placement_frame", ""), model, what), STILL
        seen = set[str]()
        while name != model.key:
            if name in seen:
                raise _circle("poses", name)
            seen.add(name)
            if name == WORLD:
                raise ModelError(what, "a frame that is placed in the model", "one of the world", "Name another.")
            frame = self._table[name]
            own, name = times(frame.pose, own), frame.base
        frame = self._table[model.key]
        self._table[model.key] = frame._replace(pose=times(frame.pose, inverse(own)))


def pose_in_link(element: Element, link: str, model: Model, frames: Frames, what: str) -> Pose:
    """Pose of a collision or visual in the frame of its link."""
    base, pose = relative_to(element), read_pose(element, what)
    return times(frames.within(frames.key(base, model, what), link), pose) if base else pose


def _circle(what: str, name: str) -> ModelError:
    return ModelError(f"frame {name!r}", f"{what} that begin at the world", "a circle", "Correct relative_to.")
