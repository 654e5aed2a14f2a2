"""The settings that macros read, in SillyTavern's own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

NamesBehavior = Literal["none", "force", "always"]
"""When instruct mode writes names in front of messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructSettings:
    """The instruct template in use, as the ``instruct*`` macros and ``{{mesExamples}}`` see it."""

    enabled: bool = False
    story_string_prefix: str = ""
    story_string_suffix: str = ""
    input_sequence: str = ""
    input_suffix: str = ""
    output_sequence: str = ""
    output_suffix: str = ""
    system_sequence: str = ""
    system_suffix: str = ""
    first_input_sequence: str = ""
    last_input_sequence: str = ""
    first_output_sequence: str = ""
    last_output_sequence: str = ""
    last_system_sequence: str = ""
    stop_sequence: str = ""
    user_alignment_message: str = ""
    wrap: bool = False
    macro: bool = True
    names_behavior: NamesBehavior = "force"
    skip_examples: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPromptSettings:
    """The system prompt of text completion."""

    enabled: bool = False
    content: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """The separators of the context template in use."""

    example_separator: str = ""
    chat_start: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningSettings:
    """The marks around a model's reasoning."""

    prefix: str = ""
    suffix: str = ""
    separator: str = ""


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
    summary: str = ""
    image_prefix: str = ""
    image_negative_prefix: str = ""
    expressions: ExpressionSettings = field(default_factory=ExpressionSettings)
