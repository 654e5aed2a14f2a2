"""The compiled index of a world file: its table and the positions of its entries, so that the file need not be parsed.

An index is untrusted input. It is used only if this version wrote it for exactly these bytes of the book and its
checksum is correct; even then, every number in it is checked before use. A checksum finds damage, not forgery: anybody
who can replace the index can also replace the book.
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from json.decoder import JSONDecoder
from operator import lt
from typing import Any, TypeVar

from tavernkit import __version__
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.silly_tavern._world_info.book_table import BookTable, KeyColumn, KeyKind
from tavernkit.silly_tavern._world_info.entry import problem_with

MAGIC = b"TavernKit book index 1\n"
"""The first line of an index; the number is the version of its format."""

CHECKSUM_BYTES = 32

SEPARATOR = "\0"
"""The separator of keys. No plain key contains it, because a text with it may contain a macro."""

_BLANK = " \t\n\r"

T = TypeVar("T")


class BadIndexError(Exception):
    """An index that cannot be used, and why."""


class IndexedBook:
    """A world file that is parsed entry by entry, on demand.

    Args:
        content: The bytes of the file.
        index: The bytes of its index.

    Raises:
        BadIndexError: The index does not match this file, or is damaged.
    """

    def __init__(self, content: bytes, index: bytes) -> None:
        self.content = content
        facts, body = _open(content, index)
        self.map_keys: Sequence[str] = facts.texts("map_keys")
        size = len(self.map_keys)
        self._starts, self._ends = body.numbers("Q", size), body.numbers("Q", size)
        if not all(map(lt, self._starts, self._ends)) or max(self._ends, default=0) > len(content):
            raise BadIndexError("an entry is not within the book")
        uids = facts.texts("uids")
        worlds = facts.list_of("worlds", (str, type(None))) or [None] * len(uids)
        everything = facts.list_of("all_usable", bool) == [True]
        self.rows: Sequence[int] = range(size) if everything else facts.numbers("usable", size)
        if not len(uids) == len(worlds) == len(self.rows):
            raise BadIndexError("an entry is not named")
        self.identities: Sequence[tuple[str | None, str]] = [*zip(worlds, uids, strict=True)]
        self._raws: dict[int, Json] = {}
        usable = len(self.rows)
        delayed, levels = facts.numbers("delayed", usable), facts.values("levels")
        deepest = facts.list_of("deepest", (int, float))
        if len(delayed) != len(levels) or len(deepest) != 1:
            raise BadIndexError("a level is missing")
        orders = body.numbers("d", usable)
        self.table = BookTable(
            entries=_IndexedEntries(self),
            problems=facts.texts("problems"),
            orders=orders,
            constant=facts.numbers("constant", usable),
            timed=facts.numbers("timed", usable),
            delayed=[*zip(delayed, levels, strict=True)],
            deepest=deepest[0],
            keys=dict(_read_keys(facts.list_of("keys", list), body, usable)),
            loose=facts.numbers("loose", usable),
        )

    def __len__(self) -> int:
        return len(self.map_keys)

    def raw(self, number: int) -> Json:
        """Return the JSON of an entry, cached."""
        if number not in self._raws:
            try:
                value: Json = json.loads(self.content[self._starts[number] : self._ends[number]])
            except (ValueError, RecursionError):  # only if the index was forged
                value = {}
            return self._raws.setdefault(number, value)
        return self._raws[number]

    def raw_entries(self) -> Iterator[tuple[str, Json]]:
        """Return all entries with their map keys."""
        return ((key, self.raw(number)) for number, key in enumerate(self.map_keys))


class _IndexedEntries:
    """The usable entries of an indexed book."""

    def __init__(self, book: IndexedBook) -> None:
        self._book = book

    def __len__(self) -> int:
        return len(self._book.rows)

    def __getitem__(self, number: int) -> JsonObject:
        raw = self._book.raw(self._book.rows[number])
        # An entry with a problem is not usable: only a forged index has one.
        return raw if is_object(raw) and problem_with(raw) is None else {}

    def identities(self) -> Iterable[tuple[str | None, str]]:
        """Return for every entry the book in its JSON, if any, and its uid."""
        return self._book.identities


def _open(content: bytes, index: bytes) -> tuple[_Facts, _Body]:
    """Check that an index matches a book, and split it into parts."""
    if not index.startswith(MAGIC):
        raise BadIndexError("it is not an index of this version")
    start = len(MAGIC) + CHECKSUM_BYTES
    if hashlib.sha256(memoryview(index)[start:]).digest() != index[len(MAGIC) : start]:
        raise BadIndexError("it is damaged")
    end = index.find(b"\n", start)
    try:
        parsed: Json = json.loads(index[start : max(end, start)])
    except (ValueError, RecursionError):
        raise BadIndexError("it is damaged") from None
    facts = _Facts(parsed if is_object(parsed) else {})
    if facts.texts("tavernkit") != [__version__]:
        raise BadIndexError("another version of TavernKit wrote it")
    if facts.texts("book") != [hashlib.sha256(content).hexdigest()]:
        raise BadIndexError("the book has changed since")
    return facts, _Body(memoryview(index)[end + 1 :])


class _Facts:
    """The first part of an index: JSON whose fields are all lists."""

    def __init__(self, fields: JsonObject) -> None:
        self._fields = fields

    def values(self, name: str) -> list[Json]:
        values = self._fields.get(name)
        if not isinstance(values, list):
            raise BadIndexError(f"{name!r} cannot be read")
        return values

    def list_of(self, name: str, kind: type[T] | tuple[type[T], ...]) -> list[T]:
        values = [value for value in self.values(name) if isinstance(value, kind)]
        if len(values) < len(self.values(name)):
            raise BadIndexError(f"{name!r} cannot be read")
        return values

    def texts(self, name: str) -> list[str]:
        return self.list_of(name, str)

    def numbers(self, name: str, end: int) -> list[int]:
        """Read numbers of entries: from zero up to ``end``."""
        return [*_check(self.list_of(name, int), end)]


class _Body:
    """The second part of an index: a sequence of numbers and texts."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def take(self, size: int) -> memoryview:
        if not 0 <= size <= len(self._data):
            raise BadIndexError("it is too short")
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def numbers(self, code: str, count: int) -> array[Any]:
        numbers: array[Any] = array(code)
        numbers.frombytes(self.take(count * numbers.itemsize))
        return _little_endian(numbers)


