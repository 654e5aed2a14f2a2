"""What a text must hold for a regular expression to have a chance: most need not be tried at all."""

from __future__ import annotations

from functools import lru_cache

from tavernkit.silly_tavern.world_info.limits import COMPILED_REGEX_NEEDS
from tavernkit.text.js_regex import JSRegex
from tavernkit.text.js_regex.needs import needs_of
from tavernkit.text.js_regex.syntax import parse_pattern

SHORTEST = 3
"""Shorter texts stand in nearly every message: looking for them saves nothing."""


@lru_cache(COMPILED_REGEX_NEEDS)
def regex_needs(regex: JSRegex) -> tuple[str, ...] | None:
    """Give lower-case texts of which one stands in the lower-case form of any text that matches, if there are any."""
    needs = tuple(dict.fromkeys(text.lower() for text in needs_of(parse_pattern(regex.source, regex.flags))))
    return needs if needs and min(map(len, needs)) >= SHORTEST else None
