"""Mechanisms of the IFToMM library of benchmark problems: published and independent solutions, energy, order."""

from __future__ import annotations

import math

import numpy as np
import pytest

import delassus as ds
from delassus_studies import mechanisms
from delassus_studies.claims import HOLDS, IN_PART, NO, Setup, iftomm
from delassus_studies.mechanisms import X, Z

pytestmark = pytest.mark.usefixtures("machine_code")

EXUDYN_BARS = (0.3284580981, 0.9445185429)
"""End of the first upright of two four-bars after 10 s: Exudyn's with 0.25 and 0.125 ms, extrapolated at order two."""

EXUDYN_CRANK = 3.36427617809219
"""Sum of coordinates of crank and rod after 0.2 s, of Exudyn's test of the slider-crank, with steps of 0.2 ms."""


def states(problem: iftomm.Problem, step: float, duration: float) -> tuple[np.ndarray, np.ndarray]:
    _, qs, vs = iftomm.simulated(problem, step, duration)
    return qs, vs


def test_the_pendulum_of_the_four_bars_is_that_of_exudyn() -> None:
    s = mechanisms.integrated(mechanisms.swing(2), 1.0, 10.0, 1)[-1]
    np.testing.assert_allclose((math.sin(s), math.cos(s)), EXUDYN_BARS, atol=5e-8)


@pytest.mark.slow
@pytest.mark.parametrize("on_ground", [False, True])
def test_four_bars_pass_their_flat_position(on_ground: bool) -> None:
    """Through 90° into the lower half, cut at couplers and at the ground, at the published time step."""
    mechanism = mechanisms.four_bars(1, on_ground)
    q, v, tau = mechanism.start
    kernel = ds.compile(mechanism.tree, mechanism.constraints, "step", integrator="rk4")
    qs, vs, _ = ds.rollout(kernel, q, v, np.tile(tau, (200, 1)), 1e-2, return_status=True)
    energy = mechanism.energy(qs, vs)
    s = mechanisms.integrated(mechanisms.swing(1), 1.0, 2.0, 20)
    assert s[-1] > math.pi / 2
    np.testing.assert_allclose(mechanism.place(qs[::10], "upright0", Z)[:, 0], np.sin(s), atol=1e-3)
    assert np.abs(energy - energy[0]).max() < iftomm.ENERGY


@pytest.mark.slow
def test_the_squeezer_ends_as_published_and_converges_at_order_four() -> None:
    problem = iftomm.squeezer()
    names = problem.mechanism.tree.joint_names
    order, start = [names.index(n) for n in mechanisms.ANDREWS_JOINTS], np.array(mechanisms.Andrews().angles)
    drifts = []
    for steps in (800, 1600):
        qs, vs = states(problem, 0.03 / steps, 0.03)
        energy = problem.mechanism.energy(qs, vs)
        drifts.append(np.abs(energy - energy[0]).max())
        np.testing.assert_allclose(start + qs[-1][order], mechanisms.ANDREWS_END, atol=5e-8)
    assert drifts[0] / drifts[1] > 2**3.5, drifts


@pytest.mark.slow
def test_bricards_mechanism_moves_as_its_energies_say_and_converges_at_order_four() -> None:
    reference, drifts = mechanisms.motion(mechanisms.bricard(), (-0.05, 3.2), 1.5, 3, 96), []
    problem = iftomm.six_hinges(2)
    for step in (4e-3, 2e-3):
        qs, vs = states(problem, step, 1.5)
        energy = problem.mechanism.energy(qs, vs)
        drifts.append(np.abs(energy - energy[0]).max())
        assert drifts[-1] < 1e-8
    np.testing.assert_allclose(qs[::250, 0], reference[:, 0], atol=1e-8)
    assert drifts[0] / drifts[1] > 2**3.5, drifts


@pytest.mark.slow
def test_bricards_mechanism_closed_on_the_ground_is_the_same() -> None:
    ends = [states(iftomm.six_hinges(cut), 1e-3, 0.5)[0][-1, 0] for cut in (2, 5)]
    assert ends[0] == pytest.approx(ends[1], abs=1e-9)


