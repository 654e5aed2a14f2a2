"""Limits of a template: each well above honest use."""

from __future__ import annotations

MAX_TEMPLATE_CHARS = 1_000_000
"""A longer template is refused."""

MAX_NESTING = 64
"""Blocks and subexpressions may be nested this deep."""

MAX_RENDER_STEPS = 20_000
"""How many tags and bodies of blocks one rendering may run: loops in loops end here."""

MAX_OUTPUT_CHARS = 20_000_000
"""How many characters one rendering may give: repeating long values in loops ends here."""

MAX_CACHED_TEMPLATES = 64
"""How many compiled templates are kept."""

MAX_CACHED_CHARS = 65_536
"""Longer templates are parsed each time, so that the cache stays small."""
