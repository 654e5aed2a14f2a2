"""Changes of documents and prompts.

Edits are JSON Patch operations, applied to copies and computed from two versions. Two prompts are compared message by
message and word by word, two versions of a document as lines.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from typing import Final, Literal, TypeAlias

from tavernkit._text import json_pointer
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.authoring import Change
from tavernkit.errors import ConfigError
from tavernkit.studio.errors import StudioError

Said: TypeAlias = tuple[str, str]
"""Role and text of a message."""

MAX_WORDS: Final = 3000
"""Texts with more words between their first and last difference are not compared word by word."""
MAX_MESSAGES: Final = 2000
"""In longer prompts, messages are compared by position."""
MAX_PAIRS: Final = 2500
"""Changed messages are paired by their words up to this many pairs, otherwise by position."""
ALIKE: Final = 0.5
"""How much two messages must have in common to count as one changed message."""

_LETTERS: Final = re.compile(r"\w+")
_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")
MAX_LINES: Final = 2000
"""The maximum number of lines of a difference."""
MAX_COMPARED: Final = 2000
"""Lists and texts with more items or lines between their first and last difference are not compared one by one."""
CONTEXT_LINES: Final = 3


def message_changes(before: Sequence[Said], after: Sequence[Said]) -> list[Json]:
    """Compare two lists of messages: for each, the kind of change, both positions, and the changed words."""
    start, end = shared_ends(before, after)
    rows: list[Json] = [_row("same", place, place) for place in range(start)]
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if len(old) + len(new) > MAX_MESSAGES:
        operations = [("replace", 0, len(old), 0, len(new))]
    else:
        operations = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, low, high, start_new, end_new in operations:
        if kind == "equal":
            rows += [_row("same", start + low + at, start + start_new + at) for at in range(high - low)]
            continue
        rows += _replacement_rows(old[low:high], new[start_new:end_new], start + low, start + start_new)
    rows += [_row("same", len(before) - end + at, len(after) - end + at) for at in range(end)]
    return rows


def text_changes(before: str, after: str) -> list[Json]:
    """Compare two texts: parts that are equal, removed and added."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    start, end = shared_ends(old, new)
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
    return _join_parts(parts)


def _replacement_rows(old: Sequence[Said], new: Sequence[Said], first_old: int, first_new: int) -> list[Json]:
    """Return rows for replaced messages: changed if they are similar, otherwise removed and added."""
    rows: list[Json] = []
    at_old = at_new = 0
    for one, other in [*_alike(old, new), (len(old), len(new))]:
        rows += [_removed_row(old[place][1], first_old + place) for place in range(at_old, one)]
        rows += [_row("added", None, first_new + place) for place in range(at_new, other)]
        if one < len(old):
            parts = text_changes(old[one][1], new[other][1])
            rows.append({**_row("changed", first_old + one, first_new + other), "parts": parts})
        at_old, at_new = one + 1, other + 1
    return rows


def _alike(old: Sequence[Said], new: Sequence[Said]) -> list[tuple[int, int]]:
    """Return pairs of positions of similar messages, in order: those that have most in common."""
    if len(old) * len(new) > MAX_PAIRS:
        return list(zip(range(len(old)), range(len(new)), strict=False))
    if len(old) == len(new) == 1 and old[0][0] == new[0][0]:
        return [(0, 0)]  # one message instead of another, however different
    words = [Counter(_LETTERS.findall(text)) for _, text in old], [Counter(_LETTERS.findall(text)) for _, text in new]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    alike = [[0.0] * len(new) for _ in old]
    for one in range(len(old) - 1, -1, -1):
        for other in range(len(new) - 1, -1, -1):
            if old[one][0] == new[other][0]:
                alike[one][other] = _likeness(words[0][one], words[1][other])
            value = alike[one][other]
            paired = best[one + 1][other + 1] + value if value >= ALIKE else 0.0
            best[one][other] = max(best[one + 1][other], best[one][other + 1], paired)
    pairs: list[tuple[int, int]] = []
    one = other = 0
    while one < len(old) and other < len(new):
        if alike[one][other] >= ALIKE and best[one][other] == best[one + 1][other + 1] + alike[one][other]:
            pairs.append((one, other))
            one, other = one + 1, other + 1
        elif best[one][other] == best[one + 1][other]:
            one += 1
        else:
            other += 1
    return pairs


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    """Return the share of common words in two texts: 0 to 1."""
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 1.0


