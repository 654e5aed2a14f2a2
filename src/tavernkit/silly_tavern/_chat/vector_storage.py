"""Vector Storage: its searches, and how results change a prompt.

Searching is not part of a build. A build gets the results of searches (``VectorResults``), and its plan lists the
searches it needs (``VectorCall``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import js_round, python_index, to_number, trim, truthy, utf16_length
from tavernkit._text.traced import join, substitute
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, counted, is_mapping, is_sequence
from tavernkit.silly_tavern._chat.attachments import FILE_SEPARATOR, attached_files, names_of, objects
from tavernkit.silly_tavern._chat.core_chat import CoreMessage
from tavernkit.silly_tavern._chat.extension_prompts import VECTORS_DATA_BANK, VECTORS_MEMORY, ExtensionPrompt
from tavernkit.silly_tavern._chat.output_cleanup import SENTENCE_ENDS, trim_to_sentence
from tavernkit.silly_tavern._macros.seeding import string_hash
from tavernkit.silly_tavern._world_info.book import WorldBook
from tavernkit.silly_tavern._world_info.entry import Entry, entry_hash


def vectorized_entries(books: Iterable[WorldBook], *, every: bool = False) -> tuple[Entry, ...]:
    """Return the entries to embed: those marked for it (or ``every`` one) that are switched on and have content."""
    return tuple(
        entry
        for book in books
        for entry in book.entries
        if (every or entry.vectorized) and not entry.disabled and entry.content
    )


def forced_entry(entry: Entry) -> JsonObject:
    """Make the object that activates an entry from outside, for ``ScanInput.forced``."""
    return {**entry.to_json(), "world": entry.world, "content": entry.content, "hash": entry_hash(entry)}


EXTENSION = "vectors"
KINDS = {VECTORS_MEMORY: "vectors", VECTORS_DATA_BANK: "data bank"}
"""Kinds of its texts by their keys in the registry."""
CHAT_COLLECTION = "chat"
WORLD_COLLECTION = "world:"
KILOBYTE = 1024

LorePlaces: TypeAlias = Mapping[tuple[str, str], int]
"""Positions of lore entries in scan order, by the name of the book and the entry's id."""

_NEWLINES = re.compile(r"\n+")
_DELIMITERS = ("\n\n", "\n", " ", "")
"""Where texts are split: at blank lines, at line breaks, at spaces, anywhere."""


@dataclass(frozen=True, slots=True)
class VectorHit:
    """A chunk that a search found. Lines and lore entries are identified by the hash of their text."""

    text: str
    """The text of the chunk."""
    index: int = 0
    """The chunk's number in its file."""
    hash: int | None = None
    """The hash of the whole text; by default that of ``text``."""

    @property
    def key(self) -> int:
        """The hash of the whole text of the chunk."""
        return self.hash if self.hash is not None else string_hash(self.text)


@dataclass(frozen=True, slots=True)
class VectorResults:
    """Results of searches, by collection, best first; ``indexed`` lists collections that are already in the index.

    Collections are ``chat``, the URL of a file, and ``world:`` with the name of a book.
    """

    hits: Mapping[str, Sequence[VectorHit]] = field(default_factory=dict[str, Sequence[VectorHit]])
    """The chunks that were found, by collection."""
    indexed: frozenset[str] = frozenset()

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> VectorResults:
        """Read ``{"results": {collection: [{"text", "index"}]}, "saved": [collection]}``."""
        results, saved = data.get("results"), data.get("saved")
        found = results if is_mapping(results) else EMPTY_OBJECT
        return cls(
            {name: tuple(map(_hit, objects(hits))) for name, hits in found.items()},
            frozenset(str(each) for each in saved) if is_sequence(saved) else frozenset(),
        )


@dataclass(frozen=True, slots=True)
class VectorCall:
    """A call of Vector Storage to an index: ``insert`` chunks, or ``query`` collections for a text."""

    call: str
    """``insert``, ``query``, or ``query-multi`` for several collections."""
    collections: tuple[str, ...]
    """The collections it is about."""
    items: Sequence[VectorHit] = ()
    """Chunks to insert."""
    search_text: str = ""
    """The text to search for."""
    top_k: int | float = 0
    """The maximum number of chunks to return."""
    threshold: int | float = 0
    """The minimum score."""


