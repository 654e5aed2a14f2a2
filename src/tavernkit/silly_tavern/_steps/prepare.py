"""The start of a build: the turn, the card, the chat, the examples and the author's note, in SillyTavern's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from tavernkit._text.js_values import trim
from tavernkit._values import counted
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Omission
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.silly_tavern._chat.attachments import attached_text
from tavernkit.silly_tavern._chat.authors_note import DepthPrompt, authors_note, depth_prompt_of, read_overrides
from tavernkit.silly_tavern._chat.card_fields import CardTexts, card_texts, parse_block, split_examples
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.core_chat import (
    SENDING_TYPES,
    CoreMessage,
    TurnInput,
    add_reasoning,
    begin_turn,
)
from tavernkit.silly_tavern._chat.extension_prompts import (
    AUTHORS_NOTE,
    DEPTH_PROMPT,
    IN_CHAT,
    QUIET_PROMPT,
    SUMMARY,
    ExtensionPrompt,
    ExtensionPrompts,
    SummarySettings,
    script_injects,
    stored_summary,
    summary_prompt,
)
from tavernkit.silly_tavern._chat.extension_prompts import EXTENSION as MEMORY_EXTENSION
from tavernkit.silly_tavern._chat.vector_storage import EXTENSION as VECTORS_EXTENSION
from tavernkit.silly_tavern._chat.vector_storage import KINDS, VectorResults, VectorStorage, data_bank, forced_entry
from tavernkit.silly_tavern._chat_completion.layout import ExampleBlock
from tavernkit.silly_tavern._group import group_depth_prompts, merge_cards, settings_fingerprint
from tavernkit.silly_tavern._provenance import CARD_FIELD
from tavernkit.silly_tavern._scripts.prompt_scripts import PromptScripts
from tavernkit.silly_tavern._services import selected_books
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._steps.unused import report_unused
from tavernkit.silly_tavern._world_info.selection import file_stem, list_entries
from tavernkit.silly_tavern.providers._chat.page import tools_supported

SHOWN_MESSAGES = 100
"""How many messages of a chat SillyTavern shows when it opens it."""


class PrepareStep(Step[SillyTavernState, NoConfig]):
    """Prepares everything that lore can match. Macros run in SillyTavern's order.

    Reads ``context``. Writes ``turn``, ``quiet_prompt``, ``card``, ``core``, ``examples``, ``extensions``, ``note`` and
    ``scripts``.
    """

    name = "prepare"
    send_empty: ClassVar[bool] = True
    """Send the preset's text when the user sends nothing."""
    tool_lines: ClassVar[bool] = True
    """Keep the lines of the chat that are about tools, if the model supports them."""

    @staticmethod
    def read_examples(state: SillyTavernState, text: str, template: ExampleBlock) -> list[ExampleBlock]:
        """Read example dialogue into messages with the template's provenance."""
        context, group = state.context, group_names(state)
        user, character, known = context.user_name, context.character_name, state.services.dialogues
        # Only traced texts are the same objects in the next turn.
        read = None if type(text) is str or group else known.get(text, user, character)
        if read is None:
            read = [
                tuple(parse_block(block, user_name=user, character_name=character, group_names=group))
                for block in split_examples(text)
            ]
            if type(text) is not str and not group:
                known.put(read, text, user, character)
        return [ExampleBlock(turns, template.kind, template.id, template.title, template.reason) for turns in read]

    def before(self, state: SillyTavernState) -> None:
        """Prepare the turn, the card, the chat, the examples and the author's note."""
        context = state.context
        if context.character is None:
            raise ConfigError(
                "there is no character to build a prompt for: pass character=, or group= and members=",
                code="CHARACTER_REQUIRED",
            )
        _trace_group(state)
        preset = context.active_preset
        with_tools = self.tool_lines and tools_supported(preset)
        state.random = state.random_numbers()
        state.macros = state.new_macros()
        state.scripts = PromptScripts.of(context.regex_scripts, state.macros, state.warn, state.services.scripts)
        if not context.dry_run:
            state.memory.generation_started(context.generation_type)
        opened = _opened_prompts(state, with_tools=with_tools)
        chat = _with_first_message_shown(state, context.log.lines)
        state.quiet_prompt = state.macros(context.quiet_prompt)
        _begin(state, chat, preset.send_if_empty if self.send_empty else "")
        state.card = _card(state)
        state.extensions = ExtensionPrompts((*opened, *context.extension_prompts))
        _register_injections(state)
        _register_depth_prompts(state)
        _expand_first_message(state)
        user_messages = _prepare_core_chat(state, with_tools=with_tools)
        state.read_examples = self.read_examples
        template = ExampleBlock(())
        if "mes_example" in state.card.of_chat:
            template = ExampleBlock((), reason="mes_example of the chat's header, instead of the card's")
        state.examples = state.read_examples(state, state.card.examples, template)
        _search_vectors(state)
        _register_note(state, user_messages)
        if state.reports:
            report_unused(state, with_tools=with_tools)
        state.extensions.set(
            ExtensionPrompt(QUIET_PROMPT, state.quiet_prompt, scan=True, kind="quiet prompt", reason="")
        )


