"""Shapes by which the series of a chart are told apart without their colours: SVG paths around (0, 0). Plain Python."""

from math import cos, pi, sin

SIZE = 4.5  # half the width of a mark, in SVG user units


def _polygon(corners: int, radius: float, turn: float = 0.0, inner: float | None = None) -> str:
    count = corners if inner is None else 2 * corners
    places = []
    for i in range(count):
        r = radius if inner is None or i % 2 == 0 else inner
        angle = 2 * pi * i / count - pi / 2 + turn
        places.append(f"{r * cos(angle):.2f} {r * sin(angle):.2f}")
    return "M" + "L".join(places) + "Z"


MARKERS = (
    f"M{-SIZE} 0a{SIZE} {SIZE} 0 1 0 {2 * SIZE} 0a{SIZE} {SIZE} 0 1 0 {-2 * SIZE} 0Z",  # circle
    _polygon(4, SIZE * 1.3, pi / 4),  # square
    _polygon(3, SIZE * 1.35),  # triangle
    _polygon(4, SIZE * 1.35),  # diamond
    _polygon(3, SIZE * 1.35, pi),  # triangle, point down
    _polygon(5, SIZE * 1.5, inner=SIZE * 0.6),  # star
    _polygon(6, SIZE * 1.2),  # hexagon
    _polygon(4, SIZE * 1.5, inner=SIZE * 0.45),  # four-pointed star
)
