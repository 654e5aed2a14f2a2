"""Characters as numbers, hexadecimal, hashes and the simple ciphers."""

from __future__ import annotations

import base64
import math
import re

from tavernkit._text.js_values import (
    join_surrogates,
    number_to_string,
    parse_int,
    to_fixed,
    to_integer,
    to_number,
    to_radix_string,
)
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.hashing import pick_hash_rand
from tavernkit.risu_ai._cbs.lists import code_units
from tavernkit.risu_ai._cbs.registry import FunctionGroup

functions = FunctionGroup("encoding")

_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_BASE64 = re.compile("[^A-Za-z0-9+/]")
_DEFAULT_SHIFT = 32768.0


def _character(code: float) -> str:
    """Return the character of a code unit; like ``String.fromCharCode``, accepts any number."""
    return chr(math.trunc(code) % 0x10000) if math.isfinite(code) else "\0"


@functions("unicodeencode", "unicode_encode", args=("text", "index"), pure=True)
def unicodeencode(call: CBSCall) -> str:
    """The number of the character at an index (default 0)."""
    units = code_units(call.text(0))
    index = to_integer(call.number(1))
    return str(ord(units[int(index)])) if 0 <= index < len(units) else "NaN"


@functions("unicodedecode", "unicode_decode", args=("number",), pure=True)
def unicodedecode(call: CBSCall) -> str:
    """The character of a number."""
    return _character(call.number(0))


@functions("u", "unicodedecodefromhex", "ue", "unicodeencodefromhex", args=("hex",), pure=True)
def u(call: CBSCall) -> str:
    """The character of a hexadecimal number."""
    return _character(parse_int(call.shown(0), 16))


@functions("fromhex", args=("hex",), pure=True)
def fromhex(call: CBSCall) -> str:
    """A hexadecimal number in decimal."""
    return number_to_string(parse_int(call.shown(0), 16))


@functions("tohex", args=("number",), pure=True)
def tohex(call: CBSCall) -> str:
    """A number in hexadecimal."""
    return to_radix_string(parse_int(call.shown(0)), 16)


@functions("hash", args=("text",), pure=True)
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


@functions("xor", "xorencrypt", "xorencode", "xore", args=("text",), pure=True)
def xor(call: CBSCall) -> str:
    """A text made unreadable; ``xordecrypt`` makes it readable again."""
    text = call.get(0)
    if text is None:
        return ""
    return base64.b64encode(_inverted(_SURROGATE.sub("\ufffd", text).encode())).decode()


@functions("xordecrypt", "xordecode", "xord", args=("text",), pure=True)
def xordecrypt(call: CBSCall) -> str:
    """What ``xor`` made unreadable."""
    return _inverted(lenient_base64(call.text(0))).decode("utf-8", "replace").removeprefix("\ufeff")


@functions("crypt", "crypto", "caesar", "encrypt", "decrypt", args=("text", "shift"), pure=True)
def crypt(call: CBSCall) -> str:
    """All characters shifted by a number; with the default, shifting twice gives the text back."""
    given = call.get(1)
    shift = to_number(given) if given else math.nan
    if shift != shift:
        shift = _DEFAULT_SHIFT
    return join_surrogates("".join(_shifted(ord(unit) + shift) for unit in code_units(call.text(0))))


def _shifted(code: float) -> str:
    return _character(code - 65536 if code > 65535 else code)
