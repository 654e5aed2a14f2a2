"""What the card specifications require of each field: as rules that find problems, and as a JSON schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError, parse_literal
from tavernkit._values import Json, JsonObject, is_mapping, is_sequence, thaw_object
from tavernkit.cards._assets import embedded_path, is_embedded
from tavernkit.cards._book import BOOK_FIELDS, ENTRY_FIELDS, read_book
from tavernkit.cards._character import (
    ASSET_FIELDS,
    CARD_FIELDS,
    REQUIRED,
    SPEC_VERSIONS,
    V1_FIELDS,
    V3_FIELDS,
    CardVersion,
    read_assets,
)
from tavernkit.cards._fields import (
    TEXT_FIELDS,
    Field,
    kind,
    read_bool,
    read_date,
    read_id,
    read_number,
    read_object,
    read_optional_bool,
    read_optional_number,
    read_optional_text,
    read_tags,
    read_text,
    read_text_map,
    read_texts,
)


class Severity(StrEnum):
    """How bad a problem is."""

    ERROR = "error"
    """Some program will refuse the card, or a part of it does not work."""
    WARNING = "warning"
    """It works, but probably not as the author intended."""
    INFO = "info"
    """Worth knowing."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: where, what, what is expected instead, and how bad it is."""

    pointer: str
    """A JSON pointer into the card; empty for the card as a whole."""
    message: str
    """What is wrong, as a sentence without a subject."""
    expected: str
    """What should be there instead; may be empty."""
    severity: Severity
    """How bad it is: error, warning or info."""
    code: str
    """A stable name, for programs."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The type of a field."""

    key: str
    expected: str
    fits: Callable[[object], bool]
    severity: Severity = Severity.ERROR
    null: Severity = Severity.INFO


def is_text(value: object) -> bool:
    """Return True if a value is a text."""
    return isinstance(value, str)


def is_texts(value: object) -> bool:
    """Return True if a value is a list of strings."""
    return is_sequence(value) and all(isinstance(item, str) for item in value)


def is_number(value: object) -> bool:
    """Return True if a value is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_id(value: object) -> bool:
    return isinstance(value, str) or is_number(value)


def _is_whole(value: object) -> bool:
    return value.is_integer() if isinstance(value, float) else is_number(value)


def _is_text_map(value: object) -> bool:
    return is_mapping(value) and all(isinstance(item, str) for item in value.values())


_TEXT, _TEXTS, _OBJECT = "a string", "a list of strings", "an object"

CARD_RULES: tuple[Rule, ...] = (
    *(Rule(key, _TEXT, is_text) for key in (*TEXT_FIELDS, "nickname")),
    *(Rule(key, _TEXTS, is_texts) for key in ("alternate_greetings", "tags", "group_only_greetings", "source")),
    Rule("extensions", _OBJECT, is_mapping, null=Severity.ERROR),
    Rule("character_book", "a character book (an object)", is_mapping),
    Rule("assets", "a list of assets", is_sequence),
    Rule("creator_notes_multilingual", "an object with a string for each language", _is_text_map),
    Rule("creation_date", "whole Unix seconds", _is_whole, Severity.WARNING),
    Rule("modification_date", "whole Unix seconds", _is_whole, Severity.WARNING),
)
"""The fields of a card's data."""

BOOK_RULES: tuple[Rule, ...] = (
    Rule("name", _TEXT, is_text),
    Rule("description", _TEXT, is_text),
    Rule("scan_depth", "a number", is_number),
    Rule("token_budget", "a number", is_number),
    Rule("recursive_scanning", "true or false", _is_boolean),
    Rule("extensions", _OBJECT, is_mapping),
    Rule("entries", "a list of entries", is_sequence),
)

ENTRY_RULES: tuple[Rule, ...] = (
    Rule("keys", _TEXTS, is_texts),
    Rule("content", _TEXT, is_text),
    Rule("extensions", _OBJECT, is_mapping),
    Rule("enabled", "true or false", _is_boolean),
    Rule("insertion_order", "a number", is_number),
    Rule("case_sensitive", "true or false", _is_boolean),
    Rule("use_regex", "true or false", _is_boolean),
    Rule("constant", "true or false", _is_boolean),
    Rule("name", _TEXT, is_text),
    Rule("priority", "a number", is_number),
    Rule("id", "a number or a string", _is_id),
    Rule("comment", _TEXT, is_text),
    Rule("selective", "true or false", _is_boolean),
    Rule("secondary_keys", _TEXTS, is_texts),
    Rule(
        "position", "before_char or after_char", lambda value: value in ("before_char", "after_char"), Severity.WARNING
    ),
)
ENTRY_REQUIRED = ("keys", "content", "extensions", "enabled", "insertion_order")

