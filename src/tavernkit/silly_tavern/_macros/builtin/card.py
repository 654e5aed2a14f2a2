"""Names, the character card, the persona, and the messages of the chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tavernkit._text.traced import join
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._macros.call import MacroCall, MacroFailure
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroRegistry

macros = MacroRegistry()


@macros.macro("user", category="names", only_names=True)
def user(call: MacroCall) -> str:
    """The user's name."""
    return call.run.user_name


@macros.macro("char", category="names", only_names=True)
def char(call: MacroCall) -> str:
    """The character's name."""
    return call.run.character_name


@macros.macro("group", hidden_aliases=("charIfNotGroup",), category="names")
def group(call: MacroCall) -> str:
    """The names of all group members; outside of groups, the character's."""
    chat = call.environment.group
    if call.run.overrides.group is not None:
        return call.run.overrides.group
    return call.run.character_name if chat is None else join(", ", chat.names)


@macros.macro("groupNotMuted", category="names")
def group_not_muted(call: MacroCall) -> str:
    """The names of the group members who are not muted; outside of groups, the character's."""
    chat = call.environment.group
    if call.run.overrides.group is not None:
        return call.run.overrides.group
    return call.run.character_name if chat is None else join(", ", chat.names_not_muted)


@macros.macro("notChar", category="names")
def not_char(call: MacroCall) -> str:
    """The names of the other group members who are not muted; outside of groups, the user's."""
    # SillyTavern uses the override of the group here too. Only its legacy engine adds the user and muted members.
    chat, own = call.environment.group, call.run.character_name
    if call.run.overrides.group is not None:
        return call.run.overrides.group
    return call.run.user_name if chat is None else join(", ", (name for name in chat.names_not_muted if name != own))


@macros.macro("charPrompt", category="character")
def char_prompt(call: MacroCall) -> str:
    """The card's system prompt."""
    return call.run.cards.system_prompt()


@macros.macro("charInstruction", category="character")
def char_instruction(call: MacroCall) -> str:
    """The card's post-history instructions."""
    return call.run.cards.post_history_instructions()


@macros.macro("charDescription", aliases=("description",), category="character")
def char_description(call: MacroCall) -> str:
    """The card's description."""
    return call.run.cards.description()


@macros.macro("charPersonality", aliases=("personality",), category="character")
def char_personality(call: MacroCall) -> str:
    """The card's personality."""
    return call.run.cards.personality()


@macros.macro("charScenario", aliases=("scenario",), category="character")
def char_scenario(call: MacroCall) -> str:
    """The card's scenario."""
    return call.run.cards.scenario()


@macros.macro("persona", category="character")
def persona(call: MacroCall) -> str:
    """The description of the user's persona."""
    return call.run.cards.persona()


@macros.macro("mesExamplesRaw", category="character")
def mes_examples_raw(call: MacroCall) -> str:
    """The card's example dialogue as written."""
    return call.run.cards.examples_raw()


@macros.macro("mesExamples", category="character")
def mes_examples(call: MacroCall) -> str:
    """The card's example dialogue as it goes into the prompt."""
    return call.run.cards.examples()


@macros.macro("charDepthPrompt", category="character")
def char_depth_prompt(call: MacroCall) -> str:
    """The card's prompt at a depth of the chat."""
    return call.run.cards.depth_prompt()


@macros.macro("charCreatorNotes", aliases=("creatorNotes",), category="character")
def char_creator_notes(call: MacroCall) -> str:
    """The notes of the card's creator."""
    return call.run.cards.creator_notes()


@macros.macro(
    "charFirstMessage",
    aliases=("greeting",),
    args=(MacroArgument("index", ("integer",), optional=True),),
    category="character",
    example="{{greeting::1}}",
)
def char_first_message(call: MacroCall) -> str:
    """The card's first message, or with an index an alternate greeting."""
    digits = call.argument(0, "0").strip()
    return call.run.cards.first_message(int(digits) if len(digits) < 12 else -1)