@dataclass(frozen=True, slots=True)
class VectorStorage:
    """Vector Storage in one build: its settings, results, macros and calls."""

    settings: FrozenObject
    results: VectorResults
    expand: Callable[[str], str]
    with_macros: Callable[[str, Mapping[str, str]], str]
    calls: list[VectorCall] = field(default_factory=list[VectorCall])

    def on(self, name: str) -> bool:
        """Return True if a switch of the settings is on."""
        return truthy(self.settings.get(name))

    def number(self, name: str, default: float) -> float:
        """Return a number of the settings."""
        number = to_number(self.settings.get(name, default))
        return number if math.isfinite(number) else default

    def text(self, name: str, default: str) -> str:
        """Return a text of the settings."""
        found = self.settings.get(name)
        return found if isinstance(found, str) else default

    def query_text(self, core: Sequence[CoreMessage]) -> str:
        """Return the newest lines with text, without attached files."""
        found: list[str] = []
        wanted = self.number("query", 2)
        for message in reversed(core):
            if len(found) >= wanted:
                break
            text = self.expand(trim(message.text[message.file_length :]))
            if text:
                found.append(text)
        return trim(_NEWLINES.sub("\n", "\n".join(found)))

    def ask(self, collections: Sequence[str], search_text: str, top_k: float, *, several: bool) -> None:
        """Record a query."""
        name = "query-multi" if several else "query"
        threshold = self.number("score_threshold", 0.25)
        call = VectorCall(name, tuple(collections), (), search_text, _whole(top_k), threshold)
        self.calls.append(call)

    def index_file(self, url: str, chunks: Iterable[str]) -> None:
        """Record the calls that index a file, one chunk per call."""
        for index, chunk in enumerate(chunks):
            self.calls.append(VectorCall("insert", (url,), (VectorHit(chunk, index),)))

    def chunks_of(self, collection: str) -> str:
        """Return the found chunks of a file, in file order, without duplicates."""
        hits = sorted((hit for hit in self.results.hits.get(collection, ()) if hit.text), key=lambda hit: hit.index)
        return join("\n", dict.fromkeys(hit.text for hit in hits))

    def cutting(self, suffix: str, size: float) -> Cutting:
        """Return how files are split: those of lines, or with the suffix ``_db`` those of the Data Bank."""
        return Cutting(
            size=self.number(f"chunk_size{suffix}", size),
            overlap_percent=self.number(f"overlap_percent{suffix}", 0),
            delimiter=self.text("force_chunk_delimiter", ""),
            only_delimiter=self.on("only_custom_boundary"),
        )

    def put_data_bank(
        self, attachments: Sequence[Mapping[str, object]], core: Sequence[CoreMessage], texts: Mapping[str, str]
    ) -> ExtensionPrompt | None:
        """Search the Data Bank and make the text of the results."""
        urls: list[str] = []
        for file in attachments:
            url = str(file.get("url"))
            if url not in self.results.indexed:
                text = texts.get(url) or ""
                if not text:
                    continue
                # The stored size counts, not that of the text.
                large = to_number(file.get("size")) > self.number("size_threshold_db", 5) * KILOBYTE
                self.index_file(url, self.cutting("_db", 2500).chunks(text) if large else [text])
            urls.append(url)
        search_text = self.query_text(core) if urls else ""
        if not search_text:
            return None
        self.ask(urls, search_text, self.number("chunk_count_db", 5), several=True)
        # A file that answers without chunks counts, too: then the template is around nothing.
        answered = [url for url in dict.fromkeys(urls) if url in self.results.hits]
        if not answered:
            return None
        text = join("", (self.chunks_of(url) + "\n\n" for url in answered))
        return ExtensionPrompt(
            VECTORS_DATA_BANK,
            self.with_macros(self.text("file_template_db", "Related information:\n{{text}}"), {"text": text}),
            self.number("file_position_db", 0),
            self.number("file_depth_db", 4),
            self.number("file_depth_role_db", 0),
            scan=self.on("include_wi"),
            kind=KINDS[VECTORS_DATA_BANK],
            reason=f"found in {', '.join(answered)}",
        )

    def replace_files(self, core: Sequence[CoreMessage], texts: Mapping[str, str]) -> None:
        """Replace large files of lines with the found chunks."""
        for message in core:
            files = attached_files(message.line.extra) if message.line.extra else ()
            size = utf16_length(trim(message.text[: message.file_length]))
            if not files or size < self.number("size_threshold", 10) * KILOBYTE:
                continue
            rest = trim(message.text[message.file_length :])
            search_text = self.query_text(core)
            found = [self._file_chunks(file, search_text, texts) for file in files]
            message.text = join(FILE_SEPARATOR, (part for part in found if part)) + FILE_SEPARATOR + rest
            message.additions = f", with what Vector Storage found in {names_of(files)} in front"

    def _file_chunks(self, file: Mapping[str, object], search_text: str, texts: Mapping[str, str]) -> str:
        url, own = str(file.get("url")), file.get("text")
        if url not in self.results.indexed:
            text = own if isinstance(own, str) and own else texts.get(url) or ""
            self.index_file(url, self.cutting("", 5000).chunks(text))
        self.ask([url], search_text, self.number("chunk_count", 2), several=False)
        return self.chunks_of(url)

    def force_lore(self, books: Iterable[WorldBook], core: Sequence[CoreMessage], places: LorePlaces) -> list[Entry]:
        """Search lore and return the found entries.

        Args:
            books: The books of the build.
            core: The chat.
            places: The position of each entry: books and entries are indexed in that order.
        """
        active = list(books)
        found = vectorized_entries(active, every=self.on("enabled_for_all"))
        indexed: dict[str, list[VectorHit]] = {}
        for entry in sorted(found, key=lambda entry: places.get((entry.world, str(entry.uid)), len(places))):
            hit = VectorHit(entry.content, _index(entry.uid))
            indexed.setdefault(f"{WORLD_COLLECTION}{entry.world}", []).append(hit)
        self.calls.extend(VectorCall("insert", (collection,), items) for collection, items in indexed.items())
        asked = list(indexed)
        search_text = self.query_text(core) if asked else ""
        if not search_text:
            return []
        self.ask(asked, search_text, self.number("max_entries", 5), several=True)
        keys = {hit.key for collection in asked for hit in self.results.hits.get(collection, ())}
        entries = (entry for book in active for entry in book.entries if entry.content)
        return [entry for entry in entries if string_hash(entry.content) in keys]

    def take_memories(self, core: list[CoreMessage]) -> ExtensionPrompt | None:
        """Remove the found lines from the chat and make a text from them."""
        protect = int(self.number("protect", 5))
        search_text = self.query_text(core) if len(core) >= protect else ""
        if not search_text:
            return None
        self.ask([CHAT_COLLECTION], search_text, self.number("insert", 3), several=False)
        ranks: dict[int, int] = {}
        for rank, hit in enumerate(self.results.hits.get(CHAT_COLLECTION, ())):
            ranks.setdefault(hit.key, rank)
        found: dict[int, CoreMessage] = {}
        # With 0 every line is protected, not none.
        for message in core[:-protect] if protect else ():
            key = string_hash(self.expand(message.text)) if ranks else 0
            if key in ranks:  # of equal texts only the first is found
                found.setdefault(ranks[key], message)
        if not found:
            return None
        self._remove(core, {id(message) for message in found.values()})
        # The best one last, nearest to the end of the prompt.
        texts = [self._line(found[rank]) for rank in sorted(found, reverse=True)]
        return ExtensionPrompt(
            VECTORS_MEMORY,
            self.with_macros(self.text("template", "Past events:\n{{text}}"), {"text": join("\n\n", texts)}),
            self.number("position", 0),
            self.number("depth", 2),
            0,  # always system
            scan=self.on("include_wi"),
            kind=KINDS[VECTORS_MEMORY],
            reason=f"{counted(len(found), 'message')} that Vector Storage found, taken out of the chat",
        )

    @staticmethod
    def _remove(core: list[CoreMessage], found: set[int]) -> None:
        """Remove lines as SillyTavern does: the line after a removed one is skipped and stays."""
        index = 0
        while index < len(core):
            if id(core[index]) in found:
                del core[index]
            index += 1

    def _line(self, message: CoreMessage) -> str:
        return trim(substitute(_NEWLINES, "\n", message.line.name + ": " + self.expand(message.text)))


