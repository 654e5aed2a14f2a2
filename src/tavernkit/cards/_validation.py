"""A card validator that says what is wrong, where, what is expected, and how bad it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tavernkit._text.js_values import to_number
from tavernkit._text.json_pointer import escape
from tavernkit._values import is_mapping, is_sequence
from tavernkit.cards._bundle import Bundle
from tavernkit.cards._character import REQUIRED, SPEC_VERSIONS, SPECS, V1_FIELDS, V3_FIELDS, Character
from tavernkit.cards._fields import kind
from tavernkit.cards._limits import Limits
from tavernkit.cards._loading import load
from tavernkit.cards._requirements import (
    BOOK_RULES,
    CARD_RULES,
    Problem,
    Severity,
    asset_problems,
    entry_problems,
    missing_problems,
    rule_problems,
)
from tavernkit.cards._silly_tavern.stored import MAX_NAME_BYTES, sanitize
from tavernkit.cards._source import Readable
from tavernkit.cards.errors import NotACardError
from tavernkit.errors import FileFormatError, InvalidCardError, LimitExceededError

__all__ = ["Problem", "Severity", "validate", "validate_file"]


_MAX_NAME_BYTES = MAX_NAME_BYTES - len(".png")
_INDISPENSABLE = ("name", "extensions")
"""Without a name SillyTavern does not import a card, without extensions RisuAI does not."""


def validate(content: Bundle | Character | Mapping[str, object]) -> list[Problem]:
    """List what is wrong with a card: parsed JSON, a character or a loaded bundle. An empty list is a good card."""
    if isinstance(content, Bundle):
        found = validate(content.card) if content.card is not None else list(_lone_books(content))
        known = {problem.pointer for problem in found}
        damage = [_file_problem(message) for message in content.warnings]
        return [*(problem for problem in damage if not problem.pointer or problem.pointer not in known), *found]
    card: object = content.to_card() if isinstance(content, Character) else content
    if not is_mapping(card):
        return [Problem("", f"is {kind(card)}", "a JSON object", Severity.ERROR, "NOT_A_CARD")]
    return list(_card_problems(card))


def validate_file(readable: Readable, *, limits: Limits | None = None) -> list[Problem]:
    """List what is wrong with a card file; one that cannot be loaded is one problem.

    Args:
        readable: A path, bytes or a binary file object.
        limits: Limits on sizes and depth; by default ``DEFAULT_LIMITS``.
    """
    try:
        bundle = load(readable, limits=limits)
    except LimitExceededError as error:
        return [Problem("", str(error), f"no more than {error.limit} allows", Severity.ERROR, "LIMIT_EXCEEDED")]
    except (FileFormatError, InvalidCardError) as error:
        code = "NOT_A_CARD" if isinstance(error, NotACardError) else "UNREADABLE_FILE"
        return [Problem("", str(error), "a character card", Severity.ERROR, code)]
    return validate(bundle)


def _file_problem(message: str) -> Problem:
    pointer, _, rest = message.partition(" ")
    if pointer.startswith("/"):
        return Problem(pointer, rest, "what the specification says", Severity.WARNING, "READ_WITH_WARNING")
    return Problem("", message, "an undamaged file", Severity.WARNING, "READ_WITH_WARNING")


def _lone_books(bundle: Bundle) -> Iterator[Problem]:
    for book in bundle.lore_books:
        yield from _book_problems(book.to_json(), "/data", v3=True)


def _card_problems(card: Mapping[str, object]) -> Iterator[Problem]:
    spec = card.get("spec")
    data = card.get("data")
    if "spec" not in card and not is_mapping(data):
        yield from _v1_problems(card)
        return
    version = SPECS.get(spec) if isinstance(spec, str) else None
    if version is None:
        yield Problem("/spec", f"is {spec!r}", " or ".join(SPECS), Severity.ERROR, "UNKNOWN_SPEC")
    else:
        yield from _version_problems(card, version)
    if not is_mapping(data):
        yield Problem("/data", "is missing", "an object with the card's fields", Severity.ERROR, "NO_DATA")
        return
    required = REQUIRED[version or "v2"]
    yield from missing_problems(_INDISPENSABLE, data, "/data", Severity.ERROR)
    others = tuple(key for key in required if key not in _INDISPENSABLE)
    yield from missing_problems(others, data, "/data", Severity.WARNING)
    yield from rule_problems(CARD_RULES, data, "/data")
    yield from _content_problems(data, "/data")
    yield from _copy_problems(card, data)
    if version == "v2":
        for field in V3_FIELDS:
            if field.key in data:
                yield Problem(
                    f"/data/{field.key}",
                    "is a field of V3 in a V2 card",
                    "chara_card_v3, or no key at all",
                    Severity.INFO,
                    "NEWER_FIELD",
                )
    book = data.get("character_book")
    if is_mapping(book):
        yield from _book_problems(book, "/data/character_book", v3=version == "v3")
    yield from _asset_list_problems(data.get("assets"))


def _v1_problems(card: Mapping[str, object]) -> Iterator[Problem]:
    yield Problem("", "is a V1 card", "V2 or V3, which have lore, tags and more", Severity.INFO, "OLD_VERSION")
    for field in V1_FIELDS:
        key = field.key_in(card)
        if key not in card:
            yield from missing_problems((key,), card, "", Severity.WARNING)
        elif key != field.key:
            yield Problem(f"/{key}", "is a key of an older format", field.key, Severity.INFO, "OLD_KEY")
    yield from rule_problems(tuple(rule for rule in CARD_RULES if rule.key in REQUIRED["v1"]), card, "")
    yield from _content_problems(card, "")


def _version_problems(card: Mapping[str, object], version: str) -> Iterator[Problem]:
    stated = card.get("spec_version")
    wanted = "2.0" if version == "v2" else SPEC_VERSIONS["v3"]
    if stated == wanted:
        return
    newer = version == "v3" and isinstance(stated, str) and to_number(stated) > 3
    severity = Severity.INFO if newer else Severity.ERROR
    yield Problem("/spec_version", f"is {stated!r}", f"the text {wanted!r}", severity, "SPEC_VERSION")


def _content_problems(data: Mapping[str, object], where: str) -> Iterator[Problem]:
    name = data.get("name")
    if isinstance(name, str) and not name.strip():
        yield Problem(f"{where}/name", "is blank", "the character's name", Severity.ERROR, "BLANK_NAME")
    elif isinstance(name, str) and (not sanitize(name) or len(name.encode("utf-8", "replace")) > _MAX_NAME_BYTES):
        expected = "a name that can be a file name: SillyTavern does not import any other"
        yield Problem(f"{where}/name", f"is {name[:40]!r}", expected, Severity.ERROR, "NO_FILE_NAME")
    if data.get("first_mes") == "":
        yield Problem(f"{where}/first_mes", "is empty", "a greeting", Severity.INFO, "NO_GREETING")
    greetings = data.get("alternate_greetings")
    for index, greeting in enumerate(greetings if is_sequence(greetings) else ()):
        if greeting == "":
            pointer = f"{where}/alternate_greetings/{index}"
            yield Problem(pointer, "is empty", "a greeting", Severity.WARNING, "EMPTY_GREETING")
    for key in ("creation_date", "modification_date"):
        date = data.get(key)
        if isinstance(date, (int, float)) and date > 100_000_000_000:
            yield Problem(f"{where}/{key}", "looks like milliseconds", "Unix seconds", Severity.WARNING, "MILLISECONDS")
    extensions = data.get("extensions")
    if is_mapping(extensions):
        yield from _extension_problems(extensions, f"{where}/extensions")


def _extension_problems(extensions: Mapping[str, object], where: str) -> Iterator[Problem]:
    talkativeness = extensions.get("talkativeness")
    if talkativeness is not None and not 0 <= to_number(talkativeness) <= 1:
        yield Problem(
            f"{where}/talkativeness", f"is {talkativeness!r}", "a number from 0 to 1", Severity.WARNING, "OUT_OF_RANGE"
        )
    prompt = extensions.get("depth_prompt")
    if prompt is None:
        return
    if not is_mapping(prompt):
        yield Problem(f"{where}/depth_prompt", f"is {kind(prompt)}", "an object", Severity.WARNING, "WRONG_TYPE")
        return
    role = prompt.get("role")
    if role is not None and role not in ("system", "user", "assistant"):
        yield Problem(
            f"{where}/depth_prompt/role", f"is {role!r}", "system, user or assistant", Severity.WARNING, "UNKNOWN_ROLE"
        )


def _copy_problems(card: Mapping[str, object], data: Mapping[str, object]) -> Iterator[Problem]:
    """SillyTavern repeats fields outside of ``data``, and overwrites the copies when it reads a card."""
    for key in (*REQUIRED["v1"], "tags"):
        if key in card and key in data and card[key] != data[key]:
            yield Problem(
                f"/{escape(key)}",
                "differs from the field in data",
                "the same value, or no key at all",
                Severity.INFO,
                "STALE_COPY",
            )


def _book_problems(book: Mapping[str, object], where: str, *, v3: bool) -> Iterator[Problem]:
    yield from missing_problems(("extensions", "entries"), book, where, Severity.ERROR)
    yield from rule_problems(BOOK_RULES, book, where)
    entries = book.get("entries")
    for index, entry in enumerate(entries if is_sequence(entries) else ()):
        pointer = f"{where}/entries/{index}"
        if is_mapping(entry):
            yield from entry_problems(entry, pointer, v3=v3)
        else:
            yield Problem(pointer, f"is {kind(entry)}", "an object", Severity.ERROR, "WRONG_TYPE")


def _asset_list_problems(assets: object) -> Iterator[Problem]:
    mains = 0
    for index, asset in enumerate(assets if is_sequence(assets) else ()):
        pointer = f"/data/assets/{index}"
        if not is_mapping(asset):
            yield Problem(pointer, f"is {kind(asset)}", "an object", Severity.ERROR, "WRONG_TYPE")
            continue
        yield from asset_problems(asset, pointer)
        mains += asset.get("type") == "icon" and asset.get("name") == "main"
    if mains > 1:
        yield Problem(
            "/data/assets", f"has {mains} icons named main", "one main icon", Severity.WARNING, "SEVERAL_MAIN_ICONS"
        )
