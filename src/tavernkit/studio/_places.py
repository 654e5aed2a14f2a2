"""Finds texts of a prompt and lore entries in the documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tavernkit._text import json_pointer
from tavernkit._values import Json, is_list, is_object
from tavernkit.lore import LoreRow
from tavernkit.prompt._source_map import TextSource
from tavernkit.studio._document import LOREBOOK, Document, Kind
from tavernkit.studio._workspace import State

Place = tuple[str | None, str | None]
"""A document's id and a pointer in it; None for a text that is in no document."""

_KINDS: Final[Mapping[str, tuple[Kind, ...]]] = {
    "card": ("card",),
    "character": ("card",),
    "lore": ("book", "card"),
    "preset": ("preset",),
    "chat": ("chat", "card"),
    "author's note": ("chat",),
    "persona": ("persona",),
    "user": ("persona",),
    "message": ("turn",),
    "context template": ("context_template",),
    "instruct template": ("instruct",),
    "system prompt": ("system_prompt",),
}
"""Kinds of documents that can contain a kind of source."""

_POINTERS: Final[Mapping[tuple[str, str], str]] = {
    ("message", ""): "/message",
    ("persona", "/persona"): "/description",
    ("author's note", "/note_prompt"): "/header/chat_metadata/note_prompt",
}
"""Pointers that differ between documents and the programs' files."""

MAX_SEARCHED: Final = 200_000
"""How many texts of documents are searched for one whose place is unknown."""


class Places:
    """Finds places in a state's documents."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._entries: dict[tuple[str, str], Place] | None = None
        self._texts: dict[tuple[Kind, str], Place] | None = None

    def source(self, source: TextSource) -> Place:
        """Return where a text of a source map is."""
        kinds = _KINDS.get(source.kind, ())
        pointer = _POINTERS.get((source.kind, source.pointer), source.pointer)
        for kind in kinds:
            for document in self._state.active_of(kind):
                for candidate in _candidates(kind, pointer):
                    if json_pointer.resolve(document.data, candidate) == source.text:
                        if kind == "book" and document.name != source.name and self._elsewhere(source, candidate):
                            continue
                        return document.id, candidate
        return self._search(kinds, source.text)

    def entry(self, row: LoreRow) -> Place:
        """Return where a lore entry is."""
        uid = row.id.rpartition(".")[2]
        for document, pointer in self._books():
            place = f"{pointer}/{json_pointer.escape(uid)}"
            entry = json_pointer.resolve(document.data, place)
            named = document.kind == "card" or document.name == row.book
            if named and is_object(entry) and str(entry.get("uid", uid)) == uid and _title(entry) in (row.title, ""):
                return document.id, place
        return self._index().get((row.title, row.content)) or self._index().get((row.title, "")) or (None, None)

    def _index(self) -> Mapping[tuple[str, str], Place]:
        """Return entries by title and content, for those that are not found by their ids."""
        if self._entries is None:
            self._entries = {}
            for document, pointer in self._books():
                for place, entry in _entries(document, pointer):
                    for key in ((_title(entry), str(entry.get("content"))), (_title(entry), "")):
                        self._entries.setdefault(key, (document.id, place))
        return self._entries

    def _elsewhere(self, source: TextSource, pointer: str) -> bool:
        """Return True if the source's own book also has the text."""
        return any(
            document.name == source.name and json_pointer.resolve(document.data, pointer) == source.text
            for document in self._state.active_of("book")
        )

    def _search(self, kinds: tuple[Kind, ...], text: str) -> Place:
        """Look for a text in all documents of some kinds."""
        if not text:
            return None, None
        if self._texts is None:
            self._texts = {}
            left = MAX_SEARCHED
            for document in self._state.documents.values():
                if document.id not in self._state.active:
                    continue
                for pointer, value in _texts(document.data, ""):
                    self._texts.setdefault((document.kind, value), (document.id, pointer))
                    left -= 1
                    if not left:
                        break
        for kind in kinds:
            if (kind, text) in self._texts:
                return self._texts[(kind, text)]
        return None, None

    def _books(self) -> Iterator[tuple[Document, str]]:
        """Documents with entries, and the pointer of these."""
        for document in self._state.active_of("book"):
            yield document, "/data" if document.format == LOREBOOK else "/entries"
        for document in self._state.active_of("card"):
            if document.book is not None:
                yield document, f"{document.book}/entries"


def entry_count(state: State) -> int:
    """Return how many entries the active books have."""
    found = 0
    for document in (*state.active_of("book"), *state.active_of("card")):
        book = document.data
        if document.kind == "card":
            fields = book.get("data", book) if is_object(book) else None
            book = fields.get("character_book") if is_object(fields) else None
        entries = (book.get("entries") or book.get("data")) if is_object(book) else None
        found += len(entries) if is_object(entries) or is_list(entries) else 0
    return found


def _candidates(kind: Kind, pointer: str) -> Iterator[str]:
    yield pointer
    if kind == "chat":
        yield f"/messages{pointer}"
        yield f"/header/chat_metadata{pointer}"


def _title(entry: Mapping[str, Json]) -> str:
    return str(entry.get("comment") or entry.get("name") or "")


def _entries(document: Document, pointer: str) -> Iterator[tuple[str, dict[str, Json]]]:
    entries = json_pointer.resolve(document.data, pointer)
    pairs = entries.items() if is_object(entries) else enumerate(entries) if is_list(entries) else ()
    for key, entry in pairs:
        if is_object(entry):
            yield f"{pointer}/{json_pointer.escape(key)}", entry


def _texts(value: Json, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif is_object(value):
        for key, item in value.items():
            yield from _texts(item, f"{pointer}/{json_pointer.escape(key)}")
    elif is_list(value):
        for index, item in enumerate(value):
            yield from _texts(item, f"{pointer}/{index}")
