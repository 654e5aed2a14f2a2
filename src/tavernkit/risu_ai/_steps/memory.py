"""Long-term memory, or plain trimming."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType

from tavernkit._text.traced import added
from tavernkit._values import counted, freeze_object, thaw
from tavernkit.cache._history_cut import CutCosts
from tavernkit.cache._profiles import find_profile
from tavernkit.prompt._context import CACHE, FREEZE, REFERENCE
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.risu_ai._budget import Dropped, cut_in_steps, drop_oldest, drop_oldest_known, omissions_of
from tavernkit.risu_ai._caching import CHAT_KEY, say_again, stored_lore
from tavernkit.risu_ai._chat.prompt_message import PromptMessage, is_frozen, source_of
from tavernkit.risu_ai._memory import HANURAI_MEMORY, MEMORY_MEMOS, MemoryInput, memory_name, remember
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai.errors import MemoryFailedError

LAST_MEMORY = "lastMemory"
"""RisuAI's key for the first message of the chat that is still in the prompt."""


class MemoryStep(Step[RisuState, NoConfig]):
    """Makes the chat fit: with the memory the character uses, else by dropping its oldest items.

    Reads ``slots.chats``, ``total``, ``preset``. Writes ``slots.chats``, ``slots.memory``, ``slots.last_chat``,
    ``left_out``, ``dropped`` and ``last_memory``. A chat that cannot be made to fit raises
    ``MaxTokensExceededError``, unless ``on_overflow`` is ``return``.
    """

    name = "memory"

    def before(self, state: RisuState) -> None:
        """Fit the chat into the context."""
        if state.stopped:
            return
        kept = state.chat.raw.get(LAST_MEMORY)
        state.last_memory = kept if isinstance(kept, str) else None
        if not _remembered(state) and state.context.strategy in (REFERENCE, CACHE):
            _trim(state)
        slots = state.slots
        _drop_blank(state)  # only now, as in RisuAI: they have cost tokens, and `lastMemory` may name one
        if state.context.lore == FREEZE:
            state.memory_data[CHAT_KEY] = thaw(stored_lore(state.frozen_lore, slots.chats))
        if state.template is None and slots.chats:
            last = len(slots.chats) - 1
            while last and is_frozen(slots.chats[last]):  # lore stays with its message
                last -= 1
            slots.last_chat += slots.chats[last:]
            del slots.chats[last:]
        # Without a template the newest message is in its own slot by now: it is never blanked, nor is lore at a depth.
        for message in slots.chats:
            message.removable = message.memo not in MEMORY_MEMOS
        _store(state)


def _drop_blank(state: RisuState) -> None:
    blank = [message for message in state.slots.chats if message.blank]
    if not blank:
        return
    reason = "nothing is left of it after CBS and scripts"
    _leave_out(state, [Dropped(message, 0, reason) for message in blank])
    state.slots.chats = [message for message in state.slots.chats if not message.blank]


def _leave_out(state: RisuState, gone: list[Dropped]) -> None:
    state.left_out += gone
    for omission in omissions_of(gone):
        state.omit(omission)


def _store(state: RisuState) -> None:
    """Store the memory's data on the chat, and where the prompt begins now."""
    before = state.chat.raw
    data = {LAST_MEMORY: state.last_memory, **state.memory_data}
    if any(before.get(key) != value for key, value in data.items()):
        raw = {**before, **freeze_object(data)}  # the rest is frozen already
        if raw[LAST_MEMORY] is None:
            del raw[LAST_MEMORY]
        state.see_chat(dataclasses.replace(state.chat, raw=MappingProxyType(raw)))


def _remembered(state: RisuState) -> bool:
    """Make the chat fit with the character's memory; return False if it has none."""
    settings = state.context.settings.raw
    if not state.uses_memory:
        return False
    models = state.context.memory
    if models is None or (models.summarize is None and memory_name(settings) != HANURAI_MEMORY):
        state.warn("the character uses long-term memory: pass memory=MemoryModels(...) to have it; the chat is cut")
        return False
    given = MemoryInput(
        items=state.slots.chats,
        total=state.total,
        max_context=state.preset.max_context,
        max_response=state.preset.max_response,
        counter=state.counter,
        settings=settings,
        chat=state.chat.raw,
        models=models,
        user_name=state.texts.context.user_name,
        character_name="" if state.in_group else state.character.name,
        random=state.texts.context.random,
        expand=lambda text: state.texts.as_speaker(text, None),
        warn=state.warn,
    )
    try:
        outcome = remember(given)
    except MemoryFailedError as error:
        state.memory_data = dict(error.stored)
        _store(state)
        raise
    state.total = outcome.total
    if LAST_MEMORY in outcome.stored:
        state.last_memory = outcome.last_memory
    state.memory_data = dict(outcome.stored)
    _tell(state, outcome.items)
    _place(state, outcome.items)
    return True


def _tell(state: RisuState, items: list[PromptMessage]) -> None:
    """Report the memory, and which messages it replaces."""
    name, kept = memory_name(state.context.settings.raw), {id(item) for item in items}
    gone = [item for item in state.slots.chats if id(item) not in kept]
    reason = f"{name} replaces the oldest messages"
    _leave_out(state, [Dropped(item, state.counter.message(item), reason) for item in gone])
    why = f"replaces {counted(len(gone), 'message')} that no longer fit" if gone else "what is remembered of this chat"
    for item in items:
        if item.memo in MEMORY_MEMOS:
            item.source = source_of("memory", "memory", why, name=name)
            item.content = added(item.content, name)


def _place(state: RisuState, items: list[PromptMessage]) -> None:
    """Print memory at its card, or keep it before the chat with a frame."""
    has_card = any(card.type == "memory" for card in state.template or ())
    remembered = [item for item in items if item.memo in MEMORY_MEMOS]
    if has_card:
        state.slots.memory = remembered
        items = [item for item in items if item.memo not in MEMORY_MEMOS]
    else:
        for item in remembered:
            frame = added("<Previous Conversation>", "memory"), added("</Previous Conversation>", "memory")
            item.content = frame[0] + item.content + frame[1]
    state.slots.chats = items


def _trim(state: RisuState) -> None:
    context, chats, limit = state.context, state.slots.chats, state.preset.max_context
    if context.strategy == CACHE:
        costs = CutCosts(profile=find_profile(context.cache_profile), room=0, turns=context.expected_turns)
        trimmed = cut_in_steps(chats, state.total, limit, state.counter, costs, state.last_memory, state.active_lore)
        say_again(state, trimmed.again)
    elif state.written is not None:
        head = chats[: len(chats) - len(state.written.items)]
        trimmed = drop_oldest_known(head, state.written, state.total, limit, state.counter)
    else:
        trimmed = drop_oldest(chats, state.total, limit, state.counter)
    state.slots.chats = trimmed.messages
    state.total = trimmed.total
    state.dropped = trimmed.dropped
    if trimmed.required_tokens is not None:
        state.refuse(trimmed.required_tokens)
    state.last_memory = next((message.memo for message in trimmed.messages if not is_frozen(message)), None)
