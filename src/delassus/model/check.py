"""Checks of numbers that a user hands over: real, finite, of the right shape."""

from __future__ import annotations

import os
import re
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, reduce
from math import isfinite, prod, sqrt
from operator import add, mul
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ConfigurationError, DelassusError, FileError, ModelError, shown
from delassus.spatial.rotations import ROUND_OFF, Array, exact_quarter_turns

UNIT_LENGTH_TOLERANCE = 1e-6
"""Quaternions and cos-sin pairs this near to unit length are normalised; others are refused."""

MOST_AXES, MOST_STATES = 32, 2**40
"""Of a batch: NumPy has at most 64 axes, and no machine holds as many states."""

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[iI][nN][fF])"

NUMBERS = re.compile(rf"[ \t\r\n]*(?:{_NUMBER}(?:[ \t\r\n]+|$))*")


PLAIN = frozenset({float, int, np.float64, np.ndarray})
"""Types of what cannot be masked, which is all that most lists hold."""


def is_masked(value: Any, depth: int = 0) -> bool:
    """Whether some numbers of a masked array, or of those in lists, are masked: what NumPy's functions drop.

    Lists that are nested deeper than arrays may have axes are not looked into: they are refused as they are.
    """
    if "numpy.ma" not in sys.modules:
        return False
    if isinstance(value, list | tuple):
        return (
            depth <= MOST_AXES
            and not PLAIN.issuperset(map(type, value))
            and any(is_masked(x, depth + 1) for x in value)
        )
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))


UNMASKED = "Fill masked numbers: x.filled(0.0)."


def real_array(value: Any, *, flags: bool = False) -> Array | None:
    """Copy real numbers into a float64 array; None if that is impossible.

    Complex numbers, text, objects and what is masked are none; booleans are none but where ``flags`` are wanted.
    """
    if type(value) is np.ndarray and value.dtype == float and value.ndim <= MOST_AXES:
        return value.astype(float)  # as nearly always, and some callers take microseconds
    try:
        given = np.asarray(None if is_masked(value) else value)
    except Exception:  # an object's own conversion may raise anything, and all of it means: no array of numbers
        return None
    if given.dtype.kind not in ("fiub" if flags else "fiu") or given.ndim > MOST_AXES:
        return None
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite, which callers refuse
        return given.astype(float)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """Shape of an array of real numbers, or None if it is none."""
    array = real_array(value)
    return None if array is None else array.shape


@lru_cache(maxsize=4096)
def decimal_numbers(text: str, *, infinite: bool = False) -> tuple[float, ...] | None:
    """Decimal numbers of a text, in ASCII and separated by white space, as in XML and in C whatever the locale.

    None where one of them is something else (`float` takes ``1_0`` and digits of other scripts too) or, unless
    ``infinite``, not finite.
    """
    if NUMBERS.fullmatch(text) is None:
        return None
    numbers = tuple(map(float, text.split()))
    return numbers if infinite or all(map(isfinite, numbers)) else None


def common_batch(
    argument: str,
    batch: tuple[int, ...],
    other_argument: str,
    other_batch: tuple[int, ...],
    advice: str = "Give both the same batch, or one of them none.",
) -> tuple[int, ...]:
    """Broadcast the leading axes of two arguments, or raise `ConfigurationError`."""
    try:
        return np.broadcast_shapes(batch, other_batch)
    except (ValueError, RuntimeError):  # also where there are more axes than it takes
        wanted = f"leading axes that broadcast with those of {other_argument}, {other_batch}"
        raise ConfigurationError(argument, wanted, f"{batch}", advice) from None


def normalised(array: Array, part: slice, what: str) -> Array:
    """Scale a part of the last axis to unit length, in place; or raise `ConfigurationError` where it is far from it."""
    if array.ndim == 1:  # the same to the bit, in a fifth of the time
        numbers = array[part].tolist()
        of_one = sqrt(reduce(add, map(mul, numbers, numbers)))  # `sum` rounds in another way
        if abs(of_one - 1.0) <= UNIT_LENGTH_TOLERANCE:
            array[part] /= of_one
            return array
    with np.errstate(over="ignore"):
        length = np.linalg.norm(array[..., part], axis=-1, keepdims=True)
    worst = float(np.max(np.abs(length - 1.0), initial=0.0))
    if worst > UNIT_LENGTH_TOLERANCE:
        raise ConfigurationError(
            what,
            f"unit length within {UNIT_LENGTH_TOLERANCE:g}",
            f"a length that is off by {worst:.3g}",
            "Normalise it; quaternions are [x y z w].",
        )
    array[..., part] /= length
    return array


