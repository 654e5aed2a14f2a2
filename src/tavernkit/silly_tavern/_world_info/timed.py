"""Timed effects: sticky, cooldown and delay, stored from turn to turn as plain JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tavernkit._text.js_values import UNDEFINED, less_than, own_keys, strict_equals, to_number, truthy
from tavernkit._values import Json, JsonObject, is_object, thaw
from tavernkit.silly_tavern._world_info.entry import Entry
from tavernkit.silly_tavern._world_info.fields import check_depth
from tavernkit.silly_tavern._world_info.limits import MAX_HASHED_ENTRIES
from tavernkit.silly_tavern.errors import LoreParseError

if TYPE_CHECKING:
    from tavernkit.silly_tavern._world_info.engine import CompiledBooks

EFFECTS = ("sticky", "cooldown")


class TimedEffects:
    """The timed effects of one scan: reads the stored state, decides what is active, and writes the next state.

    ``state`` has the form of ``chat_metadata.timedWorldInfo``. ``length`` is the number of messages in the scan list,
    which is the clock of all effects.
    """

    __slots__ = ("_books", "_by_hash", "active", "length", "state")

    def __init__(self, books: CompiledBooks, stored: Mapping[str, object], length: int, *, dry_run: bool) -> None:
        self._books = books
        self._by_hash: dict[float, list[int]] | None = None
        self.length = length
        self.state: dict[str, JsonObject] = {effect: _records(stored.get(effect)) for effect in EFFECTS}
        self.active: dict[str, set[int]] = {effect: set() for effect in EFFECTS}
        if not dry_run:
            for effect in EFFECTS:
                self._check(effect)

    def _check(self, effect: str) -> None:
        records = self.state[effect]
        for key in own_keys(records):
            record = records[key]
            assert is_object(record)
            # A scan at the same length, as for a swipe, drops the effects of the last one: the keys must match again.
            if self.length <= _number(record, "start") and not truthy(record.get("protected")):
                del records[key]
                continue
            positions = self._owners(key, record)
            if not positions:  # an effect of a changed or missing entry stays until its end, without consequences
                if self.length >= _number(record, "end"):
                    del records[key]
            elif not truthy(self._books.entry(positions[0]).raw.get(effect)):
                del records[key]
            elif self.length >= _number(record, "end"):
                del records[key]
                if effect == "sticky":
                    self._start_cooldown(positions)
            else:
                self.active[effect].update(positions)

    def _start_cooldown(self, positions: list[int]) -> None:
        # The cooldown that began with the activation is replaced: it begins again when the entry is no longer sticky.
        entry = self._books.entry(positions[0])
        if truthy(entry.raw.get("cooldown")):
            record = self._record(self._books.hash(positions[0]), entry.raw.get("cooldown"), protected=True)
            self.state["cooldown"][entry.identity] = record
            self.active["cooldown"].update(positions)

    def _owners(self, key: str, record: JsonObject) -> list[int]:
        """Return the entries with the hash of a record: those with its own name, else any other."""
        books = self._books
        stored = record.get("hash", UNDEFINED)
        own = [at for at in books.positions(key) if strict_equals(books.hash(at), stored)]
        if own:
            return own
        if isinstance(stored, bool) or not isinstance(stored, (int, float)):
            return []
        if self._by_hash is None:
            self._by_hash = {}
            for at in books.timed if len(books) > MAX_HASHED_ENTRIES else range(len(books)):
                self._by_hash.setdefault(float(books.hash(at)), []).append(at)
        return self._by_hash.get(to_number(stored), [])

    def _record(self, hash_value: Json | None, duration: Json, *, protected: bool) -> JsonObject:
        end = self.length + to_number(duration)
        record: JsonObject = {} if hash_value is None else {"hash": hash_value}
        record["start"] = self.length
        # A duration that is not a number gives no end: null, which is how JSON writes NaN and infinity.
        record["end"] = int(end) if end.is_integer() else end if math.isfinite(end) else None
        record["protected"] = protected
        return record

    def is_sticky(self, position: int | None) -> bool:
        """Return True if the entry at an index of the list is sticky now."""
        return position in self.active["sticky"]

    def on_cooldown(self, position: int | None) -> bool:
        """Return True if the entry at an index of the list is on cooldown now."""
        return position in self.active["cooldown"]

    def is_delayed(self, entry: Entry) -> bool:
        """Return True if the chat is still too short for an entry."""
        delay = entry.raw.get("delay")
        return truthy(delay) and less_than(self.length, delay)

    def is_delayed_at(self, position: int | None) -> bool:
        """Return True if the chat is still too short for the entry at an index of the list."""
        return position is not None and self.is_delayed(self._books.entry(position))

    def cooldown_end(self, entry: Entry) -> float | None:
        """Return the number of messages at which an entry's cooldown ends."""
        record = self.state["cooldown"].get(entry.identity)
        return _number(record, "end") if is_object(record) else None

    def set_for(self, entry: Entry, hash_value: Json | None) -> None:
        """Start the effects of an activated entry, unless they are already active."""
        for effect in EFFECTS:
            duration = entry.raw.get(effect)
            if truthy(duration) and entry.identity not in self.state[effect]:
                self.state[effect][entry.identity] = self._record(hash_value, duration, protected=False)


def _records(value: object) -> JsonObject:
    try:
        check_depth(value)
    except LoreParseError:
        # Nothing that this program or SillyTavern ever stored: ignored.
        return {}
    copied = thaw(value)
    if not is_object(copied):
        return {}
    return {key: record for key, record in copied.items() if is_object(record)}


def _number(record: JsonObject, name: str) -> float:
    return to_number(record.get(name, UNDEFINED))
