"""MJCF, attribute by attribute: what MuJoCo's schema knows of options, joints, tendons and actuators acts or is listed.

The oracle is `mj_forward` at random states. Values are such that an attribute that can change accelerations does.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

import delassus as ds
from delassus.contact import load_colliders
from test_mujoco import accelerations_of, controls_of

mujoco = pytest.importorskip("mujoco")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.filterwarnings("ignore:.*not represented:delassus.DelassusWarning"),
]

ROUND_OFF = 1e-11
"""Accelerations, relative to the largest: links of like mass and size, condition of the mass matrix below 1e3."""

LINK = '<inertial pos=".1 -.05 .2" quat=".9 .1 .3 -.2" mass="2" diaginertia=".03 .02 .04"/>'


def arm(option="", flag="", body="", joint="", tendon="", actuator="general", given='joint="a"', actuators=True):
    """A hinge, a slide, a ball joint; two links whose weights are balanced; actuators of groups 0, 2 and 3."""
    acting = f"""<actuator><{actuator} name="x" {given}/><position name="y" joint="b" kp="3" kv="1" group="2"/>
        <motor name="z" tendon="t" gear="2" group="3"/></actuator>"""
    return f"""<mujoco><option {option}><flag {flag}/></option>
        <worldbody><site name="o" pos=".4 .3 .2"/><body name="A" gravcomp=".6"><joint name="a" axis="0 1 .3" {joint}/>
        {LINK}<body name="B" pos=".3 .1 0" {body}><joint name="b" axis="1 .2 0" type="slide" damping=".3" stiffness="2"
        springref=".1"/>{LINK}<body name="C" pos=".2 .1 .3" gravcomp=".8"><joint name="c" type="ball" damping=".2"
        stiffness="3"/>{LINK}<site name="s" pos=".1 .2 .3"/><site name="r" pos=".3 .1 .1"/></body></body></body>
        </worldbody><tendon><fixed name="t" {tendon}><joint joint="a" coef=".7"/><joint joint="b" coef="-.4"/></fixed>
        </tendon>{acting if actuators else ""}</mujoco>"""


def judged(text):
    """Accelerations (4, nv) of MuJoCo, the tree, and whether it has the same."""
    model = mujoco.MjModel.from_xml_string(text)
    tree = ds.load(model)
    rng = np.random.default_rng(7)
    q, v = tree.integrate(tree.neutral(), rng.normal(size=(4, tree.nv))), rng.normal(size=(4, tree.nv))
    controls = [controls_of(tree, model, rng) for _ in range(4)]
    theirs = np.array([accelerations_of(model, tree, *s, ctrl) for *s, (ctrl, _) in zip(q, v, controls, strict=True)])
    u = np.array([ours for _, ours in controls]) if tree.nu else np.zeros(v.shape)
    ours = ds.forward_dynamics(tree, q, v, u, (), control="actuators" if tree.nu else "tau").qdd
    return theirs, tree, bool(np.abs(ours - theirs).max() <= ROUND_OFF * np.abs(theirs).max())


# -- groups of actuators, and compensated weights ------------------------------------------------------------------


@pytest.mark.parametrize("by_actuators", ["", 'actuatorgravcomp="true"'])
@pytest.mark.parametrize(
    ("option", "off"),
    [
        ('actuatorgroupdisable="2"', {"y"}),
        ('actuatorgroupdisable="0 3"', {"x", "z"}),
        ('actuatorgroupdisable="0 2 3"', {"x", "y", "z"}),
        ('actuatorgroupdisable="5 30"', set()),
    ],
)
def test_groups_of_actuators_that_are_switched_off(option, off, by_actuators):
    theirs, tree, same = judged(arm(option=option, joint=by_actuators))
    assert same and set(tree.omitted.get("actuators that are switched off", ())) == off
    assert {actuator.name for actuator in tree.actuators} == {"x", "y", "z"} - off
    assert np.any(theirs != judged(arm())[0]) == bool(off)
    one = mujoco.MjModel.from_xml_string(arm(option='actuatorgroupdisable="2"'))
    one.actuator_group[:] = [2, 40, -2]  # no other group can be switched off
    assert [actuator.name for actuator in ds.load(one).actuators] == ["y", "z"]


@pytest.mark.parametrize("damper", ["enable", "disable"])
@pytest.mark.parametrize("spring", ["enable", "disable"])
@pytest.mark.parametrize("gravity", ["enable", "disable"])
@pytest.mark.parametrize("actuation", ["enable", "disable", "none"])
@pytest.mark.parametrize("by_actuators", ["", "ab", "abc"])
def test_compensated_weights(by_actuators, actuation, gravity, spring, damper):
    """Whoever balances weights: MuJoCo's passive forces, or its actuators where there are any."""
    flag = f'gravity="{gravity}" spring="{spring}" damper="{damper}" ' + (
        'actuation="disable"' if actuation == "disable" else ""
    )
    text = arm(flag=flag, actuators=actuation != "none")
    for name in by_actuators:
        text = text.replace(f'joint name="{name}"', f'joint name="{name}" actuatorgravcomp="true"')
    _, tree, same = judged(text)
    listed = tree.omitted.get("gravity compensation by actuators on some joints alone, of which no actuator acts", ())
    missing = actuation != "enable" and (spring, damper) != ("disable", "disable") and by_actuators == "ab"
    assert set(listed) == (set(by_actuators) if missing else set())
    assert same or (missing and gravity == "enable")


