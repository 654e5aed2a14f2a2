"""Imports of SillyTavern and RisuAI: cards that are no objects, assets that cannot be read, fields only RisuAI has."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tavernkit.cards import CharacterBook, Limits, lorebook_from_book
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._png import placeholder_png
from tavernkit.cards._risu_ai.character import book_from_lorebook
from tavernkit.cards._silly_tavern.importing import (
    PngChunk,
    export_card,
    read_card_text,
    read_chunks,
    stored_picture,
    write_card_text,
)
from tavernkit.cards._silly_tavern.stored import ImportFailedError, free_name
from tavernkit.errors import LimitExceededError

PICTURE = placeholder_png(2, 2)
CHUNKS = read_chunks(PICTURE, DEFAULT_LIMITS)


def keywords(png: bytes) -> dict[str, Any]:
    texts = [chunk for chunk in read_chunks(png, DEFAULT_LIMITS) if chunk.kind == b"tEXt"]
    return {chunk.keyword: base64.b64decode(chunk.data.partition(b"\0")[2]).decode() for chunk in texts}


def test_other_text_chunks_are_kept_as_the_latin_1_they_are() -> None:
    comment = PngChunk(b"tEXt", b"Comment\0Caf\xe9 \xa9")
    written = read_chunks(write_card_text([*CHUNKS[:-1], comment, CHUNKS[-1]], "{}", DEFAULT_LIMITS), DEFAULT_LIMITS)
    texts = {chunk.keyword: chunk.text for chunk in written if chunk.kind == b"tEXt"}
    assert comment in written
    assert texts["Comment"] == "Caf\u00e9 \u00a9"
    assert texts["chara"] == "{}"


@pytest.mark.parametrize(
    ("text", "second"),
    [('{"name": "Ada"}', True), ("[1, 2]", True), ("3", False), ("no json", False), ("[" * 400 + "]" * 400, False)],
)
def test_a_stored_picture_has_a_second_card_if_the_first_can_be_read(text: str, second: bool) -> None:
    found = keywords(write_card_text(CHUNKS, text, DEFAULT_LIMITS))
    assert found["chara"] == text
    assert ("ccv3" in found) is second


def test_a_list_stays_a_list_in_the_second_card() -> None:
    assert json.loads(keywords(write_card_text(CHUNKS, "[1, 2]", DEFAULT_LIMITS))["ccv3"]) == [1, 2]


def test_a_stored_card_that_is_no_object_cannot_be_exported() -> None:
    png = write_card_text(CHUNKS, "[1]", DEFAULT_LIMITS)
    assert read_card_text(read_chunks(png, DEFAULT_LIMITS)) == "[1]"
    with pytest.raises(ImportFailedError, match="not a JSON object"):
        export_card(png)


def test_a_name_of_nothing_is_no_file_name() -> None:
    with pytest.raises(ImportFailedError):
        free_name("", ())
    assert free_name("Ada", {"Ada", "Ada1"}) == "Ada2"


def test_a_picture_that_cannot_be_decoded_stays_as_it_is() -> None:
    note = PngChunk(b"tEXt", b"Comment\0hi")
    whole = [*CHUNKS[:-1], note, CHUNKS[-1]]
    assert note not in stored_picture(whole)
    for header in (b"short", CHUNKS[0].data[:8] + b"\x08\x06\0\0\0" + b"x", b"\xff" * 8 + CHUNKS[0].data[8:]):
        broken = [PngChunk(b"IHDR", header), *whole[1:]]
        assert stored_picture(broken) == broken


def test_a_picture_of_endless_chunks_is_refused() -> None:
    with pytest.raises(LimitExceededError) as caught:
        read_chunks(PICTURE, Limits(max_chunks=1))
    assert caught.value.limit == "max_chunks"


def test_folders_and_caches_of_risuais_lore_survive_the_way_there_and_back() -> None:
    lore = {"key": "a, b", "content": "x", "folder": "f1", "loreCache": {"key": "k", "data": ["a"]}, "mode": "normal"}
    book = book_from_lorebook([lore], None, {})
    entry: Any = book["entries"]
    assert (entry[0]["folder"], entry[0]["extensions"]["risu_loreCache"]) == ("f1", {"key": "k", "data": ["a"]})
    (back,) = lorebook_from_book(CharacterBook.from_json(book))
    assert (back["folder"], back["loreCache"], back["key"]) == ("f1", {"key": "k", "data": ["a"]}, "a, b")
