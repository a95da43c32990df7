"""Cost of compiled PV-OSIM, PV-OSIMr and auto against links and rows, with fitted slopes.

Usage: python benchmarks/scaling.py [FILE.json]; also ``delassus bench scaling``.
The figure goes to benchmarks/figures.
"""

import sys
from pathlib import Path

from rich.console import Console

from delassus_studies.bench_scaling import run

FIGURES = Path(__file__).parent / "figures"
run(Console(), FIGURES, Path(sys.argv[1]) if len(sys.argv) > 1 else None)
