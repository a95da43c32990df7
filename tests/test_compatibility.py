"""What docs/compatibility.md promises: names stay or are deprecated, statuses and licences are as it says.

``python tests/test_compatibility.py > tests/golden/public_names.txt`` keeps the names of a release.
"""

from __future__ import annotations

import enum
import importlib.metadata
import importlib.util
import inspect
import re
import tomllib
import typing
import warnings
from pathlib import Path
from typing import Any

import pytest

import delassus as ds
from delassus import simulate
from generated_cases import QUANTITIES

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOMES: dict[str, Any] = {"": ds, "contact.": ds.contact, "mechanisms.": ds.mechanisms, "simulate.": simulate}
PINS = dict(pin.split("==") for pin in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())


def section(title: str) -> str:
    """Text below a heading of the page."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


# -- names ---------------------------------------------------------------------------------------------------------


def members(value: Any) -> set[str]:
    """What a stable name promises beside itself: parameters, attributes and methods, values of a tuple."""
    if inspect.isclass(value):
        return {name for name in dir(value) if not name.startswith("_")}
    if inspect.isfunction(value):
        parameters = set(inspect.signature(value).parameters)
        if "given" in parameters:  # keywords that several functions have
            (keywords,) = typing.get_args(typing.get_type_hints(value)["given"])
            parameters = parameters - {"given"} | set(typing.get_type_hints(keywords))
        return parameters
    return set(value) if isinstance(value, tuple) else set()


def public_names() -> dict[str, set[str]]:
    """Stable names, and the members of each; of `ds.compile`, what it compiles."""
    names = {home + name: members(getattr(module, name)) for home, module in HOMES.items() for name in module.__all__}
    return names | {"compile(what=)": set(re.findall(r"^``(\w+)`` ", str(inspect.getdoc(ds.compile)), re.M))}


def test_names_of_the_last_release_are_there() -> None:
    lines = (ROOT / "tests" / "golden" / "public_names.txt").read_text(encoding="utf-8").splitlines()
    released = {name: set(rest) for name, *rest in map(str.split, lines)}
    now = public_names()
    now["compile(what=)"] |= set(QUANTITIES)  # those that only simulators need are no longer listed, and compile
    assert len(released) > 50
    assert [name for name in released if name not in now and name not in ds.__deprecated__] == []
    gone = {name: released[name] - now[name] for name in released if name in now}
    assert {name: missing for name, missing in gone.items() if missing} == {}


def test_a_deprecated_name_warns_and_stands_for_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ds.__deprecated__, "inverse_inertia", ("osim", "1.1"))
    monkeypatch.setitem(ds.__deprecated__, "contact.gauss_seidel", ("contact.nsgs", "1.9"))
    monkeypatch.setitem(ds.__deprecated__, "mechanisms.bush", ("mechanisms.star", "2.0"))
    monkeypatch.setitem(ds.__deprecated__, "simulate.Film", ("simulate.Recording", "1.2"))
    old: Any = ds
    with pytest.warns(
        DeprecationWarning, match=r"delassus\.inverse_inertia .* 1\.1 .* 1\.3: use delassus\.osim"
    ) as seen:
        assert old.inverse_inertia is ds.osim
    assert seen[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"contact\.gauss_seidel .* 1\.11: use delassus\.contact\.nsgs"):
        from delassus.contact import gauss_seidel  # type: ignore[attr-defined]
    assert gauss_seidel is ds.contact.nsgs
    with pytest.warns(DeprecationWarning, match=r"2\.2: use delassus\.mechanisms\.star"):
        assert old.mechanisms.bush is ds.mechanisms.star
    with pytest.warns(DeprecationWarning, match=r"1\.4: use delassus\.simulate\.Recording"):
        assert old.simulate.Film is simulate.Recording
    assert "inverse_inertia" not in dir(ds) and not hasattr(ds, "gauss_seidel")
    with pytest.raises(AttributeError, match=r"module 'delassus\.contact' has no attribute 'inverse_inertia'"):
        old.contact.inverse_inertia  # noqa: B018


def test_deprecated_names_go_in_time() -> None:
    """Each stands for a name that is there, is none itself, and has not outlived two minor releases."""
    now = [int(part) for part in ds.__version__.split(".")[:2]]
    for old, (new, since) in ds.__deprecated__.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert resolved(f"ds.{new}") is not None
        home, _, name = old.rpartition(".")
        assert name not in HOMES[f"{home}." if home else ""].__all__
        major, minor = map(int, since.split("."))
        assert now < [major, minor + 2]


def resolved(dotted: str) -> Any:
    """What a name on the page stands for."""
    value: Any = ds
    for part in dotted.split(".")[1:]:
        value = getattr(value, part)
    return value


def test_experimental_names_exist() -> None:
    table = PAGE.partition("| experimental | why |")[2].partition("\n\n")[0]
    names = re.findall(r"`((?:ds|delassus)\.[\w.]+)`", table)
    assert len(names) > 10
    for name in names:
        if name.startswith("delassus."):
            assert importlib.util.find_spec(name), name
        else:
            assert resolved(name) is not None


# -- statuses ------------------------------------------------------------------------------------------------------


def test_guarantees_are_of_statuses_that_exist() -> None:
    named = re.findall(r"`(\w+)\.([A-Z_]+)`", section("What a status guarantees"))
    shown = {name: value for module in (ds.contact, ds) for name in module.__all__ if (value := getattr(module, name))}
    statuses = {n: v for n, v in shown.items() if inspect.isclass(v) and issubclass(v, enum.Enum)}
    assert {name for name, _ in named} == set(statuses)
    assert all(member in statuses[name].__members__ for name, member in named)
    assert all(isinstance(member.text, str) for status in statuses.values() for member in status)


# -- licences ------------------------------------------------------------------------------------------------------


def licence(package: str) -> str:
    """As its metadata state it: an expression, a classifier, or the first line of a text."""
    metadata = importlib.metadata.metadata(package)
    classified = [text.split(" :: ")[-1] for text in metadata.get_all("Classifier", []) if text.startswith("License ")]
    classified = [text for text in classified if text != "OSI Approved"]
    stated = metadata.get("License-Expression") or ", ".join(classified) or metadata.get("License") or ""
    return stated.strip().partition("\n")[0]


def as_pinned(package: str) -> bool:
    """Whether the version of `constraints.txt` is installed: another may have another licence."""
    try:
        return importlib.metadata.version(package).partition("+")[0] == PINS.get(package)
    except importlib.metadata.PackageNotFoundError:
        return False


def test_licences_of_extras_are_those_that_packages_state() -> None:
    rows = [re.split(r" *\| *", line.strip("| ")) for line in section("Licences").splitlines() if line.startswith("| ")]
    listed = [(extra.strip("`"), requirement.strip("`"), text) for extra, requirement, text in rows[1:]]
    declared = {"the core": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    wanted = [
        (extra, requirement)
        for extra, requirements in declared.items()
        if extra not in ("all", "test", "dev")
        for requirement in requirements
        if not requirement.startswith("delassus[")
    ]
    assert [row[:2] for row in listed] == wanted
    packages = {re.match(r"[\w-]+", requirement)[0]: text for _, requirement, text in listed}  # type: ignore[index]
    pinned = {package: text for package, text in packages.items() if as_pinned(package)}
    assert {package: licence(package) for package in pinned} == pinned


def test_copyleft_is_named() -> None:
    """Of what extras bring, with all that these packages depend on."""
    requirements = pytest.importorskip("packaging.requirements")
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(text, extra) for extra in PROJECT["optional-dependencies"] if extra not in ("docs", "test", "dev")
               for text in PROJECT["optional-dependencies"][extra]]  # fmt: skip
    while waiting:
        text, extra = waiting.pop()
        requirement = requirements.Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for inner in {"", *requirement.extras} if requirement.name != "delassus" else ():
            if (requirement.name, inner) not in seen:
                seen.add((requirement.name, inner))
                if as_pinned(requirement.name):
                    found[requirement.name] = licence(requirement.name)
                    waiting += [(text, inner) for text in importlib.metadata.requires(requirement.name) or ()]
    copyleft = {name for name, text in found.items() if re.search(r"GPL|MPL|General Public|Mozilla", text)}
    paragraph = section("Licences").partition("with what these packages depend on, ")[2].partition("The `ffmpeg`")[0]
    named = set(re.findall(r"`([\w-]+)`", paragraph))
    assert copyleft == {name for name in named if name in found}
    assert named <= set(PINS)


if __name__ == "__main__":
    for name, rest in sorted(public_names().items()):
        print(name, *sorted(rest))
