"""Public models: which are in the motion in whole, in part, or refused. Writes ``docs/models.md``.

Usage: python benchmarks/models.py [--out FILE.md]
"""

from __future__ import annotations

import argparse
import sysconfig
import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import delassus as ds

URDF = "example-robot-data"
PACKAGES = ("dm_control", "gymnasium", "gymnasium_robotics", URDF)

NO_MOTION = ("sensors of other kinds, with delays, or on bodies that no joint carries", "skins")
"""What has no influence on the motion."""

WHOLE, PART, REFUSED, FRAGMENT = "in whole", "in part", "refused", "no models"

ABOUT = """# Public models

Every MJCF file of {packages[0]}, {packages[1]} and {packages[2]}, and every URDF file of
{packages[3]}, as `load` takes it; MuJoCo {mujoco} compiles the MJCF files. `python benchmarks/models.py`
writes this page.

*In whole*: everything that moves the robot is in the motion, but for limits and Coulomb friction of joints, which need
a time step and act in `Simulator` and in contact steps (`tree.report` names them). Sensors and skins move nothing.
*In part*: the rest is listed by `load`, and below. *Refused*: `load` raises. *No models*: parts of other files, and
files that MuJoCo does not compile.
"""


def files() -> dict[tuple[str, str], Path]:
    """Files by package and path in it; of the packages that are installed."""
    out = {}
    for package in PACKAGES:
        if package == URDF:
            folder, ending = Path(sysconfig.get_path("purelib"), "cmeel.prefix/share", URDF, "robots"), "urdf"
        elif (spec := find_spec(package)) is not None and spec.origin is not None:
            folder, ending = Path(spec.origin).parent, "xml"
        else:
            continue
        out.update({(package, p.relative_to(folder).as_posix()): p for p in sorted(folder.rglob(f"*.{ending}"))})
    return out


def judged(path: Path) -> tuple[str, str]:
    """How much of a file is in the motion, and what is not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            omitted = ds.load(path, unsupported="ignore").omitted
    except ds.DelassusError as error:
        no_model = "MuJoCo compiles" in str(error) or "a <robot> (URDF), <sdf> (SDF) or <mujoco>" in str(error)
        return (FRAGMENT, "") if no_model else (REFUSED, str(error).replace(str(path), path.name))
    left = [f"{len(names)} {what}" for what, names in omitted.items() if what not in NO_MOTION]
    return (PART, "; ".join(left)) if left else (WHOLE, "")


def page(found: dict[tuple[str, str], tuple[str, str]]) -> str:
    """The page, of what was found of each file."""
    kinds = (WHOLE, PART, REFUSED, FRAGMENT)
    lines = [ABOUT.format(packages=[f"{p} {version(p)}" for p in PACKAGES], mujoco=version("mujoco"))]
    lines += [f"| package | {' | '.join(kinds)} |", "|---" * 5 + "|"]
    for package in PACKAGES:
        counts = [sum(p == package and kind == k for (p, _), (kind, _) in found.items()) for k in kinds]
        lines.append(f"| {package} | {' | '.join(map(str, counts))} |")
    for kind, heading in ((PART, "not in the motion"), (REFUSED, "why")):
        lines += ["", f"## {kind.capitalize()}", "", f"| package | files | {heading} |", "|---|---|---|"]
        rows: dict[tuple[str, str], list[str]] = {}
        for (package, name), (k, what) in found.items():
            if k == kind:
                rows.setdefault((package, what), []).append(f"`{name}`")
        lines += [f"| {package} | {', '.join(names)} | {what} |" for (package, what), names in rows.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the page of public models.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "models.md")
    out = parser.parse_args().out
    out.write_text(page({key: judged(path) for key, path in files().items()}))
    print(out)