# -- every attribute of the schema ---------------------------------------------------------------------------------

NAMES = {"name", "class", "user"}

OPTION = {
    "actuatorgroupdisable": "2", "ccd_iterations": "9", "ccd_tolerance": ".1", "cone": "elliptic", "density": "9",
    "gravity": "1 2 -3", "impratio": "3", "integrator": "RK4", "iterations": "3", "jacobian": "dense",
    "ls_iterations": "3", "ls_tolerance": ".1", "magnetic": "1 2 3", "noslip_iterations": "2", "noslip_tolerance": ".1",
    "o_friction": "2 2 .1 .1 .1", "o_margin": ".1", "o_solimp": ".5 .6 .1", "o_solref": ".1 .5",
    "sdf_initpoints": "9", "sdf_iterations": "9", "sleep_tolerance": ".1", "solver": "CG", "timestep": ".01",
    "tolerance": ".1", "viscosity": "9", "wind": '9 9 9" density="9',
}  # fmt: skip

JOINT = {
    "actuatorfrclimited": 'true" actuatorfrcrange="-.5 .5', "actuatorfrcrange": "-.5 .2", "actuatorgravcomp": "true",
    "armature": ".3", "axis": None, "damping": ".4 .2", "frictionloss": ".4", "group": "2",
    "limited": 'true" range="-.1 .1', "margin": ".1", "pos": ".1 .2 .3", "range": "-.1 .1", "ref": "20",
    "solimpfriction": ".5 .6 .1", "solimplimit": ".5 .6 .1", "solreffriction": ".1 .5", "solreflimit": ".1 .5",
    "springdamper": ".5 .3", "springref": '20" stiffness="3', "springyield": '.1" stiffness="3', "stiffness": "3 2",
    "type": "slide",
}  # fmt: skip

TENDON = {
    "actuatorfrclimited": 'true" actuatorfrcrange="-.1 .1', "actuatorfrcrange": "-.1 .1", "armature": None,
    "damping": ".4", "frictionloss": ".4", "group": "2", "limited": 'true" range="-.1 .1', "margin": ".1",
    "range": "-.1 .1", "solimpfriction": ".5 .6 .1", "solimplimit": ".5 .6 .1", "solreffriction": ".1 .5",
    "solreflimit": ".1 .5", "springlength": '.1" stiffness="3', "springyield": '.1" stiffness="3', "stiffness": "3",
}  # fmt: skip

