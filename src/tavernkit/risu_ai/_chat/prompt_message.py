"""The message of RisuAI's prompt assembly, before it becomes a block or a request; its pictures, audio and videos.

Messages can also be written in ChatML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import WHITESPACE, to_string, trim
from tavernkit._text.traced import added
from tavernkit._values import EMPTY_OBJECT, FrozenJson, FrozenObject, JsonObject, freeze, is_mapping, is_sequence, thaw
from tavernkit.cache._volatile import volatile_macros
from tavernkit.dialects._attachments import Attachment
from tavernkit.errors import Warn
from tavernkit.risu_ai._js import replace_delimited, replace_in_lines
from tavernkit.risu_ai._objects import RisuCharacter

NEW_CHAT = "[Start a new chat]"
"""The line between examples and chat."""

NEW_CHAT_MEMO, NEW_EXAMPLE_MEMO = "NewChat", "NewChatExample"
"""The memos of that line before the chat and before an example."""


@dataclass(slots=True, kw_only=True, eq=False)
class PromptMessage:
    """One message of an unfinished prompt.

    It is mutable, because RisuAI's assembly edits messages in place and prints some of them twice: both places show the
    same edits. ``role`` is ``None`` where RisuAI has no role for a card.
    ``memo`` is the id of the chat message or one of RisuAI's marks; ``source`` says where the text came from and why
    (see ``source_of()``), ``merged`` the same of what was joined to it, and ``printed`` where it was put, each time.
    """

    role: str | None
    content: str
    name: str | None = None
    memo: str | None = None
    removable: bool = False
    attr: tuple[str, ...] = ()
    multimodals: tuple[FrozenJson, ...] = ()
    thoughts: tuple[str, ...] = ()
    cache_point: bool = False
    source: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    merged: tuple[FrozenObject, ...] = ()
    printed: tuple[str, ...] = ()
    cost: tuple[object, str, str | None, tuple[FrozenJson, ...], int] | None = field(default=None, repr=False)
    """The cached token count, with its counter, content, name and media."""

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> PromptMessage:
        """Read a message written with RisuAI's keys."""
        role, name, memo = data.get("role"), data.get("name"), data.get("memo")
        return cls(
            role=role if isinstance(role, str) else None,
            content=to_string(data.get("content") or ""),
            name=name if isinstance(name, str) else None,
            memo=memo if isinstance(memo, str) else None,
            removable=bool(data.get("removable")),
            attr=_texts(data.get("attr")),
            multimodals=_values(data.get("multimodals")),
            thoughts=_texts(data.get("thoughts")),
            cache_point=bool(data.get("cachePoint")),
        )

    def to_json(self) -> JsonObject:
        """Write the message with RisuAI's keys, without unset ones."""
        written: JsonObject = {"role": self.role, "content": self.content}
        secondary: tuple[tuple[str, object], ...] = (
            ("name", self.name),
            ("memo", self.memo),
            ("removable", self.removable),
            ("attr", self.attr),
            ("multimodals", self.multimodals),
            ("thoughts", self.thoughts),
            ("cachePoint", self.cache_point),
        )
        written.update((key, thaw(value)) for key, value in secondary if value)
        return written

    def copy(self) -> PromptMessage:
        """Return a copy."""
        copy = PromptMessage.__new__(PromptMessage)  # faster than its __init__: every turn copies hundreds
        copy.role, copy.content, copy.name, copy.memo = self.role, self.content, self.name, self.memo
        copy.removable, copy.attr, copy.multimodals = self.removable, self.attr, self.multimodals
        copy.thoughts, copy.cache_point, copy.source = self.thoughts, self.cache_point, self.source
        copy.merged, copy.printed, copy.cost = self.merged, self.printed, self.cost
        return copy

    @property
    def blank(self) -> bool:
        """True if there is nothing to send: no text and no media."""
        content = self.content
        # Most do not begin with white space, and checking that is faster than trimming.
        return not self.multimodals and (not content or content[0] in WHITESPACE) and not trim(content)


def source_of(stage: str, kind: str, reason: str, *, name: str = "", **more: FrozenJson) -> FrozenObject:
    """Return the source of a text: the step, its kind, its reason, and its name.

    Its readable name is its ``title``, if it has one, else its kind and name.
    """
    return {"stage": stage, "kind": kind, **({"name": name} if name else {}), "reason": reason, **more}


def changing(source: FrozenObject, *texts: str | None) -> FrozenObject:
    """Return a source with the CBS functions that change its text in every prompt, if any."""
    macros = [name for text in texts if text for name, kind in volatile_macros(text).items() if kind != "variable"]
    return {**source, "macros": macros} if macros else source


FROZEN_LORE = "frozen lore"
"""The kind of lore that became a message of the chat."""


def is_frozen(message: PromptMessage) -> bool:
    """Return True for lore that became a message of the chat."""
    return message.source.get("kind") == FROZEN_LORE


def title_of(source: FrozenObject) -> str:
    """What people call a text that came from there."""
    return str(source.get("title") or f"{source.get('kind', 'message')} {source.get('name', '')}".rstrip())


def explained(source: FrozenObject, remark: str, **more: FrozenJson) -> FrozenObject:
    """Return a source with a remark after its reason."""
    return {**source, "reason": f"{source['reason']}; {remark}" if source.get("reason") else remark, **more}


