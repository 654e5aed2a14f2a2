"""Text: searching, cutting, case, and the text before a tag. Characters are UTF-16 code units, as in JavaScript."""

from __future__ import annotations

import re

from tavernkit._text.js_values import WHITESPACE, join, join_surrogates, js_lower, js_upper, trim_end, utf16_length
from tavernkit._text.js_values import trim as js_trim
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.limits import MAX_CHARACTERS
from tavernkit.risu_ai._cbs.lists import code_units, make_array, replace_all
from tavernkit.risu_ai._cbs.registry import FunctionGroup
from tavernkit.risu_ai._cbs.signals import FunctionFailure
from tavernkit.risu_ai._cbs.source import joined

functions = FunctionGroup("text")

_NO_NUMBER = re.compile(f"[^0-9.{re.escape(WHITESPACE)}]")


@functions("startswith", args=("text", "start"), pure=True)
def startswith(call: CBSCall) -> str:
    """True if a text starts with another."""
    return "1" if code_units(call.text(0)).startswith(code_units(call.shown(1))) else "0"


@functions("endswith", args=("text", "end"), pure=True)
def endswith(call: CBSCall) -> str:
    """True if a text ends with another."""
    return "1" if code_units(call.text(0)).endswith(code_units(call.shown(1))) else "0"


@functions("contains", args=("text", "part"), pure=True)
def contains(call: CBSCall) -> str:
    """True if a text contains another."""
    return "1" if code_units(call.shown(1)) in code_units(call.text(0)) else "0"


@functions("replace", args=("text", "old", "new"), pure=True)
def replace(call: CBSCall) -> str:
    """All occurrences replaced; ``$$``, ``$&``, ``$``` and ``$'`` in the new text are special."""
    return replace_all(call.text(0), call.shown(1), call.shown(2))


@functions("split", args=("text", "separator"), pure=True)
def split(call: CBSCall) -> str:
    """The parts of a text as a list; an empty separator gives single characters."""
    text, separator = call.text(0), call.get(1)
    if separator is None:
        return make_array([text])
    units = code_units(text)
    return make_array(units.split(code_units(separator)) if separator else list(units))


def _joined(call: CBSCall, separator: str) -> str:
    items = call.array(0)
    if len(items) * len(separator) > MAX_CHARACTERS:
        raise FunctionFailure("the result would be too large")
    return join(items, separator)


@functions("join", args=("list", "separator"), pure=True)
def join_(call: CBSCall) -> str:
    """The items of a list as one text, with commas if no separator is given."""
    separator = call.get(1)
    return _joined(call, "," if separator is None else separator)


@functions("spread", args=("list",), pure=True)
def spread(call: CBSCall) -> str:
    """The items of a list as arguments for the tag around."""
    return _joined(call, "::")


@functions("trim", args=("text",), pure=True)
def trim(call: CBSCall) -> str:
    """A text without white space at its ends."""
    return js_trim(call.text(0))


@functions("length", args=("text",), pure=True)
def length(call: CBSCall) -> str:
    """The length of a text."""
    return str(utf16_length(call.text(0)))


@functions("lower", args=("text",), pure=True)
def lower(call: CBSCall) -> str:
    """A text in lower case."""
    return js_lower(call.text(0))


@functions("upper", args=("text",), pure=True)
def upper(call: CBSCall) -> str:
    """A text in upper case."""
    return js_upper(call.text(0))


@functions("capitalize", args=("text",), pure=True)
def capitalize(call: CBSCall) -> str:
    """A text with its first letter in upper case."""
    units = code_units(call.text(0))
    return join_surrogates(js_upper(units[:1]) + units[1:])


@functions("reverse", args=("text",), pure=True)
def reverse(call: CBSCall) -> str:
    """The whole tag backwards, including its name."""
    return join_surrogates(call.tag)[::-1]


@functions("tonumber", args=("text",), pure=True)
def tonumber(call: CBSCall) -> str:
    """The digits, dots and white space of a text."""
    return _NO_NUMBER.sub("", call.text(0))


def _written(call: CBSCall) -> str:
    """Return the text before the tag; the whole text counts as work each time."""
    text = joined(call.buffer)
    call.run.session.step(len(text) >> 8)
    return trim_end(text)


@functions("bkspc", edits=True)
def bkspc(call: CBSCall) -> str:
    """Remove the last word before the tag."""
    text = _written(call)
    cut = max(text.rfind(" "), text.rfind("\n"), text.rfind("\t"), 0)
    call.buffer[:] = [trim_end(text[:cut])]
    return ""


@functions("erase", edits=True)
def erase(call: CBSCall) -> str:
    """Remove the unfinished last sentence before the tag."""
    text = _written(call)
    cut = max(text.rfind(end) for end in ".!?\n") + 1
    call.buffer[:] = [trim_end(text[:cut])]
    return ""
