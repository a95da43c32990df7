"""The site builds without a warning, its pages run, and its reference names all that is public."""

from __future__ import annotations

import html
import importlib
import inspect
import os
import pydoc
import re
import struct
import subprocess
import sys
import urllib.parse
from datetime import date
from pathlib import Path
from unittest import mock

import pytest

import delassus
from delassus_studies.figures import digest
from generated import with_jax

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TESTED_ELSEWHERE = {"arrays", "contact_steps", "methods"}
"""Pages whose blocks test_documents.py runs, and judges."""

PARTS = ("contact", "simulate", "pictures", "scenes", "gym", "gym.adapters")
"""Of the package, beside `mechanisms`, whose names are public."""

PAGES = [path for path in sorted(DOCS.glob("*.md")) if "```python\n" in path.read_text("utf-8")]


@pytest.mark.slow
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("furo")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-D", "run_pages=0", DOCS, tmp_path]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    shown = "".join(path.read_text("utf-8") for path in tmp_path.glob("reference*.html"))
    assert [name for name in sorted(public_names()) if f'id="{name}"' not in shown] == []
    pages = {path: path.read_text("utf-8") for path in tmp_path.glob("*.html")}
    assert [
        link for path, text in pages.items() for link in local(text) if not leads_somewhere(path, link, pages)
    ] == []


def local(text: str) -> set[str]:
    """Targets of a page that are part of the site."""
    return set(re.findall(r' (?:href|src)="(?!https?:|mailto:|data:)([^"]+)"', text))


def leads_somewhere(path: Path, link: str, pages: dict[Path, str]) -> bool:
    name, _, anchor = html.unescape(link).partition("#")
    target = path.parent / urllib.parse.unquote(name.partition("?")[0]) if name else path
    return target.exists() and (not anchor or f'id="{anchor}"' in pages[target])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")
@pytest.mark.parametrize("page", [p for p in PAGES if p.stem not in TESTED_ELSEWHERE], ids=lambda p: p.stem)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    executed = importlib.import_module("executed")
    text = page.read_text("utf-8")
    with with_jax(), mock.patch.dict(os.environ):  # some ask it for numbers of 64 bits, clusters set threads
        assert len(executed.run(text, tmp_path)) == text.count("```python\n")


def public_names() -> set[str]:
    """What the package and its public parts name, each by the first of these that has it."""
    parts = {f"delassus.{part}": importlib.import_module(f"delassus.{part}") for part in PARTS}
    names: dict[int, str] = {}
    for home, module in {"delassus": delassus, "delassus.mechanisms": delassus.mechanisms, **parts}.items():
        for name in module.__all__:
            if not inspect.ismodule(found := getattr(module, name)):
                names.setdefault(id(found), f"{home}.{name}")
    return {*names.values()}


def test_reference_names_everything_public() -> None:
    named, module = ["delassus.mechanisms." + name for name in delassus.mechanisms.__all__], ""
    for page in sorted(DOCS.glob("reference*.md")):
        for kind, name in re.findall(r"^\.\. (currentmodule|auto\w+):: ([\w.]+)$", page.read_text("utf-8"), re.M):
            if kind == "currentmodule":
                module = name
            elif kind != "automodule":
                named.append(f"{module}.{name}")
    assert len(named) == len(set(named))
    assert {*named} == public_names()
    assert "automodule:: delassus.mechanisms" in (DOCS / "reference_mechanisms.md").read_text("utf-8")


def test_how_to_pages_end_with_what_it_costs() -> None:
    how_to = (DOCS / "index.md").read_text("utf-8").partition(":caption: How to\n")[2].partition("```")[0]
    last = {name: (DOCS / f"{name}.md").read_text("utf-8").rpartition("\n## ")[2] for name in how_to.split()[2:]}
    assert last and [name for name, text in last.items() if not text.startswith("What it costs\n")] == []


SHOWN = {
    Path(name).name: caption
    for page in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
    for name, caption in re.findall(
        r"!\[[^]]+\]\(((?:\.\./)?benchmarks/figures/[^)]+)\)\n\n(.+)", page.read_text("utf-8")
    )
}
"""Figures of pages, by file name: the line below."""

