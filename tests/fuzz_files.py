"""Robot descriptions mutated at random: each gives a tree of finite numbers or a `DelassusError`, in bounded time.

Run it for as long as you like; a file that breaks the rule is kept in the folder, and ends the run with status 1:

    python -m tests.fuzz_files --seconds 600 --seed 7 --folder /tmp/fuzz
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import delassus as ds
from delassus.contact import load_colliders, load_ignored

SLOWEST = 60
"""Seconds that a file may take: far more than any does, on any machine."""

INERTIAL = (
    '<inertial><origin xyz="0 0 0.1" rpy="0.1 0 0"/><mass value="2"/>'
    '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>'
)
SHAPE = '<collision name="c"><origin xyz="0 0 0.1"/><geometry>{}</geometry></collision>'
URDF = (
    '<?xml version="1.0"?><robot name="r" version="1.1">'
    + f'<link name="a">{INERTIAL}'
    + SHAPE.format('<box size="1 2 3"/>')
    + "</link>"
    + f'<link name="b">{INERTIAL}'
    + SHAPE.format('<sphere radius="0.1"/>')
    + "</link>"
    + f'<link name="c">{INERTIAL}'
    + SHAPE.format('<mesh filename="part.obj" scale="1 1 2"/>')
    + "</link>"
    + f'<link name="d">{INERTIAL}</link><link name="e">{INERTIAL}</link><link name="tool"/>'
    + '<joint name="j" type="revolute"><parent link="a"/><child link="b"/><origin xyz="1 2 3" rpy="0 1 0"/>'
    + '<axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/><dynamics damping="1"/></joint>'
    + '<joint name="k" type="continuous"><parent link="b"/><child link="c"/><axis xyz="0.6 0 0.8"/></joint>'
    + '<joint name="m" type="prismatic"><parent link="b"/><child link="d"/><limit lower="0" upper="1"/></joint>'
    + '<joint name="n" type="planar"><parent link="d"/><child link="e"/></joint>'
    + '<joint name="t" type="fixed"><parent link="e"/><child link="tool"/><origin quat_xyzw="0 0 3 4"/></joint>'
    + '<transmission name="u"><type>SimpleTransmission</type><joint name="j"/><actuator name="w">'
    + '<drake:rotor_inertia value="0.1"/><drake:gear_ratio value="9"/></actuator></transmission>'
    + '<drake:joint name="v" type="ball"><parent link="c"/><child link="d"/></drake:joint></robot>'
)
MJCF = """<mujoco model="m"><compiler angle="radian" meshdir="."/><option timestep="0.01" gravity="0 0 -9"/>
<size nuser_body="1" nkey="2"/><default><joint armature="0.1"/><geom density="1000"/></default>
<asset><mesh name="p" file="part.obj"/><mesh name="q" builtin="sphere" params="1"/><model name="o" file="other.xml"/>
<texture name="t" type="2d" builtin="flat" width="8" height="8"/><material name="w" texture="t"/>
<hfield name="h" nrow="2" ncol="2" size="1 1 1 1" elevation="0 0 0 1"/></asset>
<worldbody><geom type="plane" size="1 1 1"/><include file="included.xml"/>
<body name="a" pos="0 0 1" euler="0 0.1 0"><freejoint/><geom name="g" size="0.1"/><site name="s"/>
<body name="b" pos="1 0 0"><joint name="j" axis="0 1 0" range="-1 1" damping="1"/>
<geom type="capsule" size="0.1 0.2"/>
<body name="c"><joint type="ball" stiffness="1"/><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/></body>
<attach model="o" body="x" prefix="o_"/></body></body>
<body name="d" mocap="true"/><body name="e" pos="2 0 0"><joint type="slide" axis="1 0 1" name="k"/><joint name="l"/>
<geom type="mesh" mesh="p"/></body>
<replicate count="2" offset="0 1 0"><body><joint/><geom type="box" size="0.1 0.2 0.3"/></body></replicate>
<flexcomp name="f" type="grid" dim="1" count="3 1 1" spacing="0.1 0.1 0.1" mass="1" radius="0.01"/></worldbody>
<contact><exclude body1="a" body2="e"/></contact><equality><weld body1="a" body2="e"/></equality>
<tendon><fixed name="u"><joint joint="j" coef="1"/></fixed></tendon>
<actuator><motor joint="j" gear="2"/><muscle joint="k"/><position tendon="u"/></actuator>
<sensor><jointpos joint="j"/><touch site="s"/></sensor><custom><numeric name="z" size="2" data="1"/></custom>
<keyframe><key name="y" time="1"/></keyframe></mujoco>"""
SDF_INERTIAL = (
    "<inertial><mass>2</mass><pose>0 0 0.1 0 0 0</pose><inertia><ixx>0.1</ixx><ixy>0</ixy></inertia></inertial>"
)


def _drake(element: str, **parts: str) -> str:
    return "".join(f"<drake:{element}_{tag}>{text}</drake:{element}_{tag}>" for tag, text in parts.items())


SDF = (
    '<sdf version="1.9" xmlns:drake="d"><world name="w"><gravity>0 0 -9</gravity>'
    + '<frame name="f"><pose>1 0 0 0 0 0</pose></frame>'
    + '<include><uri>part.sdf</uri><name>o</name><pose relative_to="f">0 0 1 0 0 0</pose></include>'
    + '<model name="m" canonical_link="b" placement_frame="t"><pose degrees="true">0 0 1 0 90 0</pose>'
    + f'<self_collide>true</self_collide><link name="a">{SDF_INERTIAL}<collision name="c"><pose>0 0 0.1 0 0 0</pose>'
    + '<geometry><box><size>1 2 3</size></box></geometry></collision></link><link name="b"><pose relative_to="j">'
    + f"0 0 1 0 0 0</pose><gravity>false</gravity>{SDF_INERTIAL}"
    + '<collision name="c"><geometry><mesh><uri>part.obj</uri><scale>1 1 2</scale></mesh></geometry><surface><friction>'
    + '<ode><mu>0.7</mu></ode></friction></surface></collision></link><link name="c"/><link name="d"/><link name="e"/>'
    + '<frame name="t" attached_to="b"><pose rotation_format="quat_xyzw">0 0 1 0 0 3 4</pose></frame>'
    + '<joint name="j" type="revolute"><parent>a</parent><child>b</child><pose relative_to="a">0 0 1 0 0 0</pose>'
    + '<axis><xyz expressed_in="__model__">0 1 0</xyz><limit><lower>-1</lower><upper>1</upper></limit>'
    + "<dynamics><damping>1</damping><spring_stiffness>2</spring_stiffness></dynamics></axis></joint>"
    + '<joint name="k" type="universal"><parent>b</parent><child>c</child><axis/><axis2><xyz>1 0 0</xyz>'
    + '<mimic joint="j" axis="axis"><multiplier>2</multiplier></mimic></axis2></joint><joint name="l" type="screw">'
    + "<parent>c</parent><child>d</child><axis/><thread_pitch>5</thread_pitch></joint>"
    + '<joint name="n" type="ball"><parent>a</parent><child>d</child></joint><joint name="p" type="gearbox">'
    + "<parent>b</parent><child>c</child><axis/><axis2/><gearbox_ratio>3</gearbox_ratio>"
    + "<gearbox_reference_body>a</gearbox_reference_body></joint>"
    + '<link name="h"><inertial auto="true"><density>2</density></inertial><collision name="c"><density>3</density>'
    + "<geometry><cone><radius>1</radius><length>2</length></cone></geometry><surface><friction><torsional>"
    + "<patch_radius>1</patch_radius></torsional></friction></surface></collision>"
    + "<collision name='d'><geometry><polyline><height>1</height><point>0 0</point><point>1 0</point>"
    + "<point>0 1</point></polyline></geometry></collision>"
    + "<visual name='v'><geometry><plane><size>1 2</size></plane></geometry><material>"
    + "<diffuse>1 0.5 0</diffuse><script><name>Gazebo/Red</name></script></material>"
    + "<transparency>0.5</transparency></visual></link>"
    + "<drake:joint name='q' type='planar'><drake:parent>f</drake:parent><drake:child>h</drake:child><drake:damping>"
    + "1 1 2</drake:damping></drake:joint><frame name='f' attached_to='a'><pose>1 2 3 1 2 3</pose></frame>"
    + "<drake:linear_spring_damper>"
    + _drake("linear_spring_damper", body_A="a", body_B="h", p_AP="0 0 1", free_length="1", stiffness="2", damping="3")
    + "</drake:linear_spring_damper><drake:linear_bushing_rpy>"
    + _drake("bushing", frameA="a", frameC="b", force_stiffness="1 2 3", torque_damping="1 2 3")
    + "</drake:linear_bushing_rpy><drake:ball_constraint>"
    + _drake("ball_constraint", body_A="a", body_B="d")
    + "</drake:ball_constraint><drake:collision_filter_group name='o'><drake:member>a</drake:member>"
    + "<drake:member_group>o</drake:member_group><drake:ignored_collision_filter_group>o"
    + "</drake:ignored_collision_filter_group></drake:collision_filter_group></model>"
    + '<model name="g"><static>1</static><link name="a"><collision name="c"><geometry><plane><normal>0 0 1</normal>'
    + "</plane></geometry></collision></link></model></world></sdf>"
)
USD = """#usda 1.0
(
 defaultPrim = "w"
 metersPerUnit = 0.01
 upAxis = "Y"
)
def Xform "w" (
 prepend apiSchemas = ["PhysicsArticulationRootAPI"]
) {
 def PhysicsScene "s" {
  float physics:gravityMagnitude = 981
 }
 def Xform "a" (
  prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]
 ) {
  float physics:mass = 2
  float3 physics:diagonalInertia = (1, 2, 2.5)
  quatf physics:principalAxes = (1, 0, 0, 0)
  vector3f physics:velocity = (1, 0, 0)
  double3 xformOp:translate = (0, 1, 2)
  float3 xformOp:scale = (1, 1, 2)
  uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]
  def Mesh "m" (
   prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"]
  ) {
   point3f[] points = [(0,0,0), (1,0,0), (0,1,0), (0,0,1)]
   int[] faceVertexCounts = [3, 3, 3, 3]
   int[] faceVertexIndices = [0,2,1, 0,1,3, 0,3,2, 1,2,3]
   uniform token physics:approximation = "convexHull"
  }
 }
 def Cube "b" (
  prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsFilteredPairsAPI"]
 ) {
  double size = 2
  rel physics:filteredPairs = </w/c>
 }
 def Xform "c" (
  instanceable = true
  references = @part.usda@
 ) {
 }
 def PhysicsRevoluteJoint "j" (
  prepend apiSchemas = ["PhysicsDriveAPI:angular", "NewtonMimicAPI"]
 ) {
  rel physics:body0 = </w/a>
  rel physics:body1 = </w/b>
  point3f physics:localPos1 = (0, 1, 0)
  quatf physics:localRot0 = (0.5, 0.5, 0.5, 0.5)
  uniform token physics:axis = "Z"
  float physics:lowerLimit = -90
  float drive:angular:physics:stiffness = 10
  rel newton:mimicJoint = </w/k>
 }
 def PhysicsJoint "k" (
  prepend apiSchemas = ["PhysicsLimitAPI:transX", "PhysicsLimitAPI:rotY"]
 ) {
  rel physics:body0 = </w/b>
  rel physics:body1 = </w/c/o>
  float limit:transX:physics:low = 1
  float limit:transX:physics:high = -1
 }
 def PhysicsSphericalJoint "l" {
  rel physics:body1 = </w/c/o>
 }
}
"""
OTHERS = {
    "part.usda": '#usda 1.0\n(\n defaultPrim = "c"\n)\ndef Xform "c" {\n def Sphere "o" (\n  prepend apiSchemas = '
    '["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]\n ) {\n }\n}\n',
    "part.sdf": f'<sdf version="1.6"><model name="o"><link name="a">{SDF_INERTIAL}</link></model></sdf>',
    "included.xml": '<mujoco><body name="i"><joint/><geom size="0.1"/></body></mujoco>',
    "other.xml": '<mujoco><worldbody><body name="x"><joint/><geom size="0.1"/></body></worldbody></mujoco>',
    "part.obj": "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n",
}
FRAGMENTS = (
    "nan", "inf", "-inf", "1e308", "1e29", "-1e-5", "1e-320", "-1", "0", "-0", "", " ", "0 0 0", "1 2 3 4", "1e9 1e9",
    "nan nan nan", "2000000000", "65536", "1_0", "٣", "0x10", "a", "b", "c", "o", "é", "world", "\u202e", "&#x9b;",
    "&amp;", "[/]", "%s", "{0}", "x" * 300, "planar", "floating", "fixed", "prismatic", "continuous", "ball", "free",
    "hinge", "mesh", "hfield", "true", "case.xml", "other.xml", "included.xml", "part.obj", "..", "/dev/zero", "/",
    "nowhere/../case.xml", "package://r/part.obj", "1.0", "1.2", "world", "--", "&", "<",
)  # fmt: skip
VALUE, EMPTY, TAG = (
    re.compile(r'"[^"]*"|>[^<>]+<|=[^\n"=]+\n'),
    re.compile(r"<[a-z]+[^>]*/>"),
    re.compile(r"(?<=<)[a-z]+|(?<=</)[a-z]+"),
)


def mutated(rng: random.Random, text: str) -> bytes:
    """A description with one to four changes of its values, elements, names or bytes."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        kind = rng.random()
        if kind < 0.6 and (old := _any(rng, VALUE, text)):
            first, inside, last = old.group()[0], old.group()[1:-1], old.group()[-1]
            text = f"{text[: old.start()]}{first}{_value(rng, inside)}{last}{text[old.end() :]}"
        elif kind < 0.85 and (old := _any(rng, EMPTY, text)) and (new := _any(rng, EMPTY, text)):
            change = rng.choice(
                [
                    new.group(),
                    "",
                    2 * old.group(),
                    f"{old.group()[:-2]}>{new.group()}</{re.split(r'[ />]', old.group()[1:])[0]}>",
                ]
            )
            text = text[: old.start()] + change + text[old.end() :]
        elif kind < 0.91 and (old := _any(rng, TAG, text)) and (new := _any(rng, TAG, text)):
            text = re.sub(rf"(?<=[</]){old.group()}\b", new.group(), text, count=rng.choice([0, 2]))
        elif kind < 0.96:
            start, length = rng.randrange(len(text)), rng.choice([1, 5, 50, 500])
            text = text[:start] + rng.choice(["", text[start : start + length] * 2]) + text[start + length :]
        else:
            data = bytearray(text.encode(errors="replace"))
            for _ in range(rng.choice([1, 3, 30])):
                data[rng.randrange(len(data))] = rng.randrange(256)
            return bytes(data[: rng.choice([None, rng.randrange(len(data))])])
    return text.encode(errors="replace")


