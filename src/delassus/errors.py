"""Errors and warnings: what was wrong, what was expected, what came, what to do."""

from __future__ import annotations

import difflib
import logging
import reprlib
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Self

LONGEST_PART = 300
"""Parts of messages longer than this lose their middle: they may hold names of any length."""

_logger = logging.getLogger("delassus")

PATIENCE = 1.0
"""Seconds after which compilation, and waiting for it, say what they do."""


class DelassusError(Exception):
    """Base of every error that this library raises on purpose.

    Parameters
    ----------
    argument : str
        What was wrong: an argument, a file, a joint or a link, by name.
    expected : str
        What would have been right.
    got : str
        What came instead.
    advice : str
        What to do about it.
    """

    def __init__(self, argument: str, expected: str, got: str, advice: str) -> None:
        super().__init__(argument, expected, got, advice)
        self.argument, self.expected, self.got, self.advice = (
            visible(part, LONGEST_PART) for part in (argument, expected, got, advice)
        )

    def __str__(self) -> str:
        return f"{self.argument}: expected {self.expected}, got {self.got}. {self.advice}"


class ModelError(DelassusError, ValueError):
    """A robot description that is not that of a tree of rigid links."""


class ConfigurationError(DelassusError, ValueError):
    """A configuration or another numeric argument of the wrong shape, type or value."""


class FileError(ConfigurationError, OSError):
    """A file that cannot be written; what was there before stays as it was."""

    def __new__(cls, *_: object) -> Self:
        """Of the two kinds of errors, that of files has more to hold."""
        return OSError.__new__(cls)


class ConstraintError(DelassusError, ValueError):
    """A constraint that is malformed, or whose two frames are on one rigid body of the tree."""


class UnknownNameError(DelassusError, LookupError):
    """A link, frame, method or robot name that does not exist; the message offers the nearest match."""


class MissingDependencyError(DelassusError, ImportError):
    """An optional dependency that is not installed; the message names the pip command."""


class DeviceError(DelassusError, RuntimeError):
    """A GPU or its driver that cannot do what is asked: none is there, too old, out of memory, an error of a kernel."""


class DelassusWarning(UserWarning):
    """Something that a user should know of, and that does not make the result wrong."""


_SAID: dict[str, tuple[dict[str | tuple[str, type[Warning], int], int], tuple[str, int]]] = {}
"""What is said once: what `warnings` remembers of each, and the file and line where it was said first."""


class _Kind(str):
    """Text of a warning that Python's filters take for the same as any other of its ``kind``, whatever its numbers."""

    __slots__ = ("kind",)
    kind: str

    def __eq__(self, other: object) -> bool:
        return self.kind == other.kind if isinstance(other, _Kind) else str(self) == other

    def __hash__(self) -> int:
        return hash(self.kind)


def warn(message: str, *, once: bool = False, kind: str = "") -> None:
    """Issue a `DelassusWarning` at the line outside this package that called into it.

    ``once``: Python's default filter shows the same text once a process, from wherever it comes; others as ever.
    ``kind``: texts of one kind are the same to Python's filters, which by default show one of them for each line.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "delassus":
        frame, level = frame.f_back, level + 1
    text = visible(message, 4 * LONGEST_PART)
    if kind:
        text = _Kind(text)
        text.kind = kind
    if not once:
        warnings.warn(text, DelassusWarning, stacklevel=level)
        return
    registry, place = _SAID.setdefault(text, ({}, (frame.f_code.co_filename, frame.f_lineno)))
    warnings.warn_explicit(text, DelassusWarning, *place, registry=registry)


def announce(message: str) -> None:
    """Say what takes long: to the logger "delassus", or on stderr where that is a terminal and nobody listens."""
    if _logger.isEnabledFor(logging.INFO) and _logger.hasHandlers():
        _logger.info(visible(message))
        return
    with suppress(OSError, ValueError, AttributeError):  # nobody reads it any more, or ever did
        if sys.stderr.isatty():
            print(f"delassus: {visible(message)}", file=sys.stderr, flush=True)


@contextmanager
def announced(doing: str, done: str) -> Iterator[None]:
    """Say what this does once that has taken longer than `PATIENCE`, and at the end how long it took."""
    start, unsaid = time.perf_counter(), threading.Lock()

    def say() -> None:
        if unsaid.acquire(blocking=False):
            announce(f"{doing} …")

    timer = threading.Timer(PATIENCE, say)
    timer.daemon = True
    with suppress(RuntimeError):  # there are no threads, or no more of them
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.is_alive():  # what it says ends before the next line
            timer.join()
    seconds = time.perf_counter() - start
    if seconds >= PATIENCE:
        say()
    if unsaid.locked():
        announce(f"{done} {seconds:.1f} s")


def visible(text: str, longest: int = sys.maxsize) -> str:
    """Text in one line: characters that move the cursor, turn the reading direction or do not show are escapes.

    Its middle is left out where it is longer than ``longest``.
    """
    line = text if text.isprintable() else "".join(map(_visible, text))
    return line if len(line) <= longest else f"{line[: longest // 2]} … {line[3 - longest // 2 :]}"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character in "\t\r\n" else character.encode("unicode_escape").decode()


def shown(value: object) -> str:
    """``repr`` of what came, cut to a length that a message can hold."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 120
    try:
        return " ".join(short.repr(value).split())
    except Exception:  # an object's own may raise anything, and whole numbers of 4301 digits have none
        return f"something of type {type(value).__name__}"


def unknown_name(argument: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """Make the error for a name that is not among ``known``, with the nearest match as advice."""
    names = [str(n) for n in known]
    folded = {n.casefold(): n for n in reversed(names)}
    text = name[:200].casefold() if isinstance(name, str) else ""
    near = [folded[n] for n in difflib.get_close_matches(text, folded, n=1, cutoff=0.75)]
    near += [] if text in folded else sorted((folded[n] for n in folded if len(text) > 2 and text in n), key=len)[:3]
    near = near or [folded[n] for n in difflib.get_close_matches(text, folded, n=1, cutoff=0.4)]
    listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    advice = f"Did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?" if near else "Use one of the names listed."
    return UnknownNameError(argument, f"one of {len(names)} names ({listed})", shown(name), advice)


def require(package: str, extra: str, purpose: str) -> None:
    """Raise the error for a missing optional dependency if it is not installed; it is not imported."""
    if find_spec(package) is None:
        raise missing_dependency(package, extra, purpose)


def missing_dependency(package: str, extra: str, purpose: str) -> MissingDependencyError:
    """Make the error for a missing optional dependency."""
    return MissingDependencyError(
        purpose, f"the package {package!r}", "no such package", f"Install it: pip install 'delassus[{extra}]'"
    )
