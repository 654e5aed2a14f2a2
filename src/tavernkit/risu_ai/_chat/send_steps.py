"""Optional steps of a send: translations, suggestions, pictures, added texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit.risu_ai._chat.chat_log import ROLES, sent_messages
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._objects import RisuChat

TRANSLATION_MODE = "translate"
SUGGESTED_FROM = 10
"""How many of the last messages are used for suggestions."""

Translate: TypeAlias = Callable[[str, str], str]
"""Translates a text into a language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSteps:
    """Steps of a send. ``None`` leaves a step to the settings of the save, where all are off by default.

    A save does not enable suggestions and the translation of input, because its settings for them are unknown.
    """

    suggest: bool = False
    """Ask what the user could say next."""
    translate_input: str = ""
    """Translate what the user types into this language before it is stored; empty for never."""
    translate_reply: str | None = None
    """Translate replies into this language for display; the chat keeps the originals. Empty for never. In a save:
    ``autoTranslate``, into the language that ``translator`` names."""
    translate: Translate | None = None
    """Translates; by default the auxiliary model does."""
    emotion: bool | None = None
    """Ask which picture fits the reply. In a save: the character's ``viewScreen``."""
    inlay_prompt: str | None = None
    """Ask for a text to add to the reply, with this prompt in ChatML; empty for never. In a save: ``igpPrompt``."""

    def reply_language(self, settings: Settings) -> str:
        """Return the language that replies are shown in; empty if they are shown unchanged."""
        if self.translate_reply is not None:
            return self.translate_reply
        language = settings.raw.get("translator")
        return language if settings.raw.get("autoTranslate") and isinstance(language, str) else ""

    def added_prompt(self, settings: Settings) -> str:
        """Return the prompt for texts added to replies; empty if there are none."""
        prompt = settings.raw.get("igpPrompt") if self.inlay_prompt is None else self.inlay_prompt
        return prompt if isinstance(prompt, str) else ""


def suggestion_prompt(settings: Settings) -> str:
    """Return the instruction of a request for suggestions."""
    stated = settings.raw.get("autoSuggestPrompt")
    return stated if isinstance(stated, str) and stated else settings.texts.auto_suggest_prompt


def suggestion_messages(chat: RisuChat, instruction: str) -> list[PromptMessage]:
    """Return the messages of a request for suggestions.

    Args:
        chat: The chat, of which the last messages are sent.
        instruction: The instruction, expanded.
    """
    spoken = [
        PromptMessage(role=ROLES.get(message.role, "assistant"), content=message.data)
        for message in sent_messages(chat)[0][-SUGGESTED_FROM:]
    ]
    return [*spoken, PromptMessage(role="system", content=instruction)]


def read_suggestions(reply: str) -> list[str]:
    """Return the suggestions of a reply, which has one on each line."""
    return [line for line in map(str.strip, reply.splitlines()) if line]


def translation_messages(text: str, language: str, settings: Settings) -> Sequence[PromptMessage]:
    """Return the messages of a request for a translation.

    Args:
        text: The text, its style blocks hidden.
        language: The language to translate into.
        settings: The settings with the instruction.
    """
    prompt = settings.texts.translation_prompt.replace("{{slot}}", language)
    return [PromptMessage(role="system", content=prompt), PromptMessage(role="user", content=text)]
