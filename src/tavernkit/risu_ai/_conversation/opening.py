"""What a chat has when it is opened."""

from __future__ import annotations

from tavernkit._values import Json
from tavernkit.errors import ConfigError
from tavernkit.risu_ai._chat.chat_log import with_greeting
from tavernkit.risu_ai._context import RisuAIContext, RisuAIInputs
from tavernkit.risu_ai._files.chat_file import chat_variables
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._objects import RisuChat
from tavernkit.stores._variables import GLOBAL, LOCAL, InMemoryVariablesStore


class NoHost:
    """Placeholder until the application sets a host."""

    async def ask(self, *_: object, **__: object) -> object:
        raise ConfigError("this chat has no host to ask a model with: pass host=... or use tavernkit.Conversation")

    checkpoint = call_tool = ask


class ChatVariables(InMemoryVariablesStore):
    """The variables of a chat. As in RisuAI, reading one creates the chat's variables."""

    read = False

    def get(self, name: str, scope: str = LOCAL) -> Json:
        """Return a value, or None if there is none."""
        self.read = self.read or scope == LOCAL
        return super().get(name, scope)


def with_user(context: RisuAIContext) -> Settings:
    """Return the settings with the application's user instead of the active persona."""
    if context.user is None:
        return context.settings
    return context.settings.replace(username=context.user_name, persona_prompt=context.persona_prompt)


def opened_chats(context: RisuAIContext, *, given_history: bool) -> tuple[list[RisuChat], int]:
    """Return the chats of the character, and which of them is open: the one of the inputs, if they have a history."""
    owner = context.owner
    chats = [owner.opened(each) for each in owner.stored_chats]
    page = owner.raw.get("chatPage")
    if not given_history and chats:
        page = page if isinstance(page, int) and 0 <= page < len(chats) else 0
        chats[page] = with_greeting(chats[page], context.greeting)
        return chats, page
    opened = owner.opened(context.chat)
    same = [index for index, each in enumerate(chats) if each == opened or (opened.id and each.id == opened.id)]
    if not same:
        return [opened, *chats], 0
    chats[same[0]] = opened
    return chats, same[0]


def first_variables(context: RisuAIContext, chat: RisuChat, inputs: RisuAIInputs) -> ChatVariables:
    """Return the variables that a chat begins with: those of the inputs, else those of the chat and the settings."""
    given = inputs.get("variables")
    if isinstance(given, InMemoryVariablesStore):
        return ChatVariables(given.to_dict())
    if given is not None:
        raise ConfigError("a chat keeps its variables itself: variables must be an InMemoryVariablesStore, or nothing")
    return ChatVariables({LOCAL: chat_variables(chat), GLOBAL: context.settings.global_variables})
