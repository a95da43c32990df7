"""The layout of DESIGN: imports point one way, the optional packages stay optional, the public names are documented."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import os
import pkgutil
import pydoc
import re
import signal
import subprocess
import sys
import typing
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import delassus as ds
import processors
from delassus import scenes
from delassus.frozen import BODIES
from faults import Faults
from mutations import drawn
from shortcuts import SHORTCUTS

ROOT = Path(__file__).parent.parent
PACKAGE = Path(ds.__file__).parent
STUDIES = PACKAGE.parent / "delassus_studies"
FILES = sorted([*PACKAGE.rglob("*.py"), *STUDIES.rglob("*.py")])

LAYERS = (
    "delassus_studies", "__main__", "cli", "gym", "pictures", "scenes", "delassus", "simulate", "contact",
    "api", "runtime", "quantities", "solvers", "accuracy", "compiler", "algorithms", "formats",
    "constraints", "model", "spatial", "frozen", "errors", "version",
)  # fmt: skip
"""Each imports from those after it and from itself; "delassus" is the package's own `__init__`.

The command line loads benchmarks and claims of "delassus_studies" by an entry point: nothing imports them.
"""

USE_FORMATS = ("cli", "delassus_studies", "delassus", "gym", "pictures", "scenes", "simulate", "contact", "formats")
"""Who loads robots and converts states of other libraries; dynamics and compiler know trees only."""

MOST_ROOMS, MOST_FILES = 17, 12
"""Rooms of the library; files in a room or in a part of one, but for its `__init__`: beyond that it has parts."""

MOST_FIELDS, MOST_ARGUMENTS, MOST_LINES = 12, 8, 70
"""Of a record, and of a function by position; lines of a function without its documentation."""

LARGE = {"step_derivatives", "distance"}
"""Functions that are larger: none may be added. Commands of the command line have as many arguments as options."""

OPTIONAL = {
    "casadi", "mujoco", "pinocchio", "matplotlib", "example_robot_data", "robot_descriptions", "coal",
    "clarabel", "viser", "mcap", "rerun", "websockets", "scipy", "h5py", "gymnasium", "jax", "jaxlib", "torch", "dask",
    "imageio_ffmpeg", "PIL", "pxr", "cuda", "cupy", "yaml", "stable_baselines3", "rsl_rl", "tensordict",
}  # fmt: skip
"""Packages of the extras: imported inside functions only; `delassus.gym` alone needs its own at once."""

SLOW = {"yourdfpy", "trimesh", "lxml"}
"""Dependencies that take a second to import: inside functions only."""


def name_of(path):
    """Dotted name of the module in a file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module):
    """Layer of a dotted name of ours."""
    package, *inside = module.split(".")
    return inside[0] if inside and package == "delassus" else package


MODULES = {name_of(path) for path in FILES}


@cache
def parsed(path):
    """Syntax tree of a file."""
    return ast.parse(path.read_text())


