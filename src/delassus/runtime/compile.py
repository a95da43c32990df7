"""`compile`: from a robot and constraints to a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from inspect import cleandoc
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from delassus.accuracy.policy import check_error_bound
from delassus.compiler.machine.cpu import host
from delassus.errors import ConfigurationError, shown
from delassus.model.check import check_choice, check_flag, is_whole
from delassus.model.tree import Tree
from delassus.quantities import QUANTITIES, find_quantity
from delassus.quantities.keywords import Constraints, Keywords, Method, What
from delassus.quantities.options import OPTIONS
from delassus.quantities.request import Request, request
from delassus.runtime.any_kernel import AnyKernel
from delassus.runtime.kernel import Kernel, restored

if TYPE_CHECKING:
    from delassus.runtime.cuda.kernel import CudaKernel

DTYPES, TARGETS = ("float64", "float32"), ("cpu", "cuda")

COLUMNS, WIDTH = (32, 15, 18, 39), 116
"""Widths of the columns of the table of `compile`, and of lines."""


@lru_cache(maxsize=256)
def kernel_of(asked: Request, dtype: str, reason: str) -> Kernel:
    """Kernel of a request, the same one for an equal request; ``reason`` says what a direct call compiles it for."""
    return restored(asked, dtype, None, reason, None)


@overload
def compile(
    tree: Tree,
    constraints: Constraints = None,
    what: What = "delassus",
    *,
    method: Method = "auto",
    dtype: Literal["float64", "float32"] = "float64",
    lanes: int | None = None,
    payloads: Iterable[str] = (),
    error_bound: float | None = None,
    outputs: str | Sequence[str] | None = None,
    packed: bool = False,
    wait: bool = True,
    target: Literal["cpu"] = "cpu",
    **options: Unpack[Keywords],
) -> Kernel: ...


@overload
def compile(
    tree: Tree,
    constraints: Constraints = None,
    what: What = "delassus",
    *,
    method: Method = "auto",
    dtype: Literal["float64", "float32"] = "float64",
    lanes: int | None = None,
    payloads: Iterable[str] = (),
    error_bound: float | None = None,
    outputs: str | Sequence[str] | None = None,
    packed: bool = False,
    wait: bool = True,
    target: Literal["cuda"],
    **options: Unpack[Keywords],
) -> CudaKernel: ...


def compile(  # the public name; the built-in of that name is not used here
    tree: Tree,
    constraints: Constraints = None,
    what: What = "delassus",
    *,
    method: Method = "auto",
    dtype: Literal["float64", "float32"] = "float64",
    lanes: int | None = None,
    payloads: Iterable[str] = (),
    error_bound: float | None = None,
    outputs: str | Sequence[str] | None = None,
    packed: bool = False,
    wait: bool = True,
    target: Literal["cpu", "cuda"] = "cpu",
    **options: Unpack[Keywords],
) -> AnyKernel:
    """Compile a function of a robot's state to machine code, for this processor or for NVIDIA's GPUs.

    Damping, springs, gravity, its compensation and constraints act as the robot's file says; ``passive="none"`` leaves
    out damping, springs and compensation, ``constraints=()`` the last.

    {table}

    They mean what the direct functions of these names return; ``delassus_product`` is ``G x``, ``delassus_solution``
    ``G⁻¹ x`` in the least-squares sense, ``damped_solution`` ``(G + D)⁻¹ x``. ``forces`` holds those of all
    constraints, one after the other; ``step`` integrates ``dynamics`` over a time ``dt`` while ``tau`` is held (see
    `delassus.rollout`).

    Parameters
    ----------
    tree : Tree
    constraints : Constraint or iterable of Constraint, optional
        By default ``tree.constraints``, those of the robot's file; ``()`` is none. What comes with each call is a
        further argument of the kernel, constraint by constraint: the rows ``K{i}`` (m, 6) of ``Rows(link, m)``, the
        ``placement{i}`` (3,) or (7,) of ``Frame(link, given=…)``, and ``placement{i}_second`` of a second frame; also
        where the result does not depend on constraints (mass matrix, kinematics, inverse dynamics, bias force).
    what : str
        What to compute: one of the table's; "forward_dynamics" and "forward_kinematics", as the direct functions are
        called, are "dynamics" and "kinematics".
    method : str
        For the Delassus matrix and its inverse one of ``OSIM_METHODS``; "auto" plans the one of fewest operations. For
        dynamics and time steps one of ``DYNAMICS_METHODS``; what "auto" takes is in the kernel's ``plan``.
    dtype : {"float64", "float32"}
        Type of the numbers.
    lanes : int, optional
        States in one vector register (a power of two); the processor's own number if not given.
    payloads : iterable of str
        Links whose inertia gets an addition with each call: ``payload{i}`` (10,) for the i-th name, after what the
        constraints bring. It holds ``[m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz]`` (kg, kg·m, kg·m²; inertia about the
        origin of that link's own frame, in its axes): Pinocchio's dynamic parameters. All enter linearly, so that a
        change is a difference.
    error_bound : float, optional
        States whose estimated relative error is above it are solved again; 1e-6 by default, 1e-2 in float32.
    outputs : str or sequence of str, optional
        Names of the results of the table that are wanted, in the order in which the kernel returns them; all of them if
        not given. What no result needs takes no operation.
    packed : bool
        Of symmetric matrices return the lower triangle, row by row: (..., n (n + 1) / 2), half of what is written.
    wait : bool
        Whether the first calls wait for machine code. If not, they are answered at once by an evaluator of programs,
        ten times as slow for one state and four times in batches, while another process compiles; results are the same
        to the bit. The environment variable ``DELASSUS_COMPILE`` says it for all kernels: "wait", "background", or
        "never", with the evaluator alone.
    target : {"cpu", "cuda"}
        What runs it: this processor, or NVIDIA's GPUs, a thread a state, which needs the extra ``cuda`` and a driver
        when it is called. States above ``error_bound`` are not solved again there: their results are NaN.
    **options
        Those that ``what`` takes, by the table. Numbers are built in; further arguments come after all others, in this
        order. What is not asked for costs nothing.
    {options}

    Returns
    -------
    Kernel or CudaKernel
        Call it with configurations (..., nq) and its further arguments. Several results come as a tuple whose fields
        have their names. The first call with one state compiles the code for that, the first call with a batch the code
        for batches: what must answer in time calls it once before. Compiled code is cached on disk: a second process
        loads it.

    Raises
    ------
    ConstraintError, UnknownNameError, ConfigurationError, ModelError
        Not a robot or constraint; a name that does not exist, the nearest is offered; outputs twice; an option
        that ``what`` does not take, or content of the wrong type, shape or value.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot = ds.mechanisms.humanoid()
    >>> kernel = ds.compile(robot, [ds.Weld("left_foot"), ds.Weld("right_foot")], "delassus")
    >>> q = robot.random(0, batch=1000)
    >>> kernel(q).shape
    (1000, 12, 12)
    >>> arm, tip = ds.mechanisms.chain(7), ds.Point("link7")
    >>> forward = ds.compile(arm, tip, "dynamics", gravity=(0, 0, -1.62))
    >>> qdd, forces = forward(arm.random(0, batch=1000), np.zeros(7), np.zeros(7))
    >>> qdd.shape, forces.shape
    ((1000, 7), (1000, 3))
    """
    asked = request(
        tree,
        constraints,
        find_quantity(what),
        method=method,
        payloads=payloads,
        outputs=outputs,
        packed=packed,
        **options,
    )
    check_choice("dtype", dtype, DTYPES, ConfigurationError)
    check_choice("target", target, TARGETS, ConfigurationError)
    check_error_bound(error_bound, dtype)
    check_flag("wait", wait)
    if target == "cuda":
        from delassus.runtime.cuda.kernel import CudaKernel

        if not wait:
            raise ConfigurationError("wait", "True with target='cuda'", "False", "GPUs have no evaluator.")
        if lanes is not None:
            raise ConfigurationError("lanes", "None with target='cuda'", shown(lanes), "A thread has one state.")
        return CudaKernel(asked, dtype, error_bound=error_bound)
    if lanes is None:
        lanes = host().lanes(dtype)
    elif not is_whole(lanes) or lanes not in (1, 2, 4, 8, 16, 32):
        raise ConfigurationError("lanes", "1, 2, 4, 8, 16 or 32", shown(lanes), "Or leave it out.")
    return Kernel(asked, dtype, lanes, error_bound=error_bound, wait=wait)


def compile_at_once(tree: Tree, constraints: Constraints, what: str, *, wait: bool = False, **keywords: Any) -> Kernel:
    """`compile` for simulators, environments and controllers: its kernel starts at once, of private quantities, too."""
    kernel: Kernel = compile(tree, constraints, cast(What, what), wait=wait, **keywords)
    return kernel


def _table() -> str:
    """Table of quantities, a row each."""
    rows, rule = [("what", "arguments", "results", "options")], "  ".join("=" * width for width in COLUMNS)
    several = {f"``{name}``": q for name, q in QUANTITIES.items() if not q.is_private}
    several |= {f"{name} with {option}": o for name, q in several.items() for option, o in q.by_option.items()}
    for name, q in several.items():
        options = (option for option in OPTIONS if option in q.options)
        rows.append((name, ", ".join(q.inputs), ", ".join(o.name for o in q.outputs), ", ".join(options)))
    lines = [
        "  ".join(map(str.ljust, parts, COLUMNS)).rstrip()
        for row in rows
        for parts in zip_longest(*map(wrap, row, COLUMNS), fillvalue="")
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def _explained() -> str:
    """Options as a docstring lists them."""
    lines = list[str]()
    for name, option in OPTIONS.items():
        kind, text = option.document
        lines += [f"{name} : {kind}", *wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ")]
    return "\n".join(lines)


compile.__doc__ = cleandoc(compile.__doc__ or "").replace("{table}", _table()).replace("{options}", _explained())
