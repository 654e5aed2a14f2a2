"""Replaces matches of JavaScript regular expressions in traced texts."""

from __future__ import annotations

from collections.abc import Callable

from tavernkit._text.js_regex import JSMatch, JSRegex
from tavernkit._text.js_regex.template import compile_template
from tavernkit._text.traced import align, join, plain, replaced
from tavernkit.errors import Warn


def replace_traced(
    regex: JSRegex, text: str, replacement: str | Callable[[JSMatch], str], name: str, warn: Warn | None = None
) -> str:
    """Do what ``regex.replace`` does, and keep the origins of the text.

    Args:
        regex: The regular expression.
        text: A traced text.
        replacement: A template, or a function that returns the text for a match.
        name: The script that replaces.
        warn: Called if a search takes too long.
    """
    parts: list[str] = []
    at = 0

    def note(match: JSMatch) -> str:
        nonlocal at
        new = _filled(replacement, match, text) if isinstance(replacement, str) else replacement(match)
        start, end = match.start, match.end
        parts.extend((text[at:start], replaced(new, name, text[start:end])))
        at = end
        return plain(new)

    result = regex.replace(plain(text), note, warn=warn)
    if not parts and result == text:  # nothing was found
        return text
    if isinstance(replacement, str):
        result = regex.replace(plain(text), plain(replacement), warn=warn)
    whole = join("", (*parts, text[at:]))
    # A match may begin or end within a character that is two units in JavaScript, and a template may repeat the text
    # around a match: such texts are compared.
    return whole if whole == result else align(result, text)


def groups_of(match: JSMatch, text: str) -> tuple[str | None, ...]:
    """Return the match and its groups as slices of the traced text."""
    captured = (match.text, *match.groups)
    cut = [None if span is None else text[span[0] : span[1]] for span in match.spans]
    return tuple(own if own == each else each for own, each in zip(cut, captured, strict=True))


def _filled(template: str, match: JSMatch, text: str) -> str:
    groups = groups_of(match, text)
    compiled = compile_template(plain(template), match.pattern.group_count, match.pattern.names)
    pieces: list[str] = []
    for part in compiled.parts:
        if isinstance(part, str):
            pieces.append(part)
        elif isinstance(part, tuple):
            pieces.append(next((each for number in part if (each := groups[number]) is not None), ""))
        elif part >= 0:
            pieces.append(groups[part] or "")
    return join("", pieces)
