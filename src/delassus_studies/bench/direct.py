"""``delassus bench direct``: direct calls with many states, beside fewer and the compiled kernel in the same run.

"first" is the time of a first call with an empty cache. Matrices of a state that are large make their own time: that of
the memory which they take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, environment, table
from delassus.quantities.keywords import What
from delassus_studies.timing import best, each, uncached

FEW, TRIES = 900, 3
"""States of few, and calls, of which the fastest counts."""

Arguments = dict[str, Any]


def _calls(robot: ds.Tree, rows: Any, flat: Any) -> dict[str, tuple[What, Callable[..., Any], Any]]:
    """Direct calls by name: the kernel that does the same, what it takes, and its constraints."""
    hands = ds.Weld("left_hand", "right_hand")
    return {
        "delassus": ("delassus", lambda q, **_: ds.delassus(robot, rows, q), rows),
        "osim": ("osim", lambda q, **_: ds.osim(robot, rows, q), rows),
        "operator, solve": ("delassus_solution", lambda q, x, **_: ds.delassus_operator(robot, rows, q).solve(x), rows),
        "operator, dependent": (
            "delassus_solution", lambda q, x, **_: ds.delassus_operator(robot, flat, q).solve(x), flat,
        ),
        "consistent_inverse": ("consistent_inverse", lambda q, **_: ds.consistent_inverse(robot, rows, q), rows),
        "jacobian": ("jacobian", lambda q, **_: ds.jacobian(robot, rows, q), rows),
        "mass_matrix": ("mass_matrix", lambda q, **_: ds.mass_matrix(robot, q), rows),
        "forward_dynamics": (
            "dynamics", lambda q, v, tau, **_: ds.forward_dynamics(robot, q, v, tau, rows), rows,
        ),
        "impulse": ("impulse", lambda q, v, **_: ds.impulse(robot, q, v, rows), rows),
        "inverse_dynamics": (
            "inverse_dynamics", lambda q, v, tau, **_: ds.inverse_dynamics(robot, q, v, tau), (),
        ),
        "close_loops": ("close_loops", lambda q, **_: ds.close_loops(robot, hands, q), hands),
        "momentum": ("momentum", lambda q, v, **_: ds.momentum(robot, q, v), ()),
        "dynamics_derivatives": (
            "dynamics_derivatives", lambda q, v, tau, **_: ds.dynamics_derivatives(robot, q, v, tau, rows), rows,
        ),
    }  # fmt: skip


def measure(states: int = 100_000, quick: bool = False) -> Iterator[Record]:
    """Times of each direct call; the record after each."""
    robot = ds.mechanisms.humanoid()
    rows = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    corners = [ds.Frame("left_foot", (x, y, -0.02)) for x in (-0.1, 0.1) for y in (-0.05, 0.05)]
    calls = _calls(robot, rows, [ds.Point(at) for at in corners])
    names = ["delassus", "operator, solve"] if quick else list(calls)
    states = min(states, 20_000) if quick else states
    record = {**environment(), "states": states}
    return each(record, "calls", names, lambda name: _measure(robot, *calls[name], states))


def _measure(robot: ds.Tree, what: What, call: Callable[..., Any], constraints: Any, states: int) -> Record:
    rng, m, nv = np.random.default_rng(0), 12, robot.nv
    given: Arguments = {
        "q": robot.random(rng, states), "v": rng.normal(size=(states, nv)),
        "tau": rng.normal(size=(states, nv)), "x": rng.normal(size=(states, m)),
    }  # fmt: skip
    few, _ = best(lambda: call(**{name: x[:FEW] for name, x in given.items()}), TRIES)
    with uncached():
        first, _ = best(lambda: call(**given))
    kernel, like = ds.compile(robot, constraints, what), ds.compile(robot, constraints, "delassus")
    arguments = [given["tau" if a.name == "qdd" else a.name] for a in kernel.arguments]
    seconds, _ = best(lambda: call(**given), TRIES)
    alone, _ = best(lambda: kernel(*arguments), TRIES)
    matrix = best(lambda: like(given["q"]), TRIES)[0] if constraints else None
    return {
        "few": few / FEW, "first": first, "seconds": seconds, "kernel": alone, "delassus": matrix,
        "operations": kernel.operations.total,
    }  # fmt: skip


def tables(record: Record) -> Iterator[Table | str]:
    """Seconds of each call, and ratios."""
    yield f"humanoid, 12 rows, {record['states']} states; few: extrapolated from {FEW}"
    rows = [
        (name, f["few"] * record["states"], f["seconds"], f["kernel"], f["seconds"] / f["kernel"],
         f["delassus"] and f["seconds"] / f["delassus"], f["first"])
        for name, f in record["calls"].items()
    ]  # fmt: skip
    heads = ("call", "few s:.3f", "direct s:.3f", "kernel s:.3f", "of kernel:.1f", "of 'delassus':.1f",
             "first s:.1f")  # fmt: skip
    yield table("direct calls", heads, rows, grows=[len("dynamics_derivatives")])