def _opened_prompts(state: SillyTavernState, *, with_tools: bool) -> list[ExtensionPrompt]:
    """Return what SillyTavern registers when it opens the chat: injects and the summary, from the stored chat."""
    context = state.context
    found = list(script_injects(context.metadata.get("script_injects"), state.macros, state.warn))
    settings = context.settings.of_extension(MEMORY_EXTENSION)
    known = state.services.chats.know(tuple(context.log.lines), with_tools=with_tools)
    text, line = _opened_summary(state, (0, *known.summaries) if context.log.lines else ())
    if settings is None:
        if text:
            state.omit(Omission("summary", SUMMARY, "the extension Summarize is switched off", "Summary"))
        # The macro belongs to the extension: it is removed too, and stays in texts unexpanded.
        state.macros.change(extensions=replace(state.macros.environment.extensions, summary=None))
        return found
    if not text and line is not None:
        reason = f"it was on message {line}, the last one, when the chat was opened"
        state.omit(Omission("summary", SUMMARY, reason, "Summary"))
    if text:
        state.macros.change(extensions=replace(state.macros.environment.extensions, summary=text))
        prompt = summary_prompt(text, line, SummarySettings.from_json(settings), state.macros)
        found += [prompt] if prompt is not None else []
    return found


def _opened_summary(state: SillyTavernState, places: Sequence[int]) -> tuple[str, int | None]:
    """Return the summary that was found when the chat was opened, and its line; or the line of one that is not used.

    Args:
        state: The workspace.
        places: Numbers of the lines that may have one.
    """
    lines = state.context.log.lines
    last = len(lines) - 1
    text = state.memory.summary
    if text is None:
        text = stored_summary(lines[place].extra for place in reversed(places) if place < last)
    state.memory.summary = text
    memories = [(place, lines[place].extra.get("memory")) for place in places]
    stored = [(place, memory) for place, memory in memories if isinstance(memory, str) and trim(memory)]
    found = [(place, memory) for place, memory in stored if memory == text] if text else stored
    found = [each for each in found if each[0] < last] or found
    # The line's own text knows where it comes from.
    return (found[-1][1] if text else "", found[-1][0]) if found else (text, None)


def _begin(state: SillyTavernState, chat: tuple[ChatMessage, ...], send_if_empty: str) -> None:
    """Change the chat as the generation type requires."""
    context = state.context
    scripts = state.scripts
    turn = TurnInput(
        generation_type=context.generation_type,
        message=context.message,
        send_if_empty=send_if_empty,
        user_name=context.user_name,
        user_prompt_bias=context.settings.power_user.user_prompt_bias,
        untouched=context.tool_recursion > 0 or context.dry_run,
        in_group=context.group is not None,
    )
    if context.generation_type in SENDING_TYPES and not turn.untouched:
        # The input box is cleared before its text is expanded.
        state.macros.change(input="")
    state.turn = begin_turn(
        chat,
        turn,
        expand=state.macros.typed,
        user_input_scripts=scripts.user_input if scripts is not None else _unchanged,
        warn=state.warn,
    )
    sent = state.turn.sent is not None
    state.macros.change(chat=state.turn.chat, input="" if sent else context.message)


def group_names(state: SillyTavernState) -> tuple[str, ...]:
    """Return the names of a group's members, in order; empty outside a group."""
    group = state.macros.environment.group
    return group.names if group is not None else ()


