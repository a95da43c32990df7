"""Figures of recordings, as PNG files; needs the extra ``[plot]``.

`swing_figure` draws what [OS] shows of the pendulum: its Figure 5, frames of the swing, and its Figure 6, height and
normal velocity of the last link, by one formulation or several. `summary_figure` draws what is worth seeing of any
scene, `walk_figure` a robot that plans its way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delassus import Scene
from delassus.contact import Box, HalfSpace, Sphere
from delassus.errors import ConfigurationError, require, shown
from delassus.model.check import check_path, written
from delassus.model.kinematics import world_poses
from delassus.pictures.surfaces import collider_pose
from delassus.scenes.mppi import Replan
from delassus.simulate import Recording
from delassus.spatial.rotations import Array

FRAMES = 6
"""Pictures of a swing."""

DIFFERENCE = 1e-6
"""Time (s) over which velocities are differences of places; their error is about 1e-9 m/s."""

POINTS = 2000
"""Samples that a curve has at most, where nothing is lost by leaving the others out."""

FORCE_TIME = 0.02
"""Over which forces of feet are means (s), or from sample to sample if that is longer."""

WIDTH = 7.2
"""Width of a figure, that of a page (inches)."""

LARGE = 9.0
"""Height of large letters, as those of the page (points)."""

SMALL = 8.0
"""Height of small letters (points)."""

COLOURS, STYLES = ("tab:blue", "tab:orange", "tab:green", "0.3"), ("-", "--", "-.", ":")
"""Of curves: four colours in turn, then the same ones in another style."""

MOST = len(COLOURS)
"""Curves in one part of a summary; its title says where there are more."""


def swing_figure(recordings: Recording | Mapping[str, Recording], path: str | Path) -> Path:
    """Frames of a pendulum's swing, and height and vertical velocity of its last link and energy over time.

    Parameters
    ----------
    recordings : Recording or mapping of str to Recording
        With a mapping, curves of all of them, named so; frames are those of the first.
    path : str or Path
        PNG file to write.

    Raises
    ------
    ConfigurationError
        A recording without scene, or a file that cannot be written.
    MissingDependencyError
        The extra ``plot`` is not installed.

    References
    ----------
    [OS] Figures 5 and 6.
    """
    named = {"": recordings} if isinstance(recordings, Recording) else dict(recordings)
    figure = page_figure(4.4)
    grid = figure.add_gridspec(2, 1, height_ratios=(0.75, 1.0))
    first = next(iter(named.values()))
    frames = grid[0].subgridspec(1, FRAMES).subplots(sharey=True)
    _frames(frames, first)
    height, speed, energy = grid[1].subgridspec(1, 3).subplots()
    for k, (name, recording) in enumerate(named.items()):
        scene = recording.require_scene()
        at, rate = centre_motion(scene, recording.q, recording.v, scene.tree.n_links - 1)
        style = {"linewidth": 1.2, "label": name, **_look(k)}
        height.plot(recording.time, at[:, 2], **style)
        speed.plot(recording.time, rate[:, 2], **style)
        if len(recording.kinetic):
            energy.plot(recording.time, recording.energy, **style)
    last = first.require_scene().tree.link_names[-1]
    _tidy(height, f"height of {last}", "m")
    _tidy(speed, f"normal velocity of {last}", "m/s")
    _tidy(energy, "energy", "J")
    if len(named) > 1:
        height.legend(frameon=False, fontsize=SMALL)
    return save_figure(figure, check_path("path", path))


def summary_figure(recording: Recording, path: str | Path) -> Path:
    """Heights of links, contact forces along normals, number of contacts and energy over time; of robots, joints too.

    Those are positions of joints of one degree of freedom, and forces of motors on them.

    Raises what `swing_figure` raises.
    """
    scene = recording.require_scene()
    joints = [i for i, joint in enumerate(scene.tree.joints) if joint.nq == joint.nv == 1]
    number = 6 if joints else 4
    figure = page_figure(1.4 * number)
    parts = figure.subplots(number, 1, sharex=True)
    heights, forces, contacts, energies = parts[:4]
    step = max(1, len(recording) // POINTS)
    places = centres(scene, recording.q[::step])
    links = _worth_seeing(scene)
    for k, link in enumerate(links[:MOST]):
        heights.plot(recording.time[::step], places[:, link, 2], label=scene.tree.link_names[link], **_look(k))
    _tidy(heights, _of("heights", links), "m", legend=True)
    if joints:
        _joints(parts[4], parts[5], recording, joints, step)

    normal = np.abs(np.einsum("ni,ni->n", recording.contact_impulses, recording.contact_normals))
    outside = (recording.contact_links < 0).any(axis=1)
    span = recording.origin.every * recording.origin.dt
    total, on_world = (
        np.diff(np.concatenate([[0.0], np.cumsum(each)])[recording.contact_offsets]) / span
        for each in (normal, normal * outside)
    )
    if not outside.all():
        forces.plot(recording.time, total, linewidth=0.9, color=COLOURS[1], label="all contacts")
    forces.plot(recording.time, on_world, linewidth=0.9, color=COLOURS[0], label="with the world")
    weight = 1.0  # where the world carries most of it through joints
    if all(joint.nv == 6 for joint, p in zip(scene.tree.joints, scene.tree.parents, strict=True) if p < 0):
        weight = scene.tree.inertias[:, 0, 0].sum() * float(np.linalg.norm(scene.gravity))
        forces.axhline(weight, color="0.4", linewidth=0.8, linestyle="--", label="weight")
    # An impact takes one step, so that its force is an impulse divided by an arbitrarily short time: cut these spikes.
    top, highest = 4.0 * max(weight, float(np.percentile(total, 95))), float(total.max())
    forces.set_ylim(0.0, min(top, 1.1 * max(weight, highest)))
    cut = f", impacts of up to {highest:,.0f} N cut" if highest > top else ""
    _tidy(forces, f"normal contact forces{cut}", "N", legend=True)

    contacts.step(recording.time, recording.contact_counts, linewidth=0.9, where="post")
    contacts.set_ylim(bottom=0)
    contacts.yaxis.get_major_locator().set_params(integer=True)
    _tidy(contacts, "contacts", "number")
    if len(recording.kinetic):
        start = recording.potential[0]  # potential energy has no zero of its own
        energies.plot(recording.time, recording.kinetic, linewidth=1.2, label="kinetic")
        energies.plot(recording.time, recording.potential - start, linewidth=1.2, label="potential, change")
        energies.plot(recording.time, recording.energy - start, linewidth=1.2, label="both")
    _tidy(energies, "energy", "J", legend=len(recording.kinetic) > 0)
    return save_figure(figure, check_path("path", path))


def walk_figure(recording: Recording, replans: Sequence[Replan], path: str | Path) -> Path:
    """Way of base and feet over the ground, and over time cost, contact forces of the feet, and residuals, of a walk.

    ``replans`` are those of `delassus.scenes.mppi.MPPI`. Raises what `swing_figure` raises.
    """
    scene, times = recording.require_scene(), [r.time for r in replans]
    figure = page_figure(6.4)
    way, cost, forces, residuals = figure.subplots(4, 1, height_ratios=(1.2, 1.0, 1.2, 1.0))
    step = max(1, len(recording) // POINTS)
    poses = world_poses(scene.tree, recording.q[::step])
    for c, link in zip(scene.colliders, scene.links.tolist(), strict=True):
        at, shape = collider_pose(scene, c)[1], c.shape
        if link < 0 and isinstance(shape, Box):
            corner, edges = (at[0] - shape.x / 2, at[2] - shape.z / 2), (shape.x, shape.z)
            way.add_patch(_rectangle(corner, *edges))
        elif link >= 0:
            R, p = poses[link]
            place = p + R @ at
            way.plot(place[:, 0], place[:, 2], linewidth=0.9, label=c.name, **_look(len(way.lines)))
    way.set_ylim(bottom=0.0)
    _tidy(way, "way over the ground", "height (m)", legend=True)
    way.set_xlabel("x (m)", fontsize=SMALL)
    cost.semilogy(times, [r.cost for r in replans], linewidth=0.9, label="plan of before")
    cost.semilogy(times, [r.best for r in replans], linewidth=0.9, label="best sample")
    _tidy(cost, "cost", "", legend=True)
    strength = np.linalg.norm(recording.contact_impulses, axis=1)
    start, end = recording.time[[0, -1]]
    width = max(FORCE_TIME, (end - start) / len(recording))
    bins = np.arange(start, end + width, width)
    for k, name in enumerate(recording.origin.colliders):
        mine = (recording.contact_colliders == k).any(axis=1)
        if scene.links[k] >= 0 and mine.any():
            each, _ = np.histogram(recording.contact_times[mine], bins, weights=strength[mine])
            forces.plot(bins[1:], each / width, linewidth=0.9, label=name, **_look(len(forces.lines)))
    _tidy(forces, f"contact forces, means of {width * 1e3:g} ms", "N", legend=True)
    residuals.semilogy(times, [r.residual for r in replans], linewidth=0.9)
    _tidy(residuals, "residual of contact steps, worst of each replan", "m/s")
    return save_figure(figure, check_path("path", path))


def violations_figure(time: Sequence[float], panels: Mapping[tuple[str, str], Mapping[str, Any]], path: Path) -> Path:
    """Curves over time (s) on logarithmic axes, a panel for each title and unit; zeros are left out."""
    figure = page_figure(2.2 * len(panels))
    for ax, ((title, unit), curves) in zip(figure.subplots(len(panels), 1, sharex=True), panels.items(), strict=True):
        for k, (name, values) in enumerate((n, x) for n, x in curves.items() if np.any(np.greater(x, 0.0))):
            ax.semilogy(time, np.where(np.greater(values, 0.0), values, np.nan), linewidth=0.9, label=name, **_look(k))
        ax.set_ylim(bottom=max(ax.get_ylim()[0], 1e-8 * ax.get_ylim()[1]))
        _tidy(ax, title, unit, legend=True)
    return save_figure(figure, path)


def centres(scene: Scene, q: Array) -> Array:
    """Centres of mass (..., n, 3) of all links in the world."""
    H = scene.tree.inertias
    mass = np.maximum(H[:, 0, 0], 1e-12)
    com = np.stack([H[:, 5, 1], H[:, 3, 2], H[:, 4, 0]], axis=-1) / mass[:, None]  # from m skew(c), at the lower left
    poses = world_poses(scene.tree, q)
    return np.stack([p + R @ c for (R, p), c in zip(poses, com, strict=True)], axis=-2)


def centre_motion(scene: Scene, q: Array, v: Array, link: int) -> tuple[Array, Array]:
    """Place and velocity (T, 3) of a link's centre of mass in the world, at states (T, nq) and (T, nv)."""
    ahead, behind = (centres(scene, scene.tree.integrate(q, s * DIFFERENCE * v))[..., link, :] for s in (0.5, -0.5))
    return centres(scene, q)[..., link, :], (ahead - behind) / DIFFERENCE


