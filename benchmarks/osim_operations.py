"""Operations of every Delassus method on the benchmark robots, by phase; writes JSON beside the table.

Usage: python benchmarks/osim_operations.py [FILE.json]
"""

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from delassus import OSIM_METHODS, count_operations
from delassus_studies.cases import benchmark_cases

record = {"machine": platform.machine(), "casadi": version("casadi"), "cases": {}}
for case in benchmark_cases():
    print(f"\n{case.name}")
    rows = record["cases"][case.name] = {}
    for method in OSIM_METHODS:
        report = count_operations(case.tree, case.constraints, method=method)
        rows[method] = {
            "raw": report.raw.total,
            "clean": report.clean.total,
            "phases": {name: count.total for name, count in report.phases},
        }
        print(f"  {method:9s} raw {report.raw.total:7,}  clean {report.clean.total:7,}  {rows[method]['phases']}")
if len(sys.argv) > 1:
    Path(sys.argv[1]).write_text(json.dumps(record, indent=1))