def _little_endian(numbers: array[Any]) -> array[Any]:  # of whole numbers or floats
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _check(numbers: Sequence[int], end: int) -> Sequence[int]:
    if len(numbers) and not 0 <= min(numbers) <= max(numbers) < end:
        raise BadIndexError("it names an entry that does not exist")
    return numbers


def _read_keys(kinds: Sequence[list[Json]], body: _Body, usable: int) -> Iterator[tuple[KeyKind, KeyColumn]]:
    for given in kinds:
        match given:
            case [case, whole, bool(one_word), bool(primary), int(count), int(size)]:
                kind = KeyKind(_mode(case), _mode(whole), one_word=one_word, primary=primary)
            case _:
                raise BadIndexError("a list of keys is not described")
        owners = body.numbers("Q", count)
        _check(owners, usable)
        try:
            texts = str(body.take(size), "utf-8", "surrogatepass").split(SEPARATOR)
        except ValueError:
            raise BadIndexError("a key is not text") from None
        if len(texts) != count or "" in texts:
            raise BadIndexError("a key is missing")
        yield kind, KeyColumn(texts, owners)


def _mode(value: Json) -> bool | None:
    return value if isinstance(value, bool) else None


def make_index(content: bytes, map_keys: Sequence[str], usable: Sequence[int], table: BookTable) -> bytes:
    """Write the index of a world file.

    Args:
        content: The bytes of the file: JSON with an object or a list of entries.
        map_keys: The keys of all its entries, in JavaScript's order.
        usable: The numbers of those that a scan can use.
        table: The table of these.
    """
    spans = _entry_spans(content)
    identities = [*table.entries.identities()]
    body: list[bytes] = [
        _bytes("Q", [spans[key][0] for key in map_keys]),
        _bytes("Q", [spans[key][1] for key in map_keys]),
        _bytes("d", table.orders),
    ]
    kinds: list[list[Json]] = []
    for kind, (texts, owners) in table.keys.items():
        if texts:
            joined = SEPARATOR.join(texts).encode("utf-8", "surrogatepass")
            body += [_bytes("Q", owners), joined]
            kinds.append([*kind, len(texts), len(joined)])
    facts = {
        "tavernkit": [__version__],
        "book": [hashlib.sha256(content).hexdigest()],
        "map_keys": [*map_keys],
        "all_usable": [len(usable) == len(map_keys)],
        "usable": [] if len(usable) == len(map_keys) else [*usable],
        "uids": [uid for _, uid in identities],
        "worlds": [world for world, _ in identities] if any(world is not None for world, _ in identities) else [],
        "problems": [*table.problems],
        "constant": [*table.constant],
        "timed": [*table.timed],
        "delayed": [number for number, _ in table.delayed],
        "levels": [level for _, level in table.delayed],
        "deepest": [table.deepest],
        "loose": [*table.loose],
        "keys": kinds,
    }
    rest = b"\n".join([json.dumps(facts).encode("ascii"), b"".join(body)])
    return MAGIC + hashlib.sha256(rest).digest() + rest


def _bytes(code: str, numbers: Iterable[float]) -> bytes:
    return _little_endian(array(code, numbers)).tobytes()


def _entry_spans(content: bytes) -> dict[str, tuple[int, int]]:
    """Find the start and end of the entries of a world file, in bytes."""
    text = content.decode("utf-8")
    spans: dict[str, tuple[int, int]] = {}
    for name, start, _ in _members(text, _skip_blank(text, 0)):
        if name == "entries":  # the last one counts
            spans = {key: (begin, end) for key, begin, end in _members(text, start)}
    if text.isascii():
        return spans
    places = sorted({place for span in spans.values() for place in span})
    offsets: dict[int, int] = {}
    offset = before = 0
    for place in places:
        offset += len(text[before:place].encode("utf-8"))
        offsets[place], before = offset, place
    return {key: (offsets[begin], offsets[end]) for key, (begin, end) in spans.items()}


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Yield key, start and end of the values of an object or a list in valid JSON."""
    is_map = text[at] == "{"
    if text[at] not in "{[":
        return
    decoder = JSONDecoder()
    count = 0
    at = _skip_blank(text, at + 1)
    while text[at] not in "}]":
        key = str(count)
        if is_map:
            key, at = decoder.raw_decode(text, at)
            at = _skip_blank(text, _skip_blank(text, at) + 1)
        _, end = decoder.raw_decode(text, at)
        yield key, at, end
        count += 1
        at = _skip_blank(text, end)
        if text[at] == ",":
            at = _skip_blank(text, at + 1)


def _skip_blank(text: str, at: int) -> int:
    while text[at] in _BLANK:
        at += 1
    return at