ASSET_RULES: tuple[Rule, ...] = tuple(Rule(key, _TEXT, is_text) for key in ("type", "uri", "name", "ext"))

DECORATORS = frozenset(
    {
        "activate_only_after",
        "activate_only_every",
        "keep_activate_after_match",
        "dont_activate_after_match",
        "depth",
        "instruct_depth",
        "reverse_depth",
        "reverse_instruct_depth",
        "role",
        "scan_depth",
        "instruct_scan_depth",
        "is_greeting",
        "position",
        "ignore_on_max_context",
        "additional_keys",
        "exclude_keys",
        "is_user_icon",
        "dont_activate",
        "activate",
        "disable_ui_prompt",
    }
)
"""The decorators that V3 defines."""

_DECORATOR = re.compile(r"@@@?([A-Za-z_]+)")
_ASSET_TYPES = ("icon", "background", "user_icon", "emotion")
_EXT = re.compile(r"[a-z0-9]+\Z")
_URI = re.compile(r"(?:https?://|data:|ccdefault:|embeded://|embedded://|__asset:)", re.IGNORECASE)


def rule_problems(rules: tuple[Rule, ...], source: Mapping[str, object], where: str) -> Iterator[Problem]:
    """Check the types of an object's fields; null is the same as absent, with a hint."""
    for rule in rules:
        if rule.key not in source:
            continue
        value = source[rule.key]
        pointer = f"{where}/{rule.key}"
        if value is None:
            yield Problem(pointer, "is null", f"{rule.expected}, or no key at all", rule.null, "NULL_FIELD")
        elif not rule.fits(value):
            shown = repr(value) if isinstance(value, (str, int, float)) and len(repr(value)) < 40 else kind(value)
            yield Problem(pointer, f"is {shown}", rule.expected, rule.severity, "WRONG_TYPE")


def missing_problems(
    keys: tuple[str, ...], source: Mapping[str, object], where: str, severity: Severity
) -> Iterator[Problem]:
    """Report missing required keys."""
    for key in keys:
        if key not in source:
            yield Problem(
                f"{where}/{key}", "is missing", "the key, even if its value is empty", severity, "MISSING_FIELD"
            )


def entry_problems(entry: Mapping[str, object], where: str, *, v3: bool) -> Iterator[Problem]:
    """Check one entry of a character book."""
    required = (*ENTRY_REQUIRED, "use_regex") if v3 else ENTRY_REQUIRED
    yield from missing_problems(required, entry, where, Severity.WARNING)
    yield from rule_problems(ENTRY_RULES, entry, where)
    keys = entry.get("keys")
    usable = [key for key in keys if isinstance(key, str) and key.strip()] if is_sequence(keys) else []
    content = entry.get("content")
    text = content if isinstance(content, str) else ""
    if not usable and entry.get("constant") is not True and "@@" not in text:
        yield Problem(
            f"{where}/keys", "has no key", "at least one key, or constant: true", Severity.WARNING, "NEVER_ACTIVE"
        )
    if not text.strip():
        yield Problem(f"{where}/content", "is empty", "the text that the entry adds", Severity.WARNING, "EMPTY_CONTENT")
    if entry.get("selective") is True and not entry.get("secondary_keys"):
        yield Problem(
            f"{where}/secondary_keys",
            "is empty, but the entry is selective",
            "secondary keys",
            Severity.INFO,
            "NO_SECONDARY",
        )
    for index, key in enumerate(keys if is_sequence(keys) else ()):
        yield from _key_problems(key, f"{where}/keys/{index}", regex=entry.get("use_regex") is True)
    yield from _decorator_problems(text, f"{where}/content")


def _key_problems(key: object, where: str, *, regex: bool) -> Iterator[Problem]:
    if not isinstance(key, str):
        return
    if key != key.strip():
        yield Problem(
            where, f"has spaces around it: {key[:40]!r}", "the key without them", Severity.INFO, "BLANKS_AROUND_KEY"
        )
    literal = parse_literal(key)
    if literal is None and not regex:
        return
    source, flags = literal or (key, "")
    try:
        JSRegex.compile(source, flags)
    except JSRegexSyntaxError as error:
        yield Problem(
            where,
            f"is not a regular expression: {error}",
            "a JavaScript regular expression",
            Severity.ERROR,
            "BAD_REGEX",
        )


def _decorator_problems(content: str, where: str) -> Iterator[Problem]:
    for line in content.splitlines():
        found = _DECORATOR.match(line.strip())
        if found is None:
            return
        if found[1] not in DECORATORS:
            yield Problem(
                where,
                f"uses the decorator @@{found[1]}, which V3 does not define",
                "a decorator of V3",
                Severity.INFO,
                "UNKNOWN_DECORATOR",
            )


