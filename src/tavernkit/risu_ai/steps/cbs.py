"""The slots: every text that is expanded before triggers run."""

from __future__ import annotations

from tavernkit.prompt.step import NoConfig, Step
from tavernkit.risu_ai.budget.token_counting import RESERVE
from tavernkit.risu_ai.chat.background import background
from tavernkit.risu_ai.chat.chat_list import greeting_message, start_line
from tavernkit.risu_ai.chat.chat_log import sent_messages
from tavernkit.risu_ai.chat.example_messages import example_messages
from tavernkit.risu_ai.errors import PromptTemplateError
from tavernkit.risu_ai.prompt_template.slot_texts import SlotWriter
from tavernkit.risu_ai.state import RisuState


class CbsStep(Step[RisuState, NoConfig]):
    """Fills the slots with expanded texts, counts them, and begins the chat with examples, start line and greeting.

    Variables that start triggers set are not seen here; cards of a template are expanded later, when they are printed.
    Reads ``lore``, ``template``, ``chat``. Writes ``slots`` and ``total``.
    """

    name = "cbs"

    def before(self, state: RisuState) -> None:
        """Fill, count, begin."""
        context, slots = state.context, state.slots
        writer = SlotWriter(
            texts=state.texts,
            preset=state.preset,
            settings=context.active_settings,
            character=state.character,
            fields=state.fields,
            lore=state.lore,
            note=state.chat.note,
            background=background(
                state.fields.additional_text,
                state.chat.messages,
                None if context.memory is None else context.memory.embed,
                state.warn,
            ),
            in_group=state.in_group,
            own_thinking=state.switches.custom_chain_of_thought,
        )
        writer.fill(slots, state.template)
        state.total = state.preset.max_response + RESERVE + _count_slots(state)
        character = state.character
        examples = example_messages(character.example_message or "", character.name, state.texts)
        slots.chats += [*examples, *start_line(state.preset.ai_model, state.preset.prompt_settings)]
        state.total += state.counter.messages(examples)
        if not state.in_group:
            _greet(state)


def _count_slots(state: RisuState) -> int:
    counter, slots = state.counter, state.slots
    if state.template is not None:
        writer = state.card_writer()
        return sum(counter.messages(writer.counted(card)) for card in state.template)
    counted = (slots.main, slots.jailbreak, slots.lorebook, slots.global_note, slots.author_note, slots.description)
    return sum(counter.messages(slot) for slot in (*counted, slots.post_everything, slots.persona))


def _greet(state: RisuState) -> None:
    _, cut = sent_messages(state.chat)
    if cut:
        return
    try:
        greeting = greeting_message(
            state.character,
            state.chat.greeting_index,
            state.texts,
            state.edit_process,
            send_name=state.switches.send_name,
        )
    except PromptTemplateError as error:
        if state.context.strict:
            raise
        state.warn(f"{error}; RisuAI throws here, the greeting is left out")
        return
    state.greeting = greeting.content
    state.total += state.counter.message(greeting)
    state.slots.chats.append(greeting)
