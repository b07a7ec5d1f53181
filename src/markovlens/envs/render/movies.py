"""Frames as a GIF, a video, or a page that plays them."""

import base64
import html
import io
import os
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from markovlens.files import atomic_open, fill, write_text
from markovlens.names import unknown_name

Frame = UInt8[np.ndarray, "height width 3"]
LAST_FRAME_SECONDS = 2.0
SHADE = 8  # shades this close are one when the palette is chosen


def write_movie(
    path: str | os.PathLike[str],
    frames: Sequence[Frame],
    captions: Sequence[str],
    title: str,
    frames_per_second: float = 8.0,
) -> None:
    """Write `frames` as the kind of file that `path` ends with: .gif, .mp4 or .html.

    `captions`, one for each frame, are read out beside it by the page; the other kinds have
    everything in the picture.
    """
    kind = check_movie_name(path)
    if kind == ".html":
        write_text(path, _page(frames, captions, title, frames_per_second))
    else:
        with atomic_open(path) as file:
            file.write(_ENCODERS[kind](frames, frames_per_second))


def check_movie_name(path: str | os.PathLike[str]) -> str:
    """The ending of `path`, if it is one we can write."""
    kind = Path(path).suffix.lower()
    if kind not in _KINDS:
        raise unknown_name("kind of movie", kind or str(path), _KINDS)
    return kind


def _indexed(frames: Sequence[Frame]) -> list[Any]:
    """The frames as Pillow's images with one palette: colours do not flicker, and shades that
    cover little, a ghost's, say, count as much as the background's."""
    from PIL import Image

    sample = np.concatenate([frames[i] for i in sorted({0, len(frames) // 2, len(frames) - 1})])
    shades = np.unique(sample.reshape(-1, 3) // SHADE * SHADE + SHADE // 2, axis=0)
    palette = Image.fromarray(shades[None].astype(np.uint8)).quantize(256)
    return [Image.fromarray(f).quantize(palette=palette, dither=Image.Dither.NONE) for f in frames]


def _gif(frames: Sequence[Frame], frames_per_second: float) -> bytes:
    images = _indexed(frames)
    durations = [1000.0 / frames_per_second] * len(images)
    durations[-1] = LAST_FRAME_SECONDS * 1000.0
    buffer = io.BytesIO()
    images[0].save(
        buffer, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0
    )
    return buffer.getvalue()


def _mp4(frames: Sequence[Frame], frames_per_second: float) -> bytes:
    import subprocess
    import tempfile

    from imageio_ffmpeg import get_ffmpeg_exe  # type: ignore[import-untyped]

    height, width, _ = frames[0].shape
    held = [frames[-1]] * round(LAST_FRAME_SECONDS * frames_per_second)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "movie.mp4"
        given = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {frames_per_second} -i -"
        wanted = "-c:v libx264 -pix_fmt yuv420p -crf 20 -movflags +faststart"
        command = [get_ffmpeg_exe(), "-v", "error", *given.split(), *wanted.split(), str(path)]
        raw = b"".join(frame.tobytes() for frame in [*frames, *held])
        done = subprocess.run(command, input=raw, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise OSError(f"ffmpeg could not make the video: {done.stderr.decode()}")
        return path.read_bytes()


def _page(
    frames: Sequence[Frame], captions: Sequence[str], title: str, frames_per_second: float
) -> str:
    """One file without addresses: pictures and program are in it."""
    import json

    sources = [f"data:image/png;base64,{_png(image)}" for image in _indexed(frames)]
    data = json.dumps({"frames": sources, "captions": list(captions), "fps": frames_per_second})
    template = (files("markovlens.envs.render") / "player.html").read_text(encoding="utf-8")
    return fill(template, title=html.escape(title), data=data.replace("</", "<\\/"))


def _png(image: Any) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


_ENCODERS: dict[str, Callable[[Sequence[Frame], float], bytes]] = {".gif": _gif, ".mp4": _mp4}
_KINDS = (".gif", ".mp4", ".html")
