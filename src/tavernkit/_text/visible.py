"""Makes untrusted texts safe for terminals."""

from __future__ import annotations

import re

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Show control characters instead of sending them: a card must not control the terminal."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n"))