def finite_array(
    value: ArrayLike,
    shape: tuple[Any, ...],
    argument: str,
    advice: str,
    error: type[DelassusError] = ConfigurationError,
) -> Array:
    """Return ``value`` as a new, C-contiguous array of finite numbers, or raise ``error``.

    In ``shape``, −1 stands for any number of entries, and ``...`` in front for any leading axes.
    """
    array = real_array(value)
    sizes = tuple(size for size in shape if size is not ...)
    leading = 0 if array is None else array.ndim - len(sizes)
    if array is None:
        came = shown(value)
    elif (
        leading < 0
        or (leading > 0 and len(sizes) == len(shape))
        or any(size not in (-1, n) for size, n in zip(sizes, array.shape[leading:], strict=True))
    ):
        came = f"shape {array.shape}"
    elif not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        came = f"{array[where]} at index {where[0] if len(where) == 1 else where}"
    else:
        return np.asarray(array, order="C")
    names = ["..." if size is ... else "n" if size < 0 else str(size) for size in shape]
    wanted = f"({', '.join(names)}{',' if len(shape) == 1 else ''})"
    raise error(argument, f"finite numbers of shape {wanted}", came, advice)


def flat_array(value: ArrayLike, size: int, argument: str, advice: str) -> Array:
    """Return finite numbers, so many, of whatever shape as a vector; or raise `ConfigurationError`."""
    array = real_array(value)
    return finite_array(value if array is None else array.ravel(), (size,), argument, advice)


def check_number(
    argument: str, value: float, advice: str, *, least: float = 0.0, most: float = np.inf, above: bool = True
) -> float:
    """Return ``value`` as a finite float above ``least`` (or from it on) up to ``most``; or `ConfigurationError`."""
    if type(value) is float and least < value <= most and value < np.inf:
        return value  # as nearly always, and some callers take microseconds
    number = real_array(value)
    if number is not None and number.shape == () and np.isfinite(number) and number <= most:
        if number > least or (number == least and not above):
            return float(number)
    wanted = f"a number {'>' if above else '≥'} {least:g}" + ("" if most == np.inf else f" and ≤ {most:g}")
    raise ConfigurationError(argument, wanted, shown(value), advice)


def is_whole(value: object, least: int = 0) -> bool:
    """Whether it is an int, Python's or NumPy's, of at least that."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def is_text(value: object) -> bool:
    """Whether it is text."""
    return isinstance(value, str)


def check_text(argument: str, value: object, advice: str, error: type[DelassusError] = ConfigurationError) -> str:
    """Return ``value`` if it is text; or raise ``error``."""
    if not isinstance(value, str):
        raise error(argument, "text", shown(value), advice)
    return value


def check_prefix(prefix: object) -> str:
    """Return what names are to start with; or `ModelError`."""
    return check_text("prefix", prefix, "Pass such as 'left_'.", ModelError)


def check_whole(argument: str, value: int, advice: str, *, least: int = 0, most: float = np.inf) -> int:
    """Return ``value`` as an int from ``least`` up to ``most``; or `ConfigurationError`."""
    if is_whole(value, least) and value <= most:
        return int(value)
    wanted = f"a whole number ≥ {least}" + ("" if most == np.inf else f" and ≤ {most:g}")
    raise ConfigurationError(argument, wanted, shown(value), advice)


def check_flag(argument: str, value: object, advice: str = "Pass one of the two.") -> bool:
    """Return True or False, Python's or NumPy's; or `ConfigurationError`."""
    if not isinstance(value, bool | np.bool_):
        raise ConfigurationError(argument, "True or False", shown(value), advice)
    return bool(value)


def check_list(
    argument: str, value: Any, wanted: str, advice: str, error: type[DelassusError] = ConfigurationError
) -> tuple[Any, ...]:
    """Return what an iterable that is not text holds; or raise ``error``."""
    try:
        if isinstance(value, Iterable) and not isinstance(value, str | bytes):
            return tuple(value)
    except DelassusError:
        raise
    except Exception as cause:  # an object's own iteration may raise anything
        raise error(argument, wanted, f"{type(cause).__name__}: {cause}", advice) from cause
    raise error(argument, wanted, shown(value), advice)


def check_parts(
    argument: str, given: Any, is_one: Callable[[Any], bool], advice: str, named: bool = False
) -> tuple[Any, ...]:
    """Return what a sequence holds, or a mapping if it is ``named``, each of one kind; or `ModelError`."""
    wanted = f"a {'mapping of names to' if named else 'sequence of'} what trees are made of"
    if isinstance(given, Mapping) != named:
        raise ModelError(argument, wanted, shown(given), advice)
    parts = check_list(argument, given.values() if named else given, wanted, advice, ModelError)
    if not all(map(is_one, parts)):
        raise ModelError(argument, wanted, shown(given), advice)
    return parts


def check_names(kind: str, names: Iterable[object]) -> None:
    """Raise `ModelError` for a name with characters that do not print: controls, marks of direction, surrogates."""
    for name in names:
        if not isinstance(name, str) or not name.isprintable():
            raise ModelError(f"name of a {kind}", "text of printable characters", shown(name), "Rename it.")


def check_choice(argument: str, value: object, choices: tuple[str, ...], error: type[DelassusError]) -> None:
    """Raise ``error`` unless ``value`` is one of these texts."""
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise error(argument, f"{', '.join(others)} or {last}", shown(value), "Choose one of these.")


def check_batch(batch: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return a number of states, or a shape, as a shape; or `ConfigurationError`."""
    shape = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
    if len(shape) > MOST_AXES or not all(map(is_whole, shape)) or prod(shape) > MOST_STATES:
        raise ConfigurationError("batch", "a number of states or a shape", shown(batch), "Pass 100 or (10, 10).")
    return tuple(map(int, shape))


