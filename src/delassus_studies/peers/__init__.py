"""Other libraries at the same states: a function makes a call that returns its answers, or raises `Unavailable`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from delassus_studies.cases import Unavailable

Call = Callable[[], Any]
"""What is timed, and gives answers that `numpy.asarray` takes."""

K = TypeVar("K")
T = TypeVar("T")


def library(name: str, install: str = "") -> Any:
    """Module of a library; raises `Unavailable`."""
    if not importlib.util.find_spec(name):
        raise Unavailable(f"{name} is not installed (pip install {install or name})")
    return importlib.import_module(name)


def present(makers: Mapping[K, Callable[[], T]]) -> tuple[dict[K, T], dict[K, str]]:
    """What can be made here, and of the others why not, by name."""
    made: dict[K, T] = {}
    absent: dict[K, str] = {}
    for name, make in makers.items():
        try:
            made[name] = make()
        except Unavailable as reason:
            absent[name] = str(reason)
    return made, absent


def if_present(make: Callable[[], T]) -> T | None:
    """What is made, if it can be made here."""
    return present({"": make})[0].get("")