def data_bank(
    settings: FrozenObject, chat_attachments: object, avatar: str
) -> tuple[list[Mapping[str, object]], list[Mapping[str, object]]]:
    """Return the Data Bank's files (global ones, the chat's, the character's), and those that are disabled.

    Args:
        settings: ``extension_settings``.
        chat_attachments: ``chat_metadata.attachments``.
        avatar: The file name of the character's card.
    """
    of_characters, disabled = settings.get("character_attachments"), settings.get("disabled_attachments")
    own = of_characters.get(avatar) if is_mapping(of_characters) else None
    off = {url for url in disabled if isinstance(url, str)} if is_sequence(disabled) else set[str]()
    used: list[Mapping[str, object]] = []
    unused: list[Mapping[str, object]] = []
    for file in (*objects(settings.get("attachments")), *objects(chat_attachments), *objects(own)):
        url = file.get("url")
        (unused if isinstance(url, str) and url in off else used).append(file)
    return used, unused


def _hit(data: Mapping[str, object]) -> VectorHit:
    text, index, key = data.get("text"), data.get("index"), data.get("hash")
    return VectorHit(
        text if isinstance(text, str) else "",
        _index(index),
        key if isinstance(key, int) else None,
    )


def _index(value: object) -> int:
    return value if isinstance(value, int) else 0


