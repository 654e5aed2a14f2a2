"""Files of any kind: what they are, what is wrong with them and the cards inside, and repairs that change no prompt."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tavernkit._arguments import require
from tavernkit._atomic import write_atomically
from tavernkit._values import is_mapping, is_sequence, thaw_object
from tavernkit.cards import Bundle, FileKind, kind_of
from tavernkit.cards._requirements import Severity
from tavernkit.cards._validation import validate
from tavernkit.errors import FileFormatError, TavernKitError, WarningLog
from tavernkit.lint import _presets as presets
from tavernkit.lint._books import DEFAULT_BUDGET, lint_character_book, lint_world_book, repaired_entry
from tavernkit.lint._finding import Finding, worst_first
from tavernkit.lint._lorebooks import lint_lorebook
from tavernkit.lint._scripts import lint_regex_scripts
from tavernkit.lint._texts import Language, lint_head_text, lint_text, time_limit

if TYPE_CHECKING:
    from tavernkit.cards import Character


MAX_BYTES = 64 * 1024 * 1024
"""A JSON file larger than this is not read."""


def lint_file(
    path: str | Path, *, budget: int = DEFAULT_BUDGET, language: Language = "any"
) -> tuple[FileKind, list[Finding]]:
    """Detect the kind of a file and check it, worst findings first.

    Args:
        path: The file: a card, book, preset, template or regex script.
        budget: Token budget of the lore; books that may need more are reported.
        language: The program whose macros the texts use; ``any`` decides for each text.
    """
    require("path", path, str | PathLike[str])
    path, kind = Path(path), FileKind.CARD
    try:
        kind, value = recognise(path)
        with time_limit() as limit:
            found = [*_lint(path, kind, value, budget, language)]
        if limit.skipped:
            message = f"takes too long to check: {limit.skipped} texts and regular expressions were skipped"
            found.append(Finding(where="/", message=message, severity=Severity.INFO, code="NOT_ALL_TRIED"))
        findings = worst_first(found)
    except TavernKitError as error:
        findings = [Finding(where="/", message=str(error), severity=Severity.ERROR, code="UNREADABLE_FILE")]
    return kind, findings


def recognise(path: Path) -> tuple[FileKind, object]:
    """Return the kind of a file, by its extension and content, and its parsed JSON if it is JSON."""
    suffix = path.suffix.lower()
    if suffix in (".jinja", ".jinja2", ".j2"):
        return FileKind.CHAT_TEMPLATE, None
    if suffix in (".txt", ".md", ".cbs"):
        return FileKind.TEXT, None
    if suffix in (".risup", ".risupreset"):
        return FileKind.RISU_PRESET, None
    if suffix == ".risum":
        return FileKind.MODULE, None
    if suffix not in (".json", ".lorebook"):
        return FileKind.CARD, None
    value = read_json(path)
    return (kind_of(value) or FileKind.CARD), value


def is_known(path: Path) -> bool:
    """Return True if a file of a folder is one of ours: a data folder also has themes, settings and plain pictures.

    Unreadable files count as ours: they may be broken cards.
    """
    suffix = path.suffix.lower()
    if suffix == ".json":
        value = read_json(path)
        return value is None or kind_of(value) is not None
    if suffix in (".yaml", ".yml"):
        return not path.name.endswith(_TEST_FILES) and _is_yaml_card(path)
    if suffix in _PICTURES:
        return _has_card(path)
    return True


_TEST_FILES = (".tavern.yaml", ".tavern.yml", ".lore.yaml", ".lore.yml")
_PICTURES = (".png", ".apng", ".webp", ".jpg", ".jpeg")


def _is_yaml_card(path: Path) -> bool:
    from tavernkit.cards._limits import DEFAULT_LIMITS
    from tavernkit.cards._yaml_card import SHORT_FORM, parse_yaml

    try:
        value = parse_yaml(_bytes(path), DEFAULT_LIMITS, WarningLog())
    except TavernKitError:
        return True
    return is_mapping(value) and ("spec" in value or all(key in value for key in SHORT_FORM))


def _has_card(path: Path) -> bool:
    from tavernkit.cards import load
    from tavernkit.cards.errors import ImageError, PngError

    try:
        load(path, warn=WarningLog())
    except (PngError, ImageError):
        return False
    except TavernKitError:
        return True
    return True


def read_json(path: Path) -> object:
    """Parse a file; None if it is not JSON."""
    return parse_json(_bytes(path))


def parse_json(data: bytes) -> object:
    """Parse the bytes of a file; None if they are not JSON."""
    try:
        return json.loads(_decode(data))
    except (ValueError, RecursionError):
        return None


def _lint(path: Path, kind: FileKind, value: object, budget: int, language: Language) -> Iterator[Finding]:
    if kind is FileKind.CHAT_TEMPLATE:
        yield from presets.lint_jinja(_read(path))
    elif kind is FileKind.TEXT:
        yield from lint_text(_read(path), "/", "risu_ai" if path.suffix == ".cbs" else language)
    elif kind is FileKind.RISU_PRESET:
        yield from presets.lint_risu_preset(_bytes(path), path.name)
    elif value is None:
        yield from _lint_card(path, budget, language)
    else:
        yield from _lint_json(path, kind, value, budget, language)


def _lint_card(path: Path, budget: int, language: Language) -> Iterator[Finding]:
    from tavernkit.cards import load

    if path.suffix.lower() == ".json":
        broken = list(presets.lint_json_text(_read(path)))
        yield from broken
        if broken:
            return
    yield from lint_bundle(load(path), budget=budget, language=language)


def _lint_json(path: Path, kind: FileKind, value: object, budget: int, language: Language) -> Iterator[Finding]:
    if kind in (FileKind.CARD, FileKind.MODULE):
        yield from _lint_card(path, budget, language)
    elif kind is FileKind.WORLD_BOOK:
        from tavernkit.silly_tavern._world_info import import_world

        warnings = WarningLog()
        book = import_world(path.name, _bytes(path), warn=warnings, strict=True)
        if book is not None:
            yield from lint_world_book(book, budget=budget, language=language)
    elif kind is FileKind.REGEX:
        scripts = value.get("data") if is_mapping(value) and "data" in value else value
        yield from lint_regex_scripts(scripts if is_sequence(scripts) else (scripts,), "")
    elif is_mapping(value):
        if kind is FileKind.CHARACTER_BOOK:
            yield from lint_character_book(value, budget=budget, language=language)
        elif kind is FileKind.LOREBOOK:
            yield from lint_lorebook(value.get("data"), "/data", budget=budget)
        elif kind is FileKind.PRESET:
            yield from presets.lint_preset(value)
        elif kind is FileKind.CONTEXT_TEMPLATE:
            yield from presets.lint_context_template(value)
        else:
            yield from presets.lint_instruct_template(value)


def _read(path: Path) -> str:
    return _decode(_bytes(path))


def _decode(data: bytes) -> str:
    return data.decode(json.detect_encoding(data), errors="replace")


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise FileFormatError(f"{path}: more than {MAX_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror or error}") from error


FIXABLE = frozenset({"MISSING_FIELD", "BLANKS_AROUND_KEY"})
"""Codes of the validator that ``fix_file()`` can repair."""

SAID_OF_THE_BOOK = frozenset({"NEVER_ACTIVE"})
"""Codes of the validator for problems that ``tavernkit.lint._books`` reports in more detail as NEVER_FIRES."""

_TEXTS = (
    "description",
    "personality",
    "scenario",
    "first_mes",
    "mes_example",
    "system_prompt",
    "post_history_instructions",
)

_HEAD_TEXTS = frozenset({"description", "personality", "scenario", "mes_example", "system_prompt"})
"""Fields that come before the chat in every prompt."""


def lint_bundle(bundle: Bundle, *, budget: int = DEFAULT_BUDGET, language: Language = "any") -> Iterator[Finding]:
    """Check a loaded card file.

    Args:
        bundle: The loaded file.
        budget: Token budget of the lore; books that may need more are reported.
        language: The program whose macros the texts use; ``any`` decides for each text.
    """
    require("bundle", bundle, Bundle, "a loaded file, such as tk.load(path)")
    for problem in validate(bundle):
        if problem.code in SAID_OF_THE_BOOK:
            continue
        yield Finding(
            where=problem.pointer or "/",
            message=problem.message,
            severity=problem.severity,
            code=problem.code,
            hint=f"expected: {problem.expected}" if problem.expected else "",
            fixable=problem.code in FIXABLE,
        )
    if bundle.card is not None:
        yield from _character(bundle.card, language)
    for book in bundle.books:
        where = "/data" if bundle.card is None else "/data/character_book"
        yield from lint_character_book(book.to_json(), where, budget=budget, language=language)
    if bundle.module is not None:
        yield from lint_lorebook(bundle.module.lorebook, "/module/lorebook", budget=budget)
        yield from lint_regex_scripts(bundle.module.regex, "/module/regex")


def _character(card: Character, language: Language) -> Iterator[Finding]:
    for name in _TEXTS:
        yield from lint_text(str(getattr(card, name)), f"/data/{name}", language)
        if name in _HEAD_TEXTS:
            yield from lint_head_text(str(getattr(card, name)), f"/data/{name}")
    for index, greeting in enumerate(card.alternate_greetings):
        yield from lint_text(greeting, f"/data/alternate_greetings/{index}", language)
    for name, what in (("system_prompt", "main prompt"), ("post_history_instructions", "post-history instructions")):
        text = str(getattr(card, name))
        if text.strip() and "{{original}}" not in text.lower():
            yield Finding(
                where=f"/data/{name}",
                message=f"replaces the user's {what} completely",
                severity=Severity.INFO,
                code="REPLACES_PROMPT",
                hint="{{original}} keeps the user's text at that place",
            )
    yield from lint_regex_scripts(card.extensions.get("regex_scripts"), "/data/extensions/regex_scripts")


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
    write_atomically(path, data)
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