def _card(state: SillyTavernState) -> CardTexts:
    context, power_user = state.context, state.context.settings.power_user
    group, joined = state.macros.environment.group, None
    if group is not None:
        joined = merge_cards(
            group,
            expand=state.macros.card,
            scenario_override=context.metadata.scenario,
            examples_override=context.metadata.mes_example,
        )
    return card_texts(
        context.card,
        context.metadata,
        context.active_persona.description,
        prefer_prompt=power_user.prefer_character_prompt,
        prefer_jailbreak=power_user.prefer_character_jailbreak,
        joined=joined,
        expand=state.macros.card,
    )


def _register_injections(state: SillyTavernState) -> None:
    for injection in state.context.injections or ():
        if injection.active_for(state):
            state.extensions.set(ExtensionPrompt.from_injection(injection))
        else:
            state.omit(Omission("injection", injection.id, "its filter says no"))


def _register_depth_prompts(state: SillyTavernState) -> None:
    context, group = state.context, state.macros.environment.group
    if group is not None:
        prompts = group_depth_prompts(group, expand=state.macros.card)
        for index, prompt in enumerate(prompts):
            _register_depth_prompt(state, f"{DEPTH_PROMPT}_{index}", prompt)
        if prompts:
            return
    # If no member of a group has one, SillyTavern falls back to that of the speaker.
    if context.card is not None:
        written = depth_prompt_of(context.card)
        _register_depth_prompt(state, DEPTH_PROMPT, DepthPrompt(state.card.depth_prompt, written.depth, written.role))


def _register_depth_prompt(state: SillyTavernState, key: str, prompt: DepthPrompt) -> None:
    state.extensions.set(
        ExtensionPrompt(
            key,
            prompt.text,
            IN_CHAT,
            prompt.depth,
            prompt.role,
            scan=state.context.settings.note.allow_wi_scan,  # the same switch as the author's note's
            kind="depth prompt",
            reason=CARD_FIELD,
            title="Character's Note",
        )
    )


