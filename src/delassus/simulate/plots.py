"""Figures of recordings, as PNG files; needs the extra ``[plot]``.

`swing_figure` draws what [OS] shows of the pendulum: its Figure 5, frames of the swing, and its Figure 6, height and
normal velocity of the last link, by one formulation or several. `summary_figure` draws what is worth seeing of any
scene.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delassus.contact.scene import Scene
from delassus.contact.shapes import HalfSpace, Sphere
from delassus.errors import ConfigurationError, missing_dependency
from delassus.model.kinematics import world_poses
from delassus.model.rotations import Array
from delassus.model.tree import WORLD
from delassus.simulate.recording import Recording

FRAMES = 6
"""Pictures of a swing."""

DIFFERENCE = 1e-6
"""Time (s) over which velocities are differences of places; their error is about 1e-9 m/s."""

POINTS = 2000
"""Samples that a curve has at most, where nothing is lost by leaving the others out."""

LINES = (("tab:red", "-"), ("tab:blue", "--"), ("tab:green", "-."), ("tab:orange", ":"), ("tab:purple", "--"))


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
    figure = _figure(12.0, 5.8)
    grid = figure.add_gridspec(2, 1, height_ratios=(0.85, 1.0))
    first = next(iter(named.values()))
    frames = grid[0].subgridspec(1, FRAMES).subplots(sharey=True)
    _frames(frames, first)
    height, speed, energy = grid[1].subgridspec(1, 3).subplots()
    for (name, recording), (colour, line) in zip(named.items(), LINES, strict=False):
        scene = _scene(recording)
        label = name or recording.origin.formulation
        link = scene.tree.n_links - 1
        at, rate = centre_motion(scene, recording.q, recording.v, link)
        style = {"color": colour, "linestyle": line, "linewidth": 1.2, "label": label}
        height.plot(recording.time, at[:, 2], **style)
        speed.plot(recording.time, rate[:, 2], **style)
        if len(recording.kinetic):
            energy.plot(recording.time, recording.energy, **style)
    last = _scene(first).tree.link_names[-1]
    for ax, title, unit in ((height, f"height of {last}", "m"), (speed, f"normal velocity of {last}", "m/s"),
                            (energy, "energy", "J")):  # fmt: skip
        _tidy(ax, title, unit)
    if len(named) > 1:
        height.legend(frameon=False, fontsize=8)
    return _save(figure, Path(path))


def summary_figure(recording: Recording, path: str | Path) -> Path:
    """Heights of links, contact forces along normals, number of contacts and energy over time.

    Raises what `swing_figure` raises.
    """
    scene = _scene(recording)
    figure = _figure(12.5, 6.2)
    axes = figure.subplots(2, 2, sharex=True)
    step = max(1, len(recording) // POINTS)
    time = recording.time[::step]
    places = centres(scene, recording.q[::step])
    seen = _worth_seeing(scene)
    for link in seen:
        axes[0, 0].plot(time, places[:, link, 2], linewidth=1.2, label=scene.tree.link_names[link])
    _legend(axes[0, 0])
    _tidy(axes[0, 0], "heights", "m")
    normal = np.abs(np.einsum("ni,ni->n", recording.contact_impulses, recording.contact_normals))
    outside = (recording.contact_links == WORLD).any(axis=1)
    span = recording.origin.every * recording.origin.dt
    total, on_world = (
        np.diff(np.concatenate([[0.0], np.cumsum(each)])[recording.contact_offsets]) / span
        for each in (normal, normal * outside)
    )
    weight = scene.tree.inertias[:, 0, 0].sum() * float(np.linalg.norm(scene.gravity))
    if not outside.all():
        axes[0, 1].plot(recording.time, total, linewidth=0.9, color="tab:red", label="all contacts")
    axes[0, 1].plot(recording.time, on_world, linewidth=0.9, color="tab:blue", label="those with the world")
    if all(scene.tree.joints[i].nv == 6 for i, p in enumerate(scene.tree.parents) if p == WORLD):
        axes[0, 1].axhline(weight, color="0.4", linewidth=0.8, linestyle="--", label="weight of the scene")
    else:
        weight = 1.0  # the world carries most of it through joints
    # An impact takes one step, so that its force is an impulse divided by an arbitrarily short time: cut these spikes.
    top = 4.0 * max(weight, float(np.percentile(total, 95)))
    axes[0, 1].set_ylim(0.0, min(top, 1.1 * max(weight, float(total.max()))))
    _legend(axes[0, 1])
    _tidy(axes[0, 1], "normal contact forces", "N")
    axes[1, 0].step(recording.time, recording.contact_counts, linewidth=0.9, color="tab:purple", where="post")
    axes[1, 0].set_ylim(bottom=0)
    axes[1, 0].yaxis.get_major_locator().set_params(integer=True)
    _tidy(axes[1, 0], "contacts", "number")
    if len(recording.kinetic):
        start = recording.potential[0]  # potential energy has no zero of its own
        for name, values in (("kinetic", recording.kinetic), ("potential, from the start", recording.potential - start),
                             ("both", recording.energy - start)):  # fmt: skip
            axes[1, 1].plot(recording.time, values, linewidth=1.2, label=name)
        _legend(axes[1, 1])
    _tidy(axes[1, 1], "energy", "J")
    return _save(figure, Path(path))


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

    scene = _scene(recording)
    balls = [(c, link) for c, link in zip(scene.colliders, scene.links.tolist(), strict=True)
             if isinstance(c.shape, Sphere)]  # fmt: skip
    planes = [c for c in scene.colliders if isinstance(c.shape, HalfSpace)]
    base = scene.tree.joints[0].position
    places: list[Array] = []
    samples = np.linspace(0, len(recording) - 1, FRAMES).round().astype(int)
    for k in samples:
        poses = world_poses(scene.tree, recording.q[k])
        now = []
        for c, link in balls:
            at = scene.tree.placement(c.link)
            R, p = poses[link] if link != WORLD else (np.eye(3), np.zeros(3))
            now.append(p + R @ (at.position + at.rotation @ c.position))
        places.append(np.array(now))
    everything = np.concatenate([*places, base[None]])
    radius = max(c.shape.radius for c, _ in balls if isinstance(c.shape, Sphere))
    low: Array = everything.min(axis=0) - 1.2 * radius
    high: Array = everything.max(axis=0) + 1.2 * radius
    for c in planes:
        low, high = np.minimum(low, c.position - 0.5 * np.abs(c.rotation[:, 2])), np.maximum(high, c.position + 0.3)
    for ax, k, place in zip(axes, samples, places, strict=True):
        for c in planes:
            _half_space(ax, c.position, c.rotation[:, 2], low, high)
        for number, ((c, _), p) in enumerate(zip(balls, place, strict=True)):
            assert isinstance(c.shape, Sphere)
            shade = 0.25 + 0.6 * number / max(len(balls) - 1, 1)
            ax.add_patch(
                Circle((p[0], p[2]), c.shape.radius, facecolor=(0.2, 0.45, shade + 0.1), edgecolor="white", lw=0.4)
            )
        ax.plot(base[0], base[2], marker="v", color="0.2", markersize=5)
        ax.set_xlim(low[0], high[0])
        ax.set_ylim(low[2], high[2])
        ax.set_aspect("equal")
        ax.set_title(f"{recording.time[k]:.2f} s", fontsize=9)
        ax.tick_params(labelsize=7)
        ax.set_xlabel("x (m)", fontsize=8)
    axes[0].set_ylabel("z (m)", fontsize=8)


def _half_space(ax: Any, point: Array, normal: Array, low: Array, high: Array) -> None:
    """Fill what lies behind a plane across the picture."""
    from matplotlib.patches import Polygon

    n, p = normal[[0, 2]], point[[0, 2]]
    along, far = np.array([-n[1], n[0]]), 4.0 * float(np.max(high - low))
    corners = [p - far * along, p + far * along, p + far * along - far * n, p - far * along - far * n]
    ax.add_patch(Polygon(corners, facecolor="0.85", edgecolor="0.4", linewidth=0.8, zorder=0))


def _worth_seeing(scene: Scene) -> list[int]:
    """Up to eight links: those on the world that are free to move as a whole, else those with colliders."""
    tree = scene.tree
    roots = [i for i, p in enumerate(tree.parents) if p == WORLD and tree.joints[i].nv == 6]
    touching = sorted({int(link) for link in scene.links if link != WORLD})
    seen = roots + [link for link in touching if link not in roots]
    return seen[:8]


def _scene(recording: Recording) -> Scene:
    if recording.scene is None:
        raise ConfigurationError(
            "recording", "one that knows its scene", "none", "Read it with Recording.load(path, scene=…)."
        )
    return recording.scene


def _legend(ax: Any) -> None:
    """Legend beside the axes, where it hides no curve."""
    ax.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _tidy(ax: Any, title: str, unit: str) -> None:
    ax.set_title(title, fontsize=10)
    ax.set_xlabel("time (s)", fontsize=9)
    ax.set_ylabel(unit, fontsize=9)
    ax.grid(alpha=0.3)
    ax.tick_params(labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)


def _figure(width: float, height: float) -> Any:
    """Figure of that size in inches, without pyplot: that would choose a backend for the whole process."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_dependency("matplotlib", "plot", "figures") from None
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"figure {str(path)!r}", "a file that can be written, such as out.png", str(error), "Check the path."
        ) from error
    return path
