"""What ``delassus bench gpu`` runs: the check, the measurements, or the table of a machine without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from rich.table import Table

from delassus.cli.tables import Record, environment
from delassus_studies.bench.gpu import check as checks
from delassus_studies.bench.gpu import table, times
from delassus_studies.bench.gpu.on_device import devices, facts, started

QUICK_STATES = 100


def measure(states: int, quick: bool = False, check: bool = False) -> Iterator[Record]:
    """Comparisons, times, or predictions where no device is; the record after each."""
    record = environment()
    if check:
        record["device"] = facts(started().device(0))
        yield from checks.measure(record, quick, started().devices)
    elif found := devices():
        yield from times.measure(record, quick, QUICK_STATES if quick else states, found[0])
    else:
        yield from table.measure(record, quick)


def _of(record: Record) -> ModuleType:
    return checks if "checks" in record else times if "kernels" in record else table


def tables(record: Record) -> Iterator[Table | str]:
    """Those of what was done."""
    found: Iterator[Table | str] = _of(record).tables(record)
    return found


def holds(record: Record) -> bool:
    """Whether everything that was compared agrees."""
    return "assembled" in record or bool(_of(record).holds(record))
