"""Column types that accept any data from clients and models, in every database."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

from tavernkit._values import is_object, is_sequence

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str | None) -> str | None:
    """What a column of texts holds of a text."""
    return text if text is None or _UNSTORABLE.search(text) is None else storable(text)


def storable(text: str) -> str:
    """Replace characters that PostgreSQL and UTF-8 cannot store: NUL and lone surrogates."""
    return _UNSTORABLE.sub("\ufffd", text) if _UNSTORABLE.search(text) else text


def storable_json(value: object) -> Any:
    """The same for every text of a JSON value; numbers that JSON cannot represent become null."""
    if isinstance(value, str):
        return storable(value)
    if is_object(value):
        return {storable(key): storable_json(item) for key, item in value.items()}
    if is_sequence(value):
        return [storable_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class CleanText(TypeDecorator[str]):
    """Text without characters that some databases refuse."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Clean a value before it is stored."""
        return clean_text(value)


def dump_json(value: object) -> str:
    """Write JSON for a column, like ``storable_json()``, but without copying clean values."""
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except ValueError:  # an invalid JSON number, or a lone surrogate
        return _ENCODER.encode(storable_json(value))
    return _ENCODER.encode(storable_json(value)) if _ESCAPED_NUL in text else text


_ESCAPED_NUL = "\\u0000"
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)
