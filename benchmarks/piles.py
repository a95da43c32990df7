"""Time per step of heaps, piles, stacks and a standing quadruped, and MuJoCo in the same run.

Usage: python benchmarks/piles.py [OPTIONS], those of ``delassus bench piles``, such as ``--json FILE.json``.
"""

import sys

from delassus_studies.commands import bench_app

bench_app(["piles", *sys.argv[1:]])