def dotted(node):
    """Name of a name or of an attribute of one, such as ``ds.contact.Scene``; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{whole}.{node.attr}" if (whole := dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


@cache
def imports(path):
    """All imports of a file, wherever they stand: dotted module, and whether that is inside a function."""
    found = []

    def visit(node, inside):
        if isinstance(node, ast.Import):
            found.extend((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: relative import"
            for alias in node.names:  # from delassus.model import tree is an import of delassus.model.tree
                module = f"{node.module}.{alias.name}"
                found.append((module if module in MODULES else node.module, inside))
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("import_module"):
            found.extend((a.value, inside) for a in node.args if isinstance(a, ast.Constant))
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(parsed(path), False)
    return found


def may_import(importer, imported):
    """Whether a module of ours may import another one."""
    own, other = layer_of(importer), layer_of(imported)
    return LAYERS.index(own) <= LAYERS.index(other) and (other != "formats" or own in USE_FORMATS)


def test_imports_point_downwards():
    ours = [
        (name_of(path), module)
        for path in FILES
        for module, _ in imports(path)
        if module.split(".")[0] in ("delassus", "delassus_studies")
    ]
    assert len(ours) > len(FILES)
    assert {(importer, module) for importer, module in ours if not may_import(importer, module)} == set()


def test_methods_whose_bodies_stand_above_have_them():
    text = "".join(path.read_text() for path in FILES)
    for mark in (r"@body_of\(", r"\bBODIES\["):
        assert sorted(re.findall(mark + r'"([\w.]+)"', text)) == sorted(BODIES)
    assert set(BODIES) == {"Tree.independent", "Tree.to_mjcf", "Tree.to_sdf", "Tree.to_urdf", "Tree.to_usd"}


def test_the_test_of_imports():
    """The walk sees every kind of import, and the rule tells up from down."""
    assert may_import("delassus.cli.app", "delassus")
    assert may_import("delassus_studies.cases", "delassus.formats.load")
    assert may_import("delassus_studies.registry", "delassus.cli.tables")
    assert not may_import("delassus.cli.app", "delassus_studies.registry")
    assert not may_import("delassus.pictures.plots", "delassus_studies.figures")
    assert may_import("delassus.constraints", "delassus.model.tree")
    assert may_import("delassus.formats.load", "delassus.formats.mujoco.model")
    assert may_import("delassus.formats.colliders", "delassus.formats.load")
    assert not may_import("delassus.model.tree", "delassus.formats.load")
    assert not may_import("delassus.algorithms.problem", "delassus.formats.load")
    assert not may_import("delassus.spatial.ops", "delassus.model.tree")
    assert not may_import("delassus.algorithms.problem", "delassus")
    assert not may_import("delassus.errors", "delassus.model")
    assert may_import("delassus.api.direct", "delassus.runtime.calls")
    assert not may_import("delassus.quantities.declarations.osim", "delassus.api.direct")
    assert not may_import("delassus.runtime.calls", "delassus.api.direct")
    assert not may_import("delassus.solvers.islands.records", "delassus.contact.collision.colliders")
    assert may_import("delassus.formats.mujoco.model", "delassus.constraints")
    assert not may_import("delassus.formats.mujoco.model", "delassus.algorithms.problem")
    lazily = dict(imports(PACKAGE / "formats" / "mujoco" / "named.py"))
    assert lazily["mujoco"] and not lazily["delassus.errors"]
    assert ("delassus.model.mechanisms", False) in imports(PACKAGE / "__init__.py")
    assert ("delassus.solvers.registry", True) in imports(PACKAGE / "runtime" / "fallback.py")
    typing_only = [m for m, _ in imports(PACKAGE / "spatial" / "transform.py")]
    assert "delassus.spatial.ops" in typing_only


def test_optional_packages_are_imported_inside_functions():
    found = [
        (name_of(path), module.split(".")[0], inside)
        for path in FILES
        for module, inside in imports(path)
        if module.split(".")[0] in OPTIONAL | SLOW
    ]
    assert {"mujoco", "pinocchio", "coal"} <= {package for _, package, _ in found}
    elsewhere = [x for x in found if (layer_of(x[0]), x[1]) != ("gym", "gymnasium")]
    assert [f"{importer} imports {package}" for importer, package, inside in elsewhere if not inside] == []


def test_importing_the_package_imports_no_optional_package():
    script = "import sys, delassus; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    imported = set(run.stdout.split())
    assert "delassus" in imported
    assert not imported & (OPTIONAL | SLOW | {"typer", "rich", "pytest"})


def test_there_are_no_circles():
    """No module imports another that imports it in turn, by way of others or inside functions."""
    arrows = {(name_of(path), m) for path in FILES for m, _ in imports(path)}
    graph = {name: {m for own, m in arrows if own == name and m in MODULES - {name}} for name in MODULES}

    def reached(start):
        found, left = set(), [start]
        while left:
            new = graph[left.pop()] - found
            found |= new
            left.extend(new)
        return found

    circles = {name for name in graph if name in reached(name)}
    assert not circles, sorted(circles)


def test_algorithms_know_neither_machines_nor_joint_types():
    """No algorithm names what it runs on, or asks what type a joint is."""
    for path in sorted((PACKAGE / "algorithms").rglob("*.py")):
        modules = {module for module, _ in imports(path)}
        assert "delassus.spatial.numpy_ops" not in modules, path
        assert "delassus.spatial.trace.trace_ops" not in modules, path
        assert "JointKind" not in path.read_text(), path


def test_algorithms_ask_for_no_type_of_a_number():
    """A number of one state is a float, too; what is known before a state is, `Ops` say."""
    numbers = {"float", "int", "complex", "bool", "np.ndarray", "np.generic", "np.floating", "np.float64", "Number"}
    files = [path for room in ("algorithms", "constraints", "spatial") for path in (PACKAGE / room).rglob("*.py")]
    asked = []
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                kinds = {ast.unparse(x) for x in ast.walk(node.args[1]) if isinstance(x, ast.Name | ast.Attribute)}
                asked += [(path.stem, ast.unparse(node.args[0])) for _ in kinds & numbers]
    assert set(asked) == {("between_frames", "rows"), ("rows", "K")}  # numbers of rows, which users give
    assert len(files) > 50


def test_cached_properties_have_no_lock():
    """Those of functools in Python 3.11 do, which a forked child may inherit held."""
    assert not [path for path in FILES if re.search(r"from functools import .*\bcached_property", path.read_text())]


def test_no_module_is_unreachable():
    """Every file imports, on its own and in any order."""
    for name in sorted(MODULES):
        importlib.import_module(name)
    found = {module.name for module in pkgutil.walk_packages([str(PACKAGE)], "delassus.")}
    found |= {module.name for module in pkgutil.walk_packages([str(STUDIES)], "delassus_studies.")}
    assert found | {"delassus", "delassus_studies"} == MODULES  # no folder without an __init__


def test_rooms_are_few_and_small():
    files = Counter(path.parent for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    rooms = {room.relative_to(PACKAGE).parts[0] for room in files if room != PACKAGE}
    assert len(rooms) <= MOST_ROOMS
    large = {str(room.relative_to(PACKAGE)) for room, n in files.items() if n > MOST_FILES}
    assert large == {"contact/sparse"}


def test_the_page_on_how_it_is_built_names_all_rooms_and_real_files():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)/` \|.*\| (.*) \|$", page, re.MULTILINE)
    assert [room for room, _ in rows] == [room for room in LAYERS if (PACKAGE / room).is_dir()]
    files = {PACKAGE / room / name for room, names in rows for name in re.findall(r"`(.*?)`", names)}
    rooms = "|".join(room for room, _ in rows)
    files |= {PACKAGE / name for name in re.findall(rf"`((?:{rooms})/[\w/]*\.py)`", page)}
    assert len(files) > 20 and [path for path in files if not path.exists()] == []


def test_records_and_calls_are_small():
    """Functions are short and take few arguments by position, in records of few fields."""
    large = set()
    files = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "cli/app.py"]
    for node in (node for path in files for node in ast.walk(parsed(path))):
        if isinstance(node, ast.FunctionDef):
            given = [x.arg for x in (*node.args.posonlyargs, *node.args.args) if x.arg not in ("self", "cls")]
            lines = node.end_lineno - node.lineno - len((ast.get_docstring(node, clean=False) or "").splitlines())
            large |= {node.name} if len(given) > MOST_ARGUMENTS or lines >= MOST_LINES else set()
        elif isinstance(node, ast.ClassDef) and "NamedTuple" in map(dotted, node.bases):
            fields = [x for x in node.body if isinstance(x, ast.AnnAssign)]
            large |= {node.name} if len(fields) > MOST_FIELDS else set()
    assert len(files) > 50
    assert large <= LARGE


def test_a_class_name_means_one_thing():
    defined = Counter(
        n.name for path in PACKAGE.rglob("*.py") for n in ast.walk(parsed(path)) if isinstance(n, ast.ClassDef)
    )
    assert len(defined) > 400 and [name for name, count in defined.items() if count > 1] == []


def test_a_measured_number_has_a_line_of_its_own():
    """Numbers that are not whole are assigned to one name each, which says what they are."""
    together = []
    for path in PACKAGE.rglob("*.py"):
        for node in parsed(path).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                values = [x.value for x in ast.walk(node.value) if isinstance(x, ast.Constant)]
                together += [f"{name_of(path)}: {ast.unparse(node)}"] if any(type(x) is float for x in values) else []
    assert together == []


def filled(path):
    """Names of other modules whose contents a file changes when it is imported."""
    body = [node for node in parsed(path).body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    taken = {a.asname or a.name for n in body if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}
    changed = []
    for node in (node for part in body for node in ast.walk(part)):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
            changed += [t.value for t in targets if isinstance(t, ast.Attribute | ast.Subscript)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            changed.append(node.func.value)
        elif isinstance(node, ast.Call) and dotted(node.func) == "setattr":
            changed.append(node.args[0])
    return [dotted(x) for x in changed if dotted(x).split(".")[0] in taken]


CHANGES = {"append", "extend", "insert", "add", "update", "setdefault", "__setitem__"}
"""Methods that change lists, dictionaries and sets."""

DYNAMO = ("delassus.runtime.libraries.on_torch", "library_of")
"""A mark on a function, which PyTorch reads."""


def test_no_module_fills_another():
    """No list of what stands above, which `__init__` fills; and no type that is anything, in place of one above."""
    found = {(name_of(path), name) for path in FILES for name in filled(path)}
    assert found == {DYNAMO}
    anything = [
        (name_of(path), ast.unparse(node))
        for path in FILES
        for node in parsed(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and dotted(node.value) in ("Any", "typing.Any")
    ]
    assert anything == []


def test_the_test_of_what_is_filled(tmp_path):
    path = tmp_path / "some.py"
    path.write_text(
        "import a.b as b\nfrom c import D, E, F\nown = []\nown[:] = [1]\nb.KERNELS[:] = [1]\nD.update(x=1)\n"
        "b.c.append(2)\nE['x'] = 3\nF.name = 4\nsetattr(b, 'y', 5)\nown.append(D.get(1))\ndef f():\n    E['y'] = 1\n"
    )
    assert filled(path) == ["b.KERNELS", "D", "b.c", "E", "F", "b"]


def test_no_module_patches_another():
    assert [name_of(path) for path in FILES for module, _ in imports(path) if module.startswith("unittest")] == []


APPLICATIONS = ("gym", "pictures", "scenes")
"""Rooms above the package itself: what they are made of, users have too."""

OF_THE_PACKAGE = {
    *("simulate/ilqr", "simulate/riccati", "simulate/trajectory", "api/excitation", "runtime/identify"),
    *("runtime/measured", "accuracy/least_squares", "contact/audits/audit", "contact/audits/mujoco"),
    "contact/audits/step",
}
"""Applications whose functions are public names of the package: they take others from the files that define them."""

SHARED = {"delassus.errors", "delassus.frozen", "delassus.model.check"}
"""What messages and records are made with, and checks of arguments."""

NOT_PUBLIC = {
    "delassus.compiler.jit.compile.compiled", "delassus.constraints.contact.contacts_of",
    "delassus.model.kinematics.world_poses", "delassus.model.shapes.Shape",
    "delassus.simulate.simulator.Controller", "delassus.spatial.rotations.Array",
    "delassus.spatial.rotations.matrix_to_quaternion", "delassus.spatial.rotations.rotation_between",
}  # fmt: skip
"""What applications take although users cannot: take names out, add none."""

NOT_PUBLIC_WITHIN = {
    "delassus.algorithms.contact.law.PENETRATION", "delassus.api.regressors.base_of_regressors",
    "delassus.compiler.jit.compile.compiled", "delassus.compiler.jit.compile.inlined",
    "delassus.compiler.jit.types.DUALS", "delassus.solvers.problems.ASYMMETRY",
    "delassus.solvers.linear.ROUNDING", "delassus.solvers.linear.cone_distance",
    "delassus.solvers.linear.de_saxce", "delassus.solvers.linear.natural_map",
    "delassus.solvers.linear.mobilities", "delassus.solvers.registry.TOLERANCE",
    "delassus.formats.mujoco.named.NamedModel", "delassus.model.inertia.from_pseudo_inertia",
    "delassus.model.inertia.parameters_in_frame", "delassus.model.inertia.pseudo_inertia",
    "delassus.model.kinematics.HEAVY", "delassus.model.topology.characteristic_length",
    "delassus.runtime.arrays.gathered", "delassus.runtime.arrays.ordered", "delassus.runtime.arrays.result_arrays",
    "delassus.runtime.rollouts.loop.check_bounds", "delassus.runtime.rollouts.on_device.STATE",
    "delassus.runtime.rollouts.step_tangents.Mask", "delassus.runtime.rollouts.step_tangents.StepJacobians",
    "delassus.runtime.rollouts.step_tangents.Values", "delassus.runtime.rollouts.step_tangents.are_payloads",
    "delassus.runtime.rollouts.step_tangents.carry", "delassus.runtime.rollouts.step_tangents.derivatives_of_steps",
    "delassus.runtime.rollouts.step_tangents.forces_of_changes",
    "delassus.runtime.rollouts.step_tangents.regressor_kernel", "delassus.runtime.rollouts.step_tangents.results_of",
    "delassus.runtime.rollouts.step_tangents.span", "delassus.runtime.threads.at_once",
    "delassus.spatial.joint_kinds.usual_range", "delassus.spatial.rotations.Array",
}  # fmt: skip
"""What those of the package take, likewise."""


def test_applications_are_made_of_public_names():
    files = [path for room in APPLICATIONS for path in (PACKAGE / room).rglob("*.py")]
    within = [PACKAGE / f"{name}.py" for name in OF_THE_PACKAGE]
    taken, inside = (
        {
            (node.module, alias.name)
            for node in (node for path in paths for node in ast.walk(parsed(path)))
            if isinstance(node, ast.ImportFrom) and layer_of(node.module) in LAYERS
            for alias in node.names
            if node.module not in SHARED | {name_of(path) for path in within}
            and layer_of(node.module) not in APPLICATIONS
        }
        for paths in (files, within)
    )
    of_public = {(m, name) for m, name in taken if m in PUBLIC}
    assert {(m, name) for m, name in of_public if name not in importlib.import_module(m).__all__} == set()
    modules = [importlib.import_module(m) for m in PUBLIC - {"delassus.mechanisms"}]
    shown = {id(getattr(module, name)) for module in modules for name in module.__all__}
    defined = {(m, name) for m, name in inside if id(getattr(importlib.import_module(m), name)) in shown}
    assert ("delassus", "compile") in of_public and ("delassus.model.tree", "Tree") in defined
    assert {f"{m}.{name}" for m, name in taken - of_public} == NOT_PUBLIC
    assert {f"{m}.{name}" for m, name in inside - defined} == NOT_PUBLIC_WITHIN


def test_files_say_what_they_are_and_stay_short():
    for path in FILES:
        text = path.read_text()
        assert ast.get_docstring(ast.parse(text)), path
        assert len(text.splitlines()) <= 500, path
        assert text.replace("\n", "").isprintable(), path  # no tabs, no NULs


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git lists the files")
def test_no_large_file_is_kept():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    names = listed.stdout.split()
    assert [name for name in names if (ROOT / name).exists() and (ROOT / name).stat().st_size > 300_000] == []


# -- public names --------------------------------------------------------------------------------------------------


def test_public_names_are_sorted_and_exist():
    constants_classes_functions = sorted(ds.__all__, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    assert list(ds.__all__) == constants_classes_functions
    assert len(set(ds.__all__)) == len(ds.__all__)
    for name in ds.__all__:
        assert hasattr(ds, name)
    assert dir(ds) == sorted(ds.__all__)
    exported = {n for n, v in vars(ds).items() if not n.startswith("_") and not inspect.ismodule(v)}
    assert exported == set(ds.__all__) - {"contact", "mechanisms"}


def public(module, is_kind):
    """Names that a module shows, and what they name."""
    return {name: value for name in module.__all__ if is_kind(value := getattr(module, name))}


FUNCTIONS = {n: f for module in (ds, ds.contact, ds.mechanisms) for n, f in public(module, inspect.isfunction).items()}


def parameters_explained(name):
    """Parameters that the docstring of a public function lists, or that of the function whose parameters it takes."""
    text = inspect.getdoc(FUNCTIONS[name])
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", text, re.S | re.M)
    if section is None:
        (other, *_) = re.findall(r"Takes\s[^.]*?(?<!`)`(\w+)`(?!`)", text)
        return parameters_explained(other)
    heads = re.findall(r"^(\S[^:\n]*)", section[1], re.M)
    return {parameter.strip(" *") for head in heads for parameter in head.split(",")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_are_documented(name):
    function = FUNCTIONS[name]
    text = inspect.getdoc(function)
    assert text.splitlines()[0].endswith((".", "``.", "``", ":")) and len(text.splitlines()[0]) < 120
    assert "Examples\n--------" in text and ">>> " in text
    assert "raises" in text.lower()
    parameters, explained = set(inspect.signature(function).parameters), parameters_explained(name)
    for more in {"given", "options"} & parameters:  # keywords that several functions have, and of `compile`
        (keywords,) = typing.get_args(typing.get_type_hints(function)[more])
        parameters = parameters - {"given"} | set(typing.get_type_hints(keywords))
    assert parameters <= explained
    assert explained <= parameters or "Takes" in text


@pytest.mark.parametrize("package", ["delassus", "delassus.contact", "delassus.gym"])
def test_public_classes_are_documented(package):
    if package == "delassus.gym":
        pytest.importorskip("gymnasium")
    for name, cls in public(importlib.import_module(package), inspect.isclass).items():
        texts = [inspect.getdoc(cls), *(inspect.getdoc(value) for value in vars(cls).values() if callable(value))]
        assert texts[0], name
        assert name in ("DelassusError", "DelassusWarning") or any(">>> " in (text or "") for text in texts), name
        for attribute, value in vars(cls).items():
            if not attribute.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{attribute}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        f"mypy --cache-dir {os.devnull}",
        "ruff check src tests benchmarks examples",
        "ruff format --check src tests benchmarks examples",
    ],
)
def test_what_pre_commit_checks(command):
    """Types of `src`, strictly; lint and format of everything."""
    run = subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0, run.stdout + run.stderr


DATACLASSES = [
    cls
    for module in (ds, ds.contact)
    for cls in public(module, inspect.isclass).values()
    if dataclasses.is_dataclass(cls)
]


@pytest.mark.parametrize("cls", DATACLASSES, ids=lambda cls: cls.__name__)
def test_help_and_dir_show_public_names_only(cls):
    """Of a dataclass: what it is made of and does, not what makes it one."""
    text = pydoc.plain(pydoc.render_doc(cls))
    assert not re.search(r"dataclass|__setattr__|__getstate__|__match_args__", text)
    assert not [name for name in dir(cls) if name.startswith("_")]
    fields = {field.name for field in dataclasses.fields(cls)}
    assert all(field in text for field in fields if not field.startswith("_"))


@pytest.mark.parametrize("cls", DATACLASSES, ids=lambda cls: cls.__name__)
def test_fields_are_what_makes_an_object(cls):
    """As `dataclasses.replace` has it; what follows from others is marked."""
    assert {field.name for field in dataclasses.fields(cls) if field.init} == set(inspect.signature(cls).parameters)


# -- how tests run -------------------------------------------------------------------------------------------------

LONGEST = 240
"""Seconds that a process of a test may take: it is ended before the test is."""


def test_processes_that_tests_start_end():
    calls = [
        (path.name, node.lineno, {word.arg: word.value for word in node.keywords})
        for path in TESTS
        if path.name.startswith("test_")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and re.fullmatch(r"subprocess\.(run|call|check_\w+)", dotted(node.func))
    ]
    limits = [(*place, words.get("timeout")) for *place, words in calls]
    assert limits
    assert [(*place, limit) for *place, limit in limits if limit is None] == []
    assert max(limit.value for *_, limit in limits if isinstance(limit, ast.Constant)) <= LONGEST


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_no_test_hangs_and_none_ignores_interrupts(tmp_path, pytestconfig):
    """Not in a shell's background job either, which ignores them."""
    assert pytestconfig.getini("faulthandler_exit_on_timeout") and LONGEST < pytestconfig.getini("faulthandler_timeout")
    (tmp_path / "test_some.py").write_text(
        "import signal, subprocess, sys, threading\n"
        "def test_own():\n    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "def test_child():\n"
        "    raises = 'import signal; signal.raise_signal(signal.SIGINT)'\n"
        "    assert subprocess.run([sys.executable, '-c', raises], timeout=60).returncode == -signal.SIGINT\n"
        "def test_that_hangs():\n    threading.Event().wait()\n"
    )
    options = ["-vv", "-c", ROOT / "pyproject.toml", "-p", "conftest", "-o", "faulthandler_timeout=5"]
    run = subprocess.run(
        [sys.executable, "-u", "-m", "pytest", *options, "test_some.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    assert "test_own PASSED" in run.stdout and "test_child PASSED" in run.stdout, run.stdout + run.stderr
    assert run.returncode == 1 and "Timeout" in run.stderr and "in test_that_hangs" in run.stderr


# -- what tests reach for ------------------------------------------------------------------------------------------

PUBLIC = {
    "delassus", "delassus.contact", "delassus.gym", "delassus.gym.adapters", "delassus.mechanisms", "delassus.pictures",
    "delassus.scenes", "delassus.simulate",
}  # fmt: skip
"""Modules with a page in the reference."""

REACHES, NAMES = 117, 415
"""Internal modules that test files name, and names that they take from `internals.py`, each once a file.

Rooms can move as long as these are few: lower both where they have fallen, raise neither.
"""

TESTS = sorted(path for path in Path(__file__).parent.rglob("*.py") if path != Path(__file__))


@cache
def internal_modules(path):
    """Internal modules that a test file names: in imports, as attributes of the package, in texts that it runs."""
    shown = {f"{m.__name__}.{name}" for m in (ds.contact, scenes) for name in m.__all__}  # some are modules' names too
    named = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            named |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            named.add(re.sub(r"^ds\.", "delassus.", dotted(node)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "delassus" in node.value:
            text = re.sub(r"\bfrom (delassus[\w.]*) import (\w+)", r"\1.\2", node.value)
            named |= set(re.findall(r"\bdelassus(?:\.\w+)+", text))
    found = set()
    for name in named - shown:
        while name and name not in MODULES:
            name = name.rpartition(".")[0]
        found.add(name)
    return {name for name in found if name.startswith("delassus.")} - PUBLIC - {"delassus.errors"}


def test_tests_reach_for_public_names():
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("reference*.md"))
    assert set(re.findall(r"(?:currentmodule|automodule):: (\S+)", pages)) == PUBLIC
    reached = [(module, path.name) for path in TESTS for module in sorted(internal_modules(path))]
    assert len(reached) <= REACHES
    taken = [
        f"{path.name}: {alias.name}"
        for path in TESTS
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.module == "internals"
        for alias in node.names
    ]
    assert len(set(taken)) <= NAMES


def test_an_internal_module_is_imported_by_one_test_file():
    """By its own, or by `internals.py` for all: who moves it changes one line."""
    by_module = {}
    for path in TESTS:
        for module in {module for module, _ in imports(path)} & internal_modules(path):
            by_module.setdefault(module, []).append(path.name)
    assert {module: files for module, files in by_module.items() if len(files) > 1} == {}


PEERS = {"pinocchio", "pinocchio_models", "mujoco", "dm_control", "clarabel"}
"""Libraries that tests hold this one to, and what of the tests imports them."""


def marks(path):
    """Top-level parts of a test file, and the markers on each; those of the file first, under the name of the file."""
    body = parsed(path).body
    own = [n for n in body if isinstance(n, ast.Assign) and dotted(n.targets[0]) == "pytestmark"]
    texts = {path.name: " ".join(map(ast.unparse, own))}
    parts = {path.name: [n for n in body if not isinstance(n, ast.FunctionDef | ast.ClassDef)]}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            parts[node.name] = [node]
            texts[node.name] = " ".join([texts[path.name], *map(ast.unparse, node.decorator_list)])
    return {name: (nodes, set(re.findall(r"mark\.(slow|peer)\b", texts[name]))) for name, nodes in parts.items()}


def uses_peer(node):
    """Whether a part of a test file imports another library to compare with."""
    names = set()
    for n in ast.walk(node):
        if isinstance(n, ast.Import):
            names |= {alias.name for alias in n.names}
        elif isinstance(n, ast.ImportFrom):
            names.add(n.module)
        elif isinstance(n, ast.Call) and dotted(n.func) == "pytest.importorskip":
            names |= {x.value for x in n.args if isinstance(x, ast.Constant)}
    return any(name.split(".")[0] in PEERS for name in names)


def test_who_is_held_to_another_library_says_so():
    found = [
        f"{path.name}: {name}"
        for path in TESTS
        for name, (nodes, marked) in marks(path).items()
        if name.startswith("test_") and "peer" not in marked and any(map(uses_peer, nodes))
    ]
    assert found == []


def test_fast_tests_name_everything_public():
    """Apart from those that are about refusals, and from this file."""
    called = {
        node.attr
        for path in TESTS
        if path.name != "test_bad_input.py"
        for nodes, marked in marks(path).values()
        if not marked
        for part in nodes
        for node in ast.walk(part)
        if isinstance(node, ast.Attribute) and dotted(node.value) == "ds"
    }
    assert set(ds.__all__) - called == set()


def test_what_runs_as_on_other_processors_exists():
    """Files, and tests that are left out."""
    defined = {name: set(marks(ROOT / "tests" / f"{name}.py")) for name in processors.FILES}
    assert [name for name in processors.LEFT_OUT if not any(name in names for names in defined.values())] == []


def test_bounds_that_assertions_require_are_noted():
    text = """
assert error < 1e-9 and np.all(x <= bound) and all(e < 2 for e in errors) and (y < b).all()
assert not error < bound
assert (estimates <= strict).tolist() == [True, False]
"""
    noted = ast.unparse(processors.Recorder("some.py").visit(ast.parse(text)))
    assert noted.count("noted_Lt(") == 3 and noted.count("noted_LtE(") == 1
    assert "noted" not in noted[noted.index("not error") :]


def test_faults_that_are_planted_stand_once_and_have_a_test():
    """Those of `shortcuts.py`; and those that are drawn leave files that Python reads."""
    for file, by_test in SHORTCUTS.items():
        text = (PACKAGE / file).read_text()
        for test, changes in by_test.items():
            assert [before for before, after in changes if text.count(before) != 1 or before == after] == [], file
            path, name = re.sub(r"\[.*", "", test).split("::")
            assert name in marks(ROOT / "tests" / path), test
    found = [*Faults(PACKAGE / "compiler" / "passes" / "allocate.py").found.values()]
    some = drawn(found, 40, seed=3)
    assert len(found) > 100 and some == drawn(found, 40, seed=3)
    assert all(fault.is_valid() and fault.before != fault.after for fault in some)


def test_no_helper_of_tests_stands_twice():
    """What two test files need is in `tools.py`, or in another file that is none of tests."""
    helpers = {}
    for path in TESTS:
        for node in parsed(path).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("test_"):
                lines = node.body[1:] if ast.get_docstring(node) else node.body
                text = "\n".join(ast.unparse(part) for part in (node.args, *lines))
                helpers.setdefault(text, []).append(f"{path.name}: {node.name}")
    assert [names for names in helpers.values() if len(names) > 1] == []


def test_the_test_of_reaches(tmp_path):
    path = tmp_path / "test_some.py"
    path.write_text(
        "import delassus as ds\nfrom delassus.contact import filters, formulate\nfrom delassus.errors import ModelError"
        "\nfrom delassus.model import tree\nds.contact.lemke, ds.contact.scene, ds.mechanisms.chain, ds.load\n"
        "text = 'from delassus.compiler.machine import cache; import delassus'\n"
        "other = 'delassus.spatial.trace.graph.Op'\n"
    )
    expected = {"contact.filters", "model.tree", "contact.scene", "compiler.machine.cache", "spatial.trace.graph"}
    assert internal_modules(path) == {f"delassus.{name}" for name in expected}


def test_version():
    assert ds.__version__.count(".") == 2
