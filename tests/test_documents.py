"""What the documents say runs: README, examples, docstrings, CI."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import delassus

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_python_blocks_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    scopes: list[dict[str, object]] = [{} for _ in blocks]
    for block, scope in zip(blocks, scopes, strict=True):
        exec(compile(block, "README.md", "exec"), scope)
    matrices, dynamics, contact = scopes
    assert matrices["G"].shape == (100, 15, 15)  # type: ignore[attr-defined]
    assert dynamics["qs"].shape[:2] == (51, 100)  # type: ignore[attr-defined]
    assert np.allclose(dynamics["qdd"], dynamics["solution"].qdd)  # type: ignore[attr-defined, arg-type]
    assert contact["sim"].impulses[:, 2].sum() / 1e-3 == pytest.approx(2.0 * 9.81)  # type: ignore[attr-defined]
    assert contact["solution"].status.name == "CONVERGED"  # type: ignore[attr-defined]
    assert "OperationCount" in capsys.readouterr().out


def test_readme_names_every_method() -> None:
    for method in (*delassus.OSIM_METHODS, *delassus.DYNAMICS_METHODS):
        assert f"`{method}`" in README


def test_ci_runs_exactly_the_readme_test_command() -> None:
    commands = [line for line in README.splitlines() if "-m pytest" in line]
    assert len(commands) == 1
    assert commands[0] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_example_runs(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


SOURCES = ROOT / "src"
WITH_EXAMPLES = sorted(path for path in SOURCES.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda p: p.stem)
def test_examples_in_docstrings_run(path: Path) -> None:
    name = ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.attempted > 0 and outcome.failed == 0