_STARTS = {
    NEW_CHAT_MEMO: source_of("chat", "start marker", "the chat begins after it"),
    NEW_EXAMPLE_MEMO: source_of("chat", "start marker", "an example begins after it"),
}


def new_chat_line(memo: str = NEW_CHAT_MEMO) -> PromptMessage:
    """The line that starts a chat or an example."""
    return PromptMessage(role="system", content=added(NEW_CHAT, "a new chat"), memo=memo, source=_STARTS[memo])


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if is_sequence(value) else ()


def _values(value: object) -> tuple[FrozenJson, ...]:
    return tuple(freeze(item) for item in value if is_mapping(item)) if is_sequence(value) else ()


START, END = "<|im_start|>", "<|im_end|>"
_ROLE = re.compile(r"(user|system|assistant)(?:<\|im_sep\|>| |\n)")
_THOUGHTS = re.compile(r"<Thoughts>(.+)</Thoughts>", re.DOTALL)


def parse_chat_ml(
    text: str, expand: Callable[[str], str] = str, source: FrozenObject = EMPTY_OBJECT
) -> list[PromptMessage] | None:
    """Read messages, or nothing if the text does not start as ChatML; ``expand`` is applied to each text."""
    text = trim(text)
    if not text.startswith(START):
        return None
    messages: list[PromptMessage] = []
    for piece in text.split(START):
        if not trim(piece):
            continue
        found = _ROLE.match(piece)
        role, content = (found[1], piece[found.end() :]) if found is not None else ("user", piece)
        content, thoughts = take_thoughts(trim(content).removesuffix(END))
        messages.append(PromptMessage(role=role, content=expand(content), thoughts=thoughts, source=source))
    return messages


def take_thoughts(text: str) -> tuple[str, tuple[str, ...]]:
    """Part a text from the thoughts in it: everything from the first opening to the last closing tag."""
    if "<Thoughts>" not in text:
        return text, ()
    thoughts: list[str] = []

    def take(match: re.Match[str]) -> str:
        thoughts.append(match[1])
        return ""

    rest = replace_delimited(_THOUGHTS, "</Thoughts>", take, text)
    return rest, tuple(thoughts)


_INLAY = re.compile(r"\{\{(inlay|inlayed|inlayeddata)::(.+?)\}\}")
_ASSET_PROMPT = re.compile(r"\{\{(?:asset_prompt|assetprompt)::(.+?)\}\}")
ICON = "icon"

Caption: TypeAlias = Callable[[Attachment], str]
"""Describes a picture, for models that cannot see it."""


@dataclass(frozen=True, slots=True)
class Inlay:
    """A file that messages refer to by id; ``caption`` replaces a picture that the model cannot see."""

    attachment: Attachment
    """The file."""
    caption: str = ""


def take_inlays(text: str) -> tuple[str, list[tuple[str, ...]]]:
    """Separate a text from its inlays, each with the kind of its tag."""
    return _take(_INLAY, text)


def _take(pattern: re.Pattern[str], text: str) -> tuple[str, list[tuple[str, ...]]]:
    found: list[tuple[str, ...]] = []

    def take(match: re.Match[str]) -> str:
        found.append(match.groups())
        return ""

    return replace_in_lines(pattern, "}}", take, text), found


class Media:
    """Attaches the media of messages, for one character and model."""

    def __init__(
        self,
        inlays: Mapping[str, Inlay],
        character: RisuCharacter,
        *,
        sees_images: bool,
        warn: Warn,
        caption: Caption | None = None,
    ) -> None:
        self._inlays = inlays
        self._caption = caption
        self._character = character
        self._sees_images = sees_images
        self._warn = warn
        self._assets: dict[str, str] | None = None

    def take_inlays(self, message: PromptMessage) -> None:
        """Remove inlays from a text. Only ``inlayeddata`` is attached to a character's message, all to the user's."""
        if "{{inlay" not in message.content:
            return
        message.content, found = take_inlays(message.content)
        for kind, name in found:
            if message.role == "user" or kind == "inlayeddata":
                self._attach(message, name)

    def take_asset_prompts(self, message: PromptMessage) -> None:
        """Remove asset prompts from a text and attach the character's pictures."""
        if "{{asset" not in message.content:
            return
        message.content, found = _take(_ASSET_PROMPT, message.content)
        for (name,) in found:
            path = self._asset_path(name)
            if path is not None:
                self._attach(message, path)

    def _asset_path(self, name: str) -> str | None:
        if name == ICON:
            return self._character.image or None
        if self._assets is None:
            assets = (*(self._character.assets or ()), *(self._character.emotions or ()))
            self._assets = {asset.name: asset.path for asset in reversed(assets)}  # the first with a name counts
        return self._assets.get(name)

    def _attach(self, message: PromptMessage, name: str) -> None:
        inlay = self._inlays.get(name)
        if inlay is None:
            self._warn(f"a message names {name!r:.80}, which is not among the inlays; nothing is attached")
        elif inlay.attachment.kind == "image" and not self._sees_images:
            text = inlay.caption or (self._caption(inlay.attachment) if self._caption is not None else "")
            message.content += "[" + text + "]"
        else:
            message.multimodals += (inlay.attachment.to_dict(),)
