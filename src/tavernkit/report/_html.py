"""The report as one self-contained page, with a treemap of what its parts cost."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit.cache import CacheReport
from tavernkit.prompt import Moved
from tavernkit.report._overview import FAMILIES, Overview

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def render_html(view: Overview, *, title: str = "What the model sees", messages: object = None) -> str:
    """Write the page. All texts in it are escaped: cards, chats and books are not trusted.

    The page's policy allows only its own script. Half characters, which UTF-8 cannot encode, become U+FFFD.

    Args:
        view: What to show.
        title: The title of the page.
        messages: The payload that the page offers for copying.
    """
    from jinja2 import Environment

    require("view", view, Overview, "an Overview, such as overview(plan)")
    style, script = _asset("report.css"), _asset("report.js")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_asset("report.html"))
    families = [family for family in FAMILIES if any(share.family is family for share in view.shares)]
    cells = squarify([part.tokens for part in view.parts], Rectangle(0, 0, 100, 100))  # in percent
    sources = list(
        dict.fromkeys(words.source for part in view.parts for words in part.words if words.source is not None)
    )
    page = template.render(
        title=title,
        view=view,
        families=families,
        cells=[(part, cell) for part, cell in zip(view.parts, cells, strict=True) if cell.width and cell.height],
        shares=sorted(view.shares, key=lambda share: -share.tokens),
        used=sum(share.tokens for share in view.shares) or 1,
        active=sum(row.active for row in view.lore),
        sources=sources,
        places={source: place for place, source in enumerate(sources)},
        payload=None if messages is None else json.dumps(messages, ensure_ascii=False, indent=2),
        style=_trust(style),
        script=_trust(script),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )
    return _HALF_CHARACTER.sub("\ufffd", page)


def render_cache_html(report: CacheReport, *, title: str = "Prompt cache", moved: Sequence[Moved] = ()) -> str:
    """Write a page about a chat's prompt cache: a chart, what broke it, and every request.

    Args:
        report: The prediction.
        title: The page's title.
        moved: What a cache strategy moved, in the last prompt.
    """
    from jinja2 import Environment

    style = _asset("report.css")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_asset("cache.html"))
    page = template.render(
        title=title,
        report=report,
        moved=moved,
        width=10 * len(report.turns),
        longest=max((turn.tokens for turn in report.turns), default=0) or 1,
        style=_trust(style),
        style_hash=_hash(style),
    )
    return _HALF_CHARACTER.sub("\ufffd", page)


def _trust(text: str) -> object:
    """Mark our own style and script as safe."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704  # shipped with the package


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files("tavernkit.report").joinpath("page", name).read_text(encoding="utf-8")


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