def check_generator(rng: object) -> np.random.Generator:
    """Return a generator, or one of a seed; or `ConfigurationError`."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is not None and not is_whole(rng):
        raise ConfigurationError("rng", "a generator or a seed", shown(rng), "Pass a whole number.")
    return np.random.default_rng(rng)  # type: ignore[arg-type]


def check_path(argument: str, path: object) -> Path:
    """Return a path, which need not exist; or `ConfigurationError`."""
    if not isinstance(path, str | Path) or "\0" in str(path):
        raise ConfigurationError(argument, "a path", shown(path), "Pass text or a pathlib.Path.")
    return Path(path)


@contextmanager
def written(target: Path, kind: str) -> Iterator[Path]:
    """An empty file beside ``target`` to write to, which takes its place if that ends well and is removed if not.

    Links are followed. A terminal, a pipe or another device stays what it is, and is written to itself.

    Raises
    ------
    FileError
        The file cannot be written; what is at ``target`` stays as it was.
    """
    try:
        if target.is_char_device() or target.is_fifo():
            yield target
            return
        place = Path(os.path.realpath(target))
        part = place.with_name(f".{uuid.uuid4().hex}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.touch(exist_ok=False)
            yield part
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except (OSError, UnicodeError) as error:
        advice = "Check the folder and its disk."
        raise FileError(f"{kind} {shown(str(target))}", "a file that can be written", str(error), advice) from error


def check_vector(value: ArrayLike, argument: str, unit: str = "in m") -> Array:
    """Return ``value`` as a new, finite vector of three numbers, or raise `ModelError`."""
    return finite_array(value, (3,), argument, f"Pass [x, y, z], {unit}.", ModelError)


def check_rotation(value: ArrayLike | None) -> Array:
    """Return ``value`` as a new rotation matrix (None is the identity), or raise `ModelError`."""
    if value is None:
        return np.eye(3)
    R = real_array(value)
    proper = R is not None and R.shape == (3, 3) and bool(np.all(np.abs(R) < 2))
    if R is None or not proper or not np.allclose(R @ R.T, np.eye(3), atol=1e-6) or np.linalg.det(R) < 0:
        raise ModelError("rotation", "a 3×3 rotation matrix", shown(value), "Pass an orthonormal one of determinant 1.")
    U, _, Vt = np.linalg.svd(R)
    nearest = exact_quarter_turns(np.asarray(U @ Vt))
    # what is a rotation already stays as it is to the last bit, however often it is passed on
    is_one = np.abs(R - nearest) <= np.where(nearest == np.rint(nearest), 0.0, ROUND_OFF)
    return R if is_one.all() else nearest


# -- arrays of other libraries ----------------------------------------------------------------------------------------

LIBRARIES = {"numpy": "", "jax": "JAX", "jaxlib": "JAX", "torch": "PyTorch", "dask": "Dask"}
"""Names by the packages that define the types of arrays; what NumPy computes with has none."""

OTHERS = "another library"
"""Of arrays as the Python array API has them, of a package that is not in `LIBRARIES`."""

_known: dict[Any, str] = {}


def library_of(kind: Any) -> str:
    """Name of the library that arrays of a type are of, by the modules of its bases; "" for all others."""
    if kind not in _known:
        packages = (base.__module__.partition(".")[0] for base in kind.__mro__)
        other = OTHERS if hasattr(kind, "__array_namespace__") and hasattr(kind, "__dlpack__") else ""
        _known[kind] = next((LIBRARIES[package] for package in packages if package in LIBRARIES), other)
    return _known[kind]
