"""Write the time step of an arm as C into the folder ``generated`` beside this file, for the project in it."""

import sys
from pathlib import Path

import delassus as ds

folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "generated")
arm = ds.mechanisms.chain(7)
step = ds.compile(arm, [ds.Point(ds.Frame("link7", (0.0, 0.0, -0.3)))], "step", baumgarte=20.0)
for path in step.export_c(folder):
    print(path)
