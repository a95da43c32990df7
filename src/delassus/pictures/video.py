"""`write_video`: a recording as a film, drawn without a display; needs the extra ``[video]``."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.errors import ConfigurationError, require, shown
from delassus.model.check import check_flag, check_list, check_number, check_path, check_whole, written
from delassus.model.kinematics import world_poses
from delassus.pictures.rendering import OPENING, Renderer, camera_at
from delassus.simulate import Recording
from delassus.spatial.rotations import Array

SUFFIXES = (".mp4", ".webp", ".gif")

AWAY = (0.26, -0.92, 0.29)
"""Direction from what is seen to the camera."""

MARGIN = 1.15
"""How much larger the picture is than what is in it."""

QUALITY, CRF, PRESET = 55, 20, "veryfast"
"""Of WebP files, up to 100; and of MP4 files, H.264's constant rate factor, where less is better, and its effort."""

AT_ONCE = 4
"""Most pictures of a film that are made at once."""

LETTERS = 24
"""Height of pictures over that of the text on films."""

INK = (60, 64, 72)
"""Colour of that text."""

SIZES = "Such as (640, 360)."

MOST_PICTURES = 100_000
"""Most pictures of a film, an hour at 25 a second."""

FARTHEST = 1e9
"""Largest number of a configuration (m, rad)."""

CALM = 0.5
"""Time (s) over which the way of the camera is a mean."""


