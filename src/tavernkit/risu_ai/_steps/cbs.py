"""The slots: every text that is expanded before triggers run, including examples and background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tavernkit._text.js_values import js_lower, trim, trim_start
from tavernkit._text.traced import is_tracing, join
from tavernkit.errors import Warn
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.risu_ai._budget import RESERVE
from tavernkit.risu_ai._chat.chat_list import greeting_message, start_line
from tavernkit.risu_ai._chat.prompt_message import NEW_EXAMPLE_MEMO, PromptMessage, new_chat_line, source_of
from tavernkit.risu_ai._memory.contract import Embed, Similarity, paragraphs
from tavernkit.risu_ai._objects import RisuMessage
from tavernkit.risu_ai._prompt_template.slot_texts import SlotWriter
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai.errors import PromptTemplateError

_SOURCE = source_of("chat", "example", "example dialogue of the character")
_CHARACTER_TAGS, _USER_TAGS = ("{{char}}:", "<bot>:"), ("{{user}}:", "<user>:")


def example_messages(text: str, name: str, expand: Callable[[str], str]) -> list[PromptMessage]:
    """Read the example dialogue of a character called ``name``; ``expand`` is applied to every text.

    As in RisuAI, text after a second colon on a speaker's line is lost, a name counts only if it has no capitals,
    and lines before the first speaker are dropped.
    """
    if not text:
        return []
    speeches: list[tuple[PromptMessage, list[str]]] = []
    lines: list[str] | None = None
    character_tags = (*_CHARACTER_TAGS, f"{name}:")
    tags = (*character_tags, *_USER_TAGS)
    for line in map(trim, text.split("\n")):
        lowered = js_lower(line)
        if lowered == "<start>":
            speeches.append((new_chat_line(NEW_EXAMPLE_MEMO), []))
            lines = None
        elif lowered.startswith(tags):
            lines = []
            role = "assistant" if lowered.startswith(character_tags) else "user"
            speeches.append((_speech(role, line), lines))
        elif lines is not None:
            lines.append(line)
    for message, more in speeches:
        message.content = expand(join("\n", [message.content, *more]))
    return [message for message, _ in speeches]


def _speech(role: str, line: str) -> PromptMessage:
    return PromptMessage(role=role, content=trim_start(line.split(":")[1]), name=f"example_{role}", source=_SOURCE)


BEST_PARAGRAPHS = 3
QUERY_MESSAGES = 3
DOCUMENT, QUERY = "search_document: ", "search_query: "


def background(text: str, messages: Sequence[RisuMessage], embed: Embed | None, warn: Warn) -> str:
    """Pick the paragraphs that resemble the newest messages most."""
    if not text:
        return ""
    if embed is None:
        warn("the character has an additional text: pass memory=MemoryModels(...) to have it searched; it is left out")
        return ""
    similarity = Similarity(embed, [DOCUMENT + paragraph for paragraph in paragraphs(text)])
    newest = [message.data for message in reversed(messages[-QUERY_MESSAGES:])]
    ranked = similarity.ranked_by_newest([QUERY + said for said in newest])
    return "\n\n".join(found.removeprefix(DOCUMENT) for found in ranked[:BEST_PARAGRAPHS])


class CbsStep(Step[RisuState, NoConfig]):
    """Fills the slots with expanded texts, counts them, and starts the chat with examples, start line and greeting.

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
        state.total += state.counter.messages(examples)  # RisuAI does not count the start line
        if not state.in_group:
            _greet(state)


def _count_slots(state: RisuState) -> int:
    """Count the prompt without the chat. Blank messages count, and without a template also slots that are not sent."""
    counter, slots = state.counter, state.slots
    if state.template is not None:
        # Cards are counted here and printed later: a source map needs their texts only then.
        writer = replace(state.card_writer(), texts=state.texts.untraced()) if is_tracing() else state.card_writer()
        return sum(counter.messages(writer.counted(card)) for card in state.template)
    counted = (slots.main, slots.jailbreak, slots.lorebook, slots.global_note, slots.author_note, slots.description)
    return sum(counter.messages(slot) for slot in (*counted, slots.post_everything, slots.persona))


def _greet(state: RisuState) -> None:
    _, cut = state.sent
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
