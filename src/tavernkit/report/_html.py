"""The report as one self-contained page."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from tavernkit.cache import CacheReport
from tavernkit.prompt import Moved
from tavernkit.report._plan_overview import Overview
from tavernkit.report._source_families import FAMILIES
from tavernkit.report._treemap import Rectangle, squarify

MAP = Rectangle(0, 0, 100, 100)
"""The treemap's area, in percent."""


def render_html(view: Overview, *, title: str = "What the model sees", messages: object = None) -> str:
    """Write the page. All texts in it are escaped: cards, chats and books are not trusted.

    The page's policy allows only its own script.

    Args:
        view: What to show.
        title: The title of the page.
        messages: The payload that the page offers for copying.
    """
    from jinja2 import Environment

    style, script = _asset("report.css"), _asset("report.js")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_asset("report.html"))
    families = [family for family in FAMILIES if any(share.family is family for share in view.shares)]
    cells = squarify([part.tokens for part in view.parts], MAP)
    sources = list(
        dict.fromkeys(words.source for part in view.parts for words in part.words if words.source is not None)
    )
    return template.render(
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
        style=_trusted(style),
        script=_trusted(script),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


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
    return template.render(
        title=title,
        report=report,
        moved=moved,
        width=10 * len(report.turns),
        longest=max((turn.tokens for turn in report.turns), default=0) or 1,
        style=_trusted(style),
        style_hash=_hash(style),
    )


def _trusted(text: str) -> object:
    """Mark our own style and script as safe."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704  # shipped with the package


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files("tavernkit.report").joinpath("page", name).read_text(encoding="utf-8")
