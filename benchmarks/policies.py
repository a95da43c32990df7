"""How Go1 learns by proximal policy optimisation and by gradients through contact: ``python benchmarks/policies.py``.

Both by `examples/train.py`, on one thread (``OMP_NUM_THREADS=1``), several seeds each. Every quarter of a minute of
processor time their policies are scored, without noise in the actions and out of that time, by `train.score`.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from delassus.cli.tables import Record, environment
from delassus.pictures.plots import SMALL, save_figure
from delassus_studies.figures import BLUE, ORANGE, side_by_side, stamp, tidy

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))
import train  # noqa: E402

LABELS = {False: "proximal policy optimisation", True: "gradients through contact"}


def curve(gradient: bool, seed: int, minutes: float) -> list[tuple[float, float]]:
    """Processor time (min) and reward a second."""
    found: list[tuple[float, float]] = []
    for learner, spent, _ in train.train("Go1Velocity", minutes, seed, 1, gradient):
        if not found or spent >= found[-1][0] + 0.25 or spent >= minutes:
            found.append((spent, train.score("Go1Velocity", learner.act)[0]))
            print(f"{LABELS[gradient]}, seed {seed}: {spent:5.2f} min, {found[-1][1]:.3f} a second", flush=True)
    return found


def draw(record: Record, path: Path) -> Path:
    """Scores over processor time, a line for each seed."""
    figure, (axes,) = side_by_side(1, 3.0)
    for colour, (label, runs) in zip((BLUE, ORANGE), record["curves"].items(), strict=True):
        for k, run in enumerate(runs):
            axes.plot(*np.array(run).T, color=colour, label=None if k else label)
    axes.set(xlabel="processor time (min)", ylabel="reward a second, of 1.5 at most")
    tidy(axes)
    axes.legend(loc="lower right", fontsize=SMALL)
    command = "OMP_NUM_THREADS=1 python benchmarks/policies.py"
    return stamp(save_figure(figure, path), command, record, __file__)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="of processor time, of each run")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--plot", type=Path, default=Path("policies.png"))
    options = parser.parse_args()
    curves = {
        LABELS[gradient]: [curve(gradient, seed, options.minutes) for seed in range(options.seeds)]
        for gradient in (False, True)
    }
    record = {**environment(), "curves": curves}
    options.plot.with_suffix(".json").write_text(json.dumps(record))
    draw(record, options.plot)
