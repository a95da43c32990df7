"""Time per call of compiled kernels on arrays of JAX and PyTorch, beside `pure_callback` and frax, on one core.

With ``--dask``: 10⁷ states in blocks, on one worker process and on two.

Usage: python benchmarks/arrays.py [OPTIONS], those of ``delassus bench arrays``, such as ``--json FILE.json``.
"""

import sys

from delassus_studies.commands import bench_app

if __name__ == "__main__":  # Dask's workers read this file, too
    bench_app(["arrays", *sys.argv[1:]])
