"""What the formulations of [OS] cost: assembly by length of a pendulum, and steps along its swing (Tables 1 and 2).

Usage: python benchmarks/contact_formulations.py [FILE.json]
"""

import json
import sys
from pathlib import Path

from delassus.cli.claims_contact import LENGTHS, ROUNDS, assembly_times, exponent
from delassus.cli.claims_contact_times import PAPER, swing
from delassus.cli.timing import pinned, setting

record = {"setting": setting(), "assembly": {}, "steps": {}}
with pinned():
    for name, times in assembly_times(LENGTHS, ROUNDS).items():
        micro = [round(1e6 * t, 1) for t in times]
        record["assembly"][name] = dict(zip(LENGTHS, micro, strict=True))
        print(f"assembly {name:7s} {micro} µs for {LENGTHS} links, exponent {exponent(times):.2f}")
    for n, paper in PAPER.items():
        found = swing(n)
        record["steps"][n] = {
            "contacts": found.contacts.tolist(),
            "os": found.os.tolist(),
            "nmc-os": found.nmc_os.tolist(),
            "apart": found.apart,
            "unsolved": found.unsolved,
        }
        print(
            f"{n:2d} links: OS {found.os.mean() * 1e6:.0f} µs, NMC/OS {found.nmc_os.mean() * 1e6:.0f} µs, ratio "
            f"{found.ratio:.1f} (paper {paper}), velocities apart {found.apart:.0e}, unsolved {found.unsolved}"
        )
if len(sys.argv) > 1:
    Path(sys.argv[1]).write_text(json.dumps(record, indent=1))
