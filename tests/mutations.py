"""Plants faults in the library, one at a time, and lists those that no test finds. Run by hand, in pieces.

    python tests/mutations.py --map MAP                                      which test runs which lines: an hour
    python tests/mutations.py compiler spatial --n 40 --seed 3 --map MAP --results FILE
    python tests/mutations.py --file compiler/passes/allocate.py --map MAP   every fault of one file
    python tests/mutations.py compiler --n 40 --seed 3 --list                the faults, without running anything
    python tests/mutations.py --shortcuts                                    those of `shortcuts.py`, each with its test

Faults are planted in a copy of ``src`` in a temporary folder. The map says which tests run the block that a fault is
in; of these the cheapest are called first, those of each test file in turn, until one fails. A test that does not end
has found the fault. Tests that compare digests of generated code or read source files are left out (`LEFT_OUT`): they
find every change, right or wrong.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import hashlib
import importlib
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from faults import PACKAGE, Blocks, Fault, Faults
from shortcuts import SHORTCUTS

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (
    "compiler",
    "spatial",
    "algorithms",
    "constraints",
    "accuracy",
    "runtime",
    "contact",
    "solvers",
    "quantities/planner",
)

LEFT_OUT = {
    "architecture", "snapshot", "names", "documents", "site", "release", "bench", "bench_gpu", "claims", "cli",
    "cli_simulate", "gym", "video", "viewer", "helper_text", "threads_text", "tosses", "compatibility",
}  # fmt: skip
"""Test files that find any change at all, or that are about other rooms."""

MOST_TESTS, MOST_SECONDS = 60, 60.0
"""Tests that are called for a fault at most, and seconds that these took without one when the map was made."""

ALLOWED, MORE = 30.0, 3.0
"""Seconds that the tests of a fault may take beyond the times of the map, and by which factor longer than these."""

ALLOWED_ALONE = 300.0
"""Seconds that the test of a shortcut may take."""

AT_FIRST = 6
"""Tests that are called before the others, whose files need not be imported where these find the fault."""

PREPARED = "numpy", "llvmlite.binding", "hypothesis", "mpmath", "threadpoolctl", "scipy.spatial", "scipy.optimize"
"""Imported once, before processes of tests are forked."""

MEMORY = 12 << 30
"""Bytes that a process of tests may allocate: a fault in a size ends in an error."""


def files_of(rooms: list[str]) -> list[Path]:
    """Files of rooms, in order."""
    return sorted(path for room in rooms for path in (PACKAGE / room).rglob("*.py"))


def drawn(faults: list[Fault], n: int, seed: int) -> list[Fault]:
    """So many faults at random, of one kind after the other; conditions and comparisons twice as often."""
    rng, by_kind = random.Random(seed), collections.defaultdict(list)
    for fault in faults:
        by_kind[fault.kind].append(fault)
    for some in by_kind.values():
        rng.shuffle(some)
    kinds = sorted([*by_kind, *({"condition", "comparison"} & set(by_kind))])
    found: list[Fault] = []
    while len(found) < n and any(by_kind.values()):
        found += [fault for kind in kinds if by_kind[kind] and (fault := by_kind[kind].pop()).is_valid()]
    return found[:n]


# -- running tests ---------------------------------------------------------------------------------------------------


class Watch:
    """Notes the first failure in a file, as JSON."""

    def __init__(self, note: Path) -> None:
        self.note = note

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of a test."""
        if report.failed and not self.note.exists():
            crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", str(report.longrepr))
            self.note.write_text(json.dumps([report.nodeid, crash.strip().split("\n")[0][:160]]))


class Recorder:
    """Notes of each test that passes: its time, and the blocks that it ran first in its process."""

    def __init__(self, note: Path) -> None:
        self.note, self.names, self.seen = note, {}, {}

    def pytest_collection_finish(self) -> None:
        """Find what the library notes."""
        import delassus_blocks

        self.blocks = delassus_blocks

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """After each phase of a test."""
        name = report.nodeid
        seconds, passed = self.seen.get(name, (0.0, True))
        self.seen[name] = (seconds + report.duration, passed and report.passed)
        if report.when == "teardown" and self.seen[name][1]:
            hit = [k for k, x in enumerate(self.blocks.HIT) if x]
            hit += self.blocks.of_children()
            self.blocks.HIT[:] = bytes(len(self.blocks.HIT))
            with self.note.open("a") as file:
                file.write(json.dumps([name, round(self.seen[name][0], 3), sorted(set(hit))]) + "\n")