def _frames(axes: Any, recording: Recording) -> None:
    """Balls, floor and walls in the x-z plane at equal times."""
    from matplotlib.patches import Circle

    scene = recording.require_scene()
    samples = np.linspace(0, len(recording) - 1, FRAMES).round().astype(int)
    poses = world_poses(scene.tree, recording.q[samples])
    balls = [(c, c.shape.radius, *poses[link]) for c, link in zip(scene.colliders, scene.links.tolist(), strict=True)
             if isinstance(c.shape, Sphere) and link >= 0]  # fmt: skip
    if not balls:
        raise ConfigurationError("recordings", "a scene with balls on links", "none", "summary_figure draws others.")
    places = np.stack([p + R @ collider_pose(scene, c)[1] for c, _, R, p in balls], axis=1)
    radii = [radius for _, radius, _, _ in balls]
    planes = [c for c in scene.colliders if isinstance(c.shape, HalfSpace)]
    base = scene.tree.joints[0].position
    everything = np.vstack([places.reshape(-1, 3), base])
    low: Array = everything.min(axis=0) - 1.2 * max(radii)
    high: Array = everything.max(axis=0) + 1.2 * max(radii)
    for c in planes:
        low, high = np.minimum(low, c.position - 0.5 * np.abs(c.rotation[:, 2])), np.maximum(high, c.position + 0.3)
    for ax, k, place in zip(axes, samples, places, strict=True):
        for c in planes:
            _half_space(ax, c.position, c.rotation[:, 2], low, high)
        for blue, radius, p in zip(np.linspace(0.35, 0.95, len(radii)), radii, place, strict=True):
            ax.add_patch(Circle((p[0], p[2]), radius, facecolor=(0.2, 0.45, blue), edgecolor="white", lw=0.4))
        ax.plot(base[0], base[2], marker="v", color="0.2", markersize=5)
        ax.set(xlim=(low[0], high[0]), ylim=(low[2], high[2]), aspect="equal")
        ax.set_title(f"{recording.time[k]:.2f} s", fontsize=LARGE)
        ax.set_xlabel("x (m)", fontsize=SMALL)
        ax.tick_params(labelsize=SMALL)
    axes[0].set_ylabel("z (m)", fontsize=SMALL)


