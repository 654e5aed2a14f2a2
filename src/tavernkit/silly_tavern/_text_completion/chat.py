"""The chat of a text build, from its messages to the strings for the budget."""

from __future__ import annotations

from tavernkit._text.traced import is_tracing
from tavernkit.prompt._context import TAIL
from tavernkit.silly_tavern._caching.text_placing import insert_frozen_messages, move_behind_chat, role_names
from tavernkit.silly_tavern._provenance import source
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._templates.formatting import FIRST, Line
from tavernkit.silly_tavern._text_completion.history_items import HistoryWriter, history_items
from tavernkit.silly_tavern._text_completion.messages import inject, post_history_message
from tavernkit.silly_tavern._text_completion.reply_line import ReplyLine
from tavernkit.silly_tavern._text_completion.segments import Origin, Segment

CHAT_START = Origin(
    "chatStart",
    "system",
    source("macro_expansion", "context template", "chat_start", "Chat Start", "the line before the chat"),
    "chatStart",
)
ALIGNMENT = Origin(
    "userAlignment",
    "user",
    source(
        "macro_expansion",
        "instruct template",
        "user_alignment_message",
        "User Alignment Message",
        "the chat does not begin with the user",
    ),
    "userAlignment",
)


def place_in_chat(state: SillyTavernState) -> None:
    """Insert everything into the chat: by depth, and the post-history instructions at its end."""
    context, draft = state.context, state.draft
    continuing = context.prompt_type == "continue"
    draft.messages = [*reversed(state.core)]
    names, prompts = role_names(context), state.extensions.in_chat()
    behind = context.volatile == TAIL
    draft.injected = inject(draft.messages, prompts, names, state.macros, continuing=continuing, behind=behind)
    if behind:
        move_behind_chat(state, continuing=continuing)
    insert_frozen_messages(state, names, continuing=continuing)
    _add_post_history(state, continuing=continuing)


def write_chat(state: SillyTavernState) -> None:
    """Write the messages, and the line before the reply."""
    context, draft, turn = state.context, state.draft, state.turn
    kind = context.prompt_type
    constant = draft.formatter is None or draft.formatter.is_constant(state.macros.is_plain)
    draft.rules = _rules(state) if constant and not is_tracing() else None
    writer = HistoryWriter(draft.formatter, context.character_name, constant)
    known = state.services.written.get(draft.rules) if draft.rules is not None else None
    draft.items = history_items(draft.messages, writer, generation_type=kind, known=known or {})
    draft.reply = ReplyLine(
        generation_type=kind,
        user_name=context.user_name,
        character_name=context.character_name,
        formatter=draft.formatter,
        bias=turn.bias,
        quiet_prompt=state.quiet_prompt,
        quiet_name=context.quiet_name,
        loud=context.quiet_to_loud,
        force_name=_forces_name(state),
        answers_user=bool(turn.chat) and turn.chat[-1].is_user,
        only_message=len(turn.chat) == 1,
    )


def _rules(state: SillyTavernState) -> tuple[object, ...]:
    """Return the key of a chat and of what its messages are written by."""
    formatter, chat = state.draft.formatter, state.turn.chat
    # The first line may be a new object in every build.
    key = (id(chat[1]) if len(chat) > 1 else None, state.context.character_name)
    return key if formatter is None else (*key, *formatter.rules)


def expand_late_texts(state: SillyTavernState) -> None:
    """Expand the line before the chat and the message that aligns it."""
    context, draft = state.context, state.draft
    start = context.active_context_template.chat_start
    if start:
        draft.start = Segment(state.macros(start + "\n"), CHAT_START)
    formatter = draft.formatter
    if formatter is not None and formatter.template.user_alignment_message:
        text = state.macros(formatter.template.user_alignment_message)
        written = formatter.message(Line(context.user_name, text, is_user=True), FIRST)
        draft.alignment = Segment(written.text, ALIGNMENT)


def _add_post_history(state: SillyTavernState, *, continuing: bool) -> None:
    """Add the post-history instructions; on continue, before the continued message, as in SillyTavern."""
    setting, draft, macros = state.context.active_system_prompt, state.draft, state.macros
    if not setting.enabled:
        return
    own = state.card.post_history
    text = macros.with_original(own, setting.post_history) if own else macros.card(setting.post_history)
    if not text:
        return
    draft.messages.insert(1 if continuing else 0, post_history_message(text, from_card=bool(own)))
    if not continuing:
        draft.injected = [place + 1 for place in draft.injected]


def _forces_name(state: SillyTavernState) -> bool:
    context = state.context
    if context.prompt_type == "impersonate":
        return False
    always = context.active_context_template.always_force_name2
    return state.turn.bias_of_message or always or context.force_name2