def _with_first_message_shown(state: SillyTavernState, lines: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Expand the first message, as SillyTavern does when it shows the chat, and store the result.

    In a group there is no current character then: ``{{char}}`` and the card's texts are empty. In a long chat the first
    message is not shown, so the speaker's generation expands it, like a user's or hidden message.
    """
    if not lines:
        return ()
    first, environment = lines[0], state.macros.environment
    if state.context.group is not None:
        shown = state.context.settings.power_user.chat_truncation
        # In the recorded cases, a smaller number than the default changes nothing.
        if first.is_user or first.is_system or (shown > 0 and len(lines) > max(shown, SHOWN_MESSAGES)):
            return tuple(lines)
        state.macros.change(character=None, character_name="")
    chat = (_with_text(first, state.macros(first.mes)), *lines[1:])
    state.macros.environment = environment
    state.macros.change(chat=chat)
    return chat


def _expand_first_message(state: SillyTavernState) -> None:
    """Expand the first message again, as the generation itself does."""
    turn = state.turn
    if turn.chat:
        first = _with_text(turn.chat[0], state.macros(turn.chat[0].mes))
        if first is not turn.chat[0]:
            state.turn = replace(turn, chat=(first, *turn.chat[1:]))
            state.macros.change(chat=state.turn.chat)


def _with_text(line: ChatMessage, text: str) -> ChatMessage:
    return line if text is line.mes else line.replace(mes=text)


def _prepare_core_chat(state: SillyTavernState, *, with_tools: bool) -> int:
    """Make the core chat; return how many messages of the whole chat are the user's."""
    context, kind = state.context, state.context.prompt_type
    chat = state.turn.chat
    known = state.services.chats.know(chat, with_tools=with_tools)
    state.core, head = known.messages(chat[:1], generation_type=kind, with_tools=with_tools)

    def file_text(
        message: CoreMessage, files: Sequence[Mapping[str, object]]
    ) -> tuple[str, Sequence[Mapping[str, object]]]:
        return attached_text(files, context.attachments, lambda file: _miss_file(state, message, file))

    state.services.chats.make_texts(
        state.core, known, head, generation_type=kind, scripts=state.scripts, file_text=file_text
    )
    if state.core:
        state.continued_text = state.core[-1].text[state.core[-1].file_length :]
    add_reasoning(
        state.core,
        context.settings.power_user.reasoning,
        generation_type=kind,
        only_name=context.character_name if context.group is not None else None,
        expand=state.macros,
        scripts=state.scripts,
    )
    return known.users + sum(line.is_user for line in chat[:1])


def _search_vectors(state: SillyTavernState) -> None:
    """Let Vector Storage change the chat and register its results: files, then lore, then the chat."""
    context = state.context
    settings = context.settings.of_extension(VECTORS_EXTENSION)
    if context.dry_run:
        return
    if settings and context.generation_type == "quiet":
        for stored in state.memory.vector_texts:
            prompt = ExtensionPrompt.from_json(stored)
            kind = KINDS.get(prompt.key, "extension")
            state.extensions.set(replace(prompt, kind=kind, reason="found for an earlier prompt"))
        return
    state.memory.vector_texts = ()
    if not settings:
        return
    results = context.vectors if context.vectors is not None else VectorResults()
    storage = VectorStorage(settings, results, state.macros, state.macros.with_macros, state.vector_calls)
    found: list[ExtensionPrompt | None] = []
    listed, _ = data_bank(context.settings.extension_settings, context.metadata.get("attachments"), context.avatar_file)
    if storage.on("enabled_files"):
        chunks = storage.put_data_bank(listed, state.core, context.attachments)
        found.append(chunks)
        if listed and chunks is None and context.vectors is not None:
            reason = "nothing in it is similar to the newest messages"
            state.omit(Omission("data bank", "data bank", reason, counted(len(listed), "file")))
        storage.replace_files(state.core, context.attachments)
    if storage.on("enabled_world_info"):
        books = selected_books(context, state.services)
        listed_entries = list_entries(books, context.settings.world_info.character_strategy, state.warn)
        places = {(name, str(raw.get("uid"))): place for place, (raw, name) in enumerate(listed_entries)}
        state.forced_lore = [forced_entry(each) for each in storage.force_lore(books.books, state.core, places)]
    if storage.on("enabled_chats"):
        if context.vectors is None:
            state.vector_texts = [state.macros(message.text) for message in state.core]
        found.append(storage.take_memories(state.core))
    registered = [prompt for prompt in found if prompt is not None]
    for prompt in registered:
        state.extensions.set(prompt)
    state.memory.vector_texts = tuple([prompt.to_json() for prompt in registered])
    if state.vector_calls and context.vectors is None:
        reason = "Vector Storage is switched on, and no search results were given (vectors=)"
        state.omit(Omission("vectors", "vectors", reason, "what Vector Storage would find"))


def _miss_file(state: SillyTavernState, message: CoreMessage, file: Mapping[str, object]) -> None:
    """Leave out a file that cannot be read. SillyTavern would send nothing at all."""
    name = str(file.get("name") or file.get("url") or "")
    state.omit(Omission("attachment", name, "its text is neither in the chat nor in the folder"))
    state.warn(f"message {message.index}: the attached file {name!r} is left out, its text cannot be found")


def _register_note(state: SillyTavernState, user_messages: int) -> None:
    context = state.context
    note = authors_note(context.metadata, context.settings.note, user_messages, file_stem(context.avatar_file))
    note = note.placed(read_overrides(context.authors_note))
    state.note = note
    state.extensions.set(
        ExtensionPrompt(
            AUTHORS_NOTE,
            note.text,
            note.position,
            note.depth,
            note.role,
            scan=context.settings.note.allow_wi_scan,
            kind="author's note",
            reason=note.reason,
        )
    )


def _unchanged(text: str) -> str:
    return text


def _trace_group(state: SillyTavernState) -> None:
    """Record the settings and the decision behind the speaker, so that a turn can be replayed."""
    group, decision = state.context.group, state.context.decision
    if group is not None:
        state.instrument(
            "stat", lambda: {"value": settings_fingerprint(group)}, key="group_fingerprint", step=state.current_step
        )
    if decision is not None:
        state.instrument(
            "stat", lambda: {"value": decision.fingerprint}, key="decision_fingerprint", step=state.current_step
        )