def _whole(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number


@dataclass(frozen=True, slots=True)
class Cutting:
    """How a text is split into chunks: their size, how much neighbours share, and a custom delimiter.

    Sizes are those of JavaScript's strings.
    """

    size: float
    overlap_percent: float = 0
    delimiter: str = ""
    only_delimiter: bool = False

    def chunks(self, text: str) -> list[str]:
        """Split a text."""
        if self.only_delimiter and self.delimiter:
            return text.split(self.delimiter)
        delimiters = (self.delimiter, *_DELIMITERS) if self.delimiter else _DELIMITERS
        overlap = js_round(self.size * self.overlap_percent / 100)
        chunks = _cut(text, self.size - overlap, delimiters)
        half = int(overlap // 2)
        return [_shared(chunks, index, half) for index in range(len(chunks))] if half > 0 else chunks


def _cut(text: str, size: float, delimiters: Sequence[str]) -> list[str]:
    """Split at the first delimiter, split longer parts at the next ones, and join neighbours while they fit."""
    if size <= 0 or not delimiters:
        return [text]
    delimiter = delimiters[0]
    parts: list[str] = []
    for part in text.split(delimiter) if delimiter else text:
        # Joined neighbours may be as long as the size, a part may not.
        parts += [part] if utf16_length(part) < size else _cut(part, size, delimiters[1:])
    chunks: list[str] = []
    current: list[str] = []
    length = 0
    for part in parts:
        own = utf16_length(part)
        longer = length + utf16_length(delimiter) + own
        if current and longer <= size:
            current.append(part)
            length = longer
            continue
        if current:
            chunks.append(delimiter.join(current))
        current, length = [part], own
    return [*chunks, delimiter.join(current)] if current else chunks


def _shared(chunks: Sequence[str], index: int, size: int) -> str:
    """Return a chunk with whole sentences of its neighbours around it."""
    before = after = ""
    if index > 0:
        text = chunks[index - 1]
        before = _from_sentence(text[python_index(text, utf16_length(text) - size) :])
    if index + 1 < len(chunks):
        text = chunks[index + 1]
        after = trim_to_sentence(text[: python_index(text, size)])
    return " ".join(part for part in (before, chunks[index], after) if part)


def _from_sentence(text: str) -> str:
    """Return what comes after the first end of a sentence and the character after it."""
    ends = (index for index, mark in enumerate(text) if mark in SENTENCE_ENDS)
    first = next(ends, None)
    return text if first is None else text[first + 2 :]
