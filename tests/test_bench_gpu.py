"""``delassus bench gpu`` on a fake device, and without one; the page's figures; the signature that it tells C++."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import delassus as ds
import fake_cuda
from delassus_studies.bench.gpu import check, kernels
from delassus_studies.bench.gpu.table import assembled_kernel
from delassus_studies.cases import Unavailable
from delassus_studies.gpu.assembled import assembled, program_at
from delassus_studies.peers import gpu as peers
from delassus_studies.peers import library
from delassus_studies.registry import bench_app

PAGE = (Path(__file__).parent.parent / "docs" / "gpu.md").read_text("utf-8")


@pytest.fixture
def fake(monkeypatch):
    found = fake_cuda.install(monkeypatch)
    yield found
    found.check()


def asked(*words):
    return CliRunner(env={"COLUMNS": "250"}).invoke(bench_app, ["gpu", "--quick", *words])


def assembles():
    try:
        return bool(program_at("ptxas") and program_at("nvdisasm"))
    except Unavailable:
        return False


needs_ptxas = pytest.mark.skipif(not assembles(), reason="ptxas and nvdisasm are not installed")


# -- on a fake device ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_check_holds_on_the_fake_device(fake):
    done = asked("--check")
    assert done.exit_code == 0, done.output
    assert "6 kernels, 0 with faults" in done.output
    assert len({str(device) for device, *_ in fake.launches}) == 2
    assert not any(fake.live()[kind] for kind in ("memory", "streams", "events"))


def test_the_check_finds_what_is_wrong(fake, monkeypatch):
    """Results of another state, a lost NaN, a NaN too many, an error of the driver."""
    arm = check.Asked("delassus", "arm", ds.mechanisms.chain(2), (ds.Point("link2"),), "float64")
    kernel = arm.kernel()
    values = check.states_of(kernel, 40)
    assert len({x.tobytes() for x in values[0]}) == 40
    (good,), _ = check.raw(kernel, values)
    assert not check.compare(kernel, values, [good]).faults
    assert "state" in check.compare(kernel, values, [np.roll(good, 1, axis=0)]).faults[0]
    lost = good.copy()
    lost[7] = np.nan
    assert "NaN in 1 state(s) that differ, the first is 7" in check.compare(kernel, values, [lost]).faults[0]
    assert check.compare(kernel, values, [lost]).beyond == 1 / 40
    values[0][3] = np.nan
    assert "the first is 3" in check.compare(kernel, values, [good]).faults[0]
    monkeypatch.setattr(check, "cases", lambda quick: [arm])
    fake.failures["cuLaunchKernel"] = "ILLEGAL_ADDRESS"
    done = asked("--check")
    assert done.exit_code == 1 and "1 fault(s)" in done.output and "ILLEGAL_ADDRESS" in done.output


def test_unsolved_states_are_expected_to_be_nan():
    twice = (ds.Weld("link3"), ds.Point("link3"))
    kernel = ds.compile(ds.mechanisms.chain(3), twice, "dynamics", method="pv")
    values = check.states_of(kernel, 33)
    results, rcond = check.raw(kernel, values)
    assert np.all(rcond < kernel.least_rcond)
    assert "unsolved state(s) are not NaN" in check.compare(kernel, values, results).faults[0]
    assert not check.compare(kernel, values, [np.full_like(x, np.nan) for x in results]).faults


def test_every_quantity_is_checked():
    names = {(each.what, each.dtype) for each in check.cases()}
    assert names == {(name, dtype) for name in check.QUANTITIES for dtype in check.DTYPES}
    assert {each.modes for each in check.cases()} == {(), ("jacobian",), ("jvp",), ("vjp",)}


# -- without a device ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_ptxas
def test_without_a_device_a_prediction_is_labelled_as_one(monkeypatch):
    fake_cuda.install(monkeypatch, has_driver=False)
    done = asked()
    assert done.exit_code == 0, done.output
    for words in ("Nothing is measured here", "PREDICTED", "not measured", "--check"):
        assert words in done.output
    with pytest.raises(ds.DelassusError, match="NVIDIA's driver"):
        CliRunner().invoke(bench_app, ["gpu", "--check"], catch_exceptions=False)


def test_without_an_assembler_it_says_which_packages_have_it(monkeypatch):
    fake_cuda.install(monkeypatch, devices=0)
    monkeypatch.setattr("delassus_studies.bench.gpu.table.program_at", lambda name: library("no_such_package"))
    done = asked()
    assert done.exit_code == 0 and "Nothing is assembled here" in done.output, done.output


def test_absent_peers_say_why():
    for peer in (peers.gpu_of_jax, peers.gpu_of_warp):
        with pytest.raises(Unavailable, match=r"no GPU here|is not installed"):
            peer()


# -- the page --------------------------------------------------------------------------------------------------------


ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.rpartition("## What it costs")[2].splitlines()
    if len(cells := [cell.strip() for cell in line.strip("| ").split("|")]) == 8 and "float" in cells[0]
}
"""Of the table, by the names of kernels."""


@needs_ptxas
@pytest.mark.slow
def test_figures_of_the_page_are_those_of_the_predictor():
    """One row anew, to what another `ptxas` may change; the names of all."""
    here = [timed for timed in kernels.timed_kernels() if not timed.name.startswith("humanoid")]
    names = {f"{timed.name}, {dtype}" for timed in here for dtype in kernels.DTYPES}
    assert names <= set(ROWS) or not kernels.contact_steps()
    chain = next(timed for timed in kernels.timed_kernels() if timed.name.startswith("humanoid"))
    registers, spilled, stack, _, _, rate, _ = ROWS[f"{chain.name}, float32"]
    found = assembled_kernel(chain, "float32")
    assert found["registers"] == pytest.approx(int(registers), rel=0.2)
    assert found["stack"] == pytest.approx(int(stack.replace(",", "")), rel=0.2)
    assert sum(found["spills"]) <= 500 and int(spilled.replace(",", "")) <= 500
    assert 1 / 1.5 < found["states_per_second"] / float(rate) < 1.5


@pytest.mark.slow
def test_the_signature_that_the_page_tells_is_that_of_the_entry(tmp_path):
    """What the shell writes says it at its head; types of all parameters, and shared memory of each thread."""
    (tmp_path / "arm.urdf").write_text(ds.mechanisms.chain(7).to_urdf(), encoding="utf-8")
    command = [sys.executable, "-m", "delassus", "export", "arm.urdf", "--point", "link7", "--ptx", "--float"]
    done, refused = (
        subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        for words in ((), ("--casadi", "1"))
    )
    assert done.returncode == 0, done.stderr
    assert refused.returncode == 2 and "--ptx: expected no --casadi" in refused.stderr
    text = (tmp_path / "chain7_delassus.ptx").read_text("utf-8")
    (said,) = re.findall(r"^// kernel\((.*)\)$", text, re.M)
    assert f"// kernel({said})" in PAGE
    declared = re.findall(r"\.param \.(\w+)", re.search(r"\.entry kernel\((.*?)\)", text, re.S)[1])
    kinds = {"int64": ("u64", "b64"), "ptr": ("u64", "b64"), "float": ("f32", "b32")}
    told = [kinds[part.split()[0]] for part in said.split(", ")]
    assert all(kind in pair for kind, pair in zip(declared, told, strict=True))
    (shared,) = re.findall(r"threads \* (\d+) \* sizeof", PAGE)
    assert f"threads * {shared} * sizeof(float)" in text
    if assembles():
        assert assembled(text).registers > 30
