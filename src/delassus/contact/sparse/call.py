"""Machine code of kernels, called by its address from compiled functions."""

from __future__ import annotations

from functools import cached_property
from types import FunctionType
from typing import Any, cast

from delassus.contact.solvers.compiled import Compiled


class KernelCall(Compiled):
    """``call(address, n, pointers)``: run a kernel for ``n`` states; ``size`` is the number of its pointers."""

    def __init__(self, size: int) -> None:
        super().__init__(cast(FunctionType, _from_python))
        self._size = size

    @cached_property
    def part(self) -> Any:
        """Numba's intrinsic."""
        from llvmlite import ir
        from numba import types
        from numba.extending import intrinsic

        size = self._size

        def call(typing: Any, address: Any, n: Any, pointers: Any) -> Any:
            def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                number, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
                function = ir.FunctionType(ir.VoidType(), [number] + [pointer] * size)
                code = builder.inttoptr(values[0], function.as_pointer())
                arrays = [builder.inttoptr(builder.extract_value(values[2], k), pointer) for k in range(size)]
                builder.call(code, [values[1], *arrays])
                return context.get_dummy_value()

            return types.void(types.int64, types.int64, types.UniTuple(types.int64, size)), emit

        return intrinsic(call)


def _from_python(address: int, n: int, pointers: tuple[int, ...]) -> None:
    raise AssertionError("kernels are called from compiled functions only")


run_motion, run_update = KernelCall(10), KernelCall(6)
"""Of ``"joint_space_motion"``, whose last pointer is of reciprocal conditions, and of ``"position_update"``."""
