"""What the formulations of [OS] cost: assembly by length of a pendulum, steps, simulations (Tables 1 and 2).

Usage: python benchmarks/contact_formulations.py [FILE.json]
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from delassus_studies.claims_contact import LENGTHS, ROUNDS, assembly_times, exponent
from delassus_studies.claims_contact_runs import whole_swing, window
from delassus_studies.claims_contact_times import PAIR, PAPER_RATIOS, WAYS, swing
from delassus_studies.timing import pinned, setting

record = {"setting": setting(), "assembly": {}, "steps": {}, "simulations": {}}
with pinned():
    for name, times in assembly_times(LENGTHS, ROUNDS).items():
        micro = [round(1e6 * t, 1) for t in times]
        record["assembly"][name] = dict(zip(LENGTHS, micro, strict=True))
        print(f"assembly {name:7s} {micro} µs for {LENGTHS} links, exponent {exponent(times):.2f}")
    for n, paper in PAPER_RATIOS.items():
        found = swing(n)
        record["steps"][n] = {
            "touching": found.touching,
            "steps": found.steps,
            "free": {way: {f: found.free[way, f] for f in PAIR} for way in WAYS},
            "contact": {way: {f: found.contact[way, f] for f in PAIR} for way in WAYS},
            "apart": found.apart,
            "solved": found.solved,
            "tried": found.tried,
        }
        ratios = ", ".join(f"{way} {found.ratio(way):.1f}" for way in WAYS)
        print(f"{n:2d} links, a step: NMC/OS over OS {ratios} (paper {paper:.1f})")
    for n, paper in PAPER_RATIOS.items():
        races = {"swing": whole_swing(n), "window": window(n)}
        record["simulations"][n] = {name: asdict(race) for name, race in races.items()}
        ratios = ", ".join(f"{name} {race.ratio:.1f}" for name, race in races.items())
        print(f"{n:2d} links, simulated: NMC/OS over OS {ratios} (paper {paper:.1f})")
if len(sys.argv) > 1:
    Path(sys.argv[1]).write_text(json.dumps(record, indent=1))
