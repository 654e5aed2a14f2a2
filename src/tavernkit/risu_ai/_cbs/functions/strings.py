"""Text: searching, cutting, case, the text before a tag; characters as numbers, hexadecimal, hashes, simple ciphers.

Characters are UTF-16 code units, as in JavaScript.
"""

from __future__ import annotations

import base64
import math
import re

from tavernkit._text.js_values import (
    WHITESPACE,
    join,
    join_surrogates,
    js_lower,
    js_upper,
    number_to_string,
    parse_int,
    to_fixed,
    to_integer,
    to_number,
    to_radix_string,
    trim_end,
    utf16_length,
)
from tavernkit._text.js_values import trim as js_trim
from tavernkit.risu_ai._cbs.hashing import pick_hash_rand
from tavernkit.risu_ai._cbs.limits import MAX_CHARACTERS, FunctionFailure
from tavernkit.risu_ai._cbs.lists import make_array
from tavernkit.risu_ai._cbs.registry import CBSCall, FunctionGroup
from tavernkit.risu_ai._cbs.source import joined
from tavernkit.risu_ai._js import code_units, replace_within

text_functions = FunctionGroup("text")

_NO_NUMBER = re.compile(f"[^0-9.{re.escape(WHITESPACE)}]")


@text_functions("startswith", args=("text", "start"), pure=True)
def startswith(call: CBSCall) -> str:
    """True if a text starts with another."""
    return "1" if code_units(call.text(0)).startswith(code_units(call.shown(1))) else "0"


@text_functions("endswith", args=("text", "end"), pure=True)
def endswith(call: CBSCall) -> str:
    """True if a text ends with another."""
    return "1" if code_units(call.text(0)).endswith(code_units(call.shown(1))) else "0"


@text_functions("contains", args=("text", "part"), pure=True)
def contains(call: CBSCall) -> str:
    """True if a text contains another."""
    return "1" if code_units(call.shown(1)) in code_units(call.text(0)) else "0"


@text_functions("replace", args=("text", "old", "new"), pure=True)
def replace(call: CBSCall) -> str:
    """All occurrences replaced; ``$$``, ``$&``, ``$``` and ``$'`` in the new text are special."""
    return replace_within(MAX_CHARACTERS, call.text(0), call.shown(1), call.shown(2))


@text_functions("split", args=("text", "separator"), pure=True)
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


@text_functions("join", args=("list", "separator"), pure=True)
def join_(call: CBSCall) -> str:
    """The items of a list as one text, with commas if no separator is given."""
    separator = call.get(1)
    return _joined(call, "," if separator is None else separator)


@text_functions("spread", args=("list",), pure=True)
def spread(call: CBSCall) -> str:
    """The items of a list as arguments for the tag around."""
    return _joined(call, "::")


@text_functions("trim", args=("text",), pure=True)
def trim(call: CBSCall) -> str:
    """A text without white space at its ends."""
    return js_trim(call.text(0))


@text_functions("length", args=("text",), pure=True)
def length(call: CBSCall) -> str:
    """The length of a text."""
    return str(utf16_length(call.text(0)))


@text_functions("lower", args=("text",), pure=True)
def lower(call: CBSCall) -> str:
    """A text in lower case."""
    return js_lower(call.text(0))


@text_functions("upper", args=("text",), pure=True)
def upper(call: CBSCall) -> str:
    """A text in upper case."""
    return js_upper(call.text(0))


@text_functions("capitalize", args=("text",), pure=True)
def capitalize(call: CBSCall) -> str:
    """A text with its first letter in upper case."""
    units = code_units(call.text(0))
    return join_surrogates(js_upper(units[:1]) + units[1:])


@text_functions("reverse", args=("text",), pure=True)
def reverse(call: CBSCall) -> str:
    """The whole tag backwards, including its name."""
    return join_surrogates(call.tag)[::-1]


@text_functions("tonumber", args=("text",), pure=True)
def tonumber(call: CBSCall) -> str:
    """The digits, dots and white space of a text."""
    return _NO_NUMBER.sub("", call.text(0))


def _written(call: CBSCall) -> str:
    """Return the text before the tag; the whole text counts as work each time."""
    text = joined(call.buffer)
    call.run.session.step(len(text) >> 8)
    return trim_end(text)


