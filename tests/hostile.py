"""Every argument of every public function, method and option, given what makes no sense.

    python tests/hostile.py                       # all of it: some ten minutes
    python tests/hostile.py --only Scene.add      # of one call
    python tests/hostile.py --part 20             # one value in twenty, as `test_bad_input` has them

An answer is a result, or a `DelassusError`. Anything else is printed, one line each: other errors, calls that take
longer than `PATIENCE` or more memory than `ROOM`, and files that a call which failed has left or changed.
Calls with arguments that are right are in `hostile_calls`; what is public and not there is printed, too.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import delassus as ds
from generated import commit_number
from hostile_calls import FINITE, calls, left_out
from tools import Hostile, Raising, is_finite

PATIENCE, WAITING, STUCK = 20, 100, 200
"""Seconds of computing, and of waiting, after which a call is interrupted, and after which its process ends: code that
no signal reaches."""

ROOM = 4 * 2**30
"""Bytes beyond those after the table is made."""


class TooLong(BaseException):
    """Raised inside a call that takes too long; not an `Exception`, which objects' own conversions may raise."""


def nested(depth):
    out = [1.0]
    for _ in range(depth):
        out = [out]
    return out


VALUES = {
    "None": None, "True": True, "0": 0, "-1": -1, "2.5": 2.5, "1j": 1j, "10**30": 10**30, "10**400": 10**400,
    "-10**400": -(10**400), "10**5000": 10**5000, "nan": np.nan, "inf": np.inf, "-inf": -np.inf,
    "1e200": 1e200, "1e308": 1e308, "-1e308": -1e308, "1e-300": 1e-300, "5e-324": 5e-324, "text": "text",
    "empty text": "", "nul": "\0", "surrogate": "\ud800", "input": "input", "bytes": b"x",
    "bytearray": bytearray(8), "empty list": [], "[None]": [None],
    "mapping": {"a": 1}, "empty mapping": {}, "odd mapping": {1: None}, "set": {1}, "texts": ["text", "text"],
    "list of lists": [["text"]], "object": object(), "class": Hostile, "function": lambda *_, **__: None,
    "hostile": Hostile(), "raising": Raising(), "list": [Raising()], "matrix": np.eye(2).view(np.matrix),
    "whole": np.array([1, 2]), "array of texts": np.array(["link3", "b"]), "objects": np.array([object()]),
    "0-d": np.array(3.0), "0-d object": np.array(None), "ragged": [[1], [1, 2]], "large": [10**400] * 3,
    "long double": np.full(3, np.finfo(np.longdouble).max), "structured": np.zeros(3, [("a", float)]),
    "dates": np.array(["2026-01-01"], "M8[D]"), "masked": np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]),
    "masked constant": np.ma.masked, "33 deep": nested(33), "2000 deep": nested(2000), "none": np.empty(0),
    "no rows": np.empty((0, 3)), "axes": np.zeros((1,) * 40), "numpy bool": np.bool_(True), "slice": slice(None),
    "ellipsis": ..., "type": float, "error": ValueError("x"), "path": Path("nowhere"), "tree": ds.mechanisms.chain(1),
    "constraint": ds.Weld("nowhere"), "constraints": [ds.Weld("nowhere")], "int array": np.int64(2),
}  # fmt: skip
"""What is no argument of anything, or of something else."""


