"""Limits of templates, well above normal use."""

from __future__ import annotations

MAX_TEMPLATE_CHARS = 1_000_000
"""A longer template is refused."""

MAX_NESTING = 64
"""How deeply blocks and subexpressions may be nested."""

MAX_RENDER_STEPS = 20_000
"""How many tags and bodies of blocks one rendering may run, to stop nested loops."""

MAX_OUTPUT_CHARS = 20_000_000
"""How many characters one rendering may produce, to stop loops over long values."""

MAX_CACHED_TEMPLATES = 64
"""How many compiled templates are kept."""

MAX_CACHED_CHARS = 65_536
"""Longer templates are parsed each time, so that the cache stays small."""
