"""What macros read of notes and extensions, in SillyTavern's own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorsNotes:
    """The author's notes: of the chat, of the character, and the default one."""

    chat: str = ""
    character: str = ""
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionSettings:
    """What the expressions extension knows. ``last`` maps a character's name to its latest sprite label."""

    fallback: str = ""
    show_emoji: bool = False
    labels: Sequence[str] = ()
    last: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionValues:
    """What SillyTavern's bundled extensions put into macros."""

    enabled: Sequence[str] = ()
    summary: str | None = ""
    """What the user wrote as the summary; None if the extension is switched off, which takes its macro along."""
    image_prefix: str = ""
    image_negative_prefix: str = ""
    expressions: ExpressionSettings = field(default_factory=ExpressionSettings)