def check_video(path: Path) -> None:
    """Refuse a name of another kind of file, or one that needs a package that is not installed."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigurationError("video", f"a name that ends in {' or '.join(SUFFIXES)}", str(path), "Use .mp4.")
    require("imageio_ffmpeg" if path.suffix.lower() == ".mp4" else "PIL", "video", f"videos ({path.suffix})")


def check_size(size: tuple[int, int]) -> tuple[int, int]:
    """Return a width and a height in pixels; or `ConfigurationError`."""
    several = check_list("size", size, "a width and a height", SIZES)
    if len(several) != 2:
        raise ConfigurationError("size", "a width and a height", shown(size), SIZES)
    sides = zip(("width", "height"), several, strict=True)
    width, height = (check_whole(name, n, SIZES, least=16, most=4096) for name, n in sides)
    return width, height


def write_video(
    recording: Recording, path: str | Path, *, fps: int = 25, size: tuple[int, int] = (1280, 720), speed: float = 1.0,
    overlay: bool = True,
) -> Path:  # fmt: skip
    """Film what was recorded, the camera going with what moves freely.

    Parameters
    ----------
    recording : Recording
        One that knows its scene. Robots look as the files of ``scene.descriptions`` show them, in their colours;
        others as their colliders. What is translucent is a pattern of rays that meet it.
    path : str or Path
        ``.mp4`` (H.264), ``.webp`` or ``.gif`` file to write; the last two go round and round, and pages show them as
        pictures. A GIF file is three times as large as a WebP file, and has 255 colours.
    fps : int
        Pictures a second; in GIF files each is shown for a whole number of hundredths of a second.
    size : (int, int)
        Width and height in pixels, even numbers.
    speed : float
        Seconds of the recording in a second of the film.
    overlay : bool
        Whether pictures have the time of the recording on them, and the speed if it is not 1.

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
    >>> from delassus.scenes import boxes
    >>> recording = boxes(2).simulator().run(0.5, record=Recorder())
    >>> write_video(recording, "boxes.gif")  # doctest: +SKIP
    PosixPath('boxes.gif')
    """
    if not isinstance(recording, Recording):
        raise ConfigurationError("recording", "a Recording", shown(recording), "Record with Recorder().")
    path = check_path("path", path)
    check_video(path)
    check_whole("fps", fps, "25 is usual.", least=1, most=100)
    size = check_size(size)
    for name, n in zip(("width", "height"), size, strict=True):
        if n % 2:
            raise ConfigurationError(name, "an even number", shown(n), SIZES)
    speed, overlay = check_number("speed", speed, "1 is as fast as it was."), check_flag("overlay", overlay)
    pictures = _pictures(recording, fps, size, speed, _inscribe(speed, size) if overlay else None)
    with written(path, "video") as part:
        if path.suffix.lower() == ".mp4":
            _write_mp4(pictures, part, fps)
        else:
            _write_pictures(pictures, part, fps, gif=path.suffix.lower() == ".gif")
    return path


def _pictures(
    recording: Recording, fps: int, size: tuple[int, int], speed: float,
    inscribe: Callable[[NDArray[np.uint8], float], None] | None,
) -> Iterator[NDArray[np.uint8]]:  # fmt: skip
    scene, time = recording.require_scene(), recording.time
    span = float(time[-1] - time[0])
    count = span / speed * fps
    if not count < MOST_PICTURES:
        wanted, came = f"one for at most {MOST_PICTURES:,} pictures", f"{speed:g}, for {count:.3g} of {span:g} s"
        raise ConfigurationError("speed", wanted, came, "Film faster, or a shorter recording.")
    at = time[0] + speed / fps * np.arange(int((span + 1e-9) / speed * fps) + 1)
    q = recording.q[np.minimum(np.searchsorted(time, at - 1e-9), len(recording) - 1)]
    if not np.abs(q).max(initial=0.0) < FARTHEST:
        wanted, came = f"configurations within {FARTHEST:g} m", "one that is NaN or farther away"
        raise ConfigurationError("recording", wanted, came, "Film what was before it diverged.")
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

    def picture(k: int) -> NDArray[np.uint8]:
        made = renderer.picture(q[k], targets[k], -distance * ahead)
        if inscribe is not None:
            inscribe(made, float(at[k]))
        return made

    return _in_threads(picture, len(q))


def _in_threads(make: Callable[[int], NDArray[np.uint8]], n: int) -> Iterator[NDArray[np.uint8]]:
    """Pictures 0 to n − 1, in this order; several are made at once, while another one is used."""
    threads, coming = min(os.cpu_count() or 1, AT_ONCE), deque[Future[NDArray[np.uint8]]]()
    with ThreadPoolExecutor(threads, thread_name_prefix="delassus film") as pool:
        try:
            for k in range(n):
                coming.append(pool.submit(make, k))
                if len(coming) > threads:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            for future in coming:
                future.cancel()


def _inscribe(speed: float, size: tuple[int, int]) -> Callable[[NDArray[np.uint8], float], None]:
    """What writes a time (s) on a picture, and the speed if that is not 1."""
    require("PIL", "video", "text on films")
    from PIL import Image, ImageDraw, ImageFont

    letters = max(size[1] // LETTERS, 8)
    font: Any = ImageFont.load_default(letters)
    added = f"   {speed:g} x" if speed != 1.0 else ""

    def inscribe(picture: NDArray[np.uint8], time: float) -> None:
        text, margin = f"{time:.2f} s{added}", letters // 2
        mask = Image.new("L", (min(letters * len(text), size[0] - margin), min(2 * letters, size[1] - margin)))
        ImageDraw.Draw(mask).text((0, 0), text, font=font, fill=255)
        part = picture[margin : margin + mask.height, margin : margin + mask.width]
        ink = np.asarray(mask, np.float32)[:, :, None] / 255
        part[:] = part + ink * (np.array(INK, np.float32) - part)

    return inscribe


def _calm(way: Array, window: int) -> Array:
    """Means of places (n, 3) over about ``window`` of them."""
    n = min(2 * (window // 2) + 1, 2 * len(way) - 1)
    padded = np.concatenate([np.repeat(way[:1], n // 2, 0), way, np.repeat(way[-1:], n // 2, 0)])
    sums = np.concatenate([np.zeros((1, 3)), np.cumsum(padded, axis=0)])
    return np.asarray((sums[n:] - sums[:-n]) / n)


def _write_mp4(pictures: Iterator[NDArray[np.uint8]], path: Path, fps: int) -> None:
    """Send pictures to ffmpeg, whose own words are the error if it fails."""
    import imageio_ffmpeg

    first = next(pictures)
    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{first.shape[1]}x{first.shape[0]}", "-r", str(fps)]
    made = ["-c:v", "libx264", "-preset", PRESET, "-crf", str(CRF), "-pix_fmt", "yuv420p", "-f", "mp4", f"file:{path}"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-v", "error", *given, "-i", "-", *made]
    with TemporaryFile() as log, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log) as ffmpeg:
        assert ffmpeg.stdin is not None
        try:
            with suppress(BrokenPipeError), ffmpeg.stdin as film:  # it says why it has ended
                for picture in chain([first], pictures):
                    film.write(np.ascontiguousarray(picture).data)
        except BaseException:
            ffmpeg.kill()
            raise
        if ffmpeg.wait():
            log.seek(0)
            said = log.read().decode(errors="replace").strip()
            raise OSError(f"ffmpeg ended with {ffmpeg.returncode}: {said or 'no words'}")


def _write_pictures(pictures: Iterator[NDArray[np.uint8]], path: Path, fps: int, gif: bool) -> None:
    from PIL import Image

    found, each = [Image.fromarray(picture) for picture in pictures], 1000 / fps
    if gif:
        colours = found[len(found) // 2].quantize(255)  # the same for all pictures, so that only what moves is stored
        found, each = [image.quantize(palette=colours, dither=Image.Dither.NONE) for image in found], round(each, -1)
    options = {"duration": round(each), "loop": 0, "quality": QUALITY}
    found[0].save(path, "GIF" if gif else "WEBP", save_all=True, append_images=found[1:], **options)