def shared_ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """Return how many items at the start and at the end are equal."""
    most = min(len(old), len(new))
    start = 0
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, end


def _join_parts(parts: Sequence[tuple[str, str]]) -> list[Json]:
    rows: list[Json] = []
    last = ""
    for kind, text in parts:
        if not text:
            continue
        if kind == last and isinstance(rows[-1], dict):
            rows[-1]["text"] = f"{rows[-1]['text']}{text}"
        else:
            rows.append({"kind": kind, "text": text})
        last = kind
    return rows


def _removed_row(text: str, before: int) -> JsonObject:
    """Return the row of a removed message, with its text: only the earlier prompt has it."""
    return {**_row("removed", before, None), "parts": _join_parts([("removed", text)])}


def _row(kind: str, before: int | None, after: int | None) -> JsonObject:
    return {"kind": kind, "index": after, "before": before}


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
            yield from _compare(old, new)
        return
    yield f"@@ {change.where} @@{name}"
    if change.kind == "moved":
        yield f" moved from place {change.old} to {change.new}"
        return
    old = [] if change.kind == "added" else _lines(change.old)
    new = [] if change.kind == "removed" else _lines(change.new)
    yield from _compare(old, new)


def _changed_items(before: Sequence[Json], after: Sequence[Json]) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield the place of each changed item of a list, and its lines before and after."""
    old, new = ["\n".join(_lines(each)) for each in before], ["\n".join(_lines(each)) for each in after]
    start, end = shared_ends(old, new)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    operations = [("replace", 0, len(old), 0, len(new))]
    if len(old) + len(new) <= MAX_COMPARED:
        operations = SequenceMatcher(None, old, new).get_opcodes()
    for kind, low, high, start_new, end_new in operations:
        if kind == "equal":
            continue
        for place in range(max(high - low, end_new - start_new)):
            one = old[low + place].split("\n") if low + place < high else []
            other = new[start_new + place].split("\n") if start_new + place < end_new else []
            yield start + (start_new if other else low) + place, one, other


def _compare(old: list[str], new: list[str]) -> Iterator[str]:
    start, end = (max(0, length - CONTEXT_LINES) for length in shared_ends(old, new))
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if len(old) + len(new) > MAX_COMPARED:
        yield from (f"-{line}" for line in old)
        yield from (f"+{line}" for line in new)
        return
    for number, line in enumerate(unified_diff(old, new, n=CONTEXT_LINES, lineterm="")):
        if number > 2:  # the first three name the texts and the first place
            yield " …" if line.startswith("@@") else line


def _lines(value: Json) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return text.split("\n")


Operation: TypeAlias = Literal["add", "replace", "remove", "move"]

MAX_DEPTH: Final = 64
"""How deeply a value in a document may be nested."""

_MISSING: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change of a document, as in JSON Patch (RFC 6902)."""

    document: str
    op: Operation
    path: str
    value: Json = None
    source: str = ""
    """Where ``move`` takes the value from."""

    def to_dict(self) -> JsonObject:
        """Return the edit as the page writes it."""
        body: JsonObject = {"document": self.document, "op": self.op, "path": self.path}
        if self.op in ("add", "replace"):
            body["value"] = self.value
        elif self.op == "move":
            body["from"] = self.source
        return body