FOUND = {
    ("ilqr", "along"): ("→ 2.5", "→ [None]", "→ 1j", "→ ragged"),
    ("ilqr", "last"): ("→ 2.5", "→ float16", "fails"),
    ("ilqr", "q0"): ("batch array",),
    ("ilqr", "dt"): ("batch array", "10**400"),
    ("ilqr: jacobians", "jacobians"): ("none", "None"),
    ("Plan", "regularisation"): ("text",),
    ("identify", "prior"): ("damping: 5e-324",),
    ("identify: samples", "q"): ("all 1e200 array", "one nan array"),
    ("identify: samples", "scale"): ("1e-300",),
    ("BaseParameters.consistent", "values"): ("all 1e308 array",),
    ("Scene.without", "names"): ("empty list",),
    ("Scene.add", "mass"): ("text",),
    ("Scene.add", "at"): ("ragged", "2000 deep"),
    ("Scene.from_robot", "configuration"): ("mapping",),
    ("Scene.from_robot", "keyframe"): ("mapping",),
    ("contact.ContactStep", "J"): ("None",),
    ("contact.ContactStep", "v_before"): ("no states array",),
    ("contact.ground_below", "tree"): ("None",),
    ("Simulator.gradient", "loss"): ("→ None", "→ (nan, …)", "→ (text, …)"),
    ("Simulator.run", "duration"): ("1e200", "1e308"),
    ("rollout: policy", "steps"): ("10**400",),
    ("rollout: policy", "dt"): ("text",),
    ("compile: contact_step", "tolerance"): ("1e308",),
    ("compile: contact_step", "limits"): ("whole",),
    ("forward_dynamics", "control"): ("whole",),
    ("delassus_operator", "damping"): ("33 deep", "axes"),
    ("mass_matrix", "q"): ("10**5000",),
    ("Kernel.export_c", "folder"): ("surrogate",),
    ("Kernel.export_c", "return_error"): ("whole",),
    ("Tree", "parents"): ("None", "all -inf array"),
    ("Tree.closest_common_ancestor", "a"): ("inf",),
    ("contact.Sphere.contains", "points"): ("-1",),
    ("contact.collide", "problem"): ("None",),
    ("contact.solve_mixed", "solver"): ("text",),
    ("simulate.load_checkpoint", "scene"): ("tree",),
    ("gym.ArmReach", "device"): ("raising",),
    ("gym.Worlds", "kernel"): ("None",),
    ("gym.Worlds", "size"): ("generator",),
    ("gym.Worlds: sizes", "observed"): ("10**30",),
    ("gym.Worlds.call", "name"): ("None",),
    ("gym.Worlds.uniform", "worlds"): ("None",),
    ("gym.Worlds.uniform", "low"): ("None",),
    ("gym.Worlds.uniform", "shape"): ("large",),
    ("gym.World", "made"): ("→ None",),
    ("gym.World.reset", "seed"): ("int array",),
}
"""What found an error of another kind, a call that did not end, or a file left behind: always among those in turn."""


def itself():
    out = []
    out.append(out)
    return out


MADE = {
    "generator": lambda: (x for x in (1.0, "a")), "iterator": lambda: iter([1.0]), "file": lambda: open(os.devnull),
    "list of itself": itself, "range": lambda: range(3), "memoryview": lambda: memoryview(b"12345678"),
}  # fmt: skip
"""The same, made anew for each call."""


def is_numeric(x):
    try:
        return np.asarray(x).dtype.kind in "fiu" and not isinstance(x, bool)
    except Exception:
        return False


def shaped(x):
    """Arrays like a right one, but for what is in them, how they lie, or an axis."""
    x = np.asarray(x, dtype=float)
    fill = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e308": 1e308, "-1e308": -1e308, "1e200": 1e200,
            "-1": -1.0, "5e-324": 5e-324, "0": 0.0}  # fmt: skip
    yield from ((f"all {name}", np.full(x.shape, value)) for name, value in fill.items())
    some = x.copy()
    some[(0,) * x.ndim if x.size else ...] = np.nan
    yield "one nan", some
    for kind in ("complex128", "float16", "float32", "int64", "bool", "object", "U8", "longdouble", ">f8"):
        yield kind, x.astype(kind)
    yield "masked", np.ma.masked_array(x, np.ones(x.shape, bool))
    only = x.copy()
    only.flags.writeable = False
    yield "read-only", only
    yield "strided", np.repeat(x[..., None], 2, axis=-1)[..., 0]
    yield "reversed", np.flip(np.flip(x).copy()) if x.ndim else x
    yield "transposed", x.T if x.ndim > 1 else x[None].T
    yield "batch", np.stack([x, x])
    yield "no states", np.empty((0, *x.shape))
    yield "longer", np.concatenate([x, x]) if x.ndim else x
    yield "shorter", x[:-1] if x.ndim else x
    yield "nested", nested_list(x.tolist())
    yield "texts", x.astype(str).tolist()
    if x.ndim and x.size:
        yield "a None", [None, *x.tolist()[1:]]
        yield "ragged", [[1.0, 2.0], *x.tolist()[1:]]
        yield "a huge one", [10**400, *x.tolist()[1:]]


def nested_list(x):
    return [[[x]]]


