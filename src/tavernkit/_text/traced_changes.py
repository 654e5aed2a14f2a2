"""Changes of traced texts: by regular expressions of JavaScript, and by code that returns plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tavernkit._text.js_regex import JSMatch, JSRegex
from tavernkit._text.js_regex.match import compile_template
from tavernkit._text.traced import (
    Change,
    Piece,
    Traced,
    Via,
    changed,
    follows,
    is_tracing,
    join,
    pieces_of,
    plain,
    with_pieces,
)
from tavernkit.errors import Warn

MAX_ALIGNED_WORDS = 4000
"""Texts with more words than this are not compared with their originals."""

ALIGNED = Change("aligned", "", "")
"""The change of pieces that were found by comparing a text with its original."""


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
    edits: list[tuple[int, int, str]] = []

    def note(match: JSMatch) -> str:
        new = _filled(replacement, match, text) if isinstance(replacement, str) else replacement(match)
        edits.append((match.start, match.end, new))
        return plain(new)

    result = regex.replace(plain(text), note, warn=warn)
    if not edits and result == text:  # nothing was found
        return text
    if isinstance(replacement, str):
        result = regex.replace(plain(text), plain(replacement), warn=warn)
    return same_or_aligned(edited(text, edits, name), result, text)


def same_or_aligned(made: str, result: str, text: str) -> str:
    """Return a traced result if it is right.

    A match may begin or end within a character that is two units in JavaScript, and a template may repeat the text
    around a match: such texts are compared.

    Args:
        made: The result, made by edits.
        result: The true result.
        text: The text before.
    """
    return made if made == result else align(result, text)


def edited(text: str, edits: Iterable[tuple[int, int, str]], name: str) -> str:
    """Return a traced text after a script replaced parts of it.

    Args:
        text: The text.
        edits: Start and end of each part, in order, with its replacement.
        name: The script.
    """
    words, pieces = plain(text), list[Piece]()
    parts: list[str] = []
    at = shift = 0
    for start, end, new in edits:
        if start > at:
            _keep(pieces, text, at, start, shift)
            parts.append(words[at:start])
        if new:
            change, place = Change("replaced", name, text[start:end]), start + shift
            for low, high, origin, offset, via in pieces_of(new):
                pieces.append((place + low, place + high, origin, offset, Via(change, via)))
            parts.append(plain(new))
        at = end
        shift += len(new) - (end - start)
    if at < len(words):
        _keep(pieces, text, at, len(words), shift)
        parts.append(words[at:])
    return with_pieces("".join(parts), tuple(pieces)) if pieces else ""


def _keep(pieces: list[Piece], text: str, start: int, end: int, shift: int) -> None:
    """Add the pieces of a part of a text that moves with the text before it."""
    known = pieces_of(text)
    if len(known) == 1:
        _, _, origin, offset, via = known[0]
        known = ((0, end - start, origin, offset + start, via),)
    else:
        known = pieces_of(text[start:end])
    place = start + shift
    if pieces and follows(pieces[-1], known[0]):
        first, _, origin, offset, via = pieces[-1]
        pieces[-1] = first, place + known[0][1], origin, offset, via
        known = known[1:]
    for low, high, origin, offset, via in known:
        pieces.append((place + low, place + high, origin, offset, via))


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


def rewritten(new: str, old: str, name: str) -> str:
    """Return a text that other code made from an original; common parts are found by comparing."""
    if not is_tracing() or isinstance(new, Traced) or not new:
        return new
    return old if new == old else changed(align(new, old), Change("replaced", name, old))


def align(new: str, *old: str) -> str:
    """Find the parts of texts that remain in a text made from them by untraced code."""
    if not is_tracing() or isinstance(new, Traced) or not any(isinstance(each, Traced) for each in old):
        return new
    from difflib import SequenceMatcher

    parts: list[str] = []
    before = join("", old)
    words, known = _WORD.findall(new), _WORD.findall(before)
    if len(words) > MAX_ALIGNED_WORDS or len(known) > MAX_ALIGNED_WORDS:
        return new
    starts = [0]
    for word in known:
        starts.append(starts[-1] + len(word))
    at = 0
    for block in SequenceMatcher(None, known, words, autojunk=False).get_matching_blocks():
        parts.append("".join(words[at : block.b]))
        parts.append(changed(before[starts[block.a] : starts[block.a + block.size]], ALIGNED))
        at = block.b + block.size
    return join("", parts)


_WORD = re.compile(r"\s+|\w+|[^\w\s]")
