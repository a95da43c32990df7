"""Time per state of compiled kernels beside their peers at the same random states, on one core.

Usage: python benchmarks/speed.py [OPTIONS], those of ``delassus bench speed``, such as ``--json FILE.json``.
"""

import sys

from delassus_studies.commands import bench_app

bench_app(["speed", *sys.argv[1:]])
