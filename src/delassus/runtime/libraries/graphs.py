"""What `torch.export.load` needs of this library in a process that has not called a kernel with tensors.

Graphs that were saved call ``torch.ops.delassus``, which is made when it is asked for. Neither torch nor the part of
this library that calls kernels is imported before.
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import MetaPathFinder
from typing import Any


class _Operators:
    """Stands for ``torch.ops.delassus``."""

    def __getattr__(self, name: str) -> Any:
        importlib.import_module("delassus.runtime.libraries.on_torch")._registered()
        return getattr(sys.modules["torch"].ops.delassus, name)


class _AfterTorch(MetaPathFinder):
    """Has torch imported as ever, and then makes what stands for the operators."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return what another finder finds."""
        if name != "torch":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            run = loader.exec_module

            def exec_module(module: Any) -> None:
                run(module)
                announce()

            loader.exec_module = exec_module
        return spec


def announce() -> None:
    """Let saved graphs find the operators, now or after torch is imported."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        sys.meta_path.insert(0, _AfterTorch())
    elif hasattr(torch, "ops") and "delassus" not in vars(torch.ops):
        torch.ops.delassus = _Operators()
