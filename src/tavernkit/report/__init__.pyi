from tavernkit.report._html import render_cache_html as render_cache_html
from tavernkit.report._html import render_html as render_html
from tavernkit.report._plan_overview import Overview as Overview
from tavernkit.report._plan_overview import Part as Part
from tavernkit.report._plan_overview import Share as Share
from tavernkit.report._plan_overview import lore_rows as lore_rows
from tavernkit.report._plan_overview import overview as overview
from tavernkit.report._source_families import SourceFamily as SourceFamily
from tavernkit.report._source_families import family_of as family_of
from tavernkit.report._sources import Words as Words

__all__: list[str]
