"""Time per state of compiled kernels beside Pinocchio's computeDelassusMatrix, at the same random states.

Usage: python benchmarks/speed.py [FILE.json]; also ``delassus bench speed``. Run it pinned: ``taskset -c 0 python …``.
"""

import sys
from pathlib import Path

from rich.console import Console

from delassus.cli.bench_speed import run

run(Console(), Path(sys.argv[1]) if len(sys.argv) > 1 else None)
