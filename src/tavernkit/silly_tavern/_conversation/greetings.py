"""The beginning of a chat: its header, the greetings of its characters, and the first message on the screen."""

from __future__ import annotations

from tavernkit._values import JsonObject
from tavernkit.cards._character import Character
from tavernkit.silly_tavern._builder import Builder
from tavernkit.silly_tavern._conversation import lines as chat_lines
from tavernkit.silly_tavern._conversation.chat_state import ChatState, scripted
from tavernkit.silly_tavern._files.chat_file import ChatFile
from tavernkit.silly_tavern._scripts.regex_scripts import RegexPlacement


def open_chat(state: ChatState, greeting: int) -> None:
    """Fill in the header, greet if nothing has been said, and show the first message.

    Args:
        state: The chat.
        greeting: Which greeting a new chat begins with: 0 is the first message, 1 the first alternate.
    """
    note = state.context().settings.note
    defaults: JsonObject = {
        "note_prompt": note.default,
        "note_interval": note.default_interval,
        "note_position": note.default_position,
        "note_depth": note.default_depth,
        "note_role": note.default_role,
    }
    for key, value in defaults.items():
        state.header.setdefault(key, value)
    if not state.lines:
        _greet(state, greeting)
    for line in state.lines:
        chat_lines.extra_of(line)
        chat_lines.show(line)
    state.show_first()


def greeted(builder: Builder, chat: ChatFile) -> ChatFile:
    """Return a chat without messages as SillyTavern opens it: its characters have greeted, and their scripts have run.

    Args:
        builder: Builds the chat's prompts.
        chat: The chat.
    """
    state = ChatState(builder, chat, {})
    _greet(state, 0)
    for line in state.lines:
        del line["send_date"]  # nothing is stored, and a build does not depend on the time
    return state.file


def greet_again(state: ChatState) -> None:
    """Write the greeting again, for another user."""
    line, card = state.lines[0], state.context().card
    if card is None:
        return
    del state.lines[:]
    _greet_as(state, card, chat_lines.swipe_id_of(line))
    for each in state.lines:
        chat_lines.show(each)
    state.show_first()


def _greet(state: ChatState, index: int) -> None:
    context = state.context()
    if context.group is None:
        if context.card is not None:
            _greet_as(state, context.card, index)
        return
    for avatar in context.group.members:  # muted members too
        card = context.members.get(avatar)
        texts = (card.first_mes, *card.alternate_greetings) if card is not None else ()
        if card is not None and index < len(texts) and texts[index]:
            _greet_in_group(state, avatar, card, texts[index])


def _greet_as(state: ChatState, card: Character, index: int) -> None:
    with state.expanding() as workspace:
        texts = [
            scripted(workspace, text, RegexPlacement.AI_OUTPUT) for text in (card.first_mes, *card.alternate_greetings)
        ]
    if not any(texts):
        return
    line = chat_lines.greeting_line(card.name, texts, state.now())
    state.lines.append(line)
    if 0 < index < len(chat_lines.swipes_of(line)):
        chat_lines.arrive_at_swipe(line, index)


def _greet_in_group(state: ChatState, avatar: str, card: Character, text: str) -> None:
    # Each greeting is expanded for good, not only the first message of the chat.
    with state.expanding(speaker=avatar) as workspace:
        text = workspace.macros(scripted(workspace, text, RegexPlacement.AI_OUTPUT))
    line = chat_lines.greeting_line(card.name, [text], state.now())
    state.round += 1
    chat_lines.extra_of(line)["gen_id"] = state.round
    line |= {"original_avatar": avatar, "force_avatar": chat_lines.CHARACTER_AVATAR.format(avatar)}
    state.lines.append(line)
