"""Find and replace of regex scripts: patterns, references, trim strings and macros."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

from tavernkit._text.js_regex import JSMatch, JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import number_to_string
from tavernkit._text.traced import join, plain
from tavernkit._text.traced_changes import groups_of
from tavernkit.errors import TavernKitError

MAX_RESULT_CHARACTERS = 10_000_000
"""The maximum length of a script's result. Scripts with longer results are not applied."""

MAX_WORK = 10_000_000
"""How much a script may do in one text: references filled, characters trimmed, macros expanded."""

WORK_OF_A_RUN = 8
"""How much of that counts as one run of a script in a build."""

TRIM_WORK = 50
"""The cost of a trim string, besides the characters that are searched."""

MACRO_WORK = 1000
"""The cost of a match with macros, besides the characters that are searched."""

COMPILED_PATTERNS = 1000
"""Parsed pattern texts (SillyTavern's own number) and replacements that are kept."""

_LINE = "[^\n\r\u2028\u2029]"
_PATTERN = re.compile(rf"(/?)({_LINE}+)\1([a-zA-Z]*)")
_ACCEPTED_FLAGS = frozenset("gmixXsuUAJ")
_MATCH_MACRO = re.compile(r"\{\{match\}\}", re.IGNORECASE)
_REFERENCE = re.compile(r"\$(?:([0-9]+)|<([^>]+)>)")
_NUMBER = re.compile(r"\$([0-9]+)")
_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\/|()\n\r\t\v\f\0]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\f": "\\f", "\0": "\\0"}


class ExpandScriptText(Protocol):
    """Expands macros: ``character`` replaces the name of the character, ``escape`` is applied to each macro's value."""

    def __call__(
        self, text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None
    ) -> str:
        """Expand the macros of a text."""
        ...


class RegexScriptError(TavernKitError):
    """A script cannot be applied to a text (strict mode); ``code`` is stable for programs."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


@lru_cache(COMPILED_PATTERNS)
def regex_from_string(text: str) -> JSRegex | None:
    """Read the pattern of a script, with or without slashes; None if it is not a valid regular expression."""
    # SillyTavern does not anchor this: what is after the flags is ignored, and only one line of the text is read.
    found = _PATTERN.search(text)
    if found is None:
        return None
    body, flags = found[2], found[3]
    try:
        if flags and (len(set(flags)) != len(flags) or not _ACCEPTED_FLAGS.issuperset(flags)):
            return JSRegex.compile(text)  # slashes and flags included
        return JSRegex.compile(body, flags)
    except JSRegexSyntaxError:
        return None


def escape_macro_value(value: str) -> str:
    """Escape the value of a macro so that it is literal in a pattern, hyphens in classes excepted."""
    return _SPECIAL.sub(lambda found: _ESCAPES.get(found[0]) or f"\\{found[0]}", value)


class Replacement:
    """Makes the replacement of a match."""

    def __init__(
        self, replace_string: str, trim_strings: Sequence[str], *, expand: ExpandScriptText, character: str | None
    ) -> None:
        # The text between references, the number or the name of one, and so on.
        self._pieces = _split_references(plain(replace_string))
        self._trim_strings = trim_strings
        self._expand = expand
        self._character = character
        self._size = 0
        self.work = 0
        self._matches: list[JSMatch] | None = None
        self.searched: str = ""
        """The text that is searched, if its parts are traced."""

    def collect(self, matches: list[JSMatch]) -> None:
        """Put all matches into a list."""
        self._matches = matches

    def again(self, searched: str) -> None:
        """Forget what was done for another text.

        Args:
            searched: The traced text that is searched now.
        """
        self.searched = searched
        self.work = self._size = 0

    def __call__(self, match: JSMatch) -> str:
        """The text for a match."""
        pieces = self._pieces
        if self._matches is not None:
            self._matches.append(match)
        self._take(2 * len(pieces))
        filled = pieces[0] or ""
        if len(pieces) > 1:
            groups = groups_of(match, self.searched) if self.searched else (match.text, *match.groups)
            values = [
                (self._value(pieces[index], pieces[index + 1], match, groups), pieces[index + 2] or "")
                for index in range(1, len(pieces), 3)
            ]
            filled += join("", (text for pair in values for text in pair))
        if "{{" in filled:
            self._take(MACRO_WORK + len(filled))
        replaced = self._expand(filled)
        self._size += len(replaced)
        if self._size > MAX_RESULT_CHARACTERS:
            raise RegexScriptError(f"it makes more than {MAX_RESULT_CHARACTERS} characters", code="TOO_LONG")
        return replaced

    def _take(self, work: int) -> None:
        self.work += work
        if self.work > MAX_WORK:
            raise RegexScriptError("it has too much to do for its many matches", code="TOO_LONG")

    def _value(self, digits: str | None, name: str | None, match: JSMatch, groups: Sequence[str | None]) -> str:
        value = match.named.get(name) if name else self._argument(digits or "", match, groups)
        return self._trimmed(value) if value else ""

    def _argument(self, digits: str, match: JSMatch, groups: Sequence[str | None]) -> str | None:
        """Return the value of a number: the match, its groups, then the offset and the whole text."""
        significant = digits.lstrip("0") or "0"
        number = int(significant) if len(significant) <= 4 else len(groups) + 3
        if number < len(groups):
            return groups[number]
        if number == len(groups):
            offset = match.utf16_start
            if offset and self._trim_strings:
                raise RegexScriptError(
                    f"${digits} is a number, which trim strings cannot be taken from", code="type_error"
                )
            return number_to_string(offset) if offset else None  # the offset 0 is falsy, and so no text
        if number == len(groups) + 1:
            return match.input
        if number == len(groups) + 2 and match.named:
            raise RegexScriptError(f"${digits} is the set of named groups, which is not text", code="type_error")
        return None

    def _trimmed(self, value: str) -> str:
        for trim_string in self._trim_strings:
            self._take(TRIM_WORK + len(value))
            # Only here does SillyTavern use the speaker's name for the character.
            unwanted = self._expand(trim_string, character=self._character)
            value = value.replace(unwanted, "") if unwanted else value
        return value


@lru_cache(maxsize=COMPILED_PATTERNS)
def _split_references(replace_string: str) -> Sequence[str | None]:
    """Split a replacement into text, number, name, text, number, name, and so on up to a last text."""
    # In SillyTavern, too, a digit after the macro changes its meaning: `{{match}}1` is the first group.
    template = _MATCH_MACRO.sub("$0", replace_string)
    pieces: list[str | None] = []
    # After the last ">" there are no names, and searching for the end of each would take quadratic time.
    at, end = 0, template.rfind(">") + 1
    for found in _REFERENCE.finditer(template, 0, end):
        pieces += (template[at : found.start()], found[1], found[2])
        at = found.end()
    for found in _NUMBER.finditer(template, end):
        pieces += (template[at : found.start()], found[1], None)
        at = found.end()
    return (*pieces, template[at:])