def call_tests(source: Path, folder: Path, plugin: object, arguments: list[str], limit: float) -> int | None:
    """Exit status of tests in a process of their own, with these sources; None if they took longer than the limit."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ |= {"TMPDIR": str(folder), "DELASSUS_BLOCKS": str(folder), "PYTHONPATH": str(source)}
            tempfile.tempdir = None
            sys.path[:0] = [str(source), str(ROOT / "tests")]
            os.chdir(ROOT)
            status = pytest.main(["-q", "-p", "no:cacheprovider", *arguments], plugins=[plugin])
            sys.stdout.flush()
            os._exit(int(status))
        finally:
            os._exit(70)
    end = time.monotonic() + limit
    pause = 0.05
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            end_group(child)
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(2 * pause, 0.5)
    end_group(child)
    os.waitpid(child, 0)
    return None


def end_group(child: int) -> None:
    """End what a process of tests has started, and itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


class Copy:
    """Sources in a temporary folder, of which one file at a time has a fault."""

    def __init__(self, folder: Path) -> None:
        self.source, self.folder = folder / "src", folder / "run"
        shutil.copytree(ROOT / "src", self.source, ignore=shutil.ignore_patterns("__pycache__"))
        self._time = int(time.time())

    def write(self, file: str, text: bytes) -> None:
        """Write a file of the package; at a time of its own, since Python takes it for unchanged by that."""
        path = self.source / "delassus" / file
        path.write_bytes(text)
        self._time += 2
        os.utime(path, (self._time, self._time))

    def call(self, plugin: object, arguments: list[str], limit: float) -> int | None:
        """Call tests in an empty folder; see `call_tests`."""
        while self.folder.exists():  # who was just ended may have written there last
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        return call_tests(self.source, self.folder, plugin, arguments, limit)

    def output(self) -> str:
        """What the last call printed."""
        return (self.folder / "output").read_text(errors="replace")


# -- which test runs what --------------------------------------------------------------------------------------------

BLOCKS_MODULE = """import atexit, json, os
KEYS = {keys}
COMPILED = {compiled}
HIT = bytearray({n})
HOME = os.getpid()

def note():
    if os.getpid() != HOME and os.environ.get("DELASSUS_BLOCKS"):
        name = os.path.join(os.environ["DELASSUS_BLOCKS"], f"{{os.getpid()}}")
        with open(name, "w") as file:
            json.dump([k for k, x in enumerate(HIT) if x], file)
        os.replace(name, os.path.join(os.environ["DELASSUS_BLOCKS"], f"child{{os.getpid()}}"))

if os.environ.get("DELASSUS_CHILD"):
    HOME = 0
os.environ["DELASSUS_CHILD"] = "1"
atexit.register(note)

def compiled(loop):
    for f in loop.with_called():
        HIT[COMPILED.get(f.function.__module__ + "." + f.function.__qualname__, 0)] = 1

def of_children():
    found, folder = [], os.environ["DELASSUS_BLOCKS"]
    for name in [x for x in os.listdir(folder) if x.startswith("child")]:
        with open(os.path.join(folder, name)) as file:
            found += json.load(file)
        os.remove(os.path.join(folder, name))
    return found
"""
"""What the library says it runs, in processes that tests start as well."""


def watched(copy: Copy) -> str:
    """Have all blocks of the copy say that they run; a digest of the sources."""
    keys, compiled, digest = list[str](), {}, hashlib.sha256()
    for path in files_of(list(ROOMS)):
        file, text = path.relative_to(PACKAGE).as_posix(), path.read_bytes()
        digest.update(text)
        blocks = Blocks(tree := ast.parse(text))
        module = "delassus." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for function, key in blocks.compiled.items():
            compiled[f"{module}.{function}"] = len(keys)
            keys.append(f"{file}:{key}")
        for key, (body, first) in blocks.starts.items():
            at, hit = body.index(first), f"_blocks.HIT[{len(keys)}] = 1"
            if file == "compiler/jit/compile.py" and key == "Compiled.machine/0":
                hit += "; _blocks.compiled(self)"
            while re.match("'|\"|from __future__", "".join(map(ast.unparse, body[at : at + 1]))):
                at += 1  # before all else stand docstrings and these imports
            body[at:at] = ast.parse(f"import delassus_blocks as _blocks; {hit}" if key == "/0" else hit).body
            keys.append(f"{file}:{key}")
        copy.write(file, ast.unparse(ast.fix_missing_locations(tree)).encode())
    module = BLOCKS_MODULE.format(keys=keys, compiled=compiled, n=len(keys))
    (copy.source / "delassus_blocks.py").write_text(module)
    return json.dumps([digest.hexdigest(), keys])


