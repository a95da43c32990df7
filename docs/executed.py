"""Pages as programs: the blocks of a page's Python run in one process, and what each prints goes under it.

A page stays plain Markdown. As an extension of Sphinx this module runs every page, once for each content of its
blocks and of the library (`_executed/` keeps the outputs). Alone, ``python docs/executed.py PAGE FOLDER`` runs one
page, leaves its figures in FOLDER, and prints the outputs as JSON.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.S | re.M)
OPTIONAL = {"casadi", "dask", "distributed", "gymnasium", "jax", "matplotlib", "mujoco", "qpsolvers", "torch"}
"""Packages without which a block, and those that need its names, are left out, and say so."""

LONGEST = 30
"""Lines of an output: more is more than a screen."""

HERE = Path(__file__).parent


def run(text: str, folder: Path) -> list[dict[str, Any]]:
    """Run the blocks of a page; of each, what it prints and the names of its figures, PNG files in ``folder``."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    lost: dict[str, str] = {}  # names of blocks that are left out, and the package without which each is
    outputs = []
    for number, block in enumerate(BLOCK.findall(text)):
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(block, f"block {number}", "exec"), scope)
        except (ModuleNotFoundError, NameError) as error:
            package = lost.get(error.name or "", error.name)
            if package not in OPTIONAL:
                raise
            for name in _bound(block):
                scope.pop(name, None)
                lost[name] = package
            printed = io.StringIO(f"(Not run here: {package} is not installed.)")
        outputs.append({"text": printed.getvalue(), "figures": _figures(folder, number)})
    return outputs


def _bound(block: str) -> set[str]:
    """Names that a block binds: what needs one of these does not run without the block."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.split(".")[0])
    return found


def _figures(folder: Path, number: int) -> list[str]:
    names = []
    if "matplotlib.pyplot" in sys.modules:
        pyplot = sys.modules["matplotlib.pyplot"]
        for figure in map(pyplot.figure, pyplot.get_fignums()):
            names.append(f"{number}-{figure.number}.png")
            figure.savefig(folder / names[-1], dpi=120, bbox_inches="tight")
        pyplot.close("all")
    return names


def with_outputs(text: str, name: str) -> str:
    """Page ``text`` with the outputs of its blocks, which are run unless their outputs are kept already."""
    blocks = BLOCK.findall(text)
    content = hashlib.sha256("\n".join(blocks).encode())
    for path in sorted((HERE.parent / "src" / "delassus").rglob("*.py")):
        content.update(path.read_bytes())
    folder = HERE / "_executed" / content.hexdigest()[:16]
    kept = folder / "outputs.json"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, str(HERE / f"{name}.md"), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}.md does not run:\n{done.stderr}")
        kept.write_text(done.stdout, encoding="utf-8")
    outputs = iter(json.loads(kept.read_text(encoding="utf-8")))

    def shown(match: re.Match[str]) -> str:
        output = next(outputs)
        if output["text"].count("\n") > LONGEST:
            raise RuntimeError(f"{name}.md prints more than {LONGEST} lines below {match[1][:60]!r}")
        below = f"\n```text\n{output['text'].rstrip()}\n```\n" if output["text"].strip() else ""
        figures = [f"\n![](/{(folder / file).relative_to(HERE)})\n" for file in output["figures"]]
        return match[0] + below + "".join(figures)

    return BLOCK.sub(shown, text)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx; ``-D run_pages=0`` shows no outputs."""
    app.add_config_value("run_pages", True, "env", bool)

    def read(app: Any, name: str, source: list[str]) -> None:
        if app.config.run_pages and BLOCK.search(source[0]):
            source[0] = with_outputs(source[0], name)

    app.connect("source-read", read)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    import os

    os.environ.setdefault("MPLBACKEND", "Agg")
    print(json.dumps(run(Path(sys.argv[1]).read_text(encoding="utf-8"), Path(sys.argv[2]))))
