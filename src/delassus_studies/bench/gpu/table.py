"""Kernels where there is no device: assembled, and how fast they should be on one. Predicted, not measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from rich.table import Table

from delassus.cli.tables import Record, table
from delassus_studies.bench.gpu.kernels import AIMS, DTYPES, Timed, timed_kernels
from delassus_studies.bench.gpu.on_device import why_none
from delassus_studies.cases import Unavailable
from delassus_studies.gpu.assembled import program_at
from delassus_studies.gpu.predicted import H200, predicted
from delassus_studies.timing import in_turn

HEADS = ("kernel", "registers:,", "spilled:,", "stack:,", "local:,.0f", "code KB:.0f", "ptxas s:.1f", "predicted/s:.2g",
         "aim:.1g", "bound by")  # fmt: skip


def measure(record: Record, quick: bool) -> Iterator[Record]:
    """Assemble all kernels in both types; the record after each."""
    record["no device"], record["assembled"] = why_none(), {}
    try:
        program_at("ptxas"), program_at("nvdisasm")
    except Unavailable as reason:
        record["not assembled"] = str(reason)
        yield record
        return
    yield record
    for timed in in_turn(list(timed_kernels(quick))):
        for dtype in DTYPES:
            record["assembled"][f"{timed.name}, {dtype}"] = assembled_kernel(timed, dtype)
            yield record


def assembled_kernel(timed: Timed, dtype: str) -> Record:
    """What `ptxas` says of a kernel, and the predictor."""
    kernel = timed.make(dtype=dtype)
    found = asdict(predicted(kernel.program(), dtype))
    return {name: dict(x) if isinstance(x, dict) else x for name, x in found.items()}


def rows_of(record: Record) -> Iterator[tuple[object, ...]]:
    """Rows of the table, by `HEADS`."""
    for name, found in record["assembled"].items():
        kernel, _, dtype = name.rpartition(", ")
        aim = AIMS.get(kernel) if dtype == "float32" else None
        yield (name, found["registers"], sum(found["spills"]), found["stack"], sum(found["local_bytes"]),
               found["code_bytes"] / 1024, found["seconds"], found["states_per_second"], aim,
               found["bound_by"])  # fmt: skip


def tables(record: Record) -> Iterator[Table | str]:
    """Why nothing is measured; the table; what to do on a machine with a GPU."""
    yield f"Nothing is measured here. {record['no device']}"
    if "not assembled" in record:
        yield f"Nothing is assembled here: {record['not assembled']}"
        return
    width = max(map(len, record["assembled"]), default=0)
    title = f"assembled for sm_90; PREDICTED for an {H200.name} by counted instructions, not measured"
    yield table(title, HEADS, rows_of(record), text=("bound by",), grows=(max(width, 44), *[8] * 9))
    yield "bytes: spilled by ptxas, of a thread's stack, and of it that a state stores and loads (local)"
    yield "On a machine with a GPU: pip install 'delassus[cuda]', delassus bench gpu --check, then delassus bench gpu."
