"""Direct calls for one state beside Pinocchio in one run: ``python benchmarks/direct.py``.

Processor time of a humanoid on two feet (Talos where its description is installed). Pinocchio runs without estimates of
errors, checks of arguments or status. Also the time of a first call, in an empty cache, with the program that it makes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import delassus as ds
from delassus_studies.cases import demo_case, random_states
from delassus_studies.peers.pinocchio import delassus_call, exact_dynamics_call, inverse_dynamics_call
from delassus_studies.timing import interleaved, uncached

ROUNDS, REPEATS = 30, 20


def peers(case: Any, states: Any) -> dict[str, Callable[[], Any]]:
    """Pinocchio's calls for the same."""
    import pinocchio as pin

    from delassus.formats.pinocchio import tree_to_pinocchio

    model = tree_to_pinocchio(case.tree, unsupported="ignore")
    data, q = model.createData(), np.array(states.q[0])
    frame = model.getFrameId(case.constraints[0].first.link)
    return {
        "delassus": delassus_call(case, states.q),
        "forward_dynamics": exact_dynamics_call(case, states),
        "mass_matrix": lambda: pin.crba(model, data, q),
        "frame_jacobian": lambda: pin.computeFrameJacobian(model, data, q, frame),
        "inverse_dynamics": inverse_dynamics_call(case, states, alone=True),
    }


def main() -> None:
    """Print a line for each call."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0]).parse_args()
    warnings.simplefilter("ignore")
    case = demo_case()
    tree, feet, states = case.tree, case.constraints, random_states(case, 1)
    q, v, tau = (np.array(x[0]) for x in (states.q, states.v, states.tau))
    ours: dict[str, Callable[[], Any]] = {
        "delassus": lambda: ds.delassus(tree, feet, q),
        "forward_dynamics": lambda: ds.forward_dynamics(tree, q, v, tau, feet).qdd,
        "mass_matrix": lambda: ds.mass_matrix(tree, q),
        "frame_jacobian": lambda: ds.frame_jacobian(tree, q, feet[0].first),
        "inverse_dynamics": lambda: ds.inverse_dynamics(tree, q, v, tau),
    }
    theirs = peers(case, states)
    print(f"{case.name}, one state, µs a call: lowest of {ROUNDS} rounds")
    with uncached():
        for name, call in ours.items():
            began = time.process_time()
            call()
            first = time.process_time() - began
            found = interleaved({"ours": (call, 1), "theirs": (theirs[name], 1)}, ROUNDS, REPEATS, time.thread_time)
            own, other = (found[x]["lowest"] for x in ("ours", "theirs"))
            print(f"{name:18s} {own:8.1f}  Pinocchio {other:6.1f}  {own / other:5.1f} ×   first {1e3 * first:4.0f} ms")


if __name__ == "__main__":
    main()