def _any(rng: random.Random, pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return rng.choice(found) if found else None


def _value(rng: random.Random, old: str) -> str:
    words = old.split()
    if rng.random() < 0.5 or not words:
        return rng.choice(FRAGMENTS)
    words[rng.randrange(len(words))] = rng.choice(
        [*FRAGMENTS, f"{rng.gauss(0, 1):.17g}", f"{10 ** rng.uniform(-9, 9)}"]
    )
    return " ".join(words)


def check(path: Path, root: str) -> str:
    """Load a file, with its colliders: "loaded", or "refused"; raises what breaks the rule."""
    outcome = "loaded"
    try:
        tree = ds.load(path, root=root)
        numbers = [tree.inertias, tree.random(0), tree.neutral()]
        numbers += [x for j in tree.joints for x in (j.rotation, j.position, j.armature, j.damping)]
        numbers += [x for frame in tree.frames.values() for x in (frame.rotation, frame.position)]
        assert all(np.isfinite(x).all() for x in numbers), "numbers that are not finite"
        assert not any(np.isnan(x).any() for j in tree.joints for x in (j.lower, j.upper)), "limits that are none"
        if 0 < tree.nv < 50:
            assert np.isfinite(ds.mass_matrix(tree, tree.random(1))).all(), "a mass matrix that is not finite"
    except ds.DelassusError as error:
        str(error).encode()
        return "refused"
    for read in (
        lambda: load_colliders(path, tree),
        lambda: load_colliders(path, tree, visual=True),
        lambda: load_ignored(path),
    ):
        try:
            read()
        except ds.DelassusError:
            outcome = "loaded without shapes"
    return outcome


def run(folder: Path, seed: int, count: int, seconds: float) -> Counter[str]:
    """Check mutated files until there were so many or it took so long; counts of what came of them."""
    for name, text in OTHERS.items():
        (folder / name).write_text(text)
    outcomes: Counter[str] = Counter()
    end, rng = time.monotonic() + seconds, random.Random(seed)
    while sum(outcomes.values()) < count and time.monotonic() < end:
        suffix, text = rng.choice([(".urdf", URDF), (".xml", MJCF), (".sdf", SDF), (".usda", USD)])
        path = folder / f"case{suffix}"
        path.write_bytes(mutated(rng, text))
        faulthandler.dump_traceback_later(SLOWEST, exit=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)
            try:
                outcomes[suffix[1:] + " " + check(path, rng.choice(["fixed", "floating"]))] += 1
            except Exception:
                kept = path.with_name(f"broken-{seed}-{sum(outcomes.values())}{suffix}")
                kept.write_bytes(path.read_bytes())
                traceback.print_exc()
                print("kept", kept, flush=True)
                outcomes["broken"] += 1
        faulthandler.cancel_dump_traceback_later()
    return outcomes


def main() -> None:
    """Parse the options, run, and print what came of the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=sys.maxsize)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = run(folder, options.seed, options.count, options.seconds)
    print(*(f"{name}: {number}" for name, number in sorted(outcomes.items())), sep=", ")
    sys.exit(bool(outcomes["broken"]))


if __name__ == "__main__":
    faulthandler.enable()
    main()
