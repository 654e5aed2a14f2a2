"""JSON as SillyTavern writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def json_text(value: Mapping[str, object], *, indent: int | None = None) -> str:
    """Write an object; half a surrogate pair, which no file can hold, is escaped as browsers do."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
