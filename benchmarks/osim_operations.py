"""Operations of every Delassus method on the benchmark robots, by kind and by phase.

Usage: python benchmarks/osim_operations.py [OPTIONS], those of ``delassus bench osim``, such as ``--json FILE.json``.
"""

import sys

from delassus_studies.commands import bench_app

bench_app(["osim", *sys.argv[1:]])
