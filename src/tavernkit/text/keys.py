"""Spellings of keys."""

from __future__ import annotations

import re

_ACRONYM_END = re.compile(r"(?<=[A-Z])(?=[A-Z][a-z])")
_WORD_END = re.compile(r"([a-z0-9])([A-Z])")


def underscore(key: str) -> str:
    """Write a key in ``snake_case``; the ``::`` of nested names becomes ``/``."""
    key = _ACRONYM_END.sub("_", key.replace("::", "/"))
    return _WORD_END.sub(r"\1_\2", key).replace("-", "_").lower()