@pytest.mark.slow
def test_the_slider_crank_is_that_of_exudyn() -> None:
    problem = iftomm.spatial_crank()
    qs, vs = states(problem, 2e-4, 0.2)
    mechanism, energy = problem.mechanism, problem.mechanism.energy(qs, vs)
    assert np.abs(energy - energy[0]).max() < 1e-8
    rod = mechanism.bodies[3]
    T = ds.forward_kinematics(mechanism.tree, qs[-1], mechanism.frame("rod", rod.com))
    slider, pin = mechanism.bodies[1].at, mechanism.closures[0].at
    x, y = (slider - pin) / 0.3, rod.axis
    R = T[:3, :3] @ np.array([x, y, np.cross(x, y)]).T
    w = math.sqrt(1 + np.trace(R)) / 2
    vector = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / (4 * w)
    angle = qs[-1, mechanism.tree.joint_names.index("crank")] / 2
    crank = 0.22 + abs(math.cos(angle)) + abs(math.sin(angle))
    assert crank + np.abs(T[:3, 3]).sum() + abs(w) + np.abs(vector).sum() == pytest.approx(EXUDYN_CRANK, abs=1e-7)


@pytest.mark.slow
def test_the_governor_falls_as_two_coordinates_by_hand_say() -> None:
    """Errors are proportional to the time step; the heights are those of SciPy's Radau IIA, made anew."""
    integrate = pytest.importorskip("scipy.integrate")
    g, k, c, inertia = 9.81, 8e5, 4e4, 0.3 * (1 + 1e-4) / 12 + 0.075 + 5.0

    def spin(a: float) -> tuple[float, float]:
        """Inertia about the shaft, and its derivative by the angle of the rods."""
        x, y, s, r = 0.05 + 0.5 * math.cos(a), 0.05 + math.cos(a), math.sin(a), 0.025
        return (
            r * 2e-4 + 0.005 + 2 * (0.3 * x * x + 5 * y * y + r * ((1 + 1e-4) * (1 - s * s) + 2e-4 * s * s)),
            -2 * s * (0.3 * x + 10 * y + 2 * r * math.cos(a) * (1 - 1e-4)),
        )

    momentum = spin(math.pi / 6)[0] * 2 * math.pi

    def rates(_: float, y: np.ndarray) -> list[float]:
        a, s, da, ds_ = y
        d = np.array([0.5 * math.cos(a), 1 - 0.5 * math.sin(a) - s])
        v = np.array([-0.5 * math.sin(a) * da, -0.5 * math.cos(a) * da - ds_])
        length = math.hypot(*d)
        f = (k * (length - 0.5) + c * (d @ v) / length) * d / length
        about, slope = spin(a)
        turning = slope / 2 * (momentum / about) ** 2 + 2 * g * 5.15 * math.cos(a)
        turning += f[0] * math.sin(a) + f[1] * math.cos(a)
        return [da, ds_, turning / (2 * inertia), 2 * f[1] / 3 - g]

    made = integrate.solve_ivp(rates, (0, 2), [math.pi / 6, 0.5, 0, 0], "Radau", [0, 1, 2], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(made.y[1], mechanisms.GOVERNOR_HEIGHTS[:3], atol=1e-9)
    problem, errors = iftomm.flyballs(), []
    slider = problem.mechanism.tree.joint_names.index("slider")
    for step in (1e-3, 5e-4):
        qs, _ = states(problem, step, 2.0)
        errors.append(abs(0.5 + qs[-1, slider] - mechanisms.GOVERNOR_HEIGHTS[2]))
    assert errors[1] < 1e-3 * 0.5
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.1)


@pytest.mark.slow
def test_bennetts_mechanism_closes_along_its_motion() -> None:
    mechanism = mechanisms.bennett()
    problem = iftomm.four_hinges()
    qs, vs = states(problem, 2.5e-4, 0.5)
    energy = mechanism.energy(qs, vs)
    assert np.abs(energy - energy[0]).max() < iftomm.ENERGY
    reference = mechanisms.motion(mechanism, (-1.0, 0.3), 0.5, 2, 96)
    order = [mechanism.tree.joint_names.index(b.name) for b in mechanism.bodies]
    np.testing.assert_allclose(qs[::1000][:, order], reference, atol=1e-7)


def test_the_verdict_sees_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pendulum with a wrong gravity in the reference, and faster than nobody."""
    problem = iftomm.simple_pendulum()
    assert iftomm.measured(problem, Setup(quick=True)).verdict in (HOLDS, IN_PART)
    monkeypatch.setattr(mechanisms, "GRAVITY", 9.9)
    assert iftomm.measured(problem, Setup(quick=True)).verdict in (IN_PART, NO)
    assert "error" in iftomm.measured(problem, Setup(quick=True)).reason
    assert np.allclose(mechanisms.pendulum().bodies[0].com, -X)
