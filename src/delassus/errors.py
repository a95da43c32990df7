"""Errors and warnings: what was wrong, what was expected, what came, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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
        self.argument = argument
        self.expected = expected
        self.got = got
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.argument}: expected {self.expected}, got {self.got}. {self.advice}"


class ModelError(DelassusError, ValueError):
    """A robot description that cannot be turned into a tree."""


class ConfigurationError(DelassusError, ValueError):
    """A configuration or another numeric argument of the wrong shape, type or value."""


class ConstraintError(DelassusError, ValueError):
    """A constraint that makes no sense on this tree."""


class UnknownNameError(DelassusError, LookupError):
    """A link, frame, method or robot name that does not exist; the message offers the nearest match."""


class MissingDependencyError(DelassusError, ImportError):
    """An optional dependency that is not installed; the message names the pip command."""


class DelassusWarning(UserWarning):
    """Something that a user should know of, and that does not make the result wrong."""


def unknown_name(argument: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """Make the error for a name that is not among ``known``, with the nearest match as advice."""
    names = [str(n) for n in known]
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.4)
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    advice = f"Did you mean {near[0]!r}?" if near else "Use one of the names listed."
    return UnknownNameError(argument, f"one of {len(names)} names ({shown})", repr(name), advice)


def missing_dependency(package: str, extra: str, purpose: str) -> MissingDependencyError:
    """Make the error for a missing optional dependency."""
    return MissingDependencyError(
        purpose, f"the package {package!r}", "no such package", f"Install it: pip install 'delassus[{extra}]'"
    )
