"""Arrays of a kernel on a GPU, launches timed by events of its own clock, and what the driver says of the device."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from delassus.cli.tables import Record
from delassus.errors import DelassusError
from delassus.runtime.cuda.kernel import CudaKernel
from delassus.spatial.rotations import Array
from delassus_studies.timing import statistics

WARM, ROUNDS, SECONDS = 2, 10, 0.05
"""Launches that are not timed, and rounds of as many launches as take about so long."""

ASKED = ("name", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit", "temperature.gpu")
"""What is asked of nvidia-smi."""

KNOWN = {
    "multiprocessors": "MULTIPROCESSOR_COUNT",
    "clock (kHz)": "CLOCK_RATE",
    "memory clock (kHz)": "MEMORY_CLOCK_RATE",
    "memory bus (bits)": "GLOBAL_MEMORY_BUS_WIDTH",
    "second-level cache (bytes)": "L2_CACHE_SIZE",
    "registers of a multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "shared memory of a multiprocessor (bytes)": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
}
"""What is asked of the driver: attributes of a device."""


def started() -> Any:
    """The driver; raises a `DelassusError` without the extra ``cuda``, a driver, or a device."""
    from delassus.runtime.cuda.driver import driver

    return driver()


def devices() -> list[Any]:
    """Devices that the driver sees; none where it cannot be started."""
    try:
        return list(started().devices)
    except DelassusError:
        return []


def why_none() -> str:
    """What the driver answers where there is no device."""
    try:
        return str(started())
    except DelassusError as error:
        return str(error)


def facts(device: Any) -> Record:
    """Model, driver, versions, and attributes; and what nvidia-smi says now, if it is there."""
    cu, call = device.driver.cu, device.driver.call
    attributes = {}
    for name, attribute in KNOWN.items():
        kind = getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{attribute}")
        attributes[name] = int(call("cuDeviceGetAttribute", kind, device.handle))
    told = {"model": device.name, "capability": "{}.{}".format(*device.capability), **attributes}
    return {**told, "CUDA of the driver": "{}.{}".format(*device.driver.version), "nvidia-smi": _smi()}


def _smi() -> list[str]:
    """A line for each device of this machine."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", f"--query-gpu={','.join(ASKED)}", "--format=csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


class OnDevice:
    """A kernel's arguments, results and reciprocal conditions on a device; values (n, …), or (steps, n, …) rolled.

    With ``steps``, states of all of them are one array (steps + 1, n, …) each, and what is not a state is the same at
    all steps.
    """

    def __init__(self, kernel: CudaKernel, values: Sequence[Array], device: Any, steps: int = 1) -> None:
        from delassus.runtime.cuda.driver import Memory, Stream

        self.kernel, self.device, self.steps, self.n = kernel, device, steps, len(values[0])
        self.stream, n, item = Stream(device), self.n, kernel.dtype.itemsize
        n_states = kernel.request.quantity.states if steps > 1 else 0
        self.memory, self.pointers, self.strides = [], [], []
        for k, x in enumerate(values):
            size = prod(x.shape[1:])
            one = Memory(device, n * size * item * (steps + 1 if k < n_states else 1), self.stream.handle)
            self._copy("cuMemcpyHtoD", one.address, x.ctypes.data, x.nbytes)
            self.memory.append(one)
            self.pointers.append(one.address)
            self.strides.append(n * size if k < n_states else 0)
        self.shapes = [r.shape for r in kernel.results] + [()] * kernel.has_rcond
        for k, shape in enumerate(self.shapes):
            size = prod(shape)
            if k < n_states:  # of the next step: the row after that of the argument
                self.memory.append(self.memory[k])
                self.pointers.append(self.pointers[k] + n * size * item)
                self.strides.append(n * size)
                continue
            one = Memory(device, n * size * item, self.stream.handle)
            self.memory.append(one)
            self.pointers.append(one.address)
            self.strides.append(0)

    def _copy(self, function: str, *arguments: int) -> None:
        self.stream.wait()  # for memory that is allocated in its order
        with self.device.current() as call:
            call(function, *arguments)

    def launch(self) -> None:
        """All steps of all states, without waiting."""
        self.kernel.launch(self.device.number, self.stream.handle, self.n, self.pointers, self.strides, self.steps)

    def results(self) -> list[Array]:
        """Of the last launch, of its last step."""
        found = []
        for k, shape in enumerate(self.shapes[: len(self.kernel.results)]):
            x = np.empty((self.n, *shape), self.kernel.dtype)
            at = len(self.kernel.arguments) + k
            behind = (self.steps - 1) * self.strides[at] * self.kernel.dtype.itemsize
            if x.nbytes:
                self._copy("cuMemcpyDtoH", x.ctypes.data, self.pointers[at] + behind, x.nbytes)
            found.append(x)
        return found

    def seconds(self, rounds: int = ROUNDS) -> Record:
        """Seconds of a launch by events of the device: statistics over the rounds."""
        for _ in range(WARM):
            self.launch()
        once = self._timed(1)
        repeats = max(1, min(1000, int(SECONDS / max(once, 1e-7)))) if rounds > 1 else 1
        return statistics([self._timed(repeats) / repeats for _ in range(rounds)])

    def _timed(self, repeats: int) -> float:
        with self.device.current() as call:
            start, end = (call("cuEventCreate", self.device.driver.cu.CUevent_flags.CU_EVENT_DEFAULT) for _ in "ab")
            call("cuEventRecord", start, self.stream.handle)
        for _ in range(repeats):
            self.launch()
        with self.device.current() as call:
            call("cuEventRecord", end, self.stream.handle)
            call("cuEventSynchronize", end)
            seconds = 1e-3 * float(call("cuEventElapsedTime", start, end))
            for event in (start, end):
                call("cuEventDestroy", event)
        return seconds
