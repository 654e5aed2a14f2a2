"""The chat as messages of a prompt: examples, the start line, the greeting and the history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import MappingProxyType

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import added, plain
from tavernkit._values import FrozenObject
from tavernkit.risu_ai._chat.chat_log import ROLES, chat_id
from tavernkit.risu_ai._chat.groups import UNKNOWN_CHARACTER
from tavernkit.risu_ai._chat.prompt_message import Media, PromptMessage, new_chat_line, source_of, take_thoughts
from tavernkit.risu_ai._js import replace_first
from tavernkit.risu_ai._objects import RisuCharacter, RisuMessage
from tavernkit.risu_ai._prompt_template.cards import PromptSettings
from tavernkit.risu_ai._prompt_template.slots import Texts
from tavernkit.risu_ai._requests.reformat import SLOT
from tavernkit.risu_ai.errors import PromptTemplateError

DEFAULT_GROUP_TEMPLATE = "<{{char}}'s Message>\n{{slot}}\n</{{char}}'s Message>"
NAME_ADDED = "nameAdded"
CACHED_SOURCES = 16_384
"""Cached sources of messages by index."""

EditProcess = Callable[[str, int, str], str]
"""Runs the ``editprocess`` scripts: the text, its index (-1 for the greeting) and the role of the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRules:
    """How a chat is written: by the preset's switches, in a group or not."""

    in_group: bool
    group_template: str
    group_role: str
    send_name: bool
    max_thought_tag_depth: float
    members: Sequence[RisuCharacter]

    @property
    def other_role(self) -> str:
        """The role of wrapped messages."""
        return self.group_role if self.group_role in {"user", "assistant", "system"} else "assistant"

    def wraps(self, message: RisuMessage, speaker: RisuCharacter) -> bool:
        """True if a message is put into the group template."""
        if self.send_name:
            return True
        return self.in_group and (message.saying != speaker.id or self.group_role == "assistant")

    def name_of(self, saying: str | None) -> str:
        """Return the name of a speaker."""
        return next((each.name for each in self.members if saying and each.id == saying), UNKNOWN_CHARACTER)


def start_line(model: str, settings: PromptSettings) -> list[PromptMessage]:
    """The line between examples and chat. NovelAI's models do not get it, unless the switch to trim it is on (sic)."""
    return [] if model.startswith("novelai") and not settings.trim_start_new_chat else [new_chat_line()]


def greeting_message(
    character: RisuCharacter, index: float | None, texts: Texts, scripts: EditProcess, *, send_name: bool
) -> PromptMessage:
    """Return the character's first message; RisuAI throws if the chat's choice does not exist."""
    greeting = character.greeting(index)
    if greeting is None:
        raise PromptTemplateError("the chat's greeting index names no greeting of the character")
    text = scripts(texts(greeting), -1, "")  # without a role: `{{role}}` of a script prints null
    chosen = f"alternate {index:g}" if index is not None and index >= 0 else ""
    source = source_of("chat", "greeting", "the character speaks first; it is not a message of the chat", name=chosen)
    if send_name:
        content = character.name + added(": ", "sendName") + text
        return PromptMessage(role="assistant", content=content, attr=(NAME_ADDED,), source=source)
    return PromptMessage(role="assistant", content=text, source=source)


@dataclass(frozen=True, slots=True)
class HistoryWriter:
    """Writes stored messages as messages of a prompt."""

    texts: Texts
    scripts: EditProcess
    rules: ChatRules
    media: Media
    speaker: RisuCharacter

    def write(self, message: RisuMessage, index: int, count: int, user: str) -> PromptMessage:
        """Write a message.

        Args:
            message: The message.
            index: Its index among those sent.
            count: The number of messages sent.
            user: The name of the user.
        """
        role = "user" if message.role == "user" else "char"
        name = user if role == "user" else self.speaker.name
        if self.rules.in_group and role == "char":
            name = self.rules.name_of(message.saying)
        item = PromptMessage(
            role=ROLES[role],
            content=self.scripts(self.texts(message.data, role=role), index, message.role),
            memo=chat_id(message),
            source=_message_source(index, plain(name)),
        )
        self.media.take_inlays(item)
        if self.rules.wraps(message, self.speaker):
            template = self.rules.group_template or added(DEFAULT_GROUP_TEMPLATE, "the group template")
            frame = self.texts.as_speaker(template, self.rules.name_of(message.saying))
            # Unlike the greeting it is not marked as named, so a chat sent as system messages names it twice.
            item.content, item.role = replace_first(frame, SLOT, item.content), self.rules.other_role
        item.content, thoughts = take_thoughts(item.content)
        depth = self.rules.max_thought_tag_depth
        if depth == -1 or depth - count <= index:  # in RisuAI, depths up to the number of messages keep all
            item.thoughts = thoughts
        self.media.take_asset_prompts(item)
        return item


@lru_cache(CACHED_SOURCES)
def _message_source(index: int, name: str) -> FrozenObject:
    title = f"message #{index} of {name}" if name else f"message #{index}"
    return MappingProxyType(source_of("chat", "message", "message of the chat", name=name, title=title, id=str(index)))