def variants(good, deep=True):
    """Labels and makers of what an argument is given in place of a right one."""
    own = ("class", "type", "error") if callable(good) else ()  # these can be called, and say themselves how
    yield from ((name, lambda value=value: value) for name, value in VALUES.items() if name not in own)
    yield from MADE.items()
    if good is None or isinstance(good, str | bool | ds.Tree):
        return
    if is_numeric(good):
        yield from ((f"{name} array", lambda value=value: value) for name, value in shaped(good))
    if not deep:
        return
    if isinstance(good, dict):
        yield "one key more", lambda: {**good, "more": 1.0}
        for key, value in good.items():
            yield from ((f"{key}: {n}", lambda k=key, m=m: {**good, k: m()}) for n, m in variants(value, False))
    elif isinstance(good, list | tuple) and len(good) and not is_numeric(good):
        kind = type(good)
        yield from ((f"[{n}, …]", lambda m=m: kind([m(), *good[1:]])) for n, m in variants(good[0], False))
        yield "one more", lambda: kind([*good, good[0]])
    elif callable(good) and hasattr(good, "__code__"):
        yield from ((f"→ {n}", lambda m=m: lambda *_, **__: m()) for n, m in variants(0.0, False))

        def first(m):
            def call(*args, **given):
                found = good(*args, **given)
                return (m(), *found[1:]) if isinstance(found, tuple) else (m(), found)

            return call

        yield from ((f"→ ({n}, …)", lambda m=m: first(m)) for n, m in variants(0.0, False))

        def fails(*_, **__):
            raise ZeroDivisionError("of the caller's own")

        yield "fails", lambda: fails

        def made(change):
            def call(*args, **given):
                found = good(*args, **given)
                if isinstance(found, tuple):
                    return tuple(dict(shaped(x)).get(change, x) for x in found)
                return dict(shaped(found)).get(change, found) if is_numeric(found) else found

            return call

        yield from ((f"→ {c}", lambda c=c: made(c)) for c, _ in shaped(np.zeros(2)))


def too_long(*_):
    patience(0, 0)
    raise TooLong


def patience(computing, waiting):
    """Seconds until `TooLong` is raised; 0 is for ever."""
    signal.setitimer(signal.ITIMER_PROF, computing)
    signal.setitimer(signal.ITIMER_REAL, waiting)


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def fault(name, call, arguments, folder):
    """What else than a result or an error of ours came of a call; None if nothing."""
    before = contents(folder)
    patience(PATIENCE, WAITING)
    faulthandler.dump_traceback_later(STUCK, exit=True)
    try:
        result = call(**arguments)
        if name in FINITE and not is_finite(result):
            return "numbers that are not finite", ""
        return None
    except ds.DelassusError as error:
        assert str(error)
        if contents(folder) != before:
            return "left a file", str(error)
        return None
    except ZeroDivisionError as error:
        return None if "caller's own" in str(error) else described(error)
    except (Exception, TooLong) as error:
        return described(error)
    finally:
        patience(0, 0)
        faulthandler.cancel_dump_traceback_later()


def described(error):
    every = traceback.extract_tb(error.__traceback__)
    frames = [f for f in every if Path(ds.__file__).parent in Path(f.filename).parents]
    at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno} {frames[-1].name}" if frames else "outside"
    try:
        text = str(error)[:150]
    except Exception:
        text = "?"
    return f"{type(error).__name__}: {text}".replace("\n", " "), at


def run(part, only, say):
    """Call everything with one value in ``part`` of those in turn; number of calls and faults."""
    rng, done, faults = random.Random(commit_number()), 0, Counter()
    os.environ["DELASSUS_ANNOUNCE"] = ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "folder"
        folder.mkdir()
        table = calls(folder)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
        signal.signal(signal.SIGALRM, too_long)
        signal.signal(signal.SIGPROF, too_long)
        for of, (call, good) in table.items():
            if only and not any(of == o or of.partition(":")[0] == o for o in only):
                continue
            call(**good)
            for path in contents(folder):
                path.unlink()
            for argument, value in good.items():
                every = dict(variants(value))
                known = FOUND.get((of, argument), ())
                for label in dict.fromkeys([*known, *rng.sample(list(every), -(-len(every) // part))]):
                    make = every[label]
                    done += 1
                    found = fault(of, call, {**good, argument: make()}, folder)
                    for path in contents(folder):
                        path.unlink()
                    if found is not None:
                        faults[found] += 1
                        say(f"{of}({argument}={label}): {found[0]}  @ {found[1]}")
    return done, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=int, default=1, help="one value in so many")
    parser.add_argument("--only", nargs="*", help="names of calls")
    asked = parser.parse_args()
    np.seterr(all="ignore")
    missing = left_out(calls(Path(tempfile.mkdtemp())))
    for name in missing:
        print(f"{name}: not in the table of calls")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done, faults = run(asked.part, asked.only, lambda text: print(ascii(text)[1:-1], flush=True))
    print(f"{done} calls, {sum(faults.values())} faults of {len(faults)} kinds")
    sys.exit(bool(faults or missing))


if __name__ == "__main__":
    main()