ACTUATOR = {
    "actdim": '1" dyntype="integrator', "actearly": 'true" dyntype="integrator',
    "actlimited": 'true" dyntype="integrator" actrange="-1 1', "actrange": '-1 1" dyntype="integrator',
    "armature": ".3", "biasprm": '1 -2 -3" biastype="affine', "biastype": 'affine" biasprm="1 2', "body": None,
    "cranklength": None, "cranksite": 's" slidersite="o" cranklength=".5', "ctrllimited": 'true" ctrlrange="0 .1',
    "ctrlrange": "0 .1", "damping": ".4", "dampratio": '1" kp="3', "delay": '.1" nsample="5',
    "dynprm": '1" dyntype="filter', "dyntype": "integrator", "ffrange": "-.1 .1",
    "forcelimited": 'true" forcerange="-.1 .1', "forcerange": "-.1 .1", "gainprm": "3",
    "gaintype": 'affine" gainprm="1 2 3', "gear": "3 2 1", "group": "2", "inheritrange": None, "input": None,
    "interp": None, "joint": "b", "jointinparent": "c", "kp": "7", "kv": "7", "lengthrange": "0 1", "nsample": "3",
    "refsite": 'o" site="s', "site": "s", "slidersite": None, "tendon": "t", "timeconst": '1" kp="3',
    "velrange": "-.1 .1",
}  # fmt: skip
"""Attributes without a value say how another one is meant, which is tried, or come with the one beside them."""

TRANSMISSIONS = {"cranksite", "joint", "jointinparent", "refsite", "site", "tendon"}

ACTUATORS = {
    "general": "", "motor": "", "position": 'kp="2"', "velocity": 'kv="2"', "damper": 'kv="2" ctrlrange="0 1"',
    "intvelocity": 'kp="2" actrange="-1 1"', "pid": 'kp="2" ki="1"', "cylinder": "", "muscle": 'lengthrange="0 1"',
    "dcmotor": 'motorconst=".1" resistance="1"',
}  # fmt: skip
"""Attributes that actuators on a hinge must have."""

FOLLOWING = ("intvelocity", "cylinder")
HELD = ("general", "motor", "position", "velocity", "damper")


@cache
def schema():
    """Attributes of each element of the sections of MuJoCo's schema that are asked for here."""
    out, section, element = {}, "", ""
    for line in mujoco.mj_printSchema(False, False).splitlines():
        found = re.match(r"( *)\(?(\w+)\)?(\w*) \(.\)(.*)", line)
        if found:
            indent, name, rest, line = found.groups()
            if len(indent) <= 3:
                section = name if not rest else "body"
            element = f"{section}/{name}" if len(indent) > 3 else section
        out.setdefault(element, set()).update(line.split())
    return out


SETTINGS = {
    "actdim", "dynprm", "dyntype",
    "actuatorgravcomp", "ccd_iterations", "ccd_tolerance", "cone", "ffrange", "group", "impratio", "integrator",
    "iterations", "jacobian", "lengthrange", "ls_iterations", "ls_tolerance", "magnetic", "margin", "noslip_iterations",
    "noslip_tolerance", "nsample", "o_friction", "o_margin", "o_solimp", "o_solref", "sdf_initpoints", "sdf_iterations",
    "sleep_tolerance", "solimpfriction", "solimplimit", "solreffriction", "solreflimit", "solver", "timestep",
    "tolerance", "velrange",
}  # fmt: skip
"""Attributes that change no acceleration of this arm in MuJoCo: of its solver, of contacts, of other actuators; the
compensation of weights by actuators, which are there. Activations are controls."""

ELEMENTS = {
    "option": (OPTION, lambda given: arm(option=given)),
    "body/joint": (JOINT, lambda given: arm(joint=given)),
    "tendon/fixed": (TENDON, lambda given: arm(tendon=given)),
    **{f"actuator/{kind}": (ACTUATOR, lambda given, kind=kind: acting(kind, given)) for kind in HELD},
}


def acting(kind, given=""):
    """An arm with an actuator of that kind: on the hinge, if nothing else is given."""
    needed = " ".join(x for x in re.findall(r'\w+="[^"]*"', ACTUATORS[kind]) if x.split("=")[0] + "=" not in given)
    on_joint = "" if given.split("=")[0] in TRANSMISSIONS else 'joint="a"'
    return arm(actuator=kind, given=f"{on_joint} {needed} {given}")


def listed(tree):
    return {name for names in tree.report.values() for name in names}


newest = pytest.mark.skipif(mujoco.__version__ < "4", reason="values are those of attributes of MuJoCo 4")


