"""Lists of names in options: given as a list, or as text with commas."""

from __future__ import annotations

from tavernkit.text.blank import trim_blanks
from tavernkit.values import is_sequence


def _names(value: object) -> list[str]:
    items = value if is_sequence(value) else str(value).split(",")
    return [name for item in items if item is not None and (name := trim_blanks(str(item)))]


def normalize_string_list(value: object) -> list[str] | None:
    """Return names trimmed, blank ones left out; ``None`` if none is left."""
    return None if value is None else _names(value) or None


def is_explicitly_empty(value: object) -> bool:
    """Tell whether a list of names was given and has none: an empty text or list says "no names at all"."""
    return value is not None and not _names(value)


def merge_string_lists(left: object, right: object) -> list[str] | None:
    """Add the names of ``right`` to those of ``left``, each once; ``None`` clears, an empty list means no names."""
    if right is None:
        return None
    added = _names(right)
    return list(dict.fromkeys([*([] if left is None else _names(left)), *added])) if added else []
