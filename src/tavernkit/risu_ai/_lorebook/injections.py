"""Lore that goes into another text: the text of other lore, or a card's."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from tavernkit._text.traced import join
from tavernkit.errors import Warn
from tavernkit.risu_ai._js import replace_first
from tavernkit.risu_ai._lorebook.limits import MAX_REPLACED
from tavernkit.risu_ai._lorebook.result import ActiveLore, LoreInjection


class InjectedText:
    """A text in pieces, which is joined once instead of for every inserted entry.

    ``name`` is used in warnings.
    """

    __slots__ = ("_left", "_name", "_pieces", "_warn")

    def __init__(self, text: str, name: str, warn: Warn) -> None:
        self._pieces = deque([text])
        self._name = name
        self._warn = warn
        self._left = MAX_REPLACED

    def put(self, lore: str, injection: LoreInjection) -> None:
        """Put lore in."""
        match injection.operation:
            case "append":
                self._pieces.extend((" ", lore))
            case "prepend":
                self._pieces.extendleft((" ", lore))
            case _:
                self._replace(injection.param, lore)

    @property
    def text(self) -> str:
        """The text with all insertions."""
        return join("", self._pieces)

    def _replace(self, wanted: str, new: str) -> None:
        if self._left < 0:
            return
        text = self.text
        self._left -= len(text)
        if self._left < 0:
            self._warn(f"lorebook: too much lore replaces something in {self._name!r}, the rest of it is left out")
        else:
            self._pieces = deque([replace_first(text, wanted, new, warn=self._warn)])


class Injections:
    """Collects insertions into the entries of a list; of several with the same name, the first is used."""

    def __init__(self, entries: Sequence[ActiveLore], warn: Warn) -> None:
        self._entries = entries
        self._warn = warn
        self._places = {entry.source: place for place, entry in reversed([*enumerate(entries)])}
        self._texts: dict[int, InjectedText] = {}
        self._injected: dict[int, list[ActiveLore]] = {}

    def put(self, lore: ActiveLore, injection: LoreInjection) -> bool:
        """Insert an entry at its target; return True if the target exists."""
        place = self._places.get(injection.location)
        if place is None:
            return False
        if place not in self._texts:
            self._texts[place] = InjectedText(self._entries[place].text, self._entries[place].title, self._warn)
        self._texts[place].put(lore.text, injection)
        self._injected.setdefault(place, []).append(lore)
        return True

    def done(self) -> list[ActiveLore]:
        """Return the entries with all insertions."""
        done = list(self._entries)
        for place, injected in self._injected.items():
            done[place] = replace(done[place], text=self._texts[place].text, injected=tuple(injected))
        return done