def asset_problems(asset: Mapping[str, object], where: str) -> Iterator[Problem]:
    """Check one asset of a V3 card."""
    yield from missing_problems(("type", "uri", "name", "ext"), asset, where, Severity.WARNING)
    yield from rule_problems(ASSET_RULES, asset, where)
    type_, uri, ext = asset.get("type"), asset.get("uri"), asset.get("ext")
    if isinstance(type_, str) and type_ not in _ASSET_TYPES and not type_.startswith(("x_", "x-")):
        expected = f"{', '.join(_ASSET_TYPES)}, or a name that starts with x_"
        yield Problem(f"{where}/type", f"is {type_!r}", expected, Severity.WARNING, "UNKNOWN_ASSET_TYPE")
    if isinstance(uri, str) and not _URI.match(uri):
        yield Problem(
            f"{where}/uri", f"is {uri[:60]!r}", "http(s), data:, embeded:// or ccdefault:", Severity.ERROR, "BAD_URI"
        )
    if isinstance(uri, str) and is_embedded(uri) and embedded_path(uri) is None:
        yield Problem(
            f"{where}/uri", "points outside the archive", "a path inside the archive", Severity.ERROR, "UNSAFE_PATH"
        )
    if isinstance(ext, str) and not _EXT.match(ext):
        yield Problem(
            f"{where}/ext", f"is {ext!r}", "lower-case letters without a dot, or unknown", Severity.WARNING, "BAD_EXT"
        )


_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT_SCHEMA: JsonObject = {"type": "string"}
_TEXTS_SCHEMA: JsonObject = {"type": "array", "items": _TEXT_SCHEMA}
_NUMBER_SCHEMA: JsonObject = {"type": "number"}
_BOOLEAN_SCHEMA: JsonObject = {"type": "boolean"}
_OBJECT_SCHEMA: JsonObject = {"type": "object"}

_BY_READER: Mapping[object, JsonObject] = {
    read_text: _TEXT_SCHEMA,
    read_optional_text: _TEXT_SCHEMA,
    read_texts: _TEXTS_SCHEMA,
    read_tags: _TEXTS_SCHEMA,
    read_number: _NUMBER_SCHEMA,
    read_optional_number: _NUMBER_SCHEMA,
    read_bool: _BOOLEAN_SCHEMA,
    read_optional_bool: _BOOLEAN_SCHEMA,
    read_object: _OBJECT_SCHEMA,
    read_text_map: {"type": "object", "additionalProperties": _TEXT_SCHEMA},
    read_date: {"type": "integer", "description": "Unix seconds, UTC"},
    read_id: {"type": ["number", "string"]},
}
_BY_KEY: Mapping[str, JsonObject] = {"position": {"enum": ["before_char", "after_char"]}}


def card_schema(version: CardVersion = "v3") -> JsonObject:
    """Return the JSON schema of a card version; unknown keys are allowed, as in cards."""
    newer = {field.key for field in V3_FIELDS} if version == "v2" else set[str]()
    fields = V1_FIELDS if version == "v1" else [field for field in CARD_FIELDS if field.key not in newer]
    data = _object_schema(fields, REQUIRED[version], version)
    head: JsonObject = {"$schema": _DIALECT, "title": f"Character card {version.upper()}"}
    if version == "v1":
        return head | data
    spec: JsonObject = {
        "spec": {"const": f"chara_card_{version}"},
        "spec_version": {"const": SPEC_VERSIONS[version]},
        "data": data,
    }
    return {**head, "type": "object", "required": [*spec], "properties": spec}


def _object_schema(fields: Iterable[Field[Any]], required: Iterable[str], version: CardVersion) -> JsonObject:
    properties: JsonObject = {field.key: _property_schema(field, version) for field in fields}
    return {"type": "object", "required": list[Json](required), "properties": properties}


def _property_schema(field: Field[Any], version: CardVersion) -> Json:
    if field.read is read_book:
        return _book_schema(version)
    if field.read is read_assets:
        return {"type": "array", "items": _object_schema(ASSET_FIELDS, [each.key for each in ASSET_FIELDS], version)}
    schema = thaw_object(_BY_KEY.get(field.key) or _BY_READER[field.read])
    return {"anyOf": [schema, {"type": "null"}]} if field.default is None else schema


def _book_schema(version: CardVersion) -> JsonObject:
    regex = ("use_regex",) if version == "v3" else ()
    entry_fields = [field for field in ENTRY_FIELDS if regex or field.key != "use_regex"]
    book = _object_schema(
        [field for field in BOOK_FIELDS if field.key != "entries"], ("extensions", "entries"), version
    )
    properties = book["properties"]
    assert isinstance(properties, dict)
    properties["entries"] = {"type": "array", "items": _object_schema(entry_fields, (*ENTRY_REQUIRED, *regex), version)}
    return book
