"""The regular expression engine, called directly or in a worker process."""

from __future__ import annotations

from collections.abc import Sequence

import regress

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex.emit import stand_in_source
from tavernkit._text.js_regex.match import Found, FoundSpans, offsets_of


@dataclass(frozen=True, slots=True)
class Engine:
    """A pattern compiled for the engine. Its ``first_group`` is our whole match, the other groups follow.

    A ``heavy`` pattern is too expensive to compile in this process: its ``regex`` is a simpler pattern, which only
    proves that it can be compiled, and searches run in a worker process.
    """

    source: str
    flags: str
    first_group: int
    group_count: int
    regex: regress.Regex
    heavy: bool

    @classmethod
    def compile(cls, source: str, flags: str, *, first_group: int, group_count: int, heavy: bool = False) -> Engine:
        """Compile a pattern; raises ``regress.RegressError``."""
        regex = regress.Regex(stand_in_source(source) if heavy else source, flags)
        return cls(source, flags, first_group, group_count, regex, heavy)

    def find(self, text: str) -> Found | None:
        """Find the first match, without a time limit."""
        found = self._exact().find(text)
        return (
            found
            if found is None or not self.first_group
            else FoundSpans(offsets_of(found, self.first_group, self.group_count))
        )

    def find_all(self, text: str) -> Sequence[Found]:
        """Find all matches, without a time limit."""
        return list(self._exact().find_iter(text) or ())

    def _exact(self) -> regress.Regex:
        return regress.Regex(self.source, self.flags) if self.heavy else self.regex
