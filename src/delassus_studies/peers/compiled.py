"""Peers that compile, where they are installed: CasADi's C code of our own graph through gcc, and frax on JAX."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from delassus.formats.names import example_robot_files
from delassus.runtime.kernel import Kernel
from delassus.spatial.rotations import Array
from delassus_studies.cases import Case, Unavailable
from delassus_studies.peers import Call, library

# -- CasADi's C code through gcc -----------------------------------------------------------------------------------

GCC = ("-O3", "-march=native")
LOOP = """
void many(const double* const* in, double* out, long n) {{
  static casadi_real w[{w}];
  static casadi_int iw[{iw}];
  const double* arg[{arg}] = {{0}};
  double* res[{res}] = {{0}}; /* no result but the first is asked for */
  for (long i = 0; i < n; ++i) {{
    {inputs}
    res[0] = out + i * {size_out};
    {name}(arg, res, iw, w, 0);
  }}
}}
"""


def casadi_c(kernel: Kernel, q: Array) -> Call:
    """The kernel's graph as CasADi's C code, compiled by gcc for this machine."""
    call = through_gcc(kernel.casadi(), [q])
    return lambda: np.swapaxes(call(), -1, -2)  # CasADi counts along columns


def through_gcc(function: Any, states: Sequence[Array], options: Sequence[str] = GCC) -> Call:
    """First result (n, columns, rows) of CasADi's function as C code, at states (n, k) of its arguments, one by one.

    The loop over the states is in C too.
    """
    library("casadi")
    if shutil.which("gcc") is None:
        raise Unavailable("gcc is not installed")
    sizes = {key: max(1, getattr(function, f"sz_{key}")()) for key in ("w", "iw", "arg", "res")}
    inputs = "\n    ".join(f"arg[{k}] = in[{k}] + i * {function.numel_in(k)};" for k in range(function.n_in()))
    loop = LOOP.format(name=function.name(), inputs=inputs, size_out=function.numel_out(0), **sizes)
    code = library("casadi").CodeGenerator("peer")
    code.add(function)
    many = _compiled(code.dump() + loop, tuple(options))
    given = [np.ascontiguousarray(x, dtype=np.float64) for x in states]
    pointers = (ctypes.c_void_p * len(given))(*(x.ctypes.data for x in given))
    rows, columns = function.size_out(0)
    out = np.empty((len(given[0]), columns, rows))

    def call(_: Sequence[Array] = given) -> Array:
        many(pointers, out.ctypes.data, len(out))
        return out

    return call


@lru_cache(maxsize=8)
def _compiled(code: str, options: tuple[str, ...]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        source, shared = Path(folder) / "peer.c", Path(folder) / "peer.so"
        source.write_text(code)
        command = ["gcc", *options, "-fPIC", "-shared", "-o", str(shared), str(source), "-lm"]
        subprocess.run(command, check=True, capture_output=True)
        many = ctypes.CDLL(str(shared)).many
    many.argtypes, many.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long), None
    return many


# -- frax on JAX ---------------------------------------------------------------------------------------------------

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
"""What frax's own documentation asks for on a processor."""


def frax(case: Case, q: Array, dtype: str) -> Call:
    """Frax's mass matrix and frame Jacobians; ``J M⁻¹ Jᵀ`` by a Cholesky factorisation; one jit, vmapped over states.

    Its own `mass_matrix_inverse` is slower than the factorisation. Its Jacobians are in the world's axes and are turned
    into the frames' own, so that its answer is ours.
    """
    file = example_robot_files().get(case.tree.name)
    if file is None:
        raise Unavailable("frax reads URDF files")
    if not case.world_only:
        raise Unavailable("welds and points on the world only")
    jax, frax = _import_frax()
    joints = list(case.tree.joint_names[1:])
    robot = frax.Robot(str(file), floating_base="quaternion", joint_ordering=joints)
    states = np.array(q)
    states[:, 3:7] = q[:, [6, 3, 4, 5]]  # w first

    def precision() -> Any:
        return jax.enable_x64(dtype == "float64")

    with precision():
        run = jax.jit(jax.vmap(_frax_delassus(jax, robot, case)))
        given = jax.numpy.asarray(states.astype(dtype))

    def call() -> Any:
        with precision():
            return run(given).block_until_ready()

    return call


def _import_frax() -> tuple[Any, Any]:
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} {ONE_THREAD}".strip()
    try:
        with warnings.catch_warnings(action="ignore"):
            jax, frax = library("jax"), library("frax")
            jax.devices()
    finally:
        os.environ["XLA_FLAGS"] = flags
    return jax, frax


def _frax_delassus(jax: Any, robot: Any, case: Case) -> Callable[[Any], Any]:
    jnp = jax.numpy
    ends = []
    for c in case.constraints:
        at = c.frames[0].on(case.tree)
        joint = robot.joint_name_to_index[case.tree.joint_names[at.link]]
        placement = np.eye(4)
        placement[:3, :3], placement[:3, 3] = at.rotation, at.position
        ends.append((joint, placement, np.flatnonzero(robot.ancestor_mask[joint]), c.size))

    def delassus(q: Any) -> Any:
        transforms = robot.joint_to_world_transforms(q)
        rows = []
        for joint, placement, chain, size in ends:
            J = robot._frame_jacobian(transforms, placement, chain)
            to_own = (transforms[joint] @ placement)[:3, :3].T
            rows += [to_own @ J[:3], to_own @ J[3:]][: size // 3]
        factor = jnp.linalg.cholesky(robot._mass_matrix(transforms))
        half = jax.scipy.linalg.solve_triangular(factor, jnp.vstack(rows).T, lower=True)
        return half.T @ half

    return delassus