@text_functions("bkspc", edits=True)
def bkspc(call: CBSCall) -> str:
    """Remove the last word before the tag."""
    text = _written(call)
    cut = max(text.rfind(" "), text.rfind("\n"), text.rfind("\t"), 0)  # other white space joins words
    call.buffer[:] = [trim_end(text[:cut])]
    return ""


@text_functions("erase", edits=True)
def erase(call: CBSCall) -> str:
    """Remove the unfinished last sentence before the tag."""
    text = _written(call)
    cut = max(text.rfind(end) for end in ".!?\n") + 1  # full stops of other scripts do not end a sentence
    call.buffer[:] = [trim_end(text[:cut])]
    return ""


encoding_functions = FunctionGroup("encoding")

_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_BASE64 = re.compile("[^A-Za-z0-9+/]")
_DEFAULT_SHIFT = 32768.0


def _character(code: float) -> str:
    """Return the character of a code unit; like ``String.fromCharCode``, accepts any number."""
    return chr(math.trunc(code) % 0x10000) if math.isfinite(code) else "\0"


@encoding_functions("unicodeencode", "unicode_encode", args=("text", "index"), pure=True)
def unicodeencode(call: CBSCall) -> str:
    """The number of the character at an index (default 0)."""
    units = code_units(call.text(0))
    index = to_integer(call.number(1))
    return str(ord(units[int(index)])) if 0 <= index < len(units) else "NaN"


@encoding_functions("unicodedecode", "unicode_decode", args=("number",), pure=True)
def unicodedecode(call: CBSCall) -> str:
    """The character of a number."""
    return _character(call.number(0))


# `ue` decodes like `u`, although its long name says that it encodes.
@encoding_functions("u", "unicodedecodefromhex", "ue", "unicodeencodefromhex", args=("hex",), pure=True)
def u(call: CBSCall) -> str:
    """The character of a hexadecimal number."""
    return _character(parse_int(call.shown(0), 16))


@encoding_functions("fromhex", args=("hex",), pure=True)
def fromhex(call: CBSCall) -> str:
    """A hexadecimal number in decimal."""
    return number_to_string(parse_int(call.shown(0), 16))


@encoding_functions("tohex", args=("number",), pure=True)
def tohex(call: CBSCall) -> str:
    """A number in hexadecimal."""
    return to_radix_string(parse_int(call.shown(0)), 16)


@encoding_functions("hash", args=("text",), pure=True)
def hash_(call: CBSCall) -> str:
    """A number of seven digits that is always the same for the same text."""
    return to_fixed(pick_hash_rand(0, call.text(0)) * 10_000_000 + 1).rjust(7, "0")


def _inverted(data: bytes) -> bytes:
    return bytes(byte ^ 0xFF for byte in data)


def lenient_base64(text: str) -> bytes:
    """Decode base64 like JavaScript's Buffer: invalid characters are skipped."""
    kept = _NO_BASE64.sub("", text.partition("=")[0].replace("-", "+").replace("_", "/"))
    if len(kept) % 4 == 1:
        kept = kept[:-1]
    return base64.b64decode(kept + "=" * (-len(kept) % 4))


@encoding_functions("xor", "xorencrypt", "xorencode", "xore", args=("text",), pure=True)
def xor(call: CBSCall) -> str:
    """A text made unreadable; ``xordecrypt`` makes it readable again."""
    text = call.get(0)
    if text is None:
        return ""
    return base64.b64encode(_inverted(_SURROGATE.sub("\ufffd", text).encode())).decode()


@encoding_functions("xordecrypt", "xordecode", "xord", args=("text",), pure=True)
def xordecrypt(call: CBSCall) -> str:
    """What ``xor`` made unreadable."""
    return _inverted(lenient_base64(call.text(0))).decode("utf-8", "replace").removeprefix("\ufeff")


@encoding_functions("crypt", "crypto", "caesar", "encrypt", "decrypt", args=("text", "shift"), pure=True)
def crypt(call: CBSCall) -> str:
    """All characters shifted by a number; with the default, shifting twice gives the text back."""
    given = call.get(1)
    shift = to_number(given) if given else math.nan
    if shift != shift:
        shift = _DEFAULT_SHIFT
    return join_surrogates("".join(_shifted(ord(unit) + shift) for unit in code_units(call.text(0))))


def _shifted(code: float) -> str:
    return _character(code - 65536 if code > 65535 else code)  # subtracted before the fraction is cut
