"""Replacement templates: ``$1``, ``$&``, ``$<name>``, ``$$``, ``$` `` and ``$'`` as JavaScript reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import AnyStr, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex.limits import MAX_REPLACED_LENGTH
from tavernkit._text.js_regex.match import Found, Names
from tavernkit._text.js_regex.subject import Subject
from tavernkit._text.js_values.strings import join_surrogates
from tavernkit._values import LRUCache

Part: TypeAlias = "str | int | tuple[int, ...]"
"""Text, the number of a group, or the groups of a name (the one that participated counts)."""

_BEFORE, _AFTER = -1, -2
_SYMBOLS: dict[str, Part] = {"$": "$", "&": 0, "`": _BEFORE, "'": _AFTER}
_TOKEN = re.compile(r"\$(?:([$&`'])|([0-9]{1,2})|<([^>]*)>)")
_CACHE_SIZE = 512


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template."""

    parts: tuple[Part, ...]
    around: tuple[str, int | None, str] | None
    """The text before and after its only group, or all of its text: most templates have this form."""


_cache: LRUCache[tuple[str, int, tuple[tuple[str, tuple[int, ...]], ...]], Template] = LRUCache(_CACHE_SIZE)


def compile_template(template: str, group_count: int, names: Names) -> Template:
    """Read a template for a pattern with these groups; without named groups ``$<`` is text."""
    if "$" not in template:
        return Template((template,), (template, None, ""))
    key = (template, group_count, tuple(names.items()))
    return _cache.get_or_make(key, lambda: _compile(template, group_count, names))


def replace_each(subject: Subject, found: Sequence[Found], replace: Callable[[Found], str]) -> str:
    """Replace each match."""
    pieces: list[str] = []
    at = 0
    for one in found:
        whole = one.range()
        pieces += (subject[at : whole.start], replace(one))
        at = whole.stop
    pieces.append(subject[at:])
    return _join(pieces)


def replace_by_template(subject: Subject, found: Sequence[Found], template: Template) -> str | None:
    """Replace each match with a template; None if the text would become too long."""
    size = len(subject)
    # A template may repeat the whole text several times per match: only then the length is checked.
    longest = sum([len(part) if isinstance(part, str) else size for part in template.parts])
    counted = longest * len(found) > MAX_REPLACED_LENGTH
    replaced = None if counted or template.around is None else _replace_around(subject, found, *template.around)
    if replaced is not None:
        return replaced
    pieces: list[str] = []
    at = length = 0
    for one in found:
        whole = one.range()
        pieces.append(subject[at : whole.start])
        known = len(pieces)
        for part in template.parts:
            if isinstance(part, str):
                pieces.append(part)
                continue
            span = one.group(part) if isinstance(part, int) and part >= 0 else _span(part, one, size)
            if span is not None:
                pieces.append(subject[span])
        at = whole.stop
        if counted:
            length += sum(map(len, pieces[known:]))
            if length > MAX_REPLACED_LENGTH:
                return None
    pieces.append(subject[at:])
    return _join(pieces)


def _replace_around(subject: Subject, found: Sequence[Found], before: str, group: int | None, after: str) -> str | None:
    """Put text around a group of each match; None if this is not possible in the encoded form."""
    if isinstance(subject, str):
        return _join(_pieces(subject, found, before, group, after))
    encoded = subject.encoded(before), subject.encoded(after)
    if encoded[0] is None or encoded[1] is None:
        return None
    return subject.decoded(b"".join(_pieces(subject.data, found, encoded[0], group, encoded[1])))


def _pieces(text: AnyStr, found: Sequence[Found], before: AnyStr, group: int | None, after: AnyStr) -> list[AnyStr]:
    nothing = text[:0]
    pieces: list[AnyStr] = []
    at = 0
    for one in found:
        whole = one.range()
        if group is None:
            pieces += (text[at : whole.start], before)
        else:
            captured = one.group(group) if group else whole
            pieces += (text[at : whole.start], before, nothing if captured is None else text[captured], after)
        at = whole.stop
    pieces.append(text[at:])
    return pieces


def _join(pieces: list[str]) -> str:
    """Join pieces; adjacent halves of a character are joined."""
    return join_surrogates("".join(pieces))


def _span(part: int | tuple[int, ...], found: Found, size: int) -> slice | None:
    if isinstance(part, tuple):
        spans = [found.group(number) for number in part]
        return next((span for span in spans if span is not None), None)
    whole = found.range()
    return slice(0, whole.start) if part == _BEFORE else slice(whole.stop, size)


def _compile(template: str, group_count: int, names: Names) -> Template:
    parts = _parse(template, group_count, names)
    references = [index for index, part in enumerate(parts) if not isinstance(part, str)]
    if not references:
        return Template(tuple(parts), ("".join(map(str, parts)), None, ""))
    group = parts[references[0]] if len(references) == 1 else None
    if not isinstance(group, int) or group < 0:
        return Template(tuple(parts), None)
    before, after = parts[: references[0]], parts[references[0] + 1 :]
    return Template(tuple(parts), ("".join(map(str, before)), group, "".join(map(str, after))))


def _parse(template: str, group_count: int, names: Names) -> list[Part]:
    parts: list[Part] = []
    at = 0
    for token in _TOKEN.finditer(template):
        reference = _reference(token, group_count, names)
        if reference is not None:
            part, end = reference
            parts += [template[at : token.start()], part]
            at = end
    parts.append(template[at:])
    return [part for part in parts if part != ""]


def _reference(token: re.Match[str], group_count: int, names: Names) -> tuple[Part, int] | None:
    """Return the meaning of a token and where it ends; two digits count as one if there are fewer groups."""
    symbol, digits, name = token.groups()
    if symbol is not None:
        return _SYMBOLS[symbol], token.end()
    if digits is None:
        return (names.get(name, ()), token.end()) if names else None
    for length in (2, 1):
        if len(digits) >= length and 1 <= int(digits[:length]) <= group_count:
            return int(digits[:length]), token.start() + 1 + length
    return None
