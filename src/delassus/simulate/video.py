"""`write_video`: a recording as a film, drawn without a display; needs the extra ``[video]``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from delassus.errors import ConfigurationError, require, shown
from delassus.model.check import check_number, check_path, check_whole
from delassus.model.kinematics import world_poses
from delassus.model.rotations import Array
from delassus.simulate.recording import Recording
from delassus.simulate.rendering import OPENING, Renderer, camera_at

SUFFIXES = (".mp4", ".webp", ".gif")

AWAY = (0.26, -0.92, 0.29)
"""Direction from what is seen to the camera."""

MARGIN = 1.15
"""How much larger the picture is than what is in it."""

QUALITY = 55
"""Of WebP files, up to 100."""

CALM = 0.5
"""Time (s) over which the way of the camera is a mean."""


def check_video(path: Path) -> None:
    """Refuse a name of another kind of file, or one that needs a package that is not installed."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigurationError("video", f"a name that ends in {' or '.join(SUFFIXES)}", str(path), "Use .mp4.")
    require("imageio_ffmpeg" if path.suffix.lower() == ".mp4" else "PIL", "video", f"videos ({path.suffix})")


def write_video(
    recording: Recording,
    path: str | Path,
    *,
    fps: int = 25,
    size: tuple[int, int] = (640, 360),
    speed: float = 1.0,
) -> Path:
    """Film what was recorded, the camera going with what moves freely.

    Parameters
    ----------
    recording : Recording
        One that knows its scene. Robots look as the files of ``scene.descriptions`` show them, others as their
        colliders.
    path : str or Path
        ``.mp4`` (H.264), ``.webp`` or ``.gif`` file to write; the last two go round and round, and pages show them as
        pictures. A GIF file is three times as large as a WebP file, and has 255 colours.
    fps : int
        Pictures a second; in GIF files each is shown for a whole number of hundredths of a second.
    size : (int, int)
        Width and height in pixels, even numbers.
    speed : float
        Seconds of the recording in a second of the film.

    Returns
    -------
    Path
        That of the file.

    Raises
    ------
    ConfigurationError
        A recording without scene, a file that cannot be written, or an option out of range.
    MissingDependencyError
        The extra ``video`` is not installed.

    Examples
    --------
    >>> from delassus.simulate.recording import Recorder
    >>> from delassus.simulate.scenes import boxes
    >>> recording = boxes(2).simulator().run(0.5, record=Recorder())
    >>> write_video(recording, "boxes.gif")  # doctest: +SKIP
    PosixPath('boxes.gif')
    """
    path = check_path("path", path)
    check_video(path)
    check_whole("fps", fps, "25 is usual.", least=1, most=100)
    for name, n in zip(("width", "height"), size, strict=True):
        if check_whole(name, n, "Such as 640 and 360.", least=16, most=4096) % 2:
            raise ConfigurationError(name, "an even number", shown(n), "Such as 640 and 360.")
    pictures = _pictures(recording, fps, size, check_number("speed", speed, "1 is as fast as it was."))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        (_write_mp4 if path.suffix.lower() == ".mp4" else _write_pictures)(pictures, path, fps, size)
    except OSError as error:
        raise ConfigurationError(
            f"video {str(path)!r}", "a file that can be written", str(error), "Check the path."
        ) from error
    return path


def _pictures(recording: Recording, fps: int, size: tuple[int, int], speed: float) -> Iterator[NDArray[np.uint8]]:
    scene, time = recording.require_scene(), recording.time
    at = np.arange(time[0], time[-1] + 1e-9, speed / fps)
    q = recording.q[np.minimum(np.searchsorted(time, at - 1e-9), len(recording) - 1)]
    renderer = Renderer(scene, q[0], *size)
    poses = world_poses(scene.tree, q)
    targets = np.asarray(np.mean([p for _, p in poses], axis=0))
    if any(joint.nv == 6 for joint in scene.tree.joints):
        targets = _calm(targets, round(CALM * fps / speed))
    else:  # what is held somewhere stays in the picture by itself
        targets = np.broadcast_to(targets.mean(axis=0), targets.shape)
    ahead = -np.array(AWAY) / np.linalg.norm(AWAY)
    camera = camera_at(-ahead, np.zeros(3), OPENING, *size)
    distance = 0.1
    for (R, p), corners in zip(poses, renderer.corners, strict=True):  # far enough that all is always in the picture
        right, down, deep = np.moveaxis((corners @ R.swapaxes(-1, -2) + (p - targets)[:, None]) @ camera.axes.T, -1, 0)
        wide = np.maximum(np.abs(right) * size[1] / size[0], np.abs(down))
        distance = max(distance, float((MARGIN * wide / OPENING - deep).max()))
    for each, target in zip(q, targets, strict=True):
        yield renderer.picture(each, target, -distance * ahead)


def _calm(way: Array, window: int) -> Array:
    """Means of places (n, 3) over about ``window`` of them."""
    n = min(2 * (window // 2) + 1, 2 * len(way) - 1)
    padded = np.concatenate([np.repeat(way[:1], n // 2, 0), way, np.repeat(way[-1:], n // 2, 0)])
    sums = np.concatenate([np.zeros((1, 3)), np.cumsum(padded, axis=0)])
    return np.asarray((sums[n:] - sums[:-n]) / n)


def _write_mp4(pictures: Iterator[NDArray[np.uint8]], path: Path, fps: int, size: tuple[int, int]) -> None:
    import imageio_ffmpeg

    film = imageio_ffmpeg.write_frames(str(path), size, fps=fps, codec="libx264", quality=6, macro_block_size=2)
    film.send(None)
    for picture in pictures:
        film.send(np.ascontiguousarray(picture))
    film.close()


def _write_pictures(pictures: Iterator[NDArray[np.uint8]], path: Path, fps: int, size: tuple[int, int]) -> None:
    from PIL import Image

    found, each = [Image.fromarray(picture) for picture in pictures], 1000 / fps
    if path.suffix.lower() == ".gif":
        colours = found[len(found) // 2].quantize(255)  # the same for all pictures, so that only what moves is stored
        found, each = [image.quantize(palette=colours, dither=Image.Dither.NONE) for image in found], round(each, -1)
    options = {"duration": round(each), "loop": 0, "quality": QUALITY}
    found[0].save(path, save_all=True, append_images=found[1:], **options)
