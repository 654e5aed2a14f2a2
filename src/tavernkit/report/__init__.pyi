from tavernkit.report._html import render_cache_html as render_cache_html
from tavernkit.report._html import render_html as render_html
from tavernkit.report._overview import Overview as Overview
from tavernkit.report._overview import Part as Part
from tavernkit.report._overview import Share as Share
from tavernkit.report._overview import SourceFamily as SourceFamily
from tavernkit.report._overview import Words as Words
from tavernkit.report._overview import family_of as family_of
from tavernkit.report._overview import lore_rows as lore_rows
from tavernkit.report._overview import overview as overview

__all__: list[str]
