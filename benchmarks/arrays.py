"""Time per call of compiled kernels on arrays of JAX and PyTorch, beside `pure_callback` and frax, on one core.

Usage: python benchmarks/arrays.py [OPTIONS], those of ``delassus bench arrays``, such as ``--json FILE.json``.
"""

import sys

from delassus_studies.commands import bench_app

bench_app(["arrays", *sys.argv[1:]])
