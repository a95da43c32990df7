"""Machine code that another process makes, while calls in this one go on.

LLVM holds a lock for the whole of a compilation, and tracing holds Python's: neither may keep this process waiting. The
other process is started when it is first needed, and does not see Ctrl-C. Where it cannot be started, or what runs is
no Python but a program that was frozen, a thread of this process compiles.

When this process ends, the other one still makes what it was asked for and stores it, at most for `LEFT`: else a script
that is shorter than a compilation would begin it again each time. One process of a cache does so at a time.
"""

from __future__ import annotations

import atexit
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple

from delassus.compiler.machine import cache
from delassus.errors import ConfigurationError, shown

LENGTH = struct.Struct("<q")
"""Before each message: its number of bytes."""

LEFT = 60.0
"""Seconds that the other process goes on for after the end of this one."""

COMMAND = "from delassus.compiler.machine.background import serve; serve()"


_one_at_a_time = threading.RLock()


def one_at_a_time() -> threading.RLock:
    """Lock of what threads of this process compile."""
    return _one_at_a_time


MODE = "DELASSUS_COMPILE"
"""Environment variable: whether calls of all kernels wait for machine code, see `MODES`."""

MODES = "wait", "background", "never"
"""Calls wait; they are answered by the evaluator until machine code is there; they are answered by it alone."""


def mode(wait: bool) -> str:
    """How calls of a kernel get their code: one of `MODES`.

    Raises
    ------
    ConfigurationError
        The environment variable says another word.
    """
    asked = os.environ.get(MODE, "").strip()
    if asked and asked not in MODES:
        raise ConfigurationError(MODE, " or ".join(map(repr, MODES)), shown(asked), "Set it to one, or unset it.")
    return asked or ("wait" if wait else "background")


@contextmanager
def waiting() -> Iterator[None]:
    """All calls wait for machine code meanwhile, for times of it."""
    before = os.environ.get(MODE)
    os.environ[MODE] = "wait"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(MODE, None)
        else:
            os.environ[MODE] = before


class Job(NamedTuple):
    """What is made, by a function that can be pickled; ``done`` is called with it on a thread."""

    make: Callable[[], bytes]
    done: Callable[[bytes], None]


class Maker:
    """The other process, and the thread that talks to it."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()
        threading.Thread(target=self._work, name="delassus-compiler", daemon=True).start()

    def ask(self, job: Job) -> None:
        """Have something made, after all that was asked for before."""
        self._jobs.put(job)

    def leave(self) -> None:
        """Let the other process end what was asked for, at the end of this one."""
        process = self._process
        if process is None or process.stdin is None or self._pid != os.getpid():
            return
        if sys.platform == "win32":  # it could not be one at a time
            self.end()
            return
        with suppress(Exception):
            while not self._jobs.empty():
                _write(process.stdin, pickle.dumps(self._jobs.get_nowait().make))
        with suppress(OSError):
            process.stdin.close()
        process.returncode = 0  # nobody waits for it

    def end(self) -> None:
        """End the other process."""
        if self._process is not None:
            with suppress(OSError):
                self._process.kill()
                self._process.wait()  # it may be writing to the cache

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            with suppress(Exception):  # whoever calls goes on without
                job.done(self._made(job))

    def _made(self, job: Job) -> bytes:
        try:
            if self._process is None:
                self._process = _started()
            assert self._process.stdin is not None and self._process.stdout is not None
            _write(self._process.stdin, pickle.dumps(job.make))
            made = _read(self._process.stdout)
        except Exception:  # it could not be started, or has died, or this cannot be sent
            self.end()
            self._process, made = None, b""
        return made or job.make()


def _started() -> subprocess.Popen[bytes]:
    """A process that serves; `OSError` where that would be another of a program that was frozen."""
    if getattr(sys, "frozen", False):
        raise OSError("no Python")
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths, "DELASSUS_COMPILE": "wait"}, start_new_session=True,
    )  # fmt: skip


def serve() -> None:
    """Answer all that comes in until the other end is closed; with nothing where that fails."""
    target, messages = sys.stdout.buffer, queue.SimpleQueue[bytes]()
    sys.stdout = sys.stderr  # nothing else goes there
    threading.Thread(target=_receive, args=(sys.stdin.buffer, messages), daemon=True).start()
    while message := messages.get():
        try:
            made: bytes = pickle.loads(message)()
        except Exception:
            made = b""
        with suppress(OSError):  # whoever asked has ended
            _write(target, made)


def _receive(source: IO[bytes], messages: queue.SimpleQueue[bytes]) -> None:
    """Pass messages on, and an empty one at the end; then end this process if it is not the only one or takes long."""
    with suppress(EOFError):
        while True:
            messages.put(_read(source))
    messages.put(b"")
    folder, end = cache.only_one("what is left"), time.monotonic() + LEFT
    while folder is not None and folder.is_dir() and time.monotonic() < end:
        time.sleep(0.1)
    os._exit(0)


def _read(source: IO[bytes]) -> bytes:
    """A message; `EOFError` where the other end is closed."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    return source.read(LENGTH.unpack(head)[0])


def _write(target: IO[bytes], message: bytes) -> None:
    target.write(LENGTH.pack(len(message)) + message)
    target.flush()


_maker: Maker | None = None


def maker() -> Maker:
    """That of this process."""
    global _maker
    if _maker is None:
        _maker = Maker()
        atexit.register(_maker.leave)
    return _maker


def _forget(*_: Any) -> None:
    """A forked child has its own maker, and a lock, as it has no thread that would release that of the parent."""
    global _maker, _one_at_a_time
    _one_at_a_time = threading.RLock()
    if _maker is not None and (process := _maker._process) is not None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.raw.close()  # type: ignore[attr-defined]  # what the parent was about to write is not written
    _maker = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
