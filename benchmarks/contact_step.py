"""Time per step of the pendulum of spheres, its shares, and MuJoCo in the same run.

Usage: python benchmarks/contact_step.py [FILE.json]; also ``delassus bench contact``.
"""

import sys
from pathlib import Path

from rich.console import Console

from delassus_studies.bench_contact import run

run(Console(), Path(sys.argv[1]) if len(sys.argv) > 1 else None)
