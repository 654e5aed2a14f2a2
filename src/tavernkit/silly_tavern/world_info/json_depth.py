"""A limit on how deep JSON from outside may be nested."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit.silly_tavern.errors import LoreParseError
from tavernkit.silly_tavern.world_info.limits import MAX_JSON_DEPTH
from tavernkit.values import is_mapping, is_sequence


def check_depth(value: object) -> None:
    """Refuse JSON that is nested deeper than any real book, before something that walks it overflows."""
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [inner for outer in level for inner in _contained(outer)]
        if not level:
            return
    raise LoreParseError(f"the JSON is nested deeper than {MAX_JSON_DEPTH} levels")


def _contained(value: object) -> list[object]:
    inner = value.values() if is_mapping(value) else value if is_sequence(value) else ()
    return [item for item in inner if isinstance(item, (dict, list, tuple, Mapping))]
