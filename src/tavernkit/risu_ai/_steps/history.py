"""The history: start triggers may change it, then its messages go through RisuAI's regex scripts."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from tavernkit._text.traced import is_tracing
from tavernkit.prompt._block import Omission
from tavernkit.prompt._context import REFERENCE
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.risu_ai._caching import insert_frozen
from tavernkit.risu_ai._chat.chat_cache import Written, WrittenMessages, may_have_cbs
from tavernkit.risu_ai._chat.chat_list import ChatRules, HistoryWriter
from tavernkit.risu_ai._chat.prompt_message import Media
from tavernkit.risu_ai._models import IMAGE_INPUT
from tavernkit.risu_ai._objects import RisuMessage
from tavernkit.risu_ai._prompt_template.lore_places import in_chat, lore_message
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai._triggers.build_triggers import run_build_triggers

MODE: Final = "editprocess"
"""The mode of scripts that run over messages of a prompt."""


class RegexScriptsStep(Step[RisuState, NoConfig]):
    """Writes the stored messages that are sent, each through the ``editprocess`` scripts, and counts them.

    Reads ``chat``, ``switches``. Writes ``slots.chats`` and ``total`` (lore in the chat is counted here as well).
    """

    name = "regex_scripts"

    def before(self, state: RisuState) -> None:
        """Write the history."""
        if state.stopped:
            return
        context, preset = state.context, state.preset
        sent, _ = state.sent
        writer = HistoryWriter(
            texts=state.texts,
            scripts=state.edit_process,
            rules=ChatRules(
                in_group=state.in_group,
                group_template=preset.group_template,
                group_role=preset.group_other_bot_role,
                send_name=state.switches.send_name,
                max_thought_tag_depth=preset.prompt_settings.max_thought_tag_depth,
                members=(context.owner, *context.members),
            ),
            media=Media(
                context.inlays,
                state.character,
                sees_images=IMAGE_INPUT in context.settings.flags_of(preset.ai_model),
                warn=state.warn,
                caption=state.context.caption,
            ),
            speaker=state.character,
        )
        history = _write(state, writer, sent)
        if _may_share(state):
            state.written = history
            state.slots.chats += history.items
            state.total += history.sums[-1]
        else:
            items = [item.copy() for item in history.items]
            if state.frozen_lore:
                insert_frozen(items, state.frozen_lore)
            state.slots.chats += items
            state.total += state.counter.messages(items)
        placed = (lore_message(entry, state.texts(entry.text)) for entry in state.lore if in_chat(entry))
        state.total += state.counter.messages(placed)


def _may_share(state: RisuState) -> bool:
    """Return True if nothing changes messages of the history before it is trimmed and copied."""
    plain = state.context.strategy == REFERENCE and not state.frozen_lore and not state.uses_memory
    return plain and state.is_standard


def _write(state: RisuState, writer: HistoryWriter, sent: tuple[RisuMessage, ...]) -> WrittenMessages:
    """Write the messages that are sent; those that are the same in every build are cached."""
    memory, counter, user = state.services.histories, state.counter, state.texts.context.user_name
    has_scripts = state.has_scripts(MODE)

    def write(place: int) -> Written:
        message = sent[place]
        item = writer.write(message, place, len(sent), user)
        tokens = counter.message(item)
        if rules is None or may_have_cbs(message.data) or item.multimodals or item.thoughts:
            return Written(item, tokens, changes=True)
        if not has_scripts:
            return Written(item, tokens, changes=item.content != message.data)
        fixed = state.runner.fixed_result(message.data, MODE, state.scripts)
        if fixed is None or fixed.result.text != item.content:
            return Written(item, tokens, changes=True)
        key = (fixed.expanded, MODE, fixed.scripts_key, place, message.role, False)
        return Written(item, tokens, changes=False, result=(key, fixed.result.text))

    rules = _rules(state, writer, user) if not is_tracing() else None
    if rules is None:
        return WrittenMessages().extended(sent, [write(place) for place in range(len(sent))])
    known = memory.find(rules, sent, has_scripts=has_scripts)
    changed: list[tuple[int, Written]] = []
    start = 0
    for place in (*known.changing, len(known.items)):  # in the order of the chat, as each may change variables
        if known.scripted is not None and start < place:
            state.runner.remember(known.scripted, start, place)
        if place < len(known.items):
            changed.append((place, write(place)))
        start = place + 1
    known = known.extended(sent, [write(place) for place in range(len(known.items), len(sent))])
    memory.put(rules, known)
    return known.with_changed(changed)


def _rules(state: RisuState, writer: HistoryWriter, user: str) -> Hashable:
    """Return the rules for messages without CBS; None if they depend on more."""
    if state.context.token_estimator is not None or writer.rules.in_group or writer.rules.send_name:
        return None
    scripts = state.runner.scripts_version(MODE, state.scripts) if state.has_scripts(MODE) else None
    return state.counter, scripts, user, writer.speaker.name


class TriggersStep(Step[RisuState, NoConfig]):
    """Runs the ``start`` triggers of the speaking character and of the modules.

    They run after slots, lore and greeting are made: what they set is seen by template cards, lore in the chat, the
    depth prompt and messages they add. Reads ``chat``, ``texts``. Writes ``chat``, ``stopped``, ``additions`` and
    ``total``.
    """

    name = "triggers"

    def before(self, state: RisuState) -> None:
        """Run them."""
        result = run_build_triggers(state, "start")
        if result is None:
            return
        state.additions = result.additions
        for place in result.additions.elsewhere:
            state.omit(
                Omission("prompt", f"trigger {place}", f"triggers cannot add texts to the prompt at {place!r:.40}")
            )
        state.stopped = result.stop_sending
        state.total += result.tokens  # RisuAI counts these texts whether they are printed or not