def apply_edit(data: Json, edit: Edit) -> Json:
    """Return data with an edit applied. Only the containers along the path are copied.

    Raises:
        StudioError: The path does not exist.
    """
    try:
        return _apply(data, edit)
    except ConfigError as error:
        raise StudioError(422, str(error), code="bad_edit") from error


def _apply(data: Json, edit: Edit) -> Json:
    if edit.op == "move":
        if edit.path == edit.source:
            return data
        if edit.path.startswith(f"{edit.source}/"):
            raise ConfigError("a value cannot be moved into itself")
        value = _existing(data, edit.source)
        return _add(json_pointer.delete(data, edit.source), edit.path, value)
    if edit.op == "remove":
        return json_pointer.delete(data, edit.path)
    _check_depth(edit.value)
    if edit.op == "add":
        return _add(data, edit.path, edit.value)
    if same_json(_existing(data, edit.path), edit.value):
        return data
    return json_pointer.set_value(data, edit.path, edit.value)


def _add(data: Json, path: str, value: Json) -> Json:
    keys = json_pointer.tokens(path)
    parent = json_pointer.from_tokens(keys[:-1])
    inside = json_pointer.resolve(data, parent) if keys else None
    if not is_list(inside) or keys[-1] == "-":
        return json_pointer.set_value(data, path, value)
    if not keys[-1].isdecimal() or len(keys[-1]) > 9 or int(keys[-1]) > len(inside):
        raise ConfigError(f"the list at {parent!r} has no place {keys[-1]!r}")
    at = int(keys[-1])
    return json_pointer.set_value(data, parent, [*inside[:at], value, *inside[at:]])


def _existing(data: Json, path: str) -> Json:
    value = json_pointer.resolve(data, path, _MISSING)
    if value is _MISSING:
        raise ConfigError(f"the document has nothing at {path!r}")
    return value  # pyright: ignore[reportReturnType]  # a part of JSON is JSON


def _check_depth(value: Json) -> None:
    level: Sequence[Json] = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level if is_object(each) or is_list(each) for inner in _members(each)]
        if not level:
            return
    raise ConfigError(f"the value is nested deeper than {MAX_DEPTH} levels")


def _members(value: Json) -> Sequence[Json]:
    return list(value.values()) if is_object(value) else value if is_list(value) else ()


def same_json(one: Json, other: Json) -> bool:
    """Return True if two values are the same JSON: ``true`` is not ``1``, and the order of keys matters."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if is_object(one) and is_object(other):
        return [*one] == [*other] and all(same_json(value, other[key]) for key, value in one.items())
    if is_list(one) and is_list(other):
        return len(one) == len(other) and all(map(same_json, one, other))
    return one == other


def edits_between(document: str, old: Json, new: Json) -> list[Edit]:
    """Return edits that turn one value into another. Identical objects are not compared.

    Args:
        document: The id of the document.
        old: The value as it is.
        new: The value as it should be.
    """
    return [*_between(document, old, new, "")]


def _between(document: str, old: Json, new: Json, path: str) -> Iterator[Edit]:
    if old is new:
        return
    if is_object(old) and is_object(new) and not _is_reordered(old, new):
        for key in old:
            if key not in new:
                yield Edit(document=document, op="remove", path=f"{path}/{json_pointer.escape(key)}")
        for key, value in new.items():
            place = f"{path}/{json_pointer.escape(key)}"
            if key in old:
                yield from _between(document, old[key], value, place)
            else:
                yield Edit(document=document, op="add", path=place, value=value)
    elif is_list(old) and is_list(new) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _between(document, before, after, f"{path}/{index}")
    elif not same_json(old, new):
        yield Edit(document=document, op="replace", path=path, value=new)


def _is_reordered(old: JsonObject, new: JsonObject) -> bool:
    """Return True if adding and removing keys would leave them in another order than the new one."""
    kept = [key for key in old if key in new]
    return [*kept, *(key for key in new if key not in old)] != [*new]
