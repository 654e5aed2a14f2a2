"""What changed between two cards, books, presets or templates, field by field and entry by entry."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._text.json_pointer import escape
from tavernkit._values import Json, JsonObject, is_list, is_object, thaw
from tavernkit.cards import DEFAULT_LIMITS, load, parse_json
from tavernkit.cards._source import read_file
from tavernkit.cards._yaml_card import dump_yaml
from tavernkit.errors import FileFormatError, TavernKitError, Warn, WarningLog, log_warning

ChangeKind = Literal["added", "removed", "changed", "moved"]

_IDENTITIES = (("uid",), ("id",), ("identifier",), ("character_id",), ("comment", "content"), ("name",))
"""Keys that identify items of a list, tried in this order."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: its place as a JSON pointer, and the values; a move has positions instead.

    ``name`` is what people call the entry it is in.
    """

    kind: ChangeKind
    """``added``, ``removed``, ``changed`` or ``moved``."""
    where: str
    """A JSON pointer to the place; for what was removed, in the old value."""
    old: Json = None
    """The value before; for a move, the position before."""
    new: Json = None
    """The value now; for a move, the position now."""
    name: str = ""

    def to_dict(self) -> JsonObject:
        """The change, ready for ``json``."""
        return {"kind": self.kind, "where": self.where, "name": self.name, "old": self.old, "new": self.new}


def diff_files(old: str | Path, new: str | Path, *, warn: Warn = log_warning) -> list[Change]:
    """Compare two files of the same kind, whatever they are packed in.

    Args:
        old: The file as it was: a card (JSON, PNG, CHARX, …), book, preset, template or RisuAI module.
        new: The file as it is.
        warn: Called with warnings about the files.
    """
    return diff_values(file_value(Path(old), warn=warn), file_value(Path(new), warn=warn))


def diff_values(old: object, new: object) -> list[Change]:
    """Compare two parsed JSON values; entries of lists are found by their ids, so a moved one is a move.

    Args:
        old: The value as it was.
        new: The value as it is.
    """
    return [*_values(thaw(old), thaw(new), "", "")]


def file_value(path: Path, *, warn: Warn = log_warning) -> Json:
    """Read the JSON of a file, including cards inside pictures or archives."""
    data = read_file(path, DEFAULT_LIMITS.max_file_bytes, limit="max_file_bytes")
    if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return parse_json(data, what=str(path), warn=warn)
    if path.suffix.lower() in (".risup", ".risupreset"):
        from tavernkit.risu_ai import Preset

        return Preset.load(path, warn=warn).to_json()
    try:
        bundle = load(data, warn=WarningLog(warn=warn))
    except TavernKitError as error:
        raise FileFormatError(f"{path}: {error}") from error
    if bundle.card is not None:
        return bundle.card.to_card()
    if bundle.module is not None:
        return bundle.module.to_json()
    return [book.to_json() for book in bundle.lore_books]


def file_text(path: str | Path, *, warn: Warn = log_warning) -> str:
    """Return a file as YAML for line-by-line comparison; long texts have their own lines.

    Git asks for every picture; one that has no card is described instead.

    Args:
        path: A card, book, preset, template or module, whatever it is packed in.
        warn: Called with warnings about the file.
    """
    path = Path(path)
    try:
        return dump_yaml(file_value(path, warn=warn), warn)
    except FileFormatError as error:
        return f"{path.stat().st_size} bytes, not readable as a card, book or preset: {error}"


def _values(old: Json, new: Json, where: str, name: str) -> Iterator[Change]:
    if is_object(old) and is_object(new):
        yield from _objects(old, new, where, name)
    elif is_list(old) and is_list(new):
        yield from _lists(old, new, where, name)
    elif _text(old) != _text(new):
        yield Change("changed", where or "/", old, new, name)


def _objects(old: JsonObject, new: JsonObject, where: str, name: str) -> Iterator[Change]:
    for key in dict.fromkeys((*old, *new)):
        place = f"{where}/{escape(key)}"
        inside = name or (_title(new.get(key)) if where.endswith("/entries") else "")
        if key not in new:
            yield Change("removed", place, old=old[key], name=inside or _title(old[key]))
        elif key not in old:
            yield Change("added", place, new=new[key], name=inside or _title(new[key]))
        else:
            yield from _values(old[key], new[key], place, inside)


def _lists(old: Sequence[Json], new: Sequence[Json], where: str, name: str) -> Iterator[Change]:
    before, after = _positions(old), _positions(new)
    if before is None or after is None:
        yield from _plain_lists(old, new, where, name)
        return
    for identity, index in before.items():
        if identity not in after:
            item = old[index]
            yield Change("removed", f"{where}/{index}", old=item, name=_title(item) or name)
    for identity in _moved_items(
        [each for each in before if each in after], [each for each in after if each in before]
    ):
        item = new[after[identity]]
        yield Change("moved", f"{where}/{after[identity]}", before[identity], after[identity], _title(item) or name)
    for identity, index in after.items():
        item = new[index]
        if identity not in before:
            yield Change("added", f"{where}/{index}", new=item, name=_title(item) or name)
        else:
            yield from _values(old[before[identity]], item, f"{where}/{index}", _title(item) or name)


def _plain_lists(old: Sequence[Json], new: Sequence[Json], where: str, name: str) -> Iterator[Change]:
    """Compare lists of texts and numbers: removed and added items."""
    before, after = [_text(each) for each in old], [_text(each) for each in new]
    if before == after:
        return
    if any(is_object(each) or is_list(each) for each in (*old, *new)):
        yield Change("changed", where or "/", list(old), list(new), name)
        return
    known_before, known_after = {*before}, {*after}
    gone = [each for each, text in zip(old, before, strict=True) if text not in known_after]
    come = [each for each, text in zip(new, after, strict=True) if text not in known_before]
    for item in gone:
        yield Change("removed", where, old=item, name=name)
    for item in come:
        yield Change("added", where, new=item, name=name)
    if not gone and not come:
        yield Change("changed", where or "/", list(old), list(new), name)


def _positions(items: Sequence[Json]) -> dict[tuple[object, ...], int] | None:
    """Return the position of each item by its identity; None if items have no identity."""
    for keys in _IDENTITIES:
        found: dict[tuple[object, ...], int] = {}
        for index, item in enumerate(items):
            values = tuple(item.get(key) for key in keys) if is_object(item) else ()
            if not values or not all(isinstance(each, (str, int, float)) for each in values) or values in found:
                break
            found[values] = index
        else:
            return found
    return None


def _moved_items(before: list[tuple[object, ...]], after: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The fewest items that must move to turn one order into the other: all but a longest common subsequence."""
    place = {identity: index for index, identity in enumerate(before)}
    ends: list[int] = []  # where the best increasing run of each length ends, as a position in the old order
    last: list[int] = []  # the same as a position in the new order
    previous: list[int] = []
    for index, identity in enumerate(after):
        at = bisect_left(ends, place[identity])
        previous.append(last[at - 1] if at else -1)
        ends[at : at + 1] = [place[identity]]
        last[at : at + 1] = [index]
    stay = set[int]()
    index = last[-1] if last else -1
    while index >= 0:
        stay.add(index)
        index = previous[index]
    return [identity for index, identity in enumerate(after) if index not in stay]


def _text(value: Json) -> str:
    """Return a value as text, so that true is not 1 and the order of keys does not matter."""
    return json.dumps(value, sort_keys=True)


def _title(value: Json) -> str:
    if not is_object(value):
        return ""
    found: Mapping[str, Json] = value
    for key in ("comment", "name", "scriptName", "identifier"):
        title = found.get(key)
        if isinstance(title, str) and title:
            return title
    return ""
