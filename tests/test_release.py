"""What is released: the wheel works where nothing else is installed, and the papers around it say what is so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import delassus

pytestmark = pytest.mark.usefixtures("machine_code")

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ("3.11", "3.12", "3.13")
NO_REGISTRY = ("No matching distribution found", "Connection", "Temporary failure", "timed out")


def pip(*arguments: str) -> None:
    """Run pip; skips the test where it reaches no package registry."""
    command = [sys.executable, "-m", "pip", *arguments]
    environment = {**os.environ, "PIP_COMPILE": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
    if done.returncode and any(words in done.stderr for words in NO_REGISTRY):
        pytest.skip("no package registry here")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    pip("wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT))
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.slow
def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    tracked = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if ".dist-info/" not in name}
    assert packed == tracked | {"delassus/py.typed"}


def interpreters(version: str) -> Iterator[str]:
    """Commands that may be this version of Python: this one, one on the path, those of pyenv."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        yield sys.executable
    if (command := shutil.which(f"python{version}")) is not None:
        yield command
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    yield from map(str, sorted(root.glob(f"versions/{version}.*/bin/python{version}")))


BRIEFLY = """
import delassus as ds, numpy as np
tree, weld = ds.mechanisms.chain(3), ds.Weld("link3")
q = tree.random(0)
assert np.allclose(ds.compile(tree, weld, method="pv-osim")(q), ds.delassus(tree, weld, q), rtol=1e-9)
print("All methods agree.")
"""
"""What other Pythons run in place of the demo, which compiles for ten seconds."""


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_the_core_alone_runs(version: str, wheel: Path, tmp_path: Path) -> None:
    """The demo on this Python; on others a kernel, and that the command starts."""
    folder = tmp_path / "environment"
    for python in interpreters(version):  # shims of version managers are there even where the version is not
        command = [python, "-m", "venv", "--clear", "--without-pip", str(folder)]
        if not subprocess.run(command, capture_output=True, timeout=120, check=False).returncode:
            break
    else:
        pytest.skip("this version is not installed, or without venv")
    inside = folder / ("Scripts" if os.name == "nt" else "bin")
    constraints = str(ROOT / "constraints.txt")
    pip("--python", str(inside / "python"), "install", "-q", "-c", constraints, str(wheel))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    own = sys.version_info[:2] == tuple(map(int, version.split(".")))
    commands = [["delassus", "demo"]] if own else [["python", "-c", BRIEFLY], ["delassus", "--help"]]
    for (program, *arguments), said in zip(commands, ("All methods agree.", "demo"), strict=False):
        done = subprocess.run(
            [str(inside / program), *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr


def test_one_version() -> None:
    assert PROJECT["dynamic"] == ["version"]  # of the package
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "\nversion:" not in citation and f"\nlicense: {PROJECT['license']}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(.+)\]", changes, re.MULTILINE)[0] in ("Unreleased", delassus.__version__)


def test_a_source_tree_needs_no_installation(tmp_path: Path) -> None:
    """Packages are copied without what installers write beside them."""
    for name in ("delassus", "delassus_studies"):
        (tmp_path / name).symlink_to(ROOT / "src" / name)
    script = (
        "import importlib.metadata as metadata, delassus as ds\n"
        "found = metadata.distribution\n"
        "def distribution(name):\n    if name == 'delassus':\n        raise metadata.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "metadata.distribution = distribution\n"
        "print(ds.compile(ds.mechanisms.chain(2), ds.Point('link2')).operations.total > 0)\n"
        "from delassus_studies.demo import environment\n"
        "print(environment()['versions']['delassus'] == ds.__version__)\n"
    )
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "DELASSUS_CACHE": str(cache)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.stdout == "True\nTrue\n", done.stderr


def test_the_recipe_of_conda_says_what_the_project_does() -> None:
    """Python and packages that it needs, its command, description and licence."""
    recipe = pytest.importorskip("yaml").safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    needs = ["python >=${{ python_min }}", *(text.replace(">=", " >=") for text in PROJECT["dependencies"])]
    assert recipe["requirements"]["run"] == needs
    assert f">={recipe['context']['python_min']}" == PROJECT["requires-python"]
    commands = [f"{name} = {called}" for name, called in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands
    assert (recipe["about"]["summary"], recipe["about"]["license"]) == (PROJECT["description"], PROJECT["license"])


def test_what_builds_the_wheel_is_pinned() -> None:
    """As `pip install -c constraints.txt` pins the rest: the file names it, too, for pip's own --build-constraint."""
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    assert build["requires"] == [pin for pin in pins if pin.startswith("hatchling==")] != []


def test_all_is_everything_but_torch_and_cuda() -> None:
    """Torch, which two others need, takes gigabytes, and the second has no wheels where there are no GPUs of NVIDIA."""
    (everything,) = PROJECT["optional-dependencies"]["all"]
    names = set(re.findall(r"[\w-]+", everything.partition("[")[2]))
    assert names == set(PROJECT["optional-dependencies"]) - {
        "all",
        "torch",
        "sb3",
        "rsl-rl",
        "cuda",
        "docs",
        "test",
        "dev",
    }


def test_extras_are_those_that_are_named() -> None:
    """README lists those for users; what a document or an error names exists."""
    extras = set(PROJECT["optional-dependencies"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = readme.partition("one by one the extras are")[2].partition(". ")[0]
    assert set(re.findall(r"`([\w-]+)`", listed)) == extras - {"all", "docs", "test", "dev"}
    files = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    name = r"([\w-]+)"
    called = rf'(?:missing_dependency|require)\("[\w-]+", "{name}'
    pattern = rf"(?<!\.)delassus\[{name}\]|[Ee]xtra (?:``?|`?\[){name}|{called}"
    named = re.findall(pattern, text)
    assert len(named) > 20 and {name for groups in named for name in groups if name} <= extras


def test_contributing_names_what_exists() -> None:
    """Files are there, and each name is in one of the files that are named."""
    codes = re.findall(r"`([\w./]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    codes = [code for code in codes if "NAME" not in code or code == "NAMED"]
    places = [code for code in codes if "/" in code or "." in code]
    assert not [code for code in places if code != "ds.delassus" and not list(paths(code))]
    text = "".join(path.read_text(encoding="utf-8") for code in places for path in paths(code) if path.is_file())
    assert not [name for name in codes if name.isidentifier() and not re.search(rf"\b{name}\b", text)]


def paths(code: str) -> Iterator[Path]:
    """Existing paths that a name stands for."""
    return (base / code for base in (ROOT, ROOT / "src" / "delassus") if (base / code).exists())
