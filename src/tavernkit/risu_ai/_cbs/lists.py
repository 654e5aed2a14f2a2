"""Lists and objects in CBS texts, and JavaScript's replacement strings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from tavernkit._text.js_values import JSSyntaxError, is_basic, join_surrogates, json_parse, json_stringify, to_string
from tavernkit._values import Json, is_list
from tavernkit.errors import ConfigError
from tavernkit.risu_ai._cbs.limits import CACHED_LISTS, MAX_CHARACTERS, FunctionFailure
from tavernkit.risu_ai.errors import CBSLimitError

SEPARATOR = "§"
"""Separates the items of a list that is not JSON."""

_REPLACEMENT_PATTERN = re.compile(r"\$([$&`'])")
_CACHED_LENGTH = 1000
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def parse_array(text: str) -> list[Json]:
    """Read a list: a JSON array with its types, any other text split at ``§``. Its items must not be changed."""
    if text[:1] != "[" and text.lstrip()[:1] != "[":
        return [*text.split(SEPARATOR)]
    return [*(_parse_short_array(text) if len(text) <= _CACHED_LENGTH and type(text) is str else _parse_array(text))]


def _parse_array(text: str) -> Sequence[Json]:
    try:
        value = json_parse(text)
    except JSSyntaxError:
        return text.split(SEPARATOR)
    return value if is_list(value) else text.split(SEPARATOR)


_parse_short_array = lru_cache(maxsize=CACHED_LISTS)(_parse_array)


def make_array(items: Iterable[object]) -> str:
    """Write a list as JSON; ``::`` in items is written in a way that does not separate arguments."""
    return stringify([item.replace("::", "\\u003A\\u003A") if isinstance(item, str) else item for item in items])


def parse_dict(text: str | None) -> Json:
    """Read JSON of any type; invalid JSON is an empty object."""
    if text is None:
        return {}
    try:
        return json_parse(text)
    except JSSyntaxError:
        return {}


def stringify(value: object) -> str:
    """Write compact JSON."""
    try:
        return json_stringify(value)
    except ConfigError:
        raise FunctionFailure("the value is nested too deeply") from None


def item_text(value: Json) -> str:
    """Print an element: text unchanged, lists and objects as JSON, None as ``null``."""
    if isinstance(value, str):
        return value
    return stringify(value) if isinstance(value, (list, dict)) else to_string(value)


def replace_all(text: str, needle: str, replacement: str, *, limit: int = MAX_CHARACTERS) -> str:
    """Replace every occurrence as JavaScript does: ``$$``, ``$&``, ``$```, ``$'`` in the replacement are special."""
    if not (is_basic(text) and is_basic(needle)):
        return join_surrogates(_replace_all(code_units(text), code_units(needle), replacement, limit))
    return _replace_all(text, needle, replacement, limit)


def _replace_all(text: str, needle: str, replacement: str, limit: int) -> str:
    if "$" in replacement:
        written = _REPLACEMENT_PATTERN.split(replacement)  # alternating plain text and what follows a ``$``
        around = sum(symbol in "`'" for symbol in written[1::2])
        if around:
            return _replace_around(text, needle, written, around, limit)
        written[1::2] = [needle if symbol == "&" else symbol for symbol in written[1::2]]
        replacement = "".join(written)
    if (len(text) + 1) * len(replacement) > limit:
        _check_size(text.count(needle) * len(replacement), limit)
    return text.replace(needle, replacement)


def _replace_around(text: str, needle: str, written: list[str], around: int, limit: int) -> str:
    """Replace with a replacement that repeats the text around it."""
    size = sum(map(len, written[::2])) + (1 + len(needle)) * len(written[1::2])
    _check_size(text.count(needle) * (size + len(text) * around), limit)
    pieces: list[str] = []
    end = 0
    for start in _occurrences(text, needle):
        stop = start + len(needle)
        special = {"$": "$", "&": needle, "`": text[:start], "'": text[stop:]}
        pieces.append(text[end:start])
        pieces += [special[each] if index % 2 else each for index, each in enumerate(written)]
        end = stop
    return "".join(pieces) + text[end:]


def _check_size(characters: int, limit: int) -> None:
    if characters > limit:
        raise CBSLimitError(f"a replacement would make {characters} characters", limit="MAX_CHARACTERS")


def _occurrences(text: str, needle: str) -> Iterable[int]:
    if not needle:
        return range(len(text) + 1)
    return (found.start() for found in re.finditer(re.escape(needle), text))


def code_units(text: str) -> str:
    """Split characters outside the basic plane into surrogates, so that Python counts as JavaScript does."""
    return text if is_basic(text) else _ASTRAL.sub(lambda found: _halves(ord(found[0])), text)


def _halves(code: int) -> str:
    code -= 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))