@newest
@pytest.mark.parametrize("element", ELEMENTS)
def test_every_attribute_acts_or_is_listed(element):
    values, text = ELEMENTS[element]
    assert schema()[element] - NAMES <= values.keys(), "give each new attribute a value"
    before, plain, same = judged(text(""))
    assert same and not listed(plain)
    moving, tried = set(), {name for name in schema()[element] - NAMES if values[name] is not None}
    for attribute in sorted(tried):
        theirs, tree, same = judged(text(f'{attribute}="{values[attribute]}"'))
        stops = any(isinstance(c, ds.Tendon) and c.band for c in tree.constraints)  # springs, and constraints there
        assert same or stops or listed(tree) & {"a", "x", "t", "z", "density", "viscosity"}, attribute
        if np.abs(theirs - before).max() > ROUND_OFF * np.abs(before).max():
            moving.add(attribute)
    assert moving == tried - SETTINGS


@newest
def test_every_flag_acts_or_is_listed():
    """Also limits, friction and contacts, which are not among accelerations here."""
    flags = [(f, value) for f in sorted(schema()["option/flag"] - {"ipc"}) for value in ("enable", "disable")]
    cut, moving = 'joint="a" ctrlrange="-.1 .1"', set()
    before = judged(arm(given=cut))[0]
    for flag, value in flags:
        given = f'{flag}="{value}"'
        theirs, _, same = judged(arm(flag=given, given=cut))
        assert same, given
        if np.abs(theirs - before).max() > ROUND_OFF * np.abs(before).max():
            moving.add(flag)
        held = 'range="-.1 .1" frictionloss="1"/><geom size=".1" mass="0"'
        model = mujoco.MjModel.from_xml_string(arm(flag=given, joint=held))
        tree = ds.load(model)
        off = flag if value == "disable" else ""
        assert np.isinf(tree.upper[0]) == (off in ("limit", "constraint")), given
        assert (tree.joints[0].friction[0] == 0) == (off in ("frictionloss", "constraint")), given
        assert (not load_colliders(model, tree)) == (off in ("contact", "constraint")), given
        assert (flag in listed(tree)) == (off == "filterparent" or given == 'override="enable"'), given
    assert moving == {"actuation", "clampctrl", "damper", "gravity", "spring"}


@newest
@pytest.mark.parametrize("kind", FOLLOWING)
def test_activations_that_follow_controls_are_controls(kind):
    """Accelerations at activations of those sizes, also within ranges; keyframes have them among controls."""
    key = '<keyframe><key name="k" ctrl="6 7 8" act=".5"/></keyframe></mujoco>'
    _, tree, same = judged(acting(kind).replace("</mujoco>", key))
    assert same and "x" in listed(tree) and tree.keyframes["k"].ctrl.tolist() == [0.5, 7.0, 8.0]
    assert "k" not in listed(tree)


@newest
@pytest.mark.parametrize("kind", [kind for kind in ACTUATORS if kind not in HELD + FOLLOWING])
def test_other_actuators_are_listed(kind):
    tree = judged(acting(kind))[1]
    assert "x" in listed(tree) and "x" not in {actuator.name for actuator in tree.actuators}
    n = mujoco.MjModel.from_xml_string(acting(kind)).nu  # the last two are held, others have several or none
    for own, is_listed in ((range(1, n - 1), n > 2), ([0] * (n - 2), False)):
        key = f'<keyframe><key name="k" ctrl="{" ".join(map(str, [*own, 7, 8]))}"/></keyframe></mujoco>'
        tree = ds.load(acting(kind).replace("</mujoco>", key))
        assert tree.keyframes["k"].ctrl.tolist() == [7, 8] and ("k" in listed(tree)) == is_listed


@newest
@pytest.mark.parametrize("given", ['surfacevel="0 0 0 1 0 0"', 'adhesion="2"'])
def test_surfaces_that_turn_or_adhere_are_listed(given):
    assert judged(arm(joint=f'/><geom name="g" size=".1" mass="0" {given}'))[1].omitted == {
        "surfaces of geoms that turn or adhere": ("g",)
    }


@newest
def test_every_actuator_is_tried():
    kinds = {name.removeprefix("actuator/") for name in schema() if name.startswith("actuator/")}
    assert kinds - {"config"} == ACTUATORS.keys() | {"adhesion", "orientation", "plugin"}
