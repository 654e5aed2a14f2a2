"""The history, through RisuAI's regex scripts."""

from __future__ import annotations

from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.risu_ai._caching.frozen_lore import insert_frozen
from tavernkit.risu_ai._chat.chat_list import ChatRules, HistoryWriter
from tavernkit.risu_ai._chat.chat_log import sent_messages
from tavernkit.risu_ai._chat.inlays import Media
from tavernkit.risu_ai._prompt_template.lore_places import in_chat, lore_message
from tavernkit.risu_ai._requests.model_flags import IMAGE_INPUT
from tavernkit.risu_ai._state import RisuState


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
        sent, _ = sent_messages(state.chat)
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
            warn=state.warn,
        )
        history = writer.write(sent)
        if state.frozen_lore:
            insert_frozen(history, state.frozen_lore)
        state.slots.chats += history
        state.total += state.counter.messages(history)
        placed = (lore_message(entry, state.texts(entry.text)) for entry in state.lore if in_chat(entry))
        state.total += state.counter.messages(placed)
