"""The card text inside pictures: base64 of JSON, or plain JSON."""

from __future__ import annotations

import base64
import binascii
import string

from tavernkit._values import Json
from tavernkit.cards._json_text import dump_json, parse_json
from tavernkit.cards._limits import Limits
from tavernkit.cards.errors import EncryptedCardError, JsonError
from tavernkit.errors import Warn

_URL_SAFE = bytes.maketrans(b"-_", b"+/")
# Deleted with ``translate``: a pattern would make a list of millions of pieces.
_FOREIGN = bytes(set(range(256)) - set(string.ascii_letters.encode() + string.digits.encode() + b"+/"))
_WHITESPACE = string.whitespace.encode()
_ENCRYPTED = b"rcc||"


def decode_base64(data: bytes) -> bytes:
    """Decode base64 leniently: skip other characters, stop at the first ``=``, accept URL-safe letters."""
    letters = data.partition(b"=")[0].translate(_URL_SAFE).translate(None, _FOREIGN)
    usable = len(letters) - (len(letters) % 4 == 1)
    return binascii.a2b_base64(letters[:usable] + b"=" * (-usable % 4))


def decode_payload(data: bytes, *, what: str, limits: Limits, warn: Warn) -> Json:
    """Read a card from the text of a picture; raises ``JsonError`` if it is not JSON."""
    text = data.strip(b"\0\t\n\r ")
    if text.startswith(_ENCRYPTED):
        raise EncryptedCardError(f"{what}: the card is encrypted by RisuAI and needs its password there")
    if text[:1] in (b"{", b"[") or text.startswith(b"\xef\xbb\xbf"):
        warn(f"{what}: plain JSON where base64 is expected")
        return parse_json(text, what=what, warn=warn, limits=limits)
    compact = text.translate(None, _WHITESPACE)
    try:
        decoded = binascii.a2b_base64(compact, strict_mode=True)
    except binascii.Error:
        decoded = decode_base64(compact)
        warn(f"{what}: the base64 has invalid characters, which were skipped")
    if not decoded:
        raise JsonError(f"{what}: the text is empty or not base64")
    return parse_json(decoded, what=what, warn=warn, limits=limits)


def encode_payload(card: object) -> bytes:
    """Write a card as the text of a picture."""
    return base64.b64encode(dump_json(card).encode())