FIGURES = sorted(path for path in (ROOT / "benchmarks" / "figures").rglob("*") if path.suffix in (".png", ".webp"))


def texts(path: Path) -> dict[str, str]:
    """What a PNG file says of itself, by keyword."""
    content, at, found = path.read_bytes(), 8, {}
    while at < len(content):
        size, kind = struct.unpack(">I4s", content[at : at + 8])
        if kind == b"tEXt":
            key, text = content[at + 8 : at + 8 + size].decode("latin-1").split("\0")
            found[key] = text
        at += 12 + size
    return found


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.name)
def test_a_figure_has_a_page_its_command_and_the_code_that_it_shows(path: Path) -> None:
    """Films show what a command does, and are of no code in particular; all else is as old as what measures it."""
    assert path.name in SHOWN, "a figure without a page: show it, with its command below, or take it away"
    command, day = re.match(r"`([^`]+)`; (\d{4}-\d\d-\d\d)\b", SHOWN[path.name]).groups()  # type: ignore[union-attr]
    assert date.fromisoformat(day) and re.match(
        r"(\w+=\w+ )*(delassus|python (examples|benchmarks)/\w+\.py)\b", command
    )
    if path.suffix == ".png":
        said = texts(path)
        assert SHOWN[path.name] == said["Description"], "the line below the figure is what it says of itself"
        home, code = said["Source"].split()
        assert digest(ROOT / home) == code, f"{home} has changed: run {command} again"


def test_outputs_stand_below_their_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    executed = importlib.import_module("executed")
    monkeypatch.setattr(executed, "HERE", tmp_path)
    page = "# T\n\n```python\na = 1\n```\n\nand\n\n```python\nprint(a + 1)\n```\n"
    (tmp_path / "page.md").write_text(page)
    for _ in range(2):
        assert executed.with_outputs(page, "page") == page + "\n```text\n2\n```\n"
        (tmp_path / "page.md").unlink(missing_ok=True)  # the second time from what is kept
    (tmp_path / "page.md").write_text(page.replace("a + 1", "b"))
    with pytest.raises(RuntimeError, match="NameError"):
        executed.with_outputs(page.replace("a + 1", "b"), "page")


def test_a_block_without_its_package_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    executed = importlib.import_module("executed")
    monkeypatch.setattr(executed, "OPTIONAL", {"not_a_package"})
    blocks = ("import not_a_package as p\n\n\ndef f():\n    b = 1", "a = 2\np.a", "f()", "print(1)", "a = 3\nprint(a)")
    page = "\n".join(f"```python\n{block}\n```\n" for block in blocks)
    *without, one, again = (output["text"] for output in executed.run(page, tmp_path))
    assert without == ["(Not run here: not_a_package is not installed.)"] * 3 and (one, again) == ("1\n", "3\n")
    with pytest.raises(NameError):
        executed.run("```python\nimport not_a_package\n```\n\n```python\nc\n```\n", tmp_path)
    monkeypatch.setattr(executed, "OPTIONAL", set())
    with pytest.raises(ModuleNotFoundError):
        executed.run("```python\nimport not_a_package\n```\n", tmp_path)


def test_help_of_the_package_is_its_catalogue() -> None:
    """Every public name with a few words, and not the text of each, which pydoc puts where it finds `__all__`."""
    shown = pydoc.render_doc(delassus, renderer=pydoc.plaintext)
    assert re.findall(r"^ +`(\w+)` +\S", shown, re.M) == list(dict.fromkeys(re.findall(r"(?<!`)`(\w+)`(?!`)", shown)))
    assert set(re.findall(r"^ +`(\w+)`", shown, re.M)) == set(delassus.__all__)
    assert max(map(len, shown.splitlines())) <= 120 and shown.count("\n") < 175
    assert pydoc.render_doc(delassus.Tree, renderer=pydoc.plaintext).count("\n") > 150
