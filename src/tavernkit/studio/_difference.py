"""What saving a document would change, as lines: a place, then what is removed and added there."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import Final

from tavernkit._values import Json, is_list
from tavernkit.authoring import Change
from tavernkit.studio._message_changes import shared_ends

MAX_LINES: Final = 2000
"""The maximum number of lines of a difference."""
MAX_COMPARED: Final = 2000
"""Lists and texts with more items or lines between their first and last difference are not compared one by one."""
CONTEXT_LINES: Final = 3


def difference_lines(changes: Sequence[Change]) -> list[str]:
    """Return changes as lines that begin with ``@@``, ``-``, ``+`` or a space.

    Args:
        changes: The changes of a document.
    """
    lines = [line for each in changes for line in _change_lines(each)]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"@@ {len(lines) - MAX_LINES:,} more lines @@"]
    return lines


def _change_lines(change: Change) -> Iterator[str]:
    name = f" {change.name}" if change.name else ""
    if is_list(change.old) and is_list(change.new) and change.kind == "changed":
        for index, old, new in _changed_items(change.old, change.new):
            yield f"@@ {change.where}/{index} @@{name}"
            yield from _compared(old, new)
        return
    yield f"@@ {change.where} @@{name}"
    if change.kind == "moved":
        yield f" moved from place {change.old} to {change.new}"
        return
    old = [] if change.kind == "added" else _lines(change.old)
    new = [] if change.kind == "removed" else _lines(change.new)
    yield from _compared(old, new)


def _changed_items(before: Sequence[Json], after: Sequence[Json]) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield the place of each changed item of a list, and its lines before and after."""
    old, new = ["\n".join(_lines(each)) for each in before], ["\n".join(_lines(each)) for each in after]
    start, end = shared_ends(old, new)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    operations = [("replace", 0, len(old), 0, len(new))]
    if len(old) + len(new) <= MAX_COMPARED:
        operations = difflib.SequenceMatcher(None, old, new).get_opcodes()
    for kind, low, high, start_new, end_new in operations:
        if kind == "equal":
            continue
        for place in range(max(high - low, end_new - start_new)):
            one = old[low + place].split("\n") if low + place < high else []
            other = new[start_new + place].split("\n") if start_new + place < end_new else []
            yield start + (start_new if other else low) + place, one, other


def _compared(old: list[str], new: list[str]) -> Iterator[str]:
    start, end = (max(0, length - CONTEXT_LINES) for length in shared_ends(old, new))
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if len(old) + len(new) > MAX_COMPARED:
        yield from (f"-{line}" for line in old)
        yield from (f"+{line}" for line in new)
        return
    for number, line in enumerate(difflib.unified_diff(old, new, n=CONTEXT_LINES, lineterm="")):
        if number > 2:  # the first three name the texts and the first place
            yield " …" if line.startswith("@@") else line


def _lines(value: Json) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return text.split("\n")
