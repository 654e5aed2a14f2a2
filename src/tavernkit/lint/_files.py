"""Files of any kind: what they are, and what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tavernkit._values import is_mapping, is_sequence
from tavernkit.cards import FileKind, kind_of
from tavernkit.cards._validation_rules import Severity
from tavernkit.errors import TavernKitError, WarningLog
from tavernkit.lint import _presets as presets
from tavernkit.lint._books import DEFAULT_BUDGET, lint_character_book, lint_world_book
from tavernkit.lint._bundles import lint_bundle
from tavernkit.lint._finding import Finding, worst_first
from tavernkit.lint._lorebooks import lint_lorebook
from tavernkit.lint._scripts import lint_regex_scripts
from tavernkit.lint._texts import Language, lint_text
from tavernkit.lint._time_limit import time_limit

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
        yield from presets.lint_risu_preset(path.read_bytes(), path.name)
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
        book = import_world(path.name, path.read_bytes(), warn=warnings, strict=True)
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
    if path.stat().st_size > MAX_BYTES:
        raise TavernKitError(f"{path}: more than {MAX_BYTES} bytes")
    return path.read_bytes()