def _rectangle(corner: tuple[float, float], width: float, height: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(corner, width, height, facecolor="0.85", edgecolor="0.4", linewidth=0.8, zorder=0)


def _half_space(ax: Any, point: Array, normal: Array, low: Array, high: Array) -> None:
    """Fill what lies behind a plane across the picture."""
    from matplotlib.patches import Polygon

    n, p = normal[[0, 2]], point[[0, 2]]
    along, far = np.array([-n[1], n[0]]), 4.0 * float(np.max(high - low))
    corners = [p - far * along, p + far * along, p + far * along - far * n, p - far * along - far * n]
    ax.add_patch(Polygon(corners, facecolor="0.85", edgecolor="0.4", linewidth=0.8, zorder=0))


def _worth_seeing(scene: Scene) -> list[int]:
    """Links that are free to move as a whole, and then those with colliders."""
    tree = scene.tree
    roots = [i for i, p in enumerate(tree.parents) if p < 0 and tree.joints[i].nv == 6]
    touching = sorted({link for link in scene.links.tolist() if link >= 0})
    return list(dict.fromkeys(roots + touching))


def _joints(angles: Any, forces: Any, recording: Recording, joints: list[int], step: int) -> None:
    """Positions of joints, those that move most where there are too many, and forces of motors on them."""
    tree = recording.require_scene().tree
    q = recording.q[:, [tree.q_slices[i].start for i in joints]]
    drawn = np.sort(np.argsort(-np.ptp(q, axis=0), kind="stable")[:MOST])
    turning = all(tree.joints[joints[k]].kind.name == "revolute" for k in drawn)
    for k, column in enumerate(drawn):
        name, time = tree.joint_names[joints[column]], recording.time[::step]
        angles.plot(time, q[::step, column], label=name, **_look(k))
        forces.plot(time, recording.tau[::step, tree.v_slices[joints[column]].start], **_look(k))
    _tidy(angles, _of("angles" if turning else "positions of joints", joints, "those that move most"),
          "rad" if turning else "rad, m", legend=True)  # fmt: skip
    _tidy(forces, _of("torques of motors" if turning else "forces of motors", joints, "the same"),
          "N m" if turning else "N m, N")  # fmt: skip


def _look(k: int) -> dict[str, str]:
    """Colour and style of the curve number ``k``."""
    return {"color": COLOURS[k % len(COLOURS)], "linestyle": STYLES[k // len(COLOURS) % len(STYLES)]}


def _of(title: str, curves: list[int], which: str = "the first") -> str:
    """A title that says how many curves there would be."""
    return title if len(curves) <= MOST else f"{title}: {MOST} of {len(curves)}, {which}"


def _tidy(ax: Any, title: str, unit: str, legend: bool = False) -> None:
    if legend:  # beside the axes, where it hides no curve
        ax.legend(frameon=False, fontsize=SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.set_title(title, fontsize=LARGE)
    ax.set_ylabel(unit, fontsize=SMALL)
    ax.grid(alpha=0.3)
    ax.tick_params(which="both", labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)
    if ax.get_subplotspec().is_last_row() or not ax.get_shared_x_axes().get_siblings(ax)[1:]:
        ax.set_xlabel("time (s)", fontsize=SMALL)


def page_figure(height: float) -> Any:
    """Figure of so many inches, as wide as a page, without pyplot: that would choose a backend for the process."""
    require("matplotlib", "plot", "figures")
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def save_figure(figure: Any, path: Path) -> Path:
    """Write a figure, whole or not at all."""
    formats = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        wanted = f"a name that ends in .{', .'.join(formats)}"
        raise ConfigurationError(f"figure {str(path)!r}", wanted, shown(path.suffix), "Use .png.")
    with written(path, "figure") as part:
        try:
            figure.savefig(part, format=path.suffix[1:].lower(), dpi=150)
        except (ArithmeticError, ValueError) as error:  # axes of numbers whose differences overflow
            raise ConfigurationError(
                f"figure {shown(str(path))}", "numbers that can be drawn", str(error), "Look for where they diverge."
            ) from error
    return path
