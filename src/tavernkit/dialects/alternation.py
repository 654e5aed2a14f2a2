"""Turns that alternate: what strict providers ask for."""

from __future__ import annotations

from collections.abc import Iterable

from tavernkit.values import JsonObject, is_list

DEFAULT_PLACEHOLDER = "[Start]"
"""Said by the user when a conversation would begin with the model."""


def merge_neighbours(turns: Iterable[JsonObject], parts_key: str) -> list[JsonObject]:
    """Join neighbouring turns of one role into one; turns without any part are dropped."""
    merged: list[JsonObject] = []
    for turn in turns:
        parts = turn[parts_key]
        if not is_list(parts) or not parts:
            continue
        last = merged[-1] if merged else None
        if last is not None and last["role"] == turn["role"] and is_list(joined := last[parts_key]):
            joined.extend(parts)
        else:
            merged.append({**turn, parts_key: list(parts)})
    return merged
