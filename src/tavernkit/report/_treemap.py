"""The squarified treemap: areas by weight, as close to squares as possible."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle of the map."""

    x: float
    y: float
    width: float
    height: float


def squarify(weights: Sequence[int], area: Rectangle) -> list[Rectangle]:
    """Divide an area among weights, in their order; a weight of zero gets nothing."""
    order = sorted(range(len(weights)), key=lambda index: -weights[index])
    total = sum(weight for weight in weights if weight > 0)
    placed = [Rectangle(area.x, area.y, 0, 0) for _ in weights]
    if total <= 0:
        return placed
    scale = area.width * area.height / total
    sizes = [(index, weights[index] * scale) for index in order if weights[index] > 0]
    rest = area
    while sizes:
        row = _best_row([size for _, size in sizes], min(rest.width, rest.height))
        rest = _lay(sizes[:row], rest, placed)
        sizes = sizes[row:]
    return placed


def _best_row(sizes: Sequence[float], side: float) -> int:
    """Return how many of the next sizes make the best row along a side."""
    best, count, covered = float("inf"), 0, 0.0
    for size in sizes:
        covered += size
        worst = max(_ratio(each, covered, side) for each in (sizes[0], size))
        if worst > best:
            break
        best, count = worst, count + 1
    return max(count, 1)


def _ratio(size: float, covered: float, side: float) -> float:
    thickness = covered / side if side else 0
    length = size / thickness if thickness else 0
    return max(thickness / length, length / thickness) if length and thickness else float("inf")


def _lay(row: Sequence[tuple[int, float]], area: Rectangle, placed: list[Rectangle]) -> Rectangle:
    """Place a row along the shorter side of an area and return the remaining area."""
    covered = sum(size for _, size in row)
    if area.width >= area.height:
        thickness = covered / area.height if area.height else 0
        y = area.y
        for index, size in row:
            height = size / thickness if thickness else 0
            placed[index] = Rectangle(area.x, y, thickness, height)
            y += height
        return Rectangle(area.x + thickness, area.y, max(area.width - thickness, 0), area.height)
    thickness = covered / area.width if area.width else 0
    x = area.x
    for index, size in row:
        width = size / thickness if thickness else 0
        placed[index] = Rectangle(x, area.y, width, thickness)
        x += width
    return Rectangle(area.x, area.y + thickness, area.width, max(area.height - thickness, 0))
