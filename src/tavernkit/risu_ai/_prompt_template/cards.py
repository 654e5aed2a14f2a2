"""A prompt template: its cards, and its own switches (RisuAI's ``promptSettings``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_mapping,
    shown,
    thaw_object,
)
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._files.json_reader import JsonReader


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSettings:
    """Switches that act only while a prompt template is in use. ``assistant_prefill`` is stored but never used."""

    assistant_prefill: str = ""
    post_end_inner_format: str = ""
    """A system message for the end of the prompt."""
    send_chat_as_system: bool = False
    """True to send the chat as system messages."""
    send_name: bool = False
    """True to put the speaker's name before every message."""
    util_override: bool = False
    """True to use the template for utility bots too, instead of RisuAI's own for them."""
    custom_chain_of_thought: bool = False
    """True leaves out RisuAI's instruction to think: the template has its own."""
    max_thought_tag_depth: float = -1
    """How many of the newest messages keep their thoughts; -1 for all."""
    trim_start_new_chat: bool = False
    """True sends the line that starts the chat to NovelAI's models too, whatever its name says."""

    @classmethod
    def from_json(cls, data: Mapping[str, object], warn: Warn = log_warning) -> PromptSettings:
        """Read the switches.

        Args:
            data: The object ``promptSettings``.
            warn: Called with each warning.
        """
        reader = JsonReader(data, "promptSettings", warn)
        return cls(
            assistant_prefill=reader.text("assistantPrefill"),
            post_end_inner_format=reader.text("postEndInnerFormat"),
            send_chat_as_system=reader.flag("sendChatAsSystem"),
            send_name=reader.flag("sendName"),
            util_override=reader.flag("utilOverride"),
            custom_chain_of_thought=reader.flag("customChainOfThought"),
            max_thought_tag_depth=reader.number("maxThoughtTagDepth", -1),
            trim_start_new_chat=reader.flag("trimStartNewChat"),
        )

    def to_json(self) -> JsonObject:
        """Write the switches with RisuAI's keys."""
        written: JsonObject = {
            "assistantPrefill": self.assistant_prefill,
            "postEndInnerFormat": self.post_end_inner_format,
            "sendChatAsSystem": self.send_chat_as_system,
            "sendName": self.send_name,
            "utilOverride": self.util_override,
            "customChainOfThought": self.custom_chain_of_thought,
            "maxThoughtTagDepth": self.max_thought_tag_depth,
        }
        if self.trim_start_new_chat:
            written["trimStartNewChat"] = True
        return written


END: Literal["end"] = "end"
EVERYTHING = -1000
"""A ``rangeStart`` that stands for the whole chat."""

ROLES: Mapping[str, str] = {"user": "user", "bot": "assistant", "system": "system"}
"""The roles a card may have and what they are in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCard:
    """A text of its own: ``plain``, ``jailbreak`` (if switched on) or ``cot`` (with chain of thought)."""

    type: str = "plain"
    type2: str = "normal"
    text: str = ""
    role: str = "system"
    name: str = ""

    @property
    def location(self) -> str:
        """The name lore uses to inject into it."""
        return self.type2 if self.type == "plain" else self.type


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMLCard:
    """Messages written in ChatML."""

    type: str = "chatML"
    text: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCard:
    """A place for a slot: ``persona``, ``description``, ``lorebook``, ``postEverything`` or ``memory``."""

    type: str
    inner_format: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorNoteCard:
    """The place of the author's note, with a text for chats that have none."""

    type: str = "authornote"
    inner_format: str = ""
    default_text: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCard:
    """A part of the chat: from ``range_start`` up to ``range_end``; negative numbers count from the end."""

    type: str = "chat"
    range_start: float = 0
    range_end: float | Literal["end"] = END
    as_original_on_system: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCard:
    """A cache point on the latest ``depth`` messages of a role printed so far."""

    type: str = "cache"
    depth: float = 0
    role: str = "all"
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCard:
    """A card of a kind that RisuAI 2026.1.90 does not have; it prints nothing."""

    type: str
    raw: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)


