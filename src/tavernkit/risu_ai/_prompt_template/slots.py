"""The slots a prompt is assembled from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit.risu_ai._chat.prompt_message import PromptMessage

Messages = list[PromptMessage]


@dataclass(slots=True)
class Slots:
    """Messages by the place they are meant for. Cards of a template print some of them, an order without one all."""

    main: Messages = field(default_factory=list[PromptMessage])
    jailbreak: Messages = field(default_factory=list[PromptMessage])
    chats: Messages = field(default_factory=list[PromptMessage])
    lorebook: Messages = field(default_factory=list[PromptMessage])
    global_note: Messages = field(default_factory=list[PromptMessage])
    author_note: Messages = field(default_factory=list[PromptMessage])
    last_chat: Messages = field(default_factory=list[PromptMessage])
    description: Messages = field(default_factory=list[PromptMessage])
    post_everything: Messages = field(default_factory=list[PromptMessage])
    persona: Messages = field(default_factory=list[PromptMessage])
    memory: Messages = field(default_factory=list[PromptMessage])

    def named(self, name: str) -> Messages | None:
        """The slot that ``formatingOrder`` calls by that name."""
        attribute = ORDER_NAMES.get(name)
        return None if attribute is None else getattr(self, attribute)


ORDER_NAMES: Mapping[str, str] = {
    "main": "main",
    "jailbreak": "jailbreak",
    "chats": "chats",
    "lorebook": "lorebook",
    "globalNote": "global_note",
    "authorNote": "author_note",
    "lastChat": "last_chat",
    "description": "description",
    "postEverything": "post_everything",
    "personaPrompt": "persona",
}
"""RisuAI's names of the slots."""
