r"""Hides the parts of a text that must stay unchanged: code, template syntax, escaped tags.

Each part is replaced by a placeholder; after the rest has been processed, the parts are put back. A NUL in
the text is hidden as well, so that no text can forge a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, cast

from tavernkit._dataclass import dataclass
from tavernkit._values import is_mapping
from tavernkit.errors import ConfigError

EscapeMode = Literal["html_entity", "literal", "keep_backslash"]
r"""What ``\<`` becomes."""

_ESCAPED = "\\<"
_RESTORED: Mapping[EscapeMode, str] = {"html_entity": "&lt;", "literal": "<", "keep_backslash": _ESCAPED}
_PLACEHOLDER = re.compile("\0VT[A-Z]+[0-9]+\0")
_ZONES = (("CODE", "```", "```"), ("INLINE", "`", "`"), ("LIQ", "{{", "}}"), ("LIQTAG", "{%", "%}"))
"""What is hidden, in this order: kind, opening, closing. A zone ends at the first closing mark after its opening."""


@dataclass(frozen=True, slots=True)
class EscapeHatch:
    r"""How to keep a tag as text: with a backslash before its ``<``."""

    enabled: bool = True
    mode: EscapeMode = "html_entity"

    @classmethod
    def from_mapping(cls, value: object) -> EscapeHatch:
        """Read ``{enabled, mode}``; it is off unless ``enabled`` is true."""
        if not is_mapping(value):
            raise ConfigError(
                f"escape_hatch must be an object with enabled and mode, not {value!r}",
                code="ESCAPE_HATCH_NOT_AN_OBJECT",
            )
        mode = value.get("mode", "html_entity")
        if not isinstance(mode, str) or mode not in _RESTORED:
            raise ConfigError(
                f"escape_hatch mode must be one of {', '.join(_RESTORED)}, not {mode!r}", code="ESCAPE_HATCH_MODE"
            )
        return cls(value.get("enabled") is True, cast("EscapeMode", mode))


DEFAULT_ESCAPE_HATCH = EscapeHatch()
"""On, with HTML entities."""


def mask(text: str, escape_hatch: EscapeHatch = DEFAULT_ESCAPE_HATCH) -> tuple[str, dict[str, str]]:
    """Hide the verbatim parts of a text; return it with the original text of each placeholder."""
    placeholders: dict[str, str] = {}
    text = _hide_all(text, "\0", "NUL", "\0", placeholders)
    for kind, opening, closing in _ZONES:
        text = _hide_zones(text, kind, opening, closing, placeholders)
    if escape_hatch.enabled:
        text = _hide_all(text, _ESCAPED, "ESC", _RESTORED[escape_hatch.mode], placeholders)
    return text, placeholders


def unmask(text: str, placeholders: Mapping[str, str]) -> str:
    """Put back what was hidden, parts inside parts included."""

    def restore(found: re.Match[str]) -> str:
        hidden = placeholders.get(found[0])
        if hidden is None:
            return found[0]
        return hidden if hidden == "\0" else _PLACEHOLDER.sub(restore, hidden)

    return _PLACEHOLDER.sub(restore, text) if placeholders else text


def _placeholder(kind: str, stands_for: str, placeholders: dict[str, str]) -> str:
    name = f"\0VT{kind}{len(placeholders)}\0"
    placeholders[name] = stands_for
    return name


def _hide_all(text: str, found: str, kind: str, stands_for: str, placeholders: dict[str, str]) -> str:
    first, *rest = text.split(found)
    return first + "".join([_placeholder(kind, stands_for, placeholders) + part for part in rest])


def _hide_zones(text: str, kind: str, opening: str, closing: str, placeholders: dict[str, str]) -> str:
    pieces: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0:
        end = text.find(closing, start + len(opening))
        if end < 0:
            break
        end += len(closing)
        pieces += [text[at:start], _placeholder(kind, text[start:end], placeholders)]
        at = end
    pieces.append(text[at:])
    return "".join(pieces)
