"""What kernels of every target have: names and shapes, counts, derivatives, and the program for other targets.

`CpuKernel` runs programs on this processor; `delassus.runtime.kernel` adds what users call.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.policy import ERROR_BOUND, check_error_bound
from delassus.compiler.machine.cpu import host
from delassus.compiler.program.program import Program, Result
from delassus.compiler.targets.c.text import Scalar
from delassus.errors import ConfigurationError
from delassus.frozen import cached_property, digest_of, named_tuple
from delassus.model.check import check_batch, check_flag, check_path, check_whole
from delassus.quantities.pipeline import derivative_programs, make_program, without_estimate
from delassus.quantities.request import Request
from delassus.runtime.arrays import Arrays, Batch, result_arrays
from delassus.runtime.code import KnownProgram, MachineCode, key_of
from delassus.runtime.fastcall import direct_entry
from delassus.runtime.helper import HELPED
from delassus.runtime.threads import number_of, over_states

T = TypeVar("T")


def kept_by_kernel(function: Callable[..., T]) -> Callable[..., T]:
    """Keep what a function makes of a kernel, its first argument, as long as that lives, and no longer."""

    @wraps(function)
    def kept(kernel: AnyKernel, *others: Any) -> T:
        key = function, *others
        if key not in kernel.kept:
            kernel.kept[key] = function(kernel, *others)
        found: T = kernel.kept[key]
        return found

    return kept


_alive: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
"""Kernels by how they were made."""


def the_same(make: Callable[..., T], *how: Any) -> T:
    """What makes a kernel, and of what: the same one as long as it lives."""
    found: T | None = _alive.get((make, *how))
    return _alive.setdefault((make, *how), make(*how)) if found is None else found


class AnyKernel(ABC):
    """Kernel of any target; see `Kernel` and `CudaKernel`.

    ``code`` is what is known of its program.
    """

    __slots__ = ("__dict__", "__weakref__")
    target: ClassVar[str]
    """As `compile` was asked."""

    def __init__(self, request: Request, dtype: str, error_bound: float | None, code: KnownProgram) -> None:
        self.error_bound = error_bound
        self.least_rcond = float(np.finfo(dtype).eps) / check_error_bound(error_bound, dtype)
        self.operations, self.has_rcond, self.error_dtype = code.operations, code.has_rcond, code.error_dtype
        self.request, self.method = request, request.method
        self.dtype, self.arguments = np.dtype(dtype), request.arguments
        self.results = tuple(Result(o.name, request.shape_of(o), (), o.meaning) for o in request.outputs)
        self._named = named_tuple(*(r.name for r in self.results))
        self._derivatives: dict[tuple[str, ...], Any] = {(): self}
        self.kept: dict[tuple[Any, ...], Any] = {}

    @cached_property
    def content(self) -> bytes:
        """What equal kernels have in common, in this process and in others."""
        return digest_of(self.request) + repr((self.target, *self.__reduce__()[1][1:])).encode()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, AnyKernel) and self.content == other.content)

    def __hash__(self) -> int:
        return hash(self.content)

    def __repr__(self) -> str:
        method = f"method={self.method!r}, " if self.request.quantity.methods else ""
        of = f"{self.request.title!r} of {self.request.tree.name!r}"
        return f"{type(self).__name__}({of}, {method}{self.dtype}, {self.operations.total} operations)"

    @property
    @abstractmethod
    def identity(self) -> str:
        """Identity of the kernel, the same in every process."""

    @abstractmethod
    def _of(self, asked: Request, reason: str) -> Self:
        """Kernel of another request, of the same target, type and bound; ``reason`` is said where it takes long."""

    @property
    def what(self) -> str:
        """Name of the quantity, as `compile` was asked."""
        return self.request.quantity.name

    @property
    def iterates(self) -> bool:
        """Whether it is a contact step, whose sweeps end at a tolerance or before it."""
        return "sweeps" in self.request.quantity.options

    @property
    @abstractmethod
    def error_estimator(self) -> Self | None:
        """Kernel that estimates errors by residuals of solutions; this one if it estimates them by pivots."""

    @property
    def plan(self) -> Any:
        """Choice of ``method="auto"`` with its reason; None for a named method, and where there is no choice."""
        return self.request.plan

    def empty_results(self, batch: int | tuple[int, ...] = ()) -> Any:
        """Arrays of NumPy to pass as ``out``: one, or a named tuple of several, each at a cache line.

        Parameters
        ----------
        batch : int or tuple of int
            Leading axes of the results.

        Examples
        --------
        >>> import delassus as ds
        >>> arm = ds.mechanisms.chain(7)
        >>> kernel = ds.compile(arm, [ds.Weld("link7")], "delassus")
        >>> G, q = kernel.empty_results(100), arm.random(0, batch=100)
        >>> kernel(q, out=G) is G
        True
        """
        return self.returned(result_arrays(None, self.results, check_batch(batch), self.dtype))

    def returned(self, values: Sequence[Any], *further: str) -> Any:
        """What a call returns: one value, or a tuple whose fields have the names of `results`, and ``further`` ones."""
        if further:
            return named_tuple(*self._named._fields, *further)(*values)
        return values[0] if len(values) == 1 else self._named(*values)

    def rolled(self, values: Iterable[Any], *further: str) -> Any:
        """The same of a rollout, whose states are not those after one step alone: without ``_next``."""
        return named_tuple(*(r.name.replace("_next", "") for r in self.results), *further)(*values)

    def derivative(self, *modes: str, by: str | Sequence[str] | None = None) -> Self:
        """Kernel of a derivative, by formulas or by differentiation of its program; compiled when first asked for.

        Parameters
        ----------
        *modes : {"jacobian", "tangent_jacobian", "jvp", "vjp"}
            "jacobian": of each result with each argument, ``∂y/∂x``. "tangent_jacobian": the same where configurations
            change, as arguments and as results, along the tangent of ``tree.integrate``; for free and ball joints in
            the frame of their link, as ``v`` is: Pinocchio's convention. Both by formulas where there are some: of
            dynamics, steps, impulses, inverse dynamics, motions of frames, momentum, centre of mass, `integrate`; of
            "jacobian" only if no joint has a quaternion. "jvp": with a tangent for each argument, the tangents of the
            results, ``ẏ = (∂y/∂x) ẋ``. "vjp": with a cotangent for each result, the cotangents of the arguments,
            ``x̄ = (∂y/∂x)ᵀ ȳ``. Of several, each is that of the kernel that those before it make.
        by : str or sequence of str, optional
            Names of the arguments ``x``; all others are held, and nothing is computed for them. All if None.
            ``derivative("vjp", "jvp", by=("q", "v"))`` are products with the Hessian, ``(∂²(ȳᵀ y)/∂x²) ẋ``.

        Returns
        -------
        Kernel
            Of the same target. Its arguments are those of this kernel and, after them, the tangents or cotangents.
            Results of "jacobian" are ``dy_dx``, of the shape of y and then that of x, in tangents (nv) for (nq).
            Elsewhere all numbers of arguments count as independent, the four of a quaternion too.

        Raises
        ------
        ConfigurationError, UnknownNameError
            Another mode; a name that no argument has.

        Examples
        --------
        >>> import delassus as ds, numpy as np
        >>> arm = ds.mechanisms.chain(7)
        >>> place = ds.compile(arm, (), "centre_of_mass")
        >>> place.derivative("jacobian")(arm.random(0, batch=100)).shape
        (100, 3, 7)
        >>> place.derivative("vjp")(arm.random(0, batch=100), np.ones(3)).shape
        (100, 7)
        """
        asked = self.request.differentiated(*modes, by=by)
        modes = asked.derivative[len(self.request.derivative) :]
        if modes not in self._derivatives:
            self._derivatives[modes] = self._of(asked, ", for derivatives")
        made: Self = self._derivatives[modes]
        return made

    # -- other targets ---------------------------------------------------------------------------------------------

    def program(self, return_error: bool = True) -> Program:
        """The program before it is code (traced again), with its hidden result ``rcond`` or without."""
        asked = replace(self.request, error_dtype=self.error_dtype)
        program = make_program(asked, dtype=self.dtype.name)
        return program if check_flag("return_error", return_error) else without_estimate(asked, program)

    def export_c(self, folder: str | Path, *, return_error: bool = False, casadi: int = 0) -> tuple[Path, Path]:
        """Write the kernel as C99, one ``.h`` and one ``.c`` that need only ``math.h``; returns their paths.

        With ``return_error``, what divides has one more result, ``rcond``: relative errors are about ε / ``rcond``, ε
        being that of double or float. With ``casadi``, of float64, there is ``NAME_casadi`` too, for
        ``casadi.external`` and acados: 1, with its sparse Jacobian; 2, with second derivatives, many times as long.

        Raises
        ------
        ConfigurationError
            Files that cannot be written: the error is an `OSError`, too, and what was there stays as it was.
        """
        from delassus.compiler.targets.c.module import write_c

        scalar: Scalar = "double" if self.dtype == np.float64 else "float"
        return_error = check_flag("return_error", return_error)
        folder, derivatives = check_path("folder", folder), self._derived(casadi, return_error)
        return write_c(self.program(return_error), folder, scalar, derivatives)

    def casadi(self, *, return_error: bool = False, jacobian: bool = False) -> Any:
        """The kernel as a ``casadi.Function``, for derivatives and optimisation; needs the extra ``casadi``.

        With ``return_error``, what divides has one more result, ``rcond``, as in `export_c`. With ``jacobian``, CasADi
        takes the program of ``derivative("jacobian")`` for the Jacobian, which has fewer instructions than its own.
        """
        from delassus.compiler.targets.casadi import casadi_function

        return_error, order = check_flag("return_error", return_error), int(check_flag("jacobian", jacobian))
        return casadi_function(self.program(return_error), *self._derived(order, return_error))

    def _derived(self, order: int, return_error: bool) -> list[Program]:
        """Programs of derivatives, which need not be compiled."""
        order = check_whole("casadi", order, "It is the order of the derivatives.", most=2)
        if order and return_error:
            raise ConfigurationError("return_error", "False with derivatives", "True", "Leave it out.")
        return derivative_programs(self.request, order)


def made_request(request: Request, dtype: str, error_bound: float | None) -> Request:
    """The request whose program is made: with estimates of errors by what solutions miss, where the bound is strict."""
    is_strict = request.solves and check_error_bound(error_bound, dtype) < ERROR_BOUND[dtype]
    return replace(request, error_dtype=dtype) if is_strict else request


_span_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class CpuKernel(AnyKernel):
    """Kernel of this processor that solves no states again; ``wait`` is as of `MachineCode`."""

    target = "cpu"

    def __init__(
        self, request: Request, dtype: str, lanes: int, reason: str, error_bound: float | None, wait: bool | None
    ) -> None:
        self.code, self._wait = MachineCode(made_request(request, dtype, error_bound), dtype, lanes, reason, wait), wait
        super().__init__(request, dtype, error_bound, self.code)
        self.lanes = lanes
        sizes = [*(a.size for a in self.arguments), *(r.size for r in self.results), *([1] if self.has_rcond else [])]
        self._strides = [size * self.dtype.itemsize for size in sizes]  # from one state to the next, in bytes
        self._few = HELPED // max(1, self.operations.total)  # states that no other thread takes part in
        self.entry = direct_entry(self, _declined)

    def _of(self, asked: Request, reason: str) -> Self:
        return type(self)(asked, self.dtype.name, self.lanes, reason, self.error_bound, wait=self._wait)

    @property
    def error_estimator(self) -> Self | None:
        """Itself, whatever its estimates are made by."""
        return self

    @property
    def judge(self) -> CpuKernel | None:
        """Kernel in float64 that judges solutions of flagged states of batches by what they miss, if there is one."""
        return None

    @cached_property
    def identity(self) -> str:
        """Identity of the kernel, the same in every process."""
        return f"{key_of(self.request, self.dtype.name, self.lanes)}_{self.least_rcond!r}"

    def compute(self, arrays: Arrays, results: Arrays, batch: Batch, threads: int | None) -> list[NDArray[Any]]:
        """Run the machine code; returns the reciprocal conditions, if it makes any."""
        n = prod(batch)
        rcond = [np.empty(batch, dtype=self.dtype)] if self.has_rcond else []
        if n:
            code, every = self.code.of(n), [*arrays, *results, *rcond]
            if threads is None and n < self._few:
                places = [x.__array_interface__["data"][0] for x in every]
                _span_type(code.address("span"))((ctypes.c_int64 * len(places))(*places), 0, n)
                return rcond
            number = number_of(threads, n * self.operations.total, is_helped=True)
            span = _span_type(code.address("span"))

            def run(states: int, *addresses: int, code: Any = code) -> None:  # code must stay while it runs
                span((ctypes.c_int64 * len(addresses))(*addresses), 0, states)

            over_states(run, every, self._strides, n, number, self.lanes, code.address("span"), self.operations.total)
        return rcond

    def ill_conditioned(self, rcond: Arrays, batch: Batch) -> NDArray[np.bool_]:
        """States whose reciprocal condition is too small; it is negative where results are not finite."""
        return ~(rcond[0] >= self.least_rcond) if rcond else np.zeros(batch, dtype=bool)


def _declined(*_: Any, **__: Any) -> Any:
    """What the entry leaves to the general path, where that has asked it."""
    return NotImplemented


def evaluated_kernel(asked: Request) -> CpuKernel:
    """Kernel of a request that the evaluator runs, in float64, the same one for an equal request while that lives."""
    return the_same(CpuKernel, asked, "float64", host().lanes("float64"), "", None, None)