TemplateCard: TypeAlias = PlainCard | ChatMLCard | SlotCard | AuthorNoteCard | ChatCard | CacheCard | UnknownCard


def read_card(value: Mapping[str, object], where: str = "prompt template", warn: Warn = log_warning) -> TemplateCard:
    """Read a card as RisuAI stores it."""
    reader = JsonReader(value, where, warn)
    kind = reader.text("type")
    make = _READERS.get(kind)
    if make is None:
        warn(f"{where}: there is no card of type {kind!r}; it prints nothing")
        return UnknownCard(type=kind, raw=freeze_object(value))
    return make(kind, reader)


def read_cards(values: Sequence[object], warn: Warn = log_warning) -> tuple[TemplateCard, ...]:
    """Read a template; what is not an object is left out with a warning."""
    cards: list[TemplateCard] = []
    for number, value in enumerate(values, start=1):
        where = f"prompt template, card {number}"
        if is_mapping(value):
            cards.append(read_card(value, where, warn))
        else:
            warn(f"{where} is {shown(value)}, not an object; it is left out")
    return tuple(cards)


def _plain(kind: str, reader: JsonReader) -> TemplateCard:
    return PlainCard(
        type=kind,
        type2=reader.text("type2", "normal"),
        text=reader.text("text"),
        role=reader.text("role"),
        name=reader.text("name"),
    )


def _chat_ml(_: str, reader: JsonReader) -> TemplateCard:
    return ChatMLCard(text=reader.text("text"), name=reader.text("name"))


def _slot(kind: str, reader: JsonReader) -> TemplateCard:
    return SlotCard(type=kind, inner_format=reader.text("innerFormat"), name=reader.text("name"))


def _author_note(_: str, reader: JsonReader) -> TemplateCard:
    return AuthorNoteCard(
        inner_format=reader.text("innerFormat"), default_text=reader.text("defaultText"), name=reader.text("name")
    )


def _chat(_: str, reader: JsonReader) -> TemplateCard:
    ends = reader.data.get("rangeEnd")
    return ChatCard(
        range_start=reader.number("rangeStart", 0),
        range_end=END if ends is None or ends == END else reader.number("rangeEnd", 0),
        as_original_on_system=reader.flag("chatAsOriginalOnSystem"),
        name=reader.text("name"),
    )


def _cache(_: str, reader: JsonReader) -> TemplateCard:
    return CacheCard(depth=reader.number("depth", 0), role=reader.text("role", "all"), name=reader.text("name"))


_SLOT_TYPES = ("persona", "description", "lorebook", "postEverything", "memory")
_READERS: Mapping[str, Callable[[str, JsonReader], TemplateCard]] = {
    **dict.fromkeys(("plain", "jailbreak", "cot"), _plain),
    **dict.fromkeys(_SLOT_TYPES, _slot),
    "chatML": _chat_ml,
    "authornote": _author_note,
    "chat": _chat,
    "cache": _cache,
}

_KEYS: Mapping[type, Sequence[tuple[str, str]]] = {
    PlainCard: (("type2", "type2"), ("text", "text"), ("role", "role")),
    ChatMLCard: (("text", "text"),),
    SlotCard: (),
    AuthorNoteCard: (),
    ChatCard: (("rangeStart", "range_start"), ("rangeEnd", "range_end")),
    CacheCard: (("depth", "depth"), ("role", "role")),
}
_OPTIONAL = (
    ("innerFormat", "inner_format"),
    ("defaultText", "default_text"),
    ("chatAsOriginalOnSystem", "as_original_on_system"),
    ("name", "name"),
)


def write_card(card: TemplateCard) -> JsonObject:
    """Write a card with RisuAI's keys; what is empty and optional is left out."""
    if isinstance(card, UnknownCard):
        return thaw_object(card.raw)
    written: dict[str, Json] = {"type": card.type}
    written.update((key, getattr(card, name)) for key, name in _KEYS[type(card)])
    written.update((key, value) for key, name in _OPTIONAL if (value := getattr(card, name, None)))
    return written