def make_map(file: Path, named: list[str]) -> None:
    """Add to the map what it lacks: of all test files, or those that are named, the fast tests, then the others."""
    with tempfile.TemporaryDirectory(prefix="delassus-faults-") as folder:
        head = watched(copy := Copy(Path(folder)))
        if not file.exists() or file.read_text().split("\n")[0] != head:
            file.write_text(head + "\n")
        done = {line for line in file.read_text().split("\n") if line.startswith('"')}
        every = [path.stem.removeprefix("test_") for path in sorted((ROOT / "tests").glob("test_*.py"))]
        wanted = named or [name for name in every if name not in LEFT_OUT]
        for marker, name in itertools.product(("fast", "not fast"), wanted):
            end = json.dumps(f"{name} {marker}")
            if end not in done:
                start = time.monotonic()
                status = copy.call(Recorder(file), [f"tests/test_{name}.py", "-m", marker], 3600.0)
                with file.open("a") as notes:
                    notes.write(end + "\n")
                print(f"{name}, {marker}: {time.monotonic() - start:.0f} s, status {status}", flush=True)
                if status not in (0, 5):
                    print(copy.output()[-1500:], flush=True)


class Map:
    """Tests of blocks; of each fault so many are called at most, that take so many seconds together."""

    def __init__(self, file: Path, most: int = MOST_TESTS, seconds: float = MOST_SECONDS) -> None:
        self.most, self.left = most, seconds
        first, *lines = file.read_text().split("\n")
        keys = json.loads(first)[1]
        self.seconds: dict[str, float] = {}
        self.tests: dict[str, list[str]] = collections.defaultdict(list)
        for line in lines:
            if line.startswith("["):
                name, self.seconds[name], hit = json.loads(line)
                for k in hit:
                    self.tests[keys[k]].append(name)

    def tests_of(self, fault: Fault) -> list[str]:
        """Tests that run the block of a fault, the cheapest of each file first; of a module, those of its functions."""
        key = f"{fault.file}:{fault.block}"
        is_module = fault.block.startswith("/")
        near = [k for k in self.tests if k.startswith(f"{fault.file}:") and not k.startswith(f"{fault.file}:/")]
        counts = collections.Counter(
            name for k in (near if is_module or key not in self.tests else [key]) for name in self.tests[k]
        )
        by_file = collections.defaultdict(list)
        for name in sorted(counts, key=lambda name: (self.seconds[name] / counts[name], name)):
            by_file[name.split("::")[0]].append(name)
        files = sorted(by_file.values(), key=lambda names: self.seconds[names[0]] / counts[names[0]])
        found, left = list[str](), self.left
        for name in filter(None, itertools.chain(*itertools.zip_longest(*files))):
            if len(found) < self.most and (self.seconds[name] <= left or not found):
                found.append(name)
                left -= self.seconds[name]
        return found


# -- faults one by one -----------------------------------------------------------------------------------------------


def tried(copy: Copy, fault: Fault, tests: list[str], limit: float) -> dict[str, object]:
    """What tests say of a fault: "found", by which, or "survived"; "untested" where there are none."""
    note, start = copy.source.parent / "failure", time.monotonic()
    note.unlink(missing_ok=True)
    if not tests:
        return {"result": "untested"}
    original = (PACKAGE / fault.file).read_bytes()
    copy.write(fault.file, fault.planted())
    try:
        for some in filter(None, (tests[:AT_FIRST], tests[AT_FIRST:])):
            status = copy.call(Watch(note), ["-x", *some], limit)
            if status != 0:
                break
    finally:
        copy.write(fault.file, original)
    by, message = json.loads(note.read_text()) if note.exists() else ("", "")
    if status == pytest.ExitCode.USAGE_ERROR and copy.call(Watch(note), ["--collect-only", *tests], limit) != 0:
        raise SystemExit(f"the map is not of these tests: {copy.output()[-500:]}")
    result = "survived" if status == 0 else "found"
    by = by or ("no end" if status is None else f"status {status}")
    seconds = round(time.monotonic() - start, 1)
    return {
        "result": result,
        "by": "" if status == 0 else by,
        "message": message,
        "tests": len(tests),
        "seconds": seconds,
    }


