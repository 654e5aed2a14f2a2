"""Conversions of world books, keys and hashes."""

from __future__ import annotations

import json
from typing import Any

from tavernkit._text.js_values import own_keys
from tavernkit.cards import Character
from tavernkit.silly_tavern._world_info import (
    Entry,
    SelectedBooks,
    WorldBook,
    add_missing_fields,
    duplicate_entry,
    embedded_book_name,
    entry_hash,
    hashed_json,
    import_world,
    list_entries,
    new_entry,
    split_keys,
    string_hash,
)
from tavernkit.silly_tavern._world_info.selection import GLOBAL_FIRST
from tests.conformance.adapters.silly_tavern.world_info import uid_of
from tests.conformance.runner import Case


def character_book_to_world(given: Any) -> object:
    return {"world": WorldBook.from_character_book(given["character_book"], name="").to_json()}


def world_to_character_book(given: Any) -> object:
    return {"character_book": WorldBook(given["name"], given["world"]).to_character_book()}


def roundtrip(given: Any) -> object:
    book = WorldBook.from_character_book(given["character_book"], name=given["name"])
    return {"world": book.to_json(), "character_book": book.to_character_book()}


def import_file(given: Any) -> object:
    text = given["text"] if "text" in given else json.dumps(given["json"])
    warnings: list[str] = []
    book = import_world(given["filename"], text, warn=warnings.append)
    if book is None:
        # SillyTavern hangs on malformed JSON; refusing it with a reason is what we do instead.
        malformed = any("not JSON" in warning and "BOM" not in warning for warning in warnings)
        return {"imported": False, "never_settles": True} if malformed else {"imported": False}
    return {"imported": True, "name": book.name, "world": book.to_json()}


def keys(given: Any) -> object:
    return {"keys": split_keys(given["text"])}


def make_entry(given: Any) -> object:
    return {"entry": new_entry(given["world"])}


def duplicate(given: Any) -> object:
    entry = duplicate_entry(given["world"], str(given["uid"]))
    entries = given["world"]["entries"]
    uids = own_keys(entries) if isinstance(entries, dict) else [str(index) for index in range(len(entries))]
    return {"entry": entry, "uids": uids}


def missing_fields(given: Any) -> object:
    for entry in given["entries"]:
        add_missing_fields(entry)
    return {"entries": given["entries"]}


def hashes(given: Any) -> object:
    books = SelectedBooks(global_=(WorldBook(given["world_name"], given["world"]),))
    listed = list_entries(books, GLOBAL_FIRST, lambda _: None)
    return {"entries": [hashed(Entry(raw, book)) for raw, book in listed]}


def hashed(entry: Entry) -> object:
    return {"hash": entry_hash(entry), "hashed_json": hashed_json(entry), **uid_of(entry)}


def text_hash(given: Any) -> object:
    return {"hash": string_hash(given["text"])}


def book_name(given: Any) -> object:
    card = {"spec": "chara_card_v2", "spec_version": "2.0", "data": given["character"]}
    return {"world_name": embedded_book_name(Character.from_card(card))}


OPERATIONS = {
    "character_book_to_world": character_book_to_world,
    "world_to_character_book": world_to_character_book,
    "roundtrip": roundtrip,
    "import_file": import_file,
    "split_keys": keys,
    "new_entry": make_entry,
    "duplicate_entry": duplicate,
    "add_missing_fields": missing_fields,
    "entry_hash": hashes,
    "string_hash": text_hash,
    "embedded_book_name": book_name,
}


def run(case: Case) -> object:
    return OPERATIONS[case.input["op"]](case.input)
