"""Seconds of cold compilations against the length of the program: chains of up to 1000 links.

Usage: python benchmarks/compile_time.py [FILE.json]; also ``delassus bench compile``.
The figure goes to benchmarks/figures.
"""

import sys
from pathlib import Path

from rich.console import Console

from delassus_studies.bench_compile import run

FIGURES = Path(__file__).parent / "figures"
run(Console(), FIGURES, Path(sys.argv[1]) if len(sys.argv) > 1 else None)
