"""Smooth drawing with Pillow: everything is drawn larger and shrunk at the end."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

OVERSAMPLING = 3
SMALLEST = 9  # size of text that can be read

Colour = str | tuple[int, int, int] | tuple[int, int, int, int]
Point = tuple[float, float]


class Canvas:
    """A picture of `width` × `height` pixels; places are (x, y) in pixels from the top left.

    >>> canvas = Canvas(40, 20, "black")
    >>> canvas.circle((20, 10), 8, fill="gold")
    >>> canvas.pixels().shape
    (20, 40, 3)
    """

    def __init__(self, width: int, height: int, background: Colour):
        self.width, self.height = width, height
        size = (width * OVERSAMPLING, height * OVERSAMPLING)
        self._image = Image.new("RGB", size, background)
        self._draw = ImageDraw.Draw(self._image, "RGBA")
        self._origin = (0.0, 0.0)

    def at(self, x: float, y: float) -> "Canvas":
        """The same picture with the origin moved: what is drawn on it is drawn here."""
        moved = Canvas.__new__(Canvas)
        moved.__dict__.update(self.__dict__)
        moved._origin = (self._origin[0] + x, self._origin[1] + y)
        return moved

    def rectangle(
        self, corner: Point, size: Point, fill: Colour | None = None, radius: float = 0, **line: Any
    ) -> None:
        opposite = (corner[0] + size[0], corner[1] + size[1])
        box = self._scale([corner, opposite])
        self._draw.rounded_rectangle(box, radius * OVERSAMPLING, fill, **_line(line))

    def circle(self, centre: Point, radius: float, fill: Colour | None = None, **line: Any) -> None:
        self._draw.ellipse(self._around(centre, radius), fill, **_line(line))

    def pie(self, centre: Point, radius: float, start: float, end: float, fill: Colour) -> None:
        """From `start` to `end`, in degrees clockwise from the right."""
        self._draw.pieslice(self._around(centre, radius), start, end, fill)

    def line(self, points: list[Point], colour: Colour, width: float = 1) -> None:
        """A line with round ends."""
        scaled, thick = self._scale(points), max(1, round(width * OVERSAMPLING))
        self._draw.line(scaled, colour, thick, joint="curve")
        for point in points if width >= 2 else []:
            self._draw.ellipse(self._around(point, width / 2), colour)

    def polygon(self, points: list[Point], fill: Colour) -> None:
        self._draw.polygon(self._scale(points), fill)

    def text(
        self,
        place: Point,
        text: str,
        colour: Colour,
        size: float = 14,
        anchor: str = "lm",
        width: float = math.inf,
    ) -> None:
        """`anchor`: l, m or r for where `place` is along the text, then m for its middle. What is
        wider than `width` is drawn smaller, and if that is too small to read, cut."""
        while size > SMALLEST and text_width(text, size) > width:
            size -= 1
        while len(text) > 1 and text_width(text, size) > width:
            text = text[:-2] + "…"
        font = _font(round(size * OVERSAMPLING))
        self._draw.text(self._scale([place])[0], text, colour, font, anchor=anchor)

    def arrow(self, start: Point, end: Point, colour: Colour, width: float = 3) -> None:
        along = np.subtract(end, start)
        along = along / max(float(np.hypot(*along)), 1e-9)
        across = np.array([-along[1], along[0]])
        neck = np.subtract(end, along * width * 3)
        self.line([start, (float(neck[0]), float(neck[1]))], colour, width)
        tip = [np.asarray(end), neck + across * width * 2, neck - across * width * 2]
        self.polygon([(float(x), float(y)) for x, y in tip], colour)

    def pixels(self) -> UInt8[np.ndarray, "height width 3"]:
        return np.asarray(self._image.reduce(OVERSAMPLING))

    def _scale(self, points: list[Point]) -> list[Point]:
        left, top = self._origin
        return [((x + left) * OVERSAMPLING, (y + top) * OVERSAMPLING) for x, y in points]

    def _around(self, centre: Point, radius: float) -> list[Point]:
        x, y = centre
        return self._scale([(x - radius, y - radius), (x + radius, y + radius)])


def text_width(text: str, size: float) -> float:
    """In pixels."""
    return _font(round(size * OVERSAMPLING)).getlength(text) / OVERSAMPLING


def _line(line: dict[str, Any]) -> dict[str, Any]:
    """`outline` and `width` as Pillow takes them."""
    if "outline" not in line:
        return {}
    width = max(1, round(line.get("width", 1) * OVERSAMPLING))
    return {"outline": line["outline"], "width": width}


@cache
def _font(size: int) -> Any:
    """DejaVu Sans, which comes with matplotlib and knows Greek and arrows."""
    import matplotlib

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(path), size)
