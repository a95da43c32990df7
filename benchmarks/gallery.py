"""Pictures of ready scenes, and the page that shows them: ``python benchmarks/gallery.py [NAME …]``.

Each scene of `VIEWS` is run to its end and checked; its row of ``docs/gallery.md`` is its description, its picture and
what the check measured. With names, only these are made anew.
"""

import argparse
import datetime
import re
from pathlib import Path

import numpy as np
from PIL import Image

from delassus.pictures.rendering import Renderer
from delassus.scenes import SCENES

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "gallery.md"
FOLDER = ROOT / "benchmarks" / "figures" / "gallery"
SIZE = (800, 450)

VIEWS = {
    "tiles": (2.5, (0.55, 0, 0.1), (0.5, -1.5, 0.7)),
    "gripper": (4.6, (0.02, 0, 0.25), (0.55, -1.3, 0.5)),
    "door": (2.4, (-0.45, 0.1, 1.05), (-1.4, -3.2, 1.0)),
    "car": (1.1, (2.0, 0, 0.12), (1.0, -2.1, 0.9)),
    "delta": (0.68, (0, 0, -0.25), (0.45, -1.3, 0.35)),
    "humanoid": (1.6, (0.45, 0, 0.85), (1.3, -3.2, 0.9)),
    "newtons-cradle": (0.6, (0.25, 0, 0.22), (0.45, -1.1, 0.25)),
    "dominoes": (0.62, (0.14, 0.14, 0.0), (0.17, -0.4, 0.27)),
    "card-house": (3.0, (0.18, 0, 0.21), (0.25, -0.75, 0.2)),
    "rope-bridge": (1.2, (0, 0, -0.25), (1.2, -4.5, 1.6)),
    "bin": (1.6, (0, 0, 0.1), (0.35, -0.7, 0.85)),
    "conveyor": (5.0, (0.9, 0, 0), (-0.7, -2.2, 1.9)),
}
"""Time of the picture (s), what the camera looks at, and where it is from there (m)."""

HEAD = """# Gallery

Scenes that are ready to run. `delassus simulate NAME` runs one, and says at its end whether it did what it is there
for; with `--view` you watch it in the browser. Each is one short file of public names in `delassus/scenes/`, a start
for scenes of your own. In Python: `ready = delassus.scenes.SCENES["dominoes"]()`, then `ready.simulator()`.

The line below a picture is what the check of the scene measured.
"""


def show(name):
    """Run a scene: its picture, and its part of the page."""
    time, target, away = VIEWS[name]
    ready = SCENES[name]()
    sim, image = ready.simulator(), None
    for _ in range(round(ready.duration / sim.dt)):
        if image is None and sim.time >= time - 0.5 * sim.dt:
            image = Renderer(ready.scene, ready.q0, *SIZE).picture(sim.q, np.array(target), np.array(away))
        sim.step_by(ready.controller)
    if image is None:
        image = Renderer(ready.scene, ready.q0, *SIZE).picture(sim.q, np.array(target), np.array(away))
    holds, measured = ready.check(sim)
    if not holds:
        raise RuntimeError(f"{name}: {measured}")
    path = FOLDER / f"{name}.webp"
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(image).save(path, quality=75, method=6)
    today, title = datetime.date.today(), name.replace("-", " ").replace("newtons", "Newton's").capitalize()
    print(f"{name}: {measured}; {path.stat().st_size / 1e3:.0f} kB")
    picture = f"![{ready.description}](../{path.relative_to(ROOT)})"
    below = f"`delassus simulate {name}`; {today}: {measured}."
    return f"## {title}\n\n{ready.description[0].upper()}{ready.description[1:]}.\n\n{picture}\n\n{below}\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names or list(VIEWS)
    parts = re.split(r"^(?=## )", PAGE.read_text("utf-8"), flags=re.M)[1:] if PAGE.exists() else []
    kept = {re.search(r"delassus simulate ([\w-]+)`", part)[1]: part.rstrip() + "\n" for part in parts}
    for name in names:
        kept[name] = show(name)
        text = "\n".join([HEAD, *(kept[name] for name in VIEWS if name in kept)])
        PAGE.write_text(text, "utf-8")
