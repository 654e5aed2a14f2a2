"""The regular expression engine, called directly or in a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regress

from tavernkit.text.js_regex.match import Found, FoundSpans, offsets_of


@dataclass(frozen=True, slots=True)
class Engine:
    """A pattern as the engine has it. Its ``first_group`` is the whole match to us, the others follow."""

    source: str
    flags: str
    first_group: int
    group_count: int
    regex: regress.Regex

    @classmethod
    def compile(cls, source: str, flags: str, *, first_group: int, group_count: int) -> Engine:
        """Compile a pattern; raises :class:`regress.RegressError`."""
        return cls(source, flags, first_group, group_count, regress.Regex(source, flags))

    def find(self, text: str) -> Found | None:
        """Find the first match, however long it takes."""
        found = self.regex.find(text)
        return (
            found
            if found is None or not self.first_group
            else FoundSpans(offsets_of(found, self.first_group, self.group_count))
        )

    def find_all(self, text: str) -> Sequence[Found]:
        """Find all matches, however long it takes."""
        return list(self.regex.find_iter(text) or ())
