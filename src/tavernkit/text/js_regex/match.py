"""What a regex found."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit.text.js_regex.subject import Subject

Span = tuple[int, int]
"""Start and end of a part of the text."""

Names = Mapping[str, tuple[int, ...]]
"""The groups each name stands for: more than one where alternatives share a name."""


class JSMatch:
    """One match. Offsets are those of the Python text; ``utf16_start`` and ``utf16_end`` are JavaScript's.

    Without the ``u`` or ``v`` flag a match may begin or end inside a character that JavaScript holds as two units;
    its texts then have lone surrogates, and its Python offsets are those of that character.
    """

    __slots__ = ("_names", "_raw", "_subject")

    def __init__(self, subject: Subject, raw: list[Span | None], names: Names) -> None:
        self._subject = subject
        self._raw = raw
        self._names = names

    @property
    def engine_span(self) -> Span:
        """Where the match is, as the engine counts: for putting pieces together, not for the text."""
        whole = self._raw[0]
        assert whole is not None
        return whole

    @property
    def subject(self) -> Subject:
        """The text as the engine saw it."""
        return self._subject

    @property
    def input(self) -> str:
        """The whole text that was searched."""
        return self._subject.text

    @property
    def start(self) -> int:
        """Where the match begins."""
        return self._subject.python_offset(self.engine_span[0])

    @property
    def end(self) -> int:
        """Where the match ends."""
        return self._subject.python_offset(self.engine_span[1])

    @property
    def utf16_start(self) -> int:
        """Where the match begins in UTF-16 code units (``match.index``)."""
        return self._subject.utf16_offset(self.engine_span[0])

    @property
    def utf16_end(self) -> int:
        """Where the match ends in UTF-16 code units (``lastIndex`` after it)."""
        return self._subject.utf16_offset(self.engine_span[1])

    @property
    def text(self) -> str:
        """What was matched (``match[0]``)."""
        return self._subject.cut(*self.engine_span)

    @property
    def groups(self) -> tuple[str | None, ...]:
        """What the groups captured, from group 1 on; ``None`` for a group that took no part."""
        cut = self._subject.cut
        return tuple([None if span is None else cut(*span) for span in self._raw[1:]])

    @property
    def group_count(self) -> int:
        """How many groups the pattern has."""
        return len(self._raw) - 1

    def group(self, number: int) -> str | None:
        """Return what one group captured; 0 is the whole match."""
        span = self._raw[number]
        return None if span is None else self._subject.cut(*span)

    @property
    def named(self) -> dict[str, str | None]:
        """What the named groups captured."""
        return {name: self._named(numbers) for name, numbers in self._names.items()}

    def _named(self, numbers: tuple[int, ...]) -> str | None:
        for number in numbers:
            captured = self.group(number)
            if captured is not None:
                return captured
        return None

    @property
    def spans(self) -> tuple[Span | None, ...]:
        """Where the match (first) and its groups are in the Python text."""
        offset = self._subject.python_offset
        return tuple([None if span is None else (offset(span[0]), offset(span[1])) for span in self._raw])

    def __repr__(self) -> str:
        return f"JSMatch({self.start}, {self.end}, {self.text!r}, groups={self.groups!r})"