@macros.macro("charVersion", hidden_aliases=("version", "char_version"), category="character")
def char_version(call: MacroCall) -> str:
    """The card's version."""
    return call.run.cards.version()


@macros.macro("original", category="character")
def original(call: MacroCall) -> str:
    """In a card's prompt: the prompt it replaces. Works once."""
    text = call.run.original
    if text is None:
        raise MacroFailure("nothing is replaced here")
    call.run.original = ""
    return text


def last_index(environment: MacroEnvironment) -> int | None:
    """Return the index of the newest message; a message whose next swipe is being generated does not count."""
    return environment.place_in_chat("last", lambda: _newest(environment.chat, lambda _line: True))


def last_text(environment: MacroEnvironment, *, by_user: bool) -> str:
    """Return the text of the newest visible message of the user, or of others."""

    def wanted(line: ChatMessage) -> bool:
        return line.is_user == by_user and not line.is_system

    name = "last by user" if by_user else "last by others"
    index = environment.place_in_chat(name, lambda: _newest(environment.chat, wanted))
    return "" if index is None else environment.chat[index].mes


def _newest(chat: Sequence[ChatMessage], wanted: Callable[[ChatMessage], bool]) -> int | None:
    places = range(len(chat) - 1, -1, -1)
    return next((at for at in places if not _in_progress(chat[at]) and wanted(chat[at])), None)


def last_swipe_count(environment: MacroEnvironment) -> int | None:
    """Return the number of swipes of the newest message; None if it has no list of them."""
    chat = environment.chat
    return len(chat[-1].swipes) if chat and chat[-1].swipes is not None else None


def index_range(environment: MacroEnvironment) -> str:
    """The range of all message indexes, such as ``0-7``."""
    chat = environment.chat
    return f"0-{len(chat) - 1}" if chat else ""


def _in_progress(line: ChatMessage) -> bool:
    return line.swipes is not None and line.swipe_id is not None and line.swipe_id >= len(line.swipes)


@macros.macro("lastMessage", category="chat")
def last_message(call: MacroCall) -> str:
    """The text of the last message."""
    index = last_index(call.environment)
    return "" if index is None else call.environment.chat[index].mes


@macros.macro("lastMessageId", category="chat", returns="integer")
def last_message_id(call: MacroCall) -> object:
    """The index of the last message."""
    return last_index(call.environment)


@macros.macro("lastUserMessage", category="chat")
def last_user_message(call: MacroCall) -> str:
    """The text of the user's last message."""
    return last_text(call.environment, by_user=True)


@macros.macro("lastCharMessage", category="chat")
def last_char_message(call: MacroCall) -> str:
    """The text of the character's last message."""
    return last_text(call.environment, by_user=False)


@macros.macro("firstIncludedMessageId", category="chat", returns="integer")
def first_included_message_id(call: MacroCall) -> object:
    """The index of the first message in the last prompt."""
    # Only this engine checks the type.
    index = call.environment.first_included_message_id
    return index if isinstance(index, (int, float)) and not isinstance(index, bool) else ""


@macros.macro("firstDisplayedMessageId", category="chat", returns="integer")
def first_displayed_message_id(call: MacroCall) -> object:
    """The index of the first message on the screen."""
    return call.environment.first_displayed_message_id


@macros.macro("lastSwipeId", category="chat", returns="integer")
def last_swipe_id(call: MacroCall) -> object:
    """How many swipes the newest message has."""  # SillyTavern calls the count an id
    return last_swipe_count(call.environment)


@macros.macro("currentSwipeId", category="chat", returns="integer")
def current_swipe_id(call: MacroCall) -> object:
    """The number of the swipe that the newest message shows, from 1."""
    chat = call.environment.chat
    return chat[-1].swipe_id + 1 if chat and chat[-1].swipe_id is not None else ""


@macros.macro("allChatRange", category="chat")
def all_chat_range(call: MacroCall) -> str:
    """The range of all message indexes, such as 0-7."""
    return index_range(call.environment)
