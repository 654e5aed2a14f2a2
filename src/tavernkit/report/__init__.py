"""A plan as people look at it: by source, with the cost of each part, on a page or in a terminal."""

from typing import TYPE_CHECKING

from tavernkit._lazy import lazy_exports

if TYPE_CHECKING:
    from tavernkit.report.html import render_html as render_html
    from tavernkit.report.lore import lore_rows as lore_rows
    from tavernkit.report.plan_overview import Overview as Overview
    from tavernkit.report.plan_overview import Part as Part
    from tavernkit.report.plan_overview import Share as Share
    from tavernkit.report.plan_overview import overview as overview
    from tavernkit.report.source_families import SourceFamily as SourceFamily
    from tavernkit.report.source_families import family_of as family_of

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".html": ("render_html",),
        ".lore": ("lore_rows",),
        ".plan_overview": ("Overview", "Part", "Share", "overview"),
        ".source_families": ("SourceFamily", "family_of"),
    },
)
