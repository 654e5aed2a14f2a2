"""Chat variables that remember which entries were active."""

from __future__ import annotations

from functools import lru_cache

from tavernkit.risu_ai.cbs.hashing import hash_number
from tavernkit.text.js_values import number_to_string

KEEP_PREFIX = "__internal_ka_"
DONT_PREFIX = "__internal_da_"
_DRAWN = 555
HASH_CACHE = 4096


@lru_cache(maxsize=HASH_CACHE)
def content_id(content: str) -> str:
    """The id of an entry that has none: a number drawn from its whole content."""
    return number_to_string(hash_number(content, _DRAWN))
