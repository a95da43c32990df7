"""Time per state of compiled kernels beside their peers at the same random states, pinned to one core.

Usage: python benchmarks/speed.py [FILE.json]; also ``delassus bench speed``.
"""

import sys
from pathlib import Path

from rich.console import Console

from delassus_studies.bench_speed import run

run(Console(), Path(sys.argv[1]) if len(sys.argv) > 1 else None)
