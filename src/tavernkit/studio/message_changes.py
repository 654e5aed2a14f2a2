"""What changed between two prompts, message by message and word by word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final, TypeAlias

from tavernkit.values import Json, JsonObject

Said: TypeAlias = tuple[str, str]
"""Role and text of a message."""

MAX_WORDS: Final = 3000
"""Texts with more words between their first and last difference are not compared word by word."""
MAX_MESSAGES: Final = 2000
"""Of longer prompts, messages are compared place by place."""

_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")


def message_changes(before: Sequence[Said], after: Sequence[Said]) -> list[Json]:
    """Return how messages became others: for each the kind of change, both places, and for changed ones the words."""
    start, end = _ends(before, after)
    told: list[Json] = [_row("same", place, place) for place in range(start)]
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if len(old) + len(new) > MAX_MESSAGES:
        operations = [("replace", 0, len(old), 0, len(new))]
    else:
        operations = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, low, high, start_new, end_new in operations:
        if kind == "equal":
            told += [_row("same", start + low + at, start + start_new + at) for at in range(high - low)]
            continue
        paired = min(high - low, end_new - start_new)
        for at in range(paired):
            one, other = old[low + at], new[start_new + at]
            parts = text_changes(one[1], other[1])
            told.append({**_row("changed", start + low + at, start + start_new + at), "parts": parts})
        told += [_row("removed", start + place, None) for place in range(low + paired, high)]
        told += [_row("added", None, start + place) for place in range(start_new + paired, end_new)]
    told += [_row("same", len(before) - end + at, len(after) - end + at) for at in range(end)]
    return told


def text_changes(before: str, after: str) -> list[Json]:
    """Return how a text became another one: parts that stayed, went and came."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    start, end = _ends(old, new)
    parts: list[tuple[str, str]] = [("same", "".join(old[:start]))]
    old_middle, new_middle = old[start : len(old) - end], new[start : len(new) - end]
    if len(old_middle) + len(new_middle) > MAX_WORDS:
        parts += [("removed", "".join(old_middle)), ("added", "".join(new_middle))]
    else:
        for kind, low, high, start_new, end_new in SequenceMatcher(None, old_middle, new_middle).get_opcodes():
            if kind == "equal":
                parts.append(("same", "".join(old_middle[low:high])))
            else:
                parts.append(("removed", "".join(old_middle[low:high])))
                parts.append(("added", "".join(new_middle[start_new:end_new])))
    parts.append(("same", "".join(old[len(old) - end :])))
    return _joined(parts)


def _ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """Return how many items at the start and at the end are the same."""
    most = min(len(old), len(new))
    start = 0
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, end


def _joined(parts: Sequence[tuple[str, str]]) -> list[Json]:
    told: list[Json] = []
    last = ""
    for kind, text in parts:
        if not text:
            continue
        if kind == last and isinstance(told[-1], dict):
            told[-1]["text"] = f"{told[-1]['text']}{text}"
        else:
            told.append({"kind": kind, "text": text})
        last = kind
    return told


def _row(kind: str, before: int | None, after: int | None) -> JsonObject:
    return {"kind": kind, "index": after, "before": before}