def try_all(faults: list[Fault], known: Map, results: Path | None) -> None:
    """Plant faults that have no result yet, and print what survives and the share that is found."""
    done = {}
    if results and results.exists():
        done = {x["key"]: x for x in map(json.loads, results.read_text().splitlines())}
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="delassus-faults-") as folder:
        copy = Copy(Path(folder))
        for fault in faults:
            said = done.get(fault.key)
            if said is None:
                tests = known.tests_of(fault)
                limit = ALLOWED + MORE * sum(map(known.seconds.__getitem__, tests))
                said = {"key": fault.key, **asdict(fault), **tried(copy, fault, tests, limit)}
                if results:
                    with results.open("a") as file:
                        file.write(json.dumps(said, ensure_ascii=False) + "\n")
            counts[said["result"]] += 1
            print(f"{said['result']}: {shown(fault)}  {said.get('by', '')}", flush=True)
    print(f"{counts['found']} of {sum(counts.values())} faults are found: {dict(counts)}")


def try_shortcuts(parts: list[str]) -> None:
    """Plant the faults of `shortcuts.py` whose files begin with one of these; the test of each is to fail."""
    survived = 0
    with tempfile.TemporaryDirectory(prefix="delassus-faults-") as folder:
        copy = Copy(Path(folder))
        for file, by_test in SHORTCUTS.items():
            for test, changes in by_test.items() if any(map(file.startswith, parts or [""])) else ():
                for before, after in changes:
                    fault = Faults(PACKAGE / file).at(before, after)
                    said = tried(copy, fault, [f"tests/{test}"], ALLOWED_ALONE)
                    survived += said["result"] != "found"
                    print(f"{said['result']}: {shown(fault)}  {said['by']}", flush=True)
    raise SystemExit(f"{survived} survived" if survived else 0)


def shown(fault: Fault) -> str:
    """Place and change of a fault, on one line."""
    before, after = (re.sub(r"\s+", " ", text).strip()[:90] for text in (fault.before, fault.after))
    return f"{fault.file}:{fault.line} [{fault.kind}] {before!r} → {after!r}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", help=f"of {', '.join(ROOMS)}; all without one")
    parser.add_argument("--file", action="append", default=[], help="a file of the package, instead of rooms")
    parser.add_argument("--n", type=int, default=0, help="faults of each room or file; all without it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="print the faults")
    parser.add_argument("--map", type=Path, help="which test runs what; made or completed where nothing else is asked")
    parser.add_argument("--tests", nargs="*", default=[], help="what the map is to have: plan for test_plan.py")
    parser.add_argument("--results", type=Path, help="JSON lines; what they have is not tried again")
    parser.add_argument("--most", type=int, default=MOST_TESTS, help="tests that are called for a fault")
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS, help="seconds that these take without one")
    parser.add_argument("--shortcuts", action="store_true", help="faults of shortcuts.py, each with its test")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in PREPARED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if options.shortcuts:
        return try_shortcuts(options.rooms + options.file)
    parts = [[PACKAGE / file] for file in options.file] or [files_of([room]) for room in options.rooms]
    if options.map and not parts:
        return make_map(options.map, options.tests)
    faults: list[Fault] = []
    for files in parts or [files_of([room]) for room in ROOMS]:
        found = [fault for path in files for fault in Faults(path).found.values()]
        faults += drawn(found, options.n, options.seed) if options.n else found
    if options.list or not options.map:
        print("\n".join(map(shown, faults)), f"\n{len(faults)} faults")
        return None
    known = Map(options.map, options.most, options.seconds)
    return try_all(faults, known, options.results)


if __name__ == "__main__":
    main()
