"""Wrong arguments to the names of ``tavernkit.cards``."""

from __future__ import annotations

import io
import json

import pytest

from tavernkit import ConfigError, FileFormatError
from tavernkit.cards import (
    Asset,
    AssetEntry,
    BookEntry,
    Bundle,
    Character,
    CharacterBook,
    Limits,
    Module,
    ReaderRegistry,
    User,
    card_schema,
    card_version,
    convert,
    detect_format,
    load,
    lorebook_from_book,
    parse_json,
    register_reader,
    save,
    to_bytes,
    validate,
    validate_file,
)
from tavernkit.cards.errors import NotACardError
from tavernkit.cards.readers import default_readers
from tavernkit.cards.source import read_file
from tavernkit.errors import LoreParseError
from tests.wrong_arguments import Call, Odd, Sweep

CARD = {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Aria", "extensions": {}}}
FILE = json.dumps(CARD).encode()
ARIA = Character(name="Aria", version="v2")
BOOK = CharacterBook(entries=(BookEntry(keys=("dragon",), content="Old."),))
PICTURE = Asset.from_bytes(b"GIF8", type="icon", name="main")


def warn(message: str) -> None:
    raise AssertionError(message)


def read(path: str, limits: Limits, warn: object) -> Bundle:
    return Bundle(card=ARIA)


CALLS: dict[str, Call] = {
    "Asset": (Asset, {"type": "icon", "name": "main"}),
    "Asset.from_bytes": (Asset.from_bytes, {"data": b"GIF8", "type": "icon", "name": "main"}),
    "Asset.read": (PICTURE.read, {}),
    "Asset.same_as": (PICTURE.same_as, {"other": PICTURE}),
    "AssetEntry": (AssetEntry, {}),
    "AssetEntry.replace": (AssetEntry().replace, {"uri": "a"}),
    "AssetEntry.from_json": (AssetEntry.from_json, {"data": {}}),
    "BookEntry": (BookEntry, {}),
    "BookEntry.replace": (BookEntry().replace, {"content": "New."}),
    "BookEntry.from_json": (BookEntry.from_json, {"data": {"keys": ["a"]}}),
    "Bundle": (Bundle, {}),
    "Bundle.replace": (Bundle().replace, {"card": ARIA}),
    "Character": (Character, {"name": "Aria"}),
    "Character.creator_notes_for": (ARIA.creator_notes_for, {"language": "en"}),
    "Character.from_card": (Character.from_card, {"card": CARD}),
    "Character.replace": (ARIA.replace, {"name": "Bel", "tags": ["a"]}),
    "Character.talkativeness": (ARIA.talkativeness, {}),
    "CharacterBook": (CharacterBook, {}),
    "CharacterBook.fits": (CharacterBook.fits, {"value": {"entries": []}}),
    "CharacterBook.from_json": (CharacterBook.from_json, {"data": {"entries": []}}),
    "CharacterBook.replace": (BOOK.replace, {"entries": []}),
    "Limits": (Limits, {}),
    "Module": (Module, {}),
    "Module.replace": (Module().replace, {"name": "Magic"}),
    "Module.from_json": (Module.from_json, {"data": {"name": "Magic"}}),
    "ReaderRegistry": (ReaderRegistry, {}),
    "ReaderRegistry.find": (ReaderRegistry({".own": read}).find, {"readable": "a.own"}),
    "ReaderRegistry.register": (ReaderRegistry().register, {"ending": ".own", "reader": read}),
    "User": (User, {"name": "Ann"}),
    "card_schema": (card_schema, {}),
    "card_version": (card_version, {"card": CARD}),
    "convert": (convert, {"character": ARIA, "version": "v3"}),
    "detect_format": (detect_format, {"readable": FILE}),
    "load": (load, {"source": FILE}),
    "lorebook_from_book": (lorebook_from_book, {"book": BOOK}),
    "parse_json": (parse_json, {"data": b"[]", "what": "a list", "warn": warn}),
    "save": (save, {"content": ARIA, "target": io.BytesIO(), "format": "json"}),
    "to_bytes": (to_bytes, {"content": ARIA, "format": "json"}),
    "validate": (validate, {"content": ARIA}),
    "validate_file": (validate_file, {"readable": FILE}),
}

SHARED: dict[str, Call] = {"register_reader": (register_reader, {"ending": ".own", "reader": read})}
"""It changes what the whole process shares."""

UNCALLED = {
    "ConversionNote": "a result",
    "ConversionReport": "a result",
    "Problem": "a result",
    "SaveReport": "a result",
}

ANYTHING = {"validate.content": "a card from a file: what is none is a problem, below"}

DOCUMENTS: dict[str, type[Exception]] = {
    "Character.from_card.card": NotACardError,
    "CharacterBook.from_json.data": LoreParseError,
    "card_version.card": NotACardError,
}


SWEEP = Sweep("tavernkit.cards", CALLS | SHARED, UNCALLED, ANYTHING, DOCUMENTS)


def test_every_public_name_is_called() -> None:
    SWEEP.assert_complete()


@pytest.mark.parametrize("name", CALLS)
def test_right_arguments_are_taken(name: str) -> None:
    SWEEP.call(name)


@pytest.mark.parametrize(("name", "parameter"), SWEEP.pairs())
def test_wrong_arguments_are_refused_by_name(name: str, parameter: str) -> None:
    SWEEP.assert_refused(name, parameter)
    assert not default_readers.endings


@pytest.mark.parametrize("read", [Character.from_card, card_version, CharacterBook.from_json])
def test_what_is_no_object_is_no_card_and_no_book(read: object) -> None:
    for value, what in ((Odd(), "Odd"), ([], "a list"), (None, "null"), ("x", "a text")):
        with pytest.raises(FileFormatError, match=f"is a JSON object, not {what}$"):
            read(value)  # pyright: ignore[reportCallIssue]  # the mistake


def test_what_is_no_card_is_a_problem() -> None:
    (problem,) = validate(Odd())  # pyright: ignore[reportArgumentType]  # the mistake
    assert (problem.message, problem.code) == ("is Odd", "NOT_A_CARD")


def test_files_that_are_read_as_a_whole_are_paths_or_bytes() -> None:
    assert read_file(b"x", 5, limit="few") == b"x"
    with pytest.raises(ConfigError, match="source must be a path or bytes, not Odd"):
        read_file(Odd(), 5, limit="few")  # pyright: ignore[reportArgumentType]  # the mistake


@pytest.mark.parametrize("texts", [["a"], ("a",), {"a"}, (text for text in "a")])
def test_a_character_takes_texts_from_anything_that_has_some(texts: object) -> None:
    assert ARIA.replace(tags=texts).tags == ("a",)


def test_the_parts_of_a_character_are_checked_when_it_is_changed() -> None:
    with pytest.raises(ConfigError, match=r"^Character\.tags must be a list of texts, not tuple \(5,\)"):
        ARIA.replace(tags=[5])
    with pytest.raises(ConfigError, match=r"^CharacterBook\.entries must be a list of BookEntry"):
        BOOK.replace(entries=[Odd()])
    with pytest.raises(ConfigError, match=r"^Bundle\.card must be a Character or None, not dict"):
        Bundle().replace(character=CARD)
