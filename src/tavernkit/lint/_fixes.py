"""Repairs that change no prompt."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tavernkit._values import is_mapping, is_sequence, thaw_object
from tavernkit.cards import FileKind
from tavernkit.lint._books import repaired_entry
from tavernkit.lint._files import recognise

_LISTS = frozenset({"alternate_greetings", "tags", "group_only_greetings", "keys"})
_OBJECTS = frozenset({"extensions"})
_ENTRY_DEFAULTS: Mapping[str, object] = {"extensions": {}, "use_regex": False}


def fix_file(path: str | Path, *, backup: bool = False) -> bool:
    """Repair a book or a card; return True if the file was changed.

    The file is never left half written. A file with a number that JSON cannot represent is left alone.

    Args:
        path: A JSON file, or a card in a picture or archive.
        backup: Keep the old file next to it, with ``.bak`` after its name.
    """
    path = Path(path)
    kind, value = recognise(path)
    if kind not in (FileKind.CARD, FileKind.WORLD_BOOK, FileKind.CHARACTER_BOOK):
        return False
    data = _fixed_json(path, kind, value) if is_mapping(value) else _fixed_container(path) if value is None else None
    if data is None:
        return False
    if backup:
        shutil.copy2(path, path.with_name(f"{path.name}.bak"))
    _replace(path.resolve(), data)
    return True


def _fixed_json(path: Path, kind: FileKind, value: Mapping[str, object]) -> bytes | None:
    before: dict[str, object] = {**thaw_object(value)}
    after = _fixed_card(before) if kind is FileKind.CARD else _fixed_book(before)
    return None if after == before else _json_bytes(after, _indent(path))


def _fixed_container(path: Path) -> bytes | None:
    """Return the bytes of a repaired picture or archive; None if it has no card or nothing to repair."""
    from tavernkit.cards import Character, Format, load, to_bytes
    from tavernkit.errors import TavernKitError, WarningLog

    try:
        bundle = load(path, warn=WarningLog())
    except TavernKitError:
        return None
    if bundle.card is None or bundle.source_format in (None, Format.JSON, Format.YAML, Format.BYAF):
        return None
    before = thaw_object(bundle.card.to_card())
    after = _fixed_card(before)
    if after == before:
        return None
    return to_bytes(bundle.replace(card=Character.from_card(after, warn=WarningLog())), bundle.source_format)


def _json_bytes(value: object, indent: str | None) -> bytes | None:
    try:
        return f"{json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)}\n".encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can escape but UTF-8 cannot encode
        return f"{json.dumps(value, indent=indent, allow_nan=False)}\n".encode()
    except ValueError:
        return None


def _replace(path: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        written = Path(file.name)
        file.write(data)
    try:
        shutil.copymode(path, written)
        written.replace(path)
    except OSError:
        written.unlink()
        raise


def _fixed_book(book: Mapping[str, object], *, v3: bool = False) -> dict[str, object]:
    fixed = dict(book)
    entries = book.get("entries")
    if is_mapping(entries):
        fixed["entries"] = {
            key: repaired_entry(entry) if is_mapping(entry) else entry for key, entry in entries.items()
        }
    elif is_sequence(entries):
        missing = dict(_ENTRY_DEFAULTS) if v3 else {}
        fixed["entries"] = [{**missing, **repaired_entry(each)} if is_mapping(each) else each for each in entries]
    return fixed


def _fixed_card(card: Mapping[str, object]) -> dict[str, object]:
    from tavernkit.cards._character import REQUIRED, SPECS

    data, version = card.get("data"), SPECS.get(str(card.get("spec")))
    if not is_mapping(data) or version is None:
        return dict(card)
    missing = {name: _default(name) for name in REQUIRED[version] if name not in data and name != "name"}
    fixed: dict[str, object] = {**data, **missing}
    book = data.get("character_book")
    if is_mapping(book):
        # Every version of the specification requires the extensions of a book.
        fixed["character_book"] = {"extensions": {}, **_fixed_book(book, v3=version == "v3")}
    return {**card, "data": fixed}


def _default(name: str) -> object:
    return [] if name in _LISTS else {} if name in _OBJECTS else ""


def _indent(path: Path) -> str | None:
    """Return the indentation of the file, so that a repair is a small difference."""
    for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines()[1:2]:
        return line[: len(line) - len(line.lstrip(" \t"))] or None
    return None
